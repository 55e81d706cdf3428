"""What a command imports before it connects: each module takes a part of a millisecond, and without
bytecode some."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

# Runs a command until its first thread, which connects; prints what was imported.
PROGRAM = """
import json, os, sys, threading
from pathlib import Path
def end(*_):
    ours = {n: m for n, m in sys.modules.items() if n.startswith(("bootstrap", "railhead"))}
    files = {n: m.__cached__ for n, m in ours.items() if m.__file__}
    names = sorted(sys.modules)
    print(json.dumps({"names": names, "files": files}), file=sys.stderr, flush=True)
    os._exit(0)
threading.Thread.start = end
sys.argv[:] = ["fab", *sys.argv[1:]]
from railhead.__main__ import main
try:
    main()
except SystemExit:
    pass
end()
"""

# They decide about bytecode, or are loaded with the fabfile: some lines each.
EARLY = {
    "railhead",
    *(f"railhead.{name}" for name in ("__main__", "bytecode", "ctrl_c", "tasks", "version")),
}


def started(folder: Path, *words: str, tree: Path = ROOT, **more: str) -> dict[str, dict[str, str]]:
    """The modules and the files of bytecode of a command, which ends before it connects."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder,
        env={**kept, "HOME": str(folder), "XDG_CACHE_HOME": "", "PYTHONPATH": str(tree), **more},
        capture_output=True,
        text=True,
        timeout=120,
    )
    modules: dict[str, dict[str, str]] = json.loads(done.stderr.splitlines()[-1])
    return modules


@pytest.mark.parametrize(
    ("words", "most", "without"),
    [
        (
            ["--list"],
            66,
            {"tomllib", "bootstrap.plan", "bootstrap.ssh", "bootstrap.project"}
            | {"unittest", "asyncio", "yaml"},
        ),
        (
            ["train", "--hosts", "127.0.0.1:1", "--preset", "smoke"],
            248,
            {"bootstrap.report", "bootstrap.health", "bootstrap.provision.apply", "tomllib"}
            | {"urllib.request", "uv", "packaging", "boto3", "google", "numpy"},
        ),
        (
            ["status", "--hosts", "127.0.0.1:1"],
            226,
            {"bootstrap.report", "tomllib", "urllib.request", "boto3", "google"}
            | {"unittest", "asyncio", "yaml"},
        ),
    ],
)
def test_a_command_imports_what_it_needs(
    tmp_path: Path, words: list[str], most: int, without: set[str]
) -> None:
    names = started(tmp_path, *words)["names"]
    ours = [name for name in names if name.startswith(("bootstrap.", "railhead."))]
    assert not without & {*names}
    assert len(ours) <= most, len(ours)


OWN_TASKS = """
from fabric import task
from invoke import MockContext, Result
@task
def mine(c):
    mocked = MockContext(run=Result("out"))
    print(mocked.run("ls").stdout, mocked.run.call_count, c.config.mine)
"""


def test_what_is_imported_late_is_there_for_tasks_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "fabfile.py").write_text(OWN_TASKS)
    (tmp_path / "fabric.yaml").write_text("mine: read\n")
    argv = [sys.executable, "-m", "railhead", "mine"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.stdout == "out 1 read\n", done.stderr


@pytest.mark.parametrize("in_cache", [False, True])
def test_each_module_has_bytecode_after_the_first_command(tmp_path: Path, in_cache: bool) -> None:
    """Beside the sources, or in the cache; of a fabfile there is none."""
    tree, cache = tmp_path / "tree", tmp_path / ".cache/railhead/bytecode"
    for name in ("bootstrap", "railhead"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "fabfile.py", tree)
    more = {"PYTHONDONTWRITEBYTECODE": "1"} if in_cache else {}
    files = started(
        tmp_path,
        "-r",
        str(tree),
        "train",
        "--hosts",
        "127.0.0.1:1",
        "--preset",
        "smoke",
        tree=tree,
        **more,
    )["files"]
    place = cache if in_cache else tree
    missing = {
        n for n, file in files.items() if not (Path(file).exists() and place in Path(file).parents)
    }
    assert missing <= EARLY and len(files) > 100
    beside = {path.parent for path in tree.rglob("*.pyc")}
    assert bool(beside) is not in_cache and tree / "__pycache__" not in beside


def test_a_cache_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    cache = tmp_path / ".cache/railhead/bytecode"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    started(tmp_path, "--list", PYTHONDONTWRITEBYTECODE="1")
    assert not [*cache.iterdir()]
