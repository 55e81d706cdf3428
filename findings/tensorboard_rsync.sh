#!/bin/sh
# tensorboard 2.21.0 without TensorFlow, a folder of events that rsync brings while it is shown.
#
# Expected: rsync's temporary file (.events.out.tfevents.NAME.XXXXXX) is no event file, or its points
# are replaced by those of the whole file. Seen on 2026-11-27 with rsync 3.2.7, 10,000 points: the
# reader in Python (EventAccumulator, --load_fast=false) takes the temporary file for an event file;
# when rsync has renamed it, every Reload() fails inside on the missing file, without a word, and
# never goes on to the next file. The curve stays cut; a new reader shows it whole. The data server
# goes on. `rsync --inplace` or `--temp-dir` avoids it.
#
# Needs rsync. Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/read.py" <<'PY'
import subprocess
import sys
import time
from pathlib import Path

from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

source, shown = (Path(sys.argv[1], name) for name in ("source", "shown"))
source.mkdir()
shown.mkdir()
with (source / "events.out.tfevents.1001.host").open("wb") as file:
    records = RecordWriter(file)
    records.write(Event(wall_time=1, file_version="brain.Event:2").SerializeToString())
    for step in range(1, 10001):
        summary = Summary(value=[Summary.Value(tag="loss", simple_value=step)])
        records.write(Event(wall_time=step, step=step, summary=summary).SerializeToString())


def reader():
    return EventAccumulator(str(shown), size_guidance={"tensors": 0})


def points(events):
    events.Reload()
    return len(events.Tensors("loss"))


# At 20 KiB a second the file of 430 kB takes 20 s.
command = ["rsync", "-a", "--bwlimit=20", f"{source}/", f"{shown}/"]
with subprocess.Popen(command) as rsync:
    while sum(path.stat().st_size for path in shown.iterdir()) < 100_000:
        time.sleep(0.05)
    name = next(shown.iterdir()).name
    events = reader()
    during = points(events)
after = [points(events) for _ in range(3)]
print(f"{name}: {during} points; after rsync {after}; a new reader {points(reader())}")
stays = after[0] == after[2] < 10000 and points(reader()) == 10000
sys.exit(not (during and name.startswith(".events.out.tfevents") and stays))
PY
python3 -m venv "$work/env"
"$work/env/bin/pip" install --quiet tensorboard==2.21.0 "setuptools<80"
"$work/env/bin/python" "$work/read.py" "$work" 2>/dev/null
