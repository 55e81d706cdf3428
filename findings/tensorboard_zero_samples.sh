#!/bin/sh
# tensorboard 2.21.0 without TensorFlow, `--samples_per_plugin scalars=0`.
#
# Expected: 0 means all points, as `size_guidance` of its own EventAccumulator says ("if the size is
# 0, all the values are kept"). Seen on 2026-11-27, 3,000 points: none are shown, by the data server
# and by the reader in Python alike; without the option 1000 are, a random choice. What shows all is
# a number as large as the longest curve.
#
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/show.py" <<'PY'
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

folder = Path(sys.argv[1], "logs")
folder.mkdir()
with (folder / "events.out.tfevents.1001.host").open("wb") as file:
    records = RecordWriter(file)
    records.write(Event(wall_time=1, file_version="brain.Event:2").SerializeToString())
    for step in range(1, 3001):
        summary = Summary(value=[Summary.Value(tag="loss", simple_value=step)])
        records.write(Event(wall_time=step, step=step, summary=summary).SerializeToString())


def shown(fast, *options):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    program = str(Path(sys.executable).with_name("tensorboard"))
    where = ("--logdir", str(folder), "--host", "127.0.0.1", "--port", str(port))
    command = [program, *where, f"--load_fast={fast}", *options]
    quiet = subprocess.DEVNULL
    address = f"http://127.0.0.1:{port}/data/plugin/scalars/scalars?run=.&tag=loss"
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        for _ in range(120):
            time.sleep(0.5)
            try:
                with urllib.request.urlopen(address, timeout=5) as answer:
                    number = len(json.load(answer))
                process.terminate()
                return number
            except (urllib.error.URLError, ConnectionError):
                pass
        process.kill()
    raise SystemExit("TensorBoard does not answer")


events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
events.Reload()
zero, usual, many = (), (), ()
for fast in ("true", "false"):
    zero += (shown(fast, "--samples_per_plugin", "scalars=0"),)
    usual += (shown(fast),)
    many += (shown(fast, "--samples_per_plugin", "scalars=3000"),)
kept = len(events.Scalars("loss"))
print(f"scalars=0: {zero}; usual: {usual}; scalars=3000: {many}; EventAccumulator, 0: {kept}")
sys.exit((zero, usual, many, kept) != ((0, 0), (1000, 1000), (3000, 3000), 3000))
PY
python3 -m venv "$work/env"
"$work/env/bin/pip" install --quiet tensorboard==2.21.0 "setuptools<80"
"$work/env/bin/python" "$work/show.py" "$work"
