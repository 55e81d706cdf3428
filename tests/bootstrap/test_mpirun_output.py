"""What mpirun --tag-output prints comes out as each rank's own lines, all of them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

REMOTE = Path(__file__).parents[2] / "bootstrap" / "remote" / "run"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, REMOTE / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tagged = load("mpirun_output")

CASES = {
    "a line a rank": (b"[1,0]<stdout>:a\x1e[1,1]<stdout>:b\x1e", [(0, b"a"), (1, b"b")]),
    "two lines in one piece": (b"[1,1]<stdout>:a\x1eb\x1e", [(1, b"a"), (1, b"b")]),
    "a line in three pieces": (
        b"[1,1]<stdout>:hello[1,1]<stdout>: [1,1]<stdout>:1\x1e",
        [(1, b"hello 1")],
    ),
    "another rank between the pieces": (
        b"[1,0]<stdout>:lo[1,1]<stdout>:warning\x1e[1,0]<stdout>:ss\x1e",
        [(1, b"warning"), (0, b"loss")],
    ),
    "leading blanks are the program's": (b"[1,0]<stdout>:  x\x1e", [(0, b"  x")]),
    "an empty line": (b"[1,0]<stdout>:\x1e", [(0, b"")]),
    "a bracket is no tag": (b"[1,0]<stdout>:[===>...]\x1e", [(0, b"[===>...]")]),
    "another OpenMPI's tag": (b"[prterun-h-1@1,3]<stdout>:x\x1e", [(3, b"x")]),
    "no end": (b"[1,0]<stdout>:last [", [(0, b"last [")]),
}


@pytest.mark.parametrize("stream, lines", CASES.values(), ids=CASES)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_pieces_become_lines(stream: bytes, lines: list[tuple[int, bytes]], step: int) -> None:
    splitter = tagged.MpirunOutput()
    found = []
    for start in range(0, len(stream), step):
        found += splitter.feed(stream[start : start + step])
    assert [*found, *splitter.close()] == lines


def test_an_endless_line_is_passed_on_in_parts() -> None:
    splitter = tagged.MpirunOutput()
    found = [x for _ in range(300) for x in splitter.feed(b"[1,0]<stdout>:" + b"x" * 1000)]
    total = sum(len(text) for _, text in [*found, *splitter.close()])
    assert found and total == 300_000


LOUD = """
import os, sys
sys.path.insert(0, sys.argv[1])
import rank
rank.redirect_output(b"")
for i in range(20000):
    print("line", i, file=sys.stderr if i % 2 else sys.stdout)
sys.stdout.flush()
"""


@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")
def test_a_real_mpirun_loses_no_line_of_two_loud_ranks() -> None:
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    argv = ["mpirun", "--oversubscribe", "-np", "2", "--tag-output", sys.executable, "-c", LOUD]
    environment = {**os.environ, **root, "PYTHONUNBUFFERED": "1"}
    argv.append(str(REMOTE.parent / "rank"))
    out = subprocess.run(argv, env=environment, capture_output=True).stdout
    splitter = tagged.MpirunOutput()
    found: dict[int, list[bytes]] = {0: [], 1: []}
    for rank, line in [*splitter.feed(out), *splitter.close()]:
        found[rank].append(line)
    wanted = [b"line %d" % i for i in range(20000)]
    assert found == {0: wanted, 1: wanted}
