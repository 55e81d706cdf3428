#!/bin/sh
# sagemaker 2.257.7 and 3.27.0: how long a training job may run for which no limit is given.
#
# Expected: the same, since SDK 3's guide maps Estimator to ModelTrainer. Seen on 2026-11-27:
#   2.257.7  estimator.max_run                   86400 s, a day
#   3.27.0   ModelTrainer(...).stopping_condition  3600 s, an hour; it is logged at debug level only
# A StoppingCondition with another field alone, as a wait for spot machines, gets no limit from the
# SDK: then AWS's own default counts (not tried here).
#
# Without AWS: of SDK 3 it calls what the constructor of ModelTrainer calls. Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/limits.py" <<'PY'
import sys
from importlib.metadata import version

import boto3

if version("sagemaker").startswith("2."):
    from sagemaker import Session
    from sagemaker.estimator import Estimator

    session = Session(boto3.Session("key", "secret", region_name="us-east-1"))
    job = Estimator(
        "image", "role", 1, "ml.m5.large", output_path="s3://bucket", sagemaker_session=session
    )
    seen = [job.max_run]
else:
    from sagemaker.train.configs import StoppingCondition
    from sagemaker.train.defaults import TrainDefaults

    given = (None, StoppingCondition(max_wait_time_in_seconds=7200))
    conditions = [TrainDefaults.get_stopping_condition(each) for each in given]
    limits = [condition.max_runtime_in_seconds for condition in conditions]
    seen = [limits[0], type(limits[1]).__name__]
print(version("sagemaker"), "seconds:", seen)
sys.exit(seen not in ([86400], [3600, "Unassigned"]))
PY
for number in 2.257.7 3.27.0; do
    python3.11 -m venv "$work/$number"
    if command -v uv >/dev/null; then
        uv pip install --quiet --python "$work/$number/bin/python" "sagemaker==$number"
    else
        "$work/$number/bin/pip" install --quiet "sagemaker==$number"
    fi
    (cd "$work" && "$work/$number/bin/python" -W ignore limits.py 2>/dev/null)
    rm -rf "${work:?}/$number"
done
