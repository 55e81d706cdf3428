"""An agent in a process of this machine, driven through pipes as the channel drives it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from standins.programs import changed_archive

from bootstrap.inventory.host_programs import archive, head
from bootstrap.ssh.session import START_AGENT


class Failed(Exception):
    """What the agent answered instead of `ok`."""


class Agent:
    """An agent in its own process, at home in `home`; `alive` as in `source_with`."""

    def __init__(
        self, home: Path, python: str = sys.executable, alive: float | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [python, "-I", "-S", "-c", START_AGENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"HOME": str(home), "PATH": os.environ["PATH"]},
        )
        source = archive() if alive is None else source_with(alive)
        self.requests = self.answered = 0  # requests
        self.send(f"{head(source)}\n".encode())
        first = self.line()["event"]
        self.was_sent = first == {"needed": True}
        if self.was_sent:
            self.send(source)
        self.hello = self.line()["event"] if self.was_sent else first

    @property
    def is_idle(self) -> bool:
        """Whether it runs, and has answered all requests."""
        return self.requests == self.answered and self.process.poll() is None

    def send(self, data: bytes) -> None:
        assert self.process.stdin
        self.requests += data.startswith(b'{"op": ')
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def line(self) -> Any:
        assert self.process.stdout
        line = b"\n"
        while line == b"\n":  # sent while it waits
            line = self.process.stdout.readline()
        message = json.loads(line)
        self.answered += "event" not in message
        return message

    def close(self) -> None:
        """End it by the end of its input."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()

    def call(
        self, op: str, payload: Callable[[Sequence[str]], bytes] = lambda _: b"", **options: Any
    ) -> tuple[Any, list[Any]]:
        """The answer of one operation and its events; a chunk's bytes are put into its event."""
        self.send(json.dumps({"op": op, **options}).encode() + b"\n")
        events = []
        while "event" in (answer := self.line()):
            event = answer["event"]
            if "need" in event:
                data = payload(event["need"])
                self.send(b"%d\n%s" % (len(data), data))
            if "chunk" in event:
                assert self.process.stdout
                event["bytes"] = self.process.stdout.read(event["chunk"])
            events.append(event)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["ok"], events


def source_with(alive: float) -> bytes:
    """The agent, which sends an empty line every `alive` seconds while it waits."""
    return changed_archive("agent/channel.py", "ALIVE = 60.0", f"ALIVE = {alive}")


def build(root: Path, layout: dict[str, str]) -> None:
    """Make files; a text that starts with -> makes a link, a name that ends in / a folder."""
    root.mkdir(parents=True, exist_ok=True)
    for name, text in layout.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        elif text == "fifo":
            os.mkfifo(path)
        elif text.startswith("->"):
            path.symlink_to(text[2:])
        else:
            path.write_text(text)


def found(root: Path) -> dict[str, str]:
    """The files and empty folders in a folder, as `build` takes them; links are marked."""
    seen = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            seen[name] = f"->{path.readlink()}"
        elif path.is_file():
            seen[name] = path.read_text()
        elif not any(path.iterdir()):
            seen[f"{name}/"] = ""
    return seen


def unpacked(events: list[Any]) -> dict[str, str]:
    packed = io.BytesIO(b"".join(e["bytes"] for e in events))
    with tarfile.open(fileobj=packed) as archive:
        return {m.name: text(archive, m) for m in archive}


def text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    content = archive.extractfile(member)
    assert content
    return content.read().decode()
