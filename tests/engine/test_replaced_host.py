"""`fab up --replace`: a host of a stack that is gone, on the real engine and with real hosts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e import kept_environments
from e2e.local_hosts import marked, run_id, wait_until
from engine.stack import Stack

from bootstrap.clouds.local import cluster as local_cluster

# Counts steps from those of its checkpoint, until two ranks must end.
SCRIPT = """
import os, pathlib, time
file = pathlib.Path(os.environ["RAILHEAD_CHECKPOINT_DIR"], "step")
step = int(file.read_text()) if file.exists() else 0
while not (pathlib.Path(os.environ["GO"]).exists() and os.environ["RAILHEAD_SIZE"] == "2"):
    time.sleep(0.2)
    step += 1
    print("loss", 1 / step, flush=True)
    if os.environ["RAILHEAD_RANK"] == "0":
        file.with_name(".step").write_text(str(step))
        file.with_name(".step").replace(file)
"""


@pytest.fixture
def stack(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_caches: Path
) -> Iterator[Stack]:
    """Two local hosts, of which the runtime is known; destroyed at the end."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    stack = Stack(engine, tmp_path / "project").config(cloud="local")
    stack.env = {"HOME": str(home), "TERM": "dumb", "GO": str(tmp_path / "go")}
    stack.fab("up", "--yes", "--stack", "test").ended(0)
    with kept_environments.alone(shared_caches) as kept:
        kept_environments.give_to_hosts(kept, home, kept_environments.DEFAULT)
    yield stack
    stack.destroy()


def test_an_elastic_run_takes_back_a_host_that_was_created_again(stack: Stack) -> None:
    home, of_stack = Path(os.environ["HOME"]), ("--stack", "test")
    stack.fab("up", "--replace", "h3", *of_stack).ended(2, "stack test: one of h1, h2")
    stack.fab("up", "--replace", "h2", *of_stack).ended(2, "it is running")
    program = stack.folder / "program"
    program.mkdir()
    (program / "steps.py").write_text(SCRIPT)
    words = (
        "--script",
        "program/steps.py",
        "--launcher",
        "tensorflow",
        "--independent",
        "--elastic",
        "1:2",
        "--env",
        f"GO={stack.env['GO']}",
    )
    done = stack.fab("train", *words, "--detach", *of_stack).ended(0)
    folder = home / ".railhead/clusters/test/hosts/h1/home/.railhead/runs" / run_id(done.text)
    wait_until((folder / "checkpoints/step").exists, 120, "it trains")
    local_cluster.remove("test", ["h2"])
    wait_until(lambda: attempts(folder), 120, "it continues without the host")
    assert (attempts(folder)[0]["hosts"], attempts(folder)[0]["cause"]["class"]) == (["h1"], "host")

    replaced = stack.fab("up", "--replace", "h2", "--yes", *of_stack, seconds=600)
    replaced.ended(0, f"h2 has the files of run {folder.name}", "fab attach")
    Path(stack.env["GO"]).touch()
    stack.fab("attach", "--run", folder.name, *of_stack).ended(0, "succeeded")
    result = json.loads((folder / "results/result.json").read_text())
    kinds = [attempt["kind"] for attempt in result["attempts"]]
    assert (result["size"], kinds) == (2, ["retry", "elastic"])
    assert [*result["swept"]] == ["h1", "h2"] and not marked(home)


def attempts(folder: Path) -> list[Any]:
    """The attempts of a run that have ended."""
    attempts: list[Any] = json.loads((folder / "state.json").read_text()).get("attempts", [])
    return attempts
