"""What the pages and the examples lead through, as it is written there: the journey of
docs/coming-from.md, by its commands and by its Python lines, and the notebook of the examples. Each
run of the tests takes one."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import drawn
from e2e.local_hosts import Operator, listens
from places import ROOT
from standins.stores.servers import free_port

PAGE = (ROOT / "docs/coming-from.md").read_text()
JOURNEY = PAGE.partition("### From the training to predictions")[2].partition("\n## ")[0]
PROGRAM, COMMANDS, LINES = re.findall(r"^```(?:python|sh)\n(.*?)^```", JOURNEY, re.M | re.S)
ENDPOINT = """
assert endpoint.version == 1
assert [tensor.shape for tensor in endpoint.signature.inputs.values()] == [(None, 2)]
endpoint.delete()
"""
CHECKS = """
import json
assert (found := run.evaluation())["accuracy"] == {accuracy}, found
try:
    run.evaluate(minimum={{"accuracy": 1.1}})
except railhead.BelowThreshold as error:
    assert error.code == 3
else:
    raise SystemExit("nothing was judged")
"""
EXAMPLE = json.loads((ROOT / "examples/notebook.ipynb").read_text())
OF_EXAMPLE = """
assert run.state == "succeeded"
assert evaluation["confusion"] == run.evaluation()["confusion"]
assert "Confusion matrix" in run.report().read_text()
"""


@pytest.fixture
def project(operator: Operator) -> Iterator[Operator]:
    """The page's program, and 400 points that a line divides; no endpoint is left after the
    test."""
    operator.write("train.py", PROGRAM)
    (operator.folder / "points").mkdir()
    x = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    np.savez(operator.folder / "points/points.npz", x=x, y=(x.sum(axis=1) > 0).astype(int))
    np.save(operator.folder / "points.npy", np.array([[3, 3], [-3, -3]], np.float32))
    yield operator
    if (operator.home / ".railhead/deployed/model.json").exists():
        operator.fab("undeploy", "model")


def from_sagemaker(project: Operator) -> None:
    """A SageMaker program is trained, evaluated, deployed, queried and undeployed."""
    port = free_port()
    train, evaluate, *serve = (
        shlex.split(line, comments=True)[1:] for line in COMMANDS.splitlines()
    )
    project.fab(*train, seconds=200).ended(0)
    run = project.last
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert evaluation["accuracy"] >= 0.9 and evaluation["loss"] < 0.7
    assert (run / "model/1/saved_model.pb").is_file()

    project.fab(*filled(evaluate, run)).ended(0)
    higher = [word.replace("0.9", "1.1") for word in filled(evaluate, run)]
    project.fab(*higher).ended(3)
    deploy, predict, undeploy = (filled(words, run) for words in serve)
    deployed = project.fab(*deploy, "--port", str(port)).ended(0).out.splitlines()
    assert f"model: results/{run.name}/model/1" in deployed[:2]
    assert listens(port)
    (outputs,) = (
        json.loads(line)
        for line in project.fab(*predict).ended(0).out.splitlines()
        if line.startswith("[")
    )
    assert classes(outputs) == [1, 0]
    project.fab(*undeploy).ended(0)
    assert not listens(port)

    printed = notebook(project, run, port)
    assert float(printed[0]) == evaluation["accuracy"] and not listens(port)
    assert json.loads(printed[-1]) == [1, 0]


def filled(words: list[str], run: Path) -> list[str]:
    return [run.name if word == "RUN" else word for word in words]


def classes(outputs: Any) -> list[int]:
    return [int(row) for row in np.argmax(outputs, axis=1)]


def notebook(operator: Operator, run: Path, port: int) -> list[str]:
    """What the page's Python lines print, with the last hosts as the cluster and the run that is
    there in place of another training."""
    lines = LINES.replace('railhead.Cluster.from_stack("gpu")', "railhead.Cluster()")
    lines = re.sub(r"cluster\.train\(.*?\n\)", f"railhead.Run({run.name!r})", lines, flags=re.S)
    lines = lines.replace("run.deploy(", f"run.deploy(port={port}, ")
    lines = lines.replace("endpoint.delete()\n", ENDPOINT.lstrip())
    lines = re.sub(r"print\((endpoint\.predict.*)\)", r"outputs = \1", lines)
    evaluation = json.loads((run / "evaluation.json").read_text())
    lines += CHECKS.format(accuracy=evaluation["accuracy"])
    lines += "print([int(row) for row in numpy.argmax(outputs, axis=1)])\n"
    done = python(operator, lines)
    return [line for line in done.stdout.splitlines() if re.fullmatch(r"[\[\]0-9., e-]+", line)]


def python(operator: Operator, lines: str) -> subprocess.CompletedProcess[str]:
    """Run a program that uses the Python interface."""
    script = operator.write("notebook.py", lines)
    environment = operator.environment()
    path = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, str(script)], cwd=operator.folder, env={**environment, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def example_notebook(operator: Operator, strategy: str = "") -> None:
    """The cells train with TensorFlow's launcher, evaluate and report, on hosts that stay."""
    cells = ["".join(cell["source"]) for cell in EXAMPLE["cells"] if cell["cell_type"] == "code"]
    assert cells[-1] == "cluster.teardown()"
    text = "\n".join(cells[:-1]).replace('railhead.Cluster("a,b")', "railhead.Cluster()")
    text = text.replace('launcher="tensorflow"', f'launcher="tensorflow"{strategy}')
    python(operator, text + OF_EXAMPLE)
    run = json.loads((operator.last / "run.json").read_text())
    assert run["strategy"] == "multiworker" and len({*run["tf_cluster"]["worker"]}) == 2


@pytest.mark.timeout(900)  # many commands, on a busy machine
def test_a_journey_can_be_made_as_it_is_written(project: Operator) -> None:
    # The launcher's default strategy for several hosts, by its name or not.
    named = partial(example_notebook, strategy=', strategy="multiworker"')
    journeys: list[Callable[[Operator], None]] = [from_sagemaker, example_notebook, named]
    drawn(journeys)(project)
