"""`fab train` with parameter servers, and Horovod with Keras 3, over local SSH hosts: who gets
which role, and who ends whom. The launcher is tested with scripts that only wait; of the programs
with TensorFlow each run of the tests takes one."""

from __future__ import annotations

import json
import re

import pytest
from draws import drawn
from e2e.local_hosts import Operator
from e2e.scripts import COORDINATOR, HOROVOD_ON_KERAS_2
from places import ROOT

pytestmark = pytest.mark.slow

# Ranks reach each other without the proxy for downloads, which nobody serves here.
PROXY = ("--env", "http_proxy=http://127.0.0.1:9")
TRAIN = ("train", "--strategy", "parameter-server", *PROXY)
EXAMPLE = ROOT / "examples/parameter_server.py"  # fit of Keras 3
# Ranks with roles, without TensorFlow: what is not the chief waits for ever, or ends with 7.
ROLES = """
import json, os, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
print("serving as", task["type"], task["index"], flush=True)
if task["type"] == os.environ.get("DIES"):
    os._exit(7)
if task["type"] != "chief":
    time.sleep(3600)
elif "DIES" in os.environ:
    time.sleep(600)
"""


def train_built_in(operator: Operator) -> None:
    """The built-in training: all its ranks end by themselves."""
    steps = ("--set", "steps_per_epoch=5", "--set", "epochs=2")
    done = operator.fab(*TRAIN, *steps).ended(0, "succeeded")
    plan = "parameter-server over 4 ranks on 2 hosts (h1: chief, worker; h2: ps, worker); Keras 3"
    assert plan in done.out
    run = json.loads((operator.last / "run.json").read_text())
    assert (run["schema"], run["launcher"], run["size"]) == (2, "tensorflow", 4)
    assert [len(run["tf_cluster"][role]) for role in ("chief", "ps", "worker")] == [1, 1, 2]
    assert json.loads((operator.last / "evaluation.json").read_text())["samples"] == 360
    swept = operator.result()["swept"]
    assert [swept[host]["ended"] for host in ("h1", "h2")] == [0, 0], "they ended by themselves"


def train_coordinator(operator: Operator) -> None:
    """A script with TensorFlow's own loop: its servers wait for ever."""
    operator.write("train.py", COORDINATOR)
    done = operator.fab(*TRAIN, "--script", "train.py").ended(
        0, "succeeded", "4 ranks", "Keras 3: "
    )
    assert "(h1: chief, worker; h2: ps, worker)" in done.out
    assert "on 2 workers" in (operator.last / "logs/rank-0.log").read_text()
    assert (operator.last / "outputs/trained.keras").exists()


def train_fit(operator: Operator) -> None:
    """A script with fit of Keras 3, which is patched on the chief."""
    operator.write("train.py", EXAMPLE.read_text())
    done = operator.fab(*TRAIN, "--script", "train.py", "--keras", "3")
    done.ended(0, "succeeded", "4 ranks", "Keras 3")
    log = (operator.last / "logs/rank-0.log").read_text()
    assert "losses: [" in log and log.count("railhead: Keras 3.") == 1
    assert (operator.last / "outputs/model.keras").exists()


def train_horovod(operator: Operator) -> None:
    """A script for Horovod and Keras 2 trains with Keras 3."""
    operator.write("fit.py", HOROVOD_ON_KERAS_2)
    operator.fab("train", "--script", "fit.py", "--keras", "3").ended(0, "succeeded")
    logs = [path.read_text() for path in sorted((operator.last / "logs").glob("rank-*.log"))]
    weights = [re.findall("weights (.*)", log) for log in logs]
    assert len(logs) == 2 and len(weights[0]) == 1 and weights[0] == weights[1]
    assert all("Keras 3." in log and "loss falls True" in log for log in logs)
    assert not any("AutoGraph" in log for log in logs), "it sought the source of a patch"


def test_a_strategy_trains_with_tensorflow(operator: Operator) -> None:
    drawn((train_built_in, train_coordinator, train_fit, train_horovod))(operator)


def test_servers_that_wait_for_ever_end_with_their_chief(operator: Operator) -> None:
    operator.write("train.py", ROLES)
    done = operator.fab(*TRAIN, "--script", "train.py", "--ps", "2", "--independent").ended(
        0, "succeeded"
    )
    assert "5 ranks" in done.out and "(h1: chief, ps, worker; h2: ps, worker)" in done.out
    result = operator.result()
    assert (result["exit_code"], result["culprit"], result["trouble"]) == (0, None, None)
    logs = "\n".join(path.read_text() for path in (operator.last / "logs").glob("rank-*.log"))
    roles = sorted(re.findall(r"serving as (.*)", logs))
    assert roles == ["chief 0", "ps 0", "ps 1", "worker 0", "worker 1"]


def test_a_server_that_dies_is_named(operator: Operator) -> None:
    operator.write("train.py", ROLES)
    words = ("--script", "train.py", "--env", "DIES=ps")
    operator.fab(*TRAIN, *words).ended(1, "rank 2 on h2 exited with 7")
    culprit = operator.result()["culprit"]
    assert (culprit["rank"], culprit["host"], culprit["exit"]) == (2, "h2", 7)
