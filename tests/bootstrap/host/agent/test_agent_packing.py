"""The agent sends files of a run, also while the run writes them."""

from __future__ import annotations

import io
import json
import os
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest
from standins.agent_process import Agent, build, unpacked
from standins.runs.run_documents import run_json

from bootstrap.host.agent import packing
from bootstrap.host.run.manifest import snapshot


def test_get_sends_the_contents_up_to_a_limit(agent: Agent, home: Path) -> None:
    build(home / "run", {"run.json": "{}", "results/a": "x" * 50, "results/b": "y" * 50})
    (home / "run" / "results" / "link").symlink_to(home / "run" / "results" / "a")
    os.link(home / "run" / "run.json", home / "run" / "results" / "0-hard")
    patterns = ["run.json", "results/*", "run.*", "../*"]
    answer, events = agent.call("get", root="~/run", patterns=patterns, limit=1000)
    assert unpacked(events) == {
        "run.json": "{}",
        "results/0-hard": "{}",
        "results/a": "x" * 50,
        "results/b": "y" * 50,
    }
    assert answer["left"] == []
    answer, events = agent.call("get", root="~/run", patterns=["run.json", "results/?"], limit=60)
    assert list(unpacked(events)) == [path for path, _ in answer["files"]]
    assert len(answer["files"]) == 2 and len(answer["left"]) == 1


def running(home: Path, **more: str) -> Path:
    """A run in progress: its program was uploaded with `train.py` and `data`."""
    folder = home / ".railhead/runs/r1"
    work = {"work/train.py": "x", "work/data": "old"}
    layout = {"run.json": json.dumps(run_json()), "results/.keep": "", **work}
    build(folder, {**layout, "logs/supervisor.log": "", "logs/rank-0.log": "tick\n"})
    (folder / "before.json").write_text(json.dumps(snapshot(str(folder))))
    (folder / "work/data").write_text("changed")
    build(folder, {"work/ckpt/1/w.h5": "weights", "results/model/v/x": "tree", **more})
    return folder


RUNNING = {"run.json", "results/model/v/x", "logs/rank-0.log", "logs/supervisor.log"}


def collected(agent: Agent) -> tuple[Any, dict[str, str]]:
    answer, events = agent.call("collect", folder="~/.railhead/runs/r1", limit=1000)
    return answer, unpacked(events)


def test_outputs_are_there_before_the_end_of_a_run(agent: Agent, home: Path) -> None:
    running(home)
    answer, files = collected(agent)
    assert files.keys() == RUNNING | {"work/ckpt/1/w.h5", "work/data"}
    assert files["work/ckpt/1/w.h5"] == "weights" and answer["changed"] == answer["skipped"] == []


def test_outputs_are_chosen_before_the_end_as_at_the_end(agent: Agent, home: Path) -> None:
    (running(home) / "run.json").write_text(json.dumps(run_json(outputs=["*.h5"])))
    assert collected(agent)[1].keys() == RUNNING | {"work/ckpt/1/w.h5"}


def test_what_the_supervisor_found_at_the_end_counts(agent: Agent, home: Path) -> None:
    folder = running(home)
    (folder / "results/outputs.json").write_text('{"files": [["data", 7]]}')
    assert collected(agent)[1].keys() == RUNNING | {"work/data"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"data": 5}'])
def test_no_outputs_are_known_where_the_start_is_not(agent: Agent, home: Path, text: str) -> None:
    (running(home) / "before.json").write_text(text)
    assert collected(agent)[1].keys() >= RUNNING


def test_what_is_not_a_file_is_named_and_does_not_delay(agent: Agent, home: Path) -> None:
    folder = running(home, **{"results/pipe": "fifo", "work/link": "->/etc/passwd"})
    build(folder, {"logs/pipe": "fifo"})
    answer, files = collected(agent)
    assert files.keys() == RUNNING | {"work/ckpt/1/w.h5", "work/data"}
    assert {(s["path"], s["kind"]) for s in answer["skipped"]} == {
        ("results/pipe", "FIFO"),
        ("logs/pipe", "FIFO"),
        ("work/link", "link"),
    }
    assert agent.call("read", path="~/.railhead/runs/r1/logs/pipe")[0] == {"text": None}


def test_a_file_that_is_cut_while_it_is_sent_breaks_no_archive() -> None:
    content = io.BytesIO(b"12345")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        assert not packing.add(tar, "cut", content, 100_000)
        assert packing.add(tar, "whole", io.BytesIO(b"abc"), 3)
        assert packing.add(tar, "longer now", io.BytesIO(b"abcdef"), 3)
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        assert [m.size for m in tar] == [100_000, 3, 3]


def test_files_that_are_written_all_the_time_come_meanwhile(agent: Agent, home: Path) -> None:
    folder = running(home)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            (folder / "work/ckpt/1/w.h5").write_text("w" * 300)
            (folder / "work/ckpt/new").write_text("n")
            (folder / "work/ckpt/new").unlink()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(30):
            answer, files = collected(agent)
            assert files.keys() >= RUNNING
            cut = "work/ckpt/1/w.h5" in answer["changed"]
            assert cut or files.get("work/ckpt/1/w.h5", "weights") in ("weights", "", "w" * 300)
    finally:
        stop.set()
        writer.join()


PATTERNS: dict[str, tuple[list[str], list[str]]] = {
    "a name": (["a"], ["a"]),
    "a star in a folder": (["d/*"], ["d/.hidden", "d/b.h5", "d/odd[1]*"]),
    "a star stays in its folder": (["*"], [".top", "a"]),
    "two stars": (["**"], [".top", "a", "d/.hidden", "d/b.h5", "d/e/c.h5", "d/odd[1]*"]),
    "two stars below": (["d/**/*.h5"], ["d/b.h5", "d/e/c.h5"]),
    "a name that looks like a pattern": (["d/odd[[]1][*]"], ["d/odd[1]*"]),
    "the patterns' order": (["d/*.h5", "a", "d/b.h5"], ["d/b.h5", "a"]),
    "a folder is not a file": (["d", "d/e"], []),
    "nothing outside": (["../*", "../other", "d/../../other"], []),
    "no such name": (["b*", "z"], []),
}


@pytest.mark.parametrize("patterns, paths", PATTERNS.values(), ids=PATTERNS)
def test_get_finds(agent: Agent, home: Path, patterns: list[str], paths: list[str]) -> None:
    names = ["a", ".top", "d/b.h5", "d/.hidden", "d/e/c.h5", "d/odd[1]*"]
    build(home / "run", dict.fromkeys(names, "x"))
    build(home, {"other": "x"})
    answer, events = agent.call("get", root="~/run", patterns=patterns, limit=1000)
    assert [path for path, _ in answer["files"]] == list(unpacked(events)) == paths
