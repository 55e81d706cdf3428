#!/bin/sh
# sagemaker-train 1.27.0 (of SageMaker's SDK 3.27.0), a hyperparameter with an apostrophe.
#
# Expected: the script gets the text, as with the toolkit of SDK 2. Seen on 2026-11-28: what ModelTrainer
# runs in the container (environment.py) writes `export NAME='VALUE'` for a shell, without a care for an
# apostrophe in VALUE; bash sources that file, and the arguments are made from its variables:
#
#   {"style": "rock'n'roll"}   --style rocknroll; SM_HP_STYLE and SM_HPS have rocknroll, too. No word tells.
#   {"title": "it's"}          the job ends before the script: "unexpected EOF while looking for matching"
#
# It runs both programs of the package, without AWS. Needs bash. Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install --quiet --no-deps sagemaker-train==1.27.0
cat >"$work/given.py" <<'PY'
import json
import os
import subprocess
import sys

folder, place = sys.argv[1:]
package = "sagemaker/train/container_drivers"
sys.path.insert(0, f"{folder}/{package}")  # as in the container, where only these files are
os.environ |= {"TRAINING_JOB_NAME": "job", "SM_ENTRY_SCRIPT": "train.py", "SM_LOG_LEVEL": "40"}
from distributed_drivers import basic_script_driver
from scripts import environment

resources = {"current_host": "a", "hosts": ["a"], "current_instance_type": "m"}
resources |= {"network_interface_name": "eth0"}


def arguments(**given):
    environment.set_env(resources, {}, given, place)
    argv = ["bash", "-ec", f'source "{place}"; printenv SM_HPS']
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.split(": ", 2)[2].strip()
    os.environ["SM_HPS"] = done.stdout
    return basic_script_driver.create_commands()[2:]


seen = [arguments(style="rock and roll"), arguments(style="rock'n'roll"), arguments(title="it's")]
print(seen)
right = ["--style", "rock and roll"], ["--style", "rocknroll"]
sys.exit((*seen[:2],) != right or "unexpected EOF" not in seen[2])
PY
"$work/env/bin/python" "$work/given.py" \
    "$("$work/env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" "$work/variables"
