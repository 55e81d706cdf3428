"""Runs one `fab` in a fork of this process, in separate folders, and judges what it did."""

from __future__ import annotations

import faulthandler
import io
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bootstrap.cli import program

SECONDS = 60.0  # on a busy machine; a case takes 0.1 to 4
MEMORY = 4 << 30
FILE_BYTES = 64 << 20
# Audit events that change a file, and the positions of the paths in their arguments.
CHANGES = {
    "os.mkdir": (0,), "os.remove": (0,), "os.rmdir": (0,), "os.rename": (0, 1), "os.link": (1,),
    "os.symlink": (1,), "os.chmod": (0,), "os.truncate": (0,), "os.chown": (0,),
}  # fmt: skip
CONTROL = re.compile(r"[^\n\t\x20-\x7e\x80-\U0010ffff]|[\x80-\x9f]")


@dataclass(frozen=True)
class Sandbox:
    """The folders of one case: the user's home, the folder of the command, the chief's home."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def cwd(self) -> Path:
        return self.folder / "cwd"

    @property
    def chief(self) -> Path:
        return self.folder / "chief"

    @property
    def tmp(self) -> Path:
        return self.folder / "tmp"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    def make(self, template: Path | None = None) -> None:
        """Make the folders anew, as copies of those of `template`."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if template:
            shutil.copytree(template, self.folder, symlinks=True)
        for path in (self.home, self.cwd, self.chief, self.tmp):
            path.mkdir(parents=True, exist_ok=True)

    @property
    def writable(self) -> tuple[Path, ...]:
        """Where a command may write when no option names another folder."""
        ours = (self.home / ".railhead", self.home / ".cache", self.cwd / "results")
        return (*ours, self.chief, self.tmp, self.output)

    def protected(self, but: Sequence[Path] = ()) -> dict[str, tuple[int, int]]:
        """Everything in it that no command may change, with inode and time of the last change."""
        return dict(_entries(self.folder, (*self.writable, *but)))


def _entries(folder: Path, but: Sequence[Path]) -> Iterator[tuple[str, tuple[int, int]]]:
    for entry in os.scandir(folder):
        path = Path(entry.path)
        if path in but:
            continue
        status = entry.stat(follow_symlinks=False)
        folder_here = entry.is_dir(follow_symlinks=False)
        yield entry.path, (status.st_ino, 0 if folder_here else status.st_mtime_ns)
        if folder_here:
            yield from _entries(path, but)


def run(
    box: Sandbox,
    argv: Sequence[str],
    prepare: Callable[[], None],
    codes: Sequence[int],
    also_writes: Sequence[Path] = (),
) -> list[str]:
    """Type `fab ARGV`; returns what is wrong.

    Args:
        prepare: runs in the fork.
        codes: the exit codes that are correct.
        also_writes: where this command may write, besides `Sandbox.writable`.
    """
    before = box.protected(also_writes)
    child = os.fork()
    if not child:
        _type(box, argv, prepare)
    status = _wait(child)
    wrong = [] if status in codes else [f"exit code {status}" if status >= 0 else f"hang: {status}"]
    text = box.output.read_text(errors="surrogateescape")
    if "Traceback (most recent" in text or "this is an error in Railhead" in text:
        wrong.append("a traceback")
    if control := CONTROL.search(text):
        wrong.append(f"a control character, {control[0]!r}")
    wrong += re.findall(r"^WROTE .*$", text, re.M)
    after = box.protected(also_writes)
    if after != before and not any(word in argv for word in ("--to", "ssh-config")):
        wrong.append(f"changed {sorted({*after.items()} ^ {*before.items()})}")
    return wrong


def _wait(child: int) -> int:
    """The exit code of the fork; where it hangs, minus the signal that ended it."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGUSR1)  # prints where it is
    time.sleep(1)
    os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _type(box: Sandbox, argv: Sequence[str], prepare: Callable[[], None]) -> None:
    """In the fork: run the command, and end."""
    code = 99
    try:
        os.setsid()
        _enter(box)
        prepare()
        sys.argv = ["fab", *argv]
        sys.addaudithook(_watch(box))
        program.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 98
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _enter(box: Sandbox) -> None:
    """Take the folders of the case, and its limits."""
    os.chdir(box.cwd)
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
    os.environ.clear()
    os.environ.update(kept, HOME=str(box.home), TMPDIR=str(box.tmp), PATH="/usr/bin:/bin")
    os.environ.update(AWS_EC2_METADATA_DISABLED="true", NO_GCE_CHECK="true")
    os.environ.update(RES_OPTIONS="timeout:1 attempts:1")
    output = os.open(box.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True
    )
    sys.stdin = open(0, closefd=False)  # noqa: SIM115, PTH123
    sys.dont_write_bytecode = True
    tempfile.tempdir = None
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))


def _watch(box: Sandbox) -> Callable[[str, tuple[object, ...]], None]:
    """An audit hook that reports changes of files elsewhere on this machine.

    It is not given the folder of a relative path: those in the sandbox are compared afterwards.
    """
    may = (str(box.folder), "/dev/null", "/dev/tty", "/dev/pts")

    def report(path: object) -> None:
        text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        if "/__pycache__/" in text:  # of our sources
            return
        if text.startswith("/") and not os.path.realpath(text).startswith(may):
            os.write(2, f"WROTE {text!r}\n".encode())

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR):
            report(args[0])
        for position in CHANGES.get(event, ()):
            report(args[position])

    return hook
