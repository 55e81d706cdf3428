"""What mpirun --tag-output prints comes out as each rank's own lines."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

REMOTE = Path(__file__).parents[2] / "bootstrap" / "remote"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, REMOTE / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tagged = load("tagged")

CASES = {
    "a line a rank": (b"[1,0]<stdout>:a\n[1,1]<stdout>:b\n", [(0, b"a"), (1, b"b")]),
    "a line in three pieces": (
        b"[1,1]<stdout>:hello[1,1]<stdout>: [1,1]<stdout>:1[1,1]<stdout>:\n",
        [(1, b"hello 1")],
    ),
    "another rank between the pieces": (
        b"[1,0]<stdout>:lo[1,1]<stderr>:warning\n[1,0]<stdout>:ss\n",
        [(1, b"warning"), (0, b"loss")],
    ),
    "stdout and stderr of one rank are two lines": (
        b"[1,0]<stdout>:begun[1,0]<stderr>:oops\n[1,0]<stdout>: ended\n",
        [(0, b"oops"), (0, b"begun ended")],
    ),
    "mpirun itself": (
        b"mpirun noticed that rank 1 died\n",
        [(-1, b"mpirun noticed that rank 1 died")],
    ),
    "leading blanks are the program's": (b"[1,0]<stdout>:  x\n", [(0, b"  x")]),
    "an empty line": (b"[1,0]<stdout>:\n", [(0, b"")]),
    "another OpenMPI's tag": (b"[prterun-h-1@1,3]<stdout>:x\n", [(3, b"x")]),
    "no newline at the end": (b"[1,0]<stdout>:last", [(0, b"last")]),
}


@pytest.mark.parametrize("stream, lines", CASES.values(), ids=CASES)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_pieces_become_lines(stream: bytes, lines: list[tuple[int, bytes]], step: int) -> None:
    splitter = tagged.Tagged()
    found = []
    for start in range(0, len(stream), step):
        found += splitter.feed(stream[start : start + step])
    assert [*found, *splitter.close()] == lines


def test_an_endless_line_is_passed_on_in_parts() -> None:
    splitter = tagged.Tagged()
    found = [x for _ in range(300) for x in splitter.feed(b"[1,0]<stdout>:" + b"x" * 1000)]
    total = sum(len(text) for _, text in [*found, *splitter.close()])
    assert found and total == 300_000


def test_an_unfinished_line_can_be_seen() -> None:
    splitter = tagged.Tagged()
    assert list(splitter.feed(b"[1,0]<stdout>:1/8 [=>...][1,0]<stdout>:\r2/8")) == []
    assert splitter.begun() == {0: b"1/8 [=>...]\r2/8"}
