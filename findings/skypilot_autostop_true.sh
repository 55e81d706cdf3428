#!/bin/sh
# SkyPilot 0.14.1, `resources: {autostop: true}` in a task file.
#
# Expected: "Stop after default idle minutes (5)", as its page on autostop says of this very line.
# Seen on 2026-11-27: 0 minutes, so the machines stop as soon as nothing runs. `autostop: 5m` is 5.
#
# It reads a valid file with SkyPilot's own parser, without a cloud. Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/read.py" <<'PY'
import sys

import sky

seen = []
for value in ("true", "5m"):
    with open(f"{sys.argv[1]}/task.yaml", "w") as file:
        file.write(f"resources:\n  autostop: {value}\nrun: echo hello\n")
    (resources,) = sky.Task.from_yaml(file.name).resources
    seen.append(resources.autostop_config.idle_minutes)
    print(f"autostop: {value} is {seen[-1]} minutes")
sys.exit(seen != [0, 5])
PY
python3.11 -m venv "$work/env"
"$work/env/bin/pip" install --quiet skypilot==0.14.1
export HOME="$work" SKYPILOT_DISABLE_USAGE_COLLECTION=1
"$work/env/bin/python" -W ignore "$work/read.py" "$work"
