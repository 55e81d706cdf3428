"""Keys in a host's ~/.ssh/authorized_keys: a cluster's lines, and those of people."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from railhead.documents.agent.files import Read, Replace, TextFile
from railhead.documents.lazy import dataclass

from ..errors import Command, Hint, RailheadError, UsageError
from ..inventory.files import read_given
from .host_keys import parsed_key
from .session import Session

PATH = "~/.ssh/authorized_keys"
MARK = "railhead:"  # before the cluster's name, in the comment of its lines
# Google's guest agent writes this above each key of a machine's metadata. When it starts, it writes
# both again, and drops the line below this one, whatever it is.
FROM_METADATA = "# Added by Google"
LARGEST = 20_000  # bytes of a file with one public key
TRIES = 5  # of a change, if others change the file at the same time


@dataclass(frozen=True)
class PublicKey:
    """A person's public key; `comment` says whose it is."""

    kind: str
    data: str
    comment: str

    def __str__(self) -> str:
        return f"{self.kind} {self.data} {self.comment}".strip()


def read_public_key(path: Path) -> PublicKey:
    """The public key in a file of this computer.

    Raises:
        UsageError: the file cannot be read, has a private key, or is not one public key.
    """
    text = read_given(path, f"{path}", LARGEST).decode(errors="replace").strip()
    if "PRIVATE KEY" in text:
        raise UsageError(
            f"{path} is a private key, which stays where it is",
            hint=Command("ssh-key", f"{path}.pub"),
        )
    kind, data, comment = [*text.split(None, 2), "", "", ""][:3]
    if len(text.splitlines()) != 1 or not _is_key(kind, data):
        raise UsageError(
            f"{path} is not one public SSH key", hint=Command("ssh-key", "~/.ssh/id_ed25519.pub")
        )
    words = [word for word in comment.split() if word.isprintable() and MARK not in word]
    return PublicKey(kind, data, " ".join(words))


def _is_key(kind: str, data: str) -> bool:
    entry = parsed_key(f"{kind} {data}")
    return entry is not None and entry.key is not None and entry.key.get_name() == kind


def authorize(session: Session, cluster: str, lines: list[str], *, keep: bool = False) -> None:
    """Replace this cluster's lines in authorized_keys by `lines`, or add them (`keep`); all other
    lines stay.

    A line belongs to a cluster when its comment is `railhead:CLUSTER`.
    """
    mark = f" {MARK}{cluster}"

    def updated(present: list[str]) -> list[str]:
        others = [
            line for line in present if line not in lines and (keep or not line.endswith(mark))
        ]
        return [*others, *lines]

    _change(session, updated)


def add(session: Session, key: PublicKey) -> str:
    """Let a person log in to a host; returns the outcome, for the user."""

    def updated(lines: list[str]) -> list[str]:
        return lines if any(_has(line, key) for line in lines) else [*lines, str(key)]

    return "accepts this key now" if _change(session, updated) else "has this key already"


def remove(session: Session, key: PublicKey) -> str:
    """Remove a person's key from a host; returns the outcome, for the user.

    Raises:
        UsageError: it is the last key of a person: nobody could log in afterwards. Or the key is in
            the metadata of a Google Cloud machine, such as the stack's.
    """
    changed = _change(session, lambda lines: _without(lines, key))
    return "does not accept this key any more" if changed else "does not have this key"


def _without(lines: list[str], key: PublicKey) -> list[str]:
    others = [line for line in lines if not _has(line, key)]
    if len(others) == len(lines):
        return lines
    if any(_has(line, key) and above.strip() == FROM_METADATA for above, line in pairwise(lines)):
        raise UsageError(
            "it is in the machine's metadata, from which Google's guest agent would add it again",
            hint=Hint("change public_key_file, then ", Command("up")),
        )
    if not any(_lets_in(line) and MARK not in line for line in others):
        raise UsageError(
            "it is the last key there: nobody could log in without it",
            hint=Hint(Command("ssh-key", "ANOTHER_KEY.pub"), "   # first"),
        )
    return others


def _has(line: str, key: PublicKey) -> bool:
    """Whether a line authorizes this key."""
    return not _is_comment(line) and key.data in line.split()


def _lets_in(line: str) -> bool:
    """Whether a line authorizes any key. Options, which may contain spaces, come before the key."""
    words = line.split()
    return not _is_comment(line) and any(map(_is_any_key, words, words[1:]))


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _is_any_key(kind: str, data: str) -> bool:
    """As `_is_key`, but also true for hardware keys, which paramiko does not decode."""
    return kind.startswith(("sk-ssh-", "sk-ecdsa-")) or _is_key(kind, data)


def _change(session: Session, updated: Callable[[list[str]], list[str]]) -> bool:
    """Replace the lines of the file by `updated` of them; returns whether they differ. If somebody
    else changes the file meanwhile, it is read and updated again.

    Raises:
        RailheadError: the file cannot be read, or others change it each time; it is unchanged.
    """
    for _ in range(TRIES):
        before = session.call(Read(PATH, strict=True)).text
        lines = (before or "").splitlines()
        after = updated(lines)
        if after == lines:
            return False
        file = TextFile(PATH, "".join(f"{line}\n" for line in after), 0o600)
        if session.call(Replace(file, before)).replaced:
            return True
    raise RailheadError(
        f"{PATH} changes all the time; it was left as it is", hint="the same command again"
    )
