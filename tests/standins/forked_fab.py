"""The command `fab`, typed in a fork of this process, which has imported its modules already: the
same program in a tenth of the time of a new process."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# What tasks need is imported here once, not in each fork.
from bootstrap.cli import machine_tasks, result_tasks, serving_tasks, tasks  # noqa: F401
from bootstrap.cli.program import main
from bootstrap.workflows import attach, plan, train  # noqa: F401

Done = subprocess.CompletedProcess[str]
SECONDS = 60  # for what a command leaves running


def _nothing() -> None:
    """The default of `before`."""


def _type_command(folder: Path, args: tuple[str, ...], pipes: tuple[int, int]) -> int:
    """In the fork: run the command with its output in pipes; returns its exit code."""
    os.chdir(folder)
    for number, pipe in zip((1, 2), pipes, strict=True):
        os.dup2(pipe, number)
    sys.stdin = Path(os.devnull).open()  # noqa: SIM115  until the fork ends
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
    sys.argv = ["fab", *args]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 99
    return 0


def _read(pipe: int) -> str:
    with os.fdopen(pipe, "rb") as file:
        return file.read().decode()


def forked_fab(
    folder: Path, *args: str, before: Callable[[], object] = _nothing, **environment: str
) -> Done:
    """Type `fab ARGS` in a folder. `before` runs in the fork, such as `os.umask`; `environment`
    replaces variables."""
    ours, theirs = zip(*(os.pipe() for _ in range(2)), strict=True)
    child = os.fork()
    if not child:
        code = 99  # whatever happens, the copy of the test runner ends here
        try:
            os.environ.update(environment)
            before()
            code = _type_command(folder, args, theirs)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    for pipe in theirs:
        os.close(pipe)
    with ThreadPoolExecutor(2) as pool:
        out, err = [pool.submit(_read, pipe) for pipe in ours]
        texts = out.result(SECONDS), err.result(SECONDS)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return subprocess.CompletedProcess(["fab", *args], code, *texts)
