"""Fabric's configuration with the user's ssh_config as OpenSSH reads it. paramiko, which parses it
for Fabric, ignores Include, and takes criteria of Match that it does not know as true."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from glob import glob
from pathlib import Path

from fabric import Config
from paramiko.ssh_exception import SSHException

from ..errors import UsageError

DEEPEST = 16  # files that include each other, as in OpenSSH
KNOWN = ("exec", "host", "localuser", "originalhost", "user")  # criteria with a value
NEVER = "!originalhost *"
SETTING = re.compile(r"\s*(\w+)(?:\s*=\s*|\s+)(.*)")


class SshConfig(Config):  # type: ignore[misc]
    """Fabric's configuration, which also reads the files that ssh_config includes."""

    def _load_ssh_files(self) -> None:
        """Read the files once: each clone would add them again to those that are read."""
        if not self.base_ssh_config._config:
            super()._load_ssh_files()

    def _load_ssh_file(self, path: str) -> None:
        """Read the ssh_config of the user or of the system, if it is there.

        Raises:
            UsageError: it has a line that is not valid.
        """
        file = Path(path)
        try:
            if file.is_file():
                self.base_ssh_config.parse(_lines(file, file.parent))
        except (SSHException, ValueError) as error:
            raise UsageError(
                f"{path} cannot be read: {error}", hint="ssh -G HOST   # names the line"
            ) from None


def _lines(file: Path, folder: Path, outer: str = "", depth: int = 0) -> Iterator[str]:
    """The lines of a file, with those of each included one in its place. A relative Include is in
    `folder`. `outer` are the criteria of the block that includes this file: they hold for its
    blocks too."""
    criteria = outer
    for line in file.read_text(errors="replace").splitlines():
        setting = SETTING.fullmatch(line)
        keyword, value = (setting[1].lower(), setting[2]) if setting else ("", "")
        if keyword in ("host", "match"):
            criteria = f"{outer} {_criteria(keyword, value)}".strip()
            yield line if keyword == "host" and not outer else _block(criteria)
        elif keyword == "include":
            for path in _included(value, folder) if depth < DEEPEST else ():
                yield from _lines(path, folder, criteria, depth + 1)
                yield _block(criteria)
        else:
            yield line


def _block(criteria: str) -> str:
    """The line that begins a block; without criteria it is for all hosts."""
    return f"Match {criteria}" if criteria else "Host *"


def _criteria(keyword: str, value: str) -> str:
    """The criteria of a line of Host or Match, as paramiko reads them; empty for all hosts. One
    that cannot be tested, as a tag or a network of this computer, counts as not met."""
    words = shlex.split(value, comments=True)
    if keyword == "host":
        return shlex.join(["originalhost", ",".join(words)])
    criteria: list[str] = []
    while words:
        word = words.pop(0).lower()
        name = word.removeprefix("!")
        if name in KNOWN:
            criteria += [word, *words[:1]]
            del words[:1]
        elif name in ("canonical", "final"):
            criteria.append(word)
        elif word.startswith("!") and name != "all":
            del words[:1]
        elif word != "all":  # paramiko refuses it beside other criteria
            return NEVER
    return shlex.join(criteria)


def _included(value: str, folder: Path) -> Iterator[Path]:
    """The files that an Include names."""
    for pattern in shlex.split(value, comments=True):
        place = folder / os.path.expanduser(pattern)  # noqa: PTH111 # an unknown ~user is not an error
        yield from (path for path in map(Path, sorted(glob(str(place)))) if path.is_file())  # noqa: PTH207
