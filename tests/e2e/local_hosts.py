"""Two local SSH hosts, ready to train, and the real `fab` that a person would type."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
FAB = Path(sys.executable).parent / "fab"


@dataclass(frozen=True)
class Operator:
    """Somebody with a home and a folder, who types commands."""

    home: Path
    folder: Path
    caches: Path

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The shell's environment."""
        home = {"HOME": str(self.home), "XDG_CACHE_HOME": str(self.caches), "TERM": "dumb"}
        return {**os.environ, **home, **(extra or {})}

    def start(self, *args: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Type `fab words` and do not wait."""
        return subprocess.Popen(
            [str(FAB), "-r", str(REPO), *args],
            cwd=self.folder,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def fab(self, *args: str, env: Mapping[str, str] | None = None, seconds: float = 110) -> Done:
        """Type `fab words` and wait."""
        process = self.start(*args, env=env)
        try:
            out, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=30)
            raise AssertionError(f"{args} took more than {seconds} s:\n{out}") from None
        return Done(process.returncode, out)

    def write(self, name: str, text: str) -> Path:
        """Write a file in the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def last(self) -> Path:
        """The folder of the last results here."""
        return max((self.folder / "results").iterdir())

    def state(self, run_id: str) -> str:
        """The state of a run, as the chief of the ready hosts has it."""
        runs = self.home / ".railhead/clusters/ready/hosts/h1/home/.railhead/runs"
        read: str = json.loads((runs / run_id / "state.json").read_text())["state"]
        return read

    def recorded(self) -> set[str]:
        """The ids of the runs that were started from here on any cluster."""
        return {path.stem for path in self.home.glob(".railhead/clusters/*/runs/*.json")}

    def result(self) -> dict[str, Any]:
        """result.json of the last run here."""
        read: dict[str, Any] = json.loads((self.last / "result.json").read_text())
        return read


@dataclass(frozen=True)
class Done:
    """How a command ended and what it printed."""

    code: int
    out: str

    def __post_init__(self) -> None:
        assert "Traceback (most recent call last)" not in self.out or "|" in self.out, self.out

    def ended(self, code: int, *args: str) -> Done:
        """Assert the exit code, and that each of the words was printed."""
        assert self.code == code, f"exit {self.code}, expected {code}:\n{self.out}"
        for word in args:
            assert word in self.out, f"{word!r} was not printed:\n{self.out}"
        return self


def marked(home: Path) -> list[str]:
    """Command lines of the processes that belong to a run on hosts under `home`."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                lines = (entry / "environ").read_bytes().split(b"\0")
                ours = any(x.startswith(b"RAILHEAD_HOME=" + str(home).encode()) for x in lines)
                if ours and (line := (entry / "cmdline").read_bytes()):
                    found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


def is_followed(home: Path) -> bool:
    """Whether a `fab` follows the last run on hosts under `home`, as its chief h1 sees it."""
    runs = home.glob(".railhead/clusters/*/hosts/h1/home/.railhead/runs/2*")
    last = max(runs, key=lambda path: path.name, default=None)
    return last is not None and (last / "attached").exists()


def wait_until(true: Any, seconds: float, what: str) -> float:
    """Wait until `true()` is; returns the seconds that it took."""
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        if true():
            return time.monotonic() - begun
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def listens(port: int) -> bool:
    """Whether a socket listens on this port, at any address of the machine of the local hosts."""
    look = ["ss", "-ltnH", "sport", "=", f":{port}"]
    return bool(subprocess.run(look, check=True, capture_output=True).stdout.strip())


@contextlib.contextmanager
def cluster(home: Path, name: str, caches: Path, hosts: int = 2) -> Iterator[None]:
    """Local hosts in `home`, started here and stopped at the end."""
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(caches)}
    local = [sys.executable, "-m", "bootstrap.clouds.local"]
    quiet: dict[str, Any] = {"env": environment, "cwd": REPO, "stdout": subprocess.DEVNULL}
    subprocess.run([*local, "start", name], input=b'{"hosts": %d}' % hosts, check=True, **quiet)
    try:
        yield
    finally:
        subprocess.run([*local, "stop", name], **quiet)
