#!/bin/sh
# tensorboard 2.21.0, a training that writes steps 1 to 100, starts again at step 50 and goes to 120.
#
# Expected: each step once, as its documentation of restarts says. Seen on 2026-11-27: its readers in
# Python (--load_fast=false, EventAccumulator) have 171 points, the data server 120. A SessionLog
# START in the second file removes nothing: only the second START of a folder does.
#
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/read.py" <<'PY'
import sys
from pathlib import Path

from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter


def write(folder, number, steps, starts):
    with (folder / f"events.out.tfevents.100{number}.host").open("wb") as file:
        records = RecordWriter(file)
        records.write(Event(wall_time=number, file_version="brain.Event:2").SerializeToString())
        start = SessionLog(status=SessionLog.START)
        for _ in range(starts):
            records.write(Event(step=steps[0], session_log=start).SerializeToString())
        for step in steps:
            value = Summary(value=[Summary.Value(tag="loss", simple_value=number)])
            records.write(Event(step=step, summary=value).SerializeToString())


def points(starts):
    folder = Path(sys.argv[1], str(starts))
    folder.mkdir()
    write(folder, 1, range(1, 101), 0)
    write(folder, 2, range(50, 121), starts)
    reader = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    reader.Reload()
    return len(reader.Tensors("loss"))


seen = [points(starts) for starts in (0, 1, 2)]
print("points with 0, 1 and 2 starts of a session:", seen)
sys.exit(seen != [171, 171, 120])
PY
python3 -m venv "$work/env"
"$work/env/bin/pip" install --quiet tensorboard==2.21.0 "setuptools<80"
"$work/env/bin/python" "$work/read.py" "$work" 2>/dev/null
