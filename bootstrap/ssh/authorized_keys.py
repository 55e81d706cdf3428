"""Keys in a host's ~/.ssh/authorized_keys: a cluster's lines, and those of people."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from railhead.documents.agent.files import TextFile

from ..errors import Command, Hint, UsageError
from .host_keys import parsed_key
from .session import Session

PATH = "~/.ssh/authorized_keys"
MARK = "railhead:"  # of a cluster's lines, before its name
# Google's guest agent writes this above each key in a machine's metadata, and writes both again
# when it starts. It drops whatever line is below this one.
FROM_METADATA = "# Added by Google"
LARGEST = 20_000  # bytes of a file with one public key


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
    try:
        with path.expanduser().open(errors="replace") as file:
            text = file.read(LARGEST).strip()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
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
    text, mark = session.read(PATH) or "", f" {MARK}{cluster}"
    others = [
        line
        for line in text.splitlines()
        if line not in lines and (keep or not line.endswith(mark))
    ]
    _write(session, text, [*others, *lines])


def add(session: Session, key: PublicKey) -> str:
    """Let a person log in to a host; the outcome, for the user."""
    text = session.read(PATH) or ""
    if any(_has(line, key) for line in text.splitlines()):
        return "has this key already"
    _write(session, text, [*text.splitlines(), str(key)])
    return "accepts this key now"


def remove(session: Session, key: PublicKey) -> str:
    """Remove a person's key from a host; the outcome, for the user.

    Raises:
        UsageError: it is the last key of a person: nobody could log in afterwards. Or it is in the
            metadata of a machine in Google Cloud, such as that of the stack.
    """
    text = session.read(PATH) or ""
    lines = text.splitlines()
    others = [line for line in lines if not _has(line, key)]
    if len(others) == len(lines):
        return "does not have this key"
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
    _write(session, text, others)
    return "does not accept this key any more"


def _has(line: str, key: PublicKey) -> bool:
    """Whether a line authorizes this key."""
    return not _is_comment(line) and key.data in line.split()


def _lets_in(line: str) -> bool:
    """Whether a line authorizes any key. Its options, which may have spaces, are before the key."""
    words = line.split()
    return not _is_comment(line) and any(map(_is_any_key, words, words[1:]))


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _is_any_key(kind: str, data: str) -> bool:
    """The same as `_is_key`, also for keys in hardware, which paramiko does not decode."""
    return kind.startswith(("sk-ssh-", "sk-ecdsa-")) or _is_key(kind, data)


def _write(session: Session, before: str, lines: list[str]) -> None:
    updated = "".join(f"{line}\n" for line in lines)
    if updated != before:
        session.write(TextFile(PATH, updated, 0o600))
