"""Two local SSH hosts, ready to train, and the real `fab` that a person would type."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
from places import ROOT
from standins.forks import FAB, run_fab
from standins.stores import object_stores


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
            [str(FAB), "-r", str(ROOT), *args],
            cwd=self.folder,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def fab(self, *args: str, env: Mapping[str, str] | None = None, seconds: float = 200) -> Done:
        """Type `fab words` and wait; in a fork of a process that has imported it."""
        words = ("-r", str(ROOT), *args)
        process = run_fab(self.folder, words, self.environment(env), seconds, merged=True)
        return Done(process.returncode, process.stdout)

    def document(self, *args: str, code: int = 0) -> Any:
        """Type `fab words --json`: the document, which its JSON Schema must allow."""
        words = ("-r", str(ROOT), *args, "--json")
        done = run_fab(self.folder, words, self.environment(), 200)
        assert done.returncode == code, done.stderr
        document = json.loads(done.stdout)
        jsonschema.validate(
            document, json.loads((ROOT / f"docs/schemas/{args[0]}.json").read_text())
        )
        return document

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

    def run_folder(self, run: str) -> Path:
        """The folder of a run on h1 of the ready hosts."""
        return self.home / ".railhead/clusters/ready/hosts/h1/home/.railhead/runs" / run

    def state(self, run_id: str) -> str:
        """The state of a run, as the chief of the ready hosts has it."""
        state: str = json.loads((self.run_folder(run_id) / "state.json").read_text())["state"]
        return state

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
        # Those of scripts are lines of a host, after its name or a bar.
        assert not re.search(r"^Traceback \(most recent call", self.out, re.MULTILINE), self.out

    def ended(self, code: int, *args: str) -> Done:
        """Assert the exit code, and that each of the words was printed."""
        assert self.code == code, f"exit {self.code}, expected {code}:\n{self.out}"
        for word in args:
            assert word in self.out, f"{word!r} was not printed:\n{self.out}"
        return self


@dataclass(frozen=True)
class Training:
    """A training that several tests look at: its results, and what the command printed."""

    results: Path
    out: str


# A training of seconds that repeats its losses: 22 steps in each epoch, most of them to come when a
# test has seen a checkpoint of the second one.
DIGITS = ("model=mlp", "epochs=8", "global_batch=64", "checkpoint_steps=5", "shift=0")


def with_settings(settings: Sequence[str]) -> tuple[str, ...]:
    """`fab train` with these settings."""
    return ("train", *(word for setting in settings for word in ("--set", setting)))


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file with one JSON document per line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def json_lines_so_far(path: Path) -> list[dict[str, Any]]:
    """The records of a file that is written; a line that has not ended is left out."""
    lines = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def run_id(out: str) -> str:
    """The id in `run ID started`."""
    return next(line.split()[1] for line in out.splitlines() if line.endswith("breaks"))


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """What a command has printed up to the line that has `text`."""
    assert process.stdout
    out = ""
    for line in process.stdout:
        out += line
        if text in line:
            return out
    raise AssertionError(f"it ended without {text!r}:\n{out}")


def ranks_of(operator: Operator) -> list[str]:
    """Command lines of this person's ranks and of the children of SLOW."""
    lines = marked(operator.home)
    return [line for line in lines if "rank.rank" in line or "sleep 360" in line]


@contextlib.contextmanager
def changed_cluster(operator: Operator, change: Callable[[Any], Any]) -> Iterator[None]:
    """The cluster document has other values meanwhile."""
    path = operator.home / ".railhead/clusters/ready/cluster.json"
    document = path.read_text()
    path.write_text(json.dumps({**json.loads(document), **change(json.loads(document))}))
    try:
        yield
    finally:
        path.write_text(document)


def only_first_host(operator: Operator) -> contextlib.AbstractContextManager[None]:
    """The cluster has one host meanwhile."""
    return changed_cluster(operator, lambda document: {"hosts": document["hosts"][:1]})


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
    quiet: dict[str, Any] = {"env": environment, "cwd": ROOT, "stdout": subprocess.DEVNULL}
    names = [f"h{number + 1}" for number in range(hosts)]
    subprocess.run([*local, "start", name, *names], check=True, **quiet)
    try:
        yield
    finally:
        subprocess.run([*local, "stop", name], **quiet)


def homes_of_hosts(home: Path) -> list[Path]:
    """The homes of the local hosts in `home`."""
    return [*home.glob(".railhead/clusters/ready/hosts/*/home")]


def are_ready(home: Path) -> bool:
    """Whether the local hosts in `home` have a runtime and let the first one log in."""
    homes = homes_of_hosts(home)
    key = next(iter(sorted(homes))) / ".railhead/cluster/key.pub"
    return key.exists() and all(
        [*host.glob(".railhead/envs/*/.ok")]
        and key.read_text().strip() in (host / ".ssh/authorized_keys").read_text()
        for host in homes
    )


@contextlib.contextmanager
def with_rights(homes: Iterable[Path], store: object_stores.S3) -> Iterator[None]:
    """In these homes, clients have the store's address and its keys, as a role would give them."""
    config = f"""[default]
region = {object_stores.REGION}
endpoint_url = {store.endpoint}
aws_access_key_id = {object_stores.KEY}
aws_secret_access_key = {object_stores.SECRET}
s3 =
  addressing_style = path
"""
    folders = [home / ".aws" for home in homes]
    try:
        for folder in folders:
            folder.mkdir()
            (folder / "config").write_text(config)
        yield
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)  # the host was made again without it


def wait_for_spares(operator: Operator, run: str) -> None:
    """Wait until both hosts have a spare."""
    logs = [operator.run_folder(run) / f"logs/rank-{rank}.log" for rank in range(2)]

    def have() -> bool:
        return all(log.exists() and "spare process" in log.read_text() for log in logs)

    wait_until(have, 400, "each host has a spare")
    assert all(" MB on this host" in log.read_text() for log in logs)
