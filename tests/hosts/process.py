"""The processes of a full host, as the machine sees them: a host cannot hide one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What an idle host runs: its init, the init's sleep, and sshd.
IDLE = ("host-init", "sshd", "/usr/sbin/sshd", "[sshd]")


@dataclass(frozen=True)
class Process:
    """One process; `pid` is its number on the machine, `state` the letter that ps shows."""

    pid: int
    argv: tuple[str, ...]
    state: str

    @property
    def is_idle(self) -> bool:
        """Whether a host that does nothing runs this too."""
        return self.argv[0].rstrip(":") in IDLE


def processes_of(init: int) -> Iterator[Process]:
    """All processes in the pid namespace of a host's init, zombies among them."""
    namespace = Path(f"/proc/{init}/ns/pid").readlink()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if (folder / "ns/pid").readlink() == namespace:
                    yield read_process(folder)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue


def read_process(folder: Path) -> Process:
    """Read one folder of /proc; a process without an argv gets its short name in brackets."""
    _, _, rest = (folder / "stat").read_text().partition(" (")
    name, _, fields = rest.rpartition(") ")
    argv = (folder / "cmdline").read_text(errors="replace").rstrip("\0")
    # sshd's sessions rewrite their argv to one text, "sshd: root@notty".
    text = argv.split("\0") if "\0" in argv else argv.split(" ")
    return Process(int(folder.name), tuple(text) if argv else (f"[{name}]",), fields.split()[0])


def child_of(pid: int) -> int:
    """The first child of a process, or 0 while it has none."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children = task.read_text().split()
        if children:
            return int(children[0])
    return 0
