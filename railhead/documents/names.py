"""Names that can be part of a path, a host list and an argv."""

from __future__ import annotations

import os
import re

NAME_LENGTH = 200  # with our suffixes it is still a file's name
NAME_FORM = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")


def is_name(name: str) -> bool:
    """Whether `name` can be part of a path, a host list and an argv."""
    return len(name) <= NAME_LENGTH and bool(NAME_FORM.fullmatch(name)) and ".." not in name


# Login names that many computers have: they do not identify a person.
COMMON_LOGINS = frozenset(
    {"root", "admin", "user", "unknown", "nobody", "ubuntu", "debian", "ec2-user", "centos"}
    | {"runner", "vscode", "jovyan", "codespace", "sagemaker-user"}
)
NAME = (is_name, "a name that can be part of a path")  # a rule of a key


def is_short(name: str) -> bool:
    """Whether `name` is short enough for a list: at most 40 characters, also none."""
    return not name or (is_name(name) and len(name) <= 40)


SHORT_NAME = (is_short, "a name of at most 40 letters, digits, dots, `-` and `_`")


def login_name() -> str:
    """The login name of whoever runs the command, if the system knows it."""
    import getpass  # loaded late: hosts need none

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return os.environ.get("USER", "unknown")


def owner_name(text: str) -> str | None:
    """An owner as tags on AWS and labels on Google Cloud have it; other characters become `-`. None
    for a text without a letter or digit."""
    kept = re.sub(r"[^a-z0-9_-]", "-", text.lower())[:63]
    return kept if kept.strip("-") else None


# --- Shards --------------------------------------------------------------------------------

MANIFEST = "manifest.json"  # of a folder of shards; the file of its columns is beside it
COLUMNS = re.compile(r"manifest-[0-9a-f]{16}\.columns")


def is_manifest(name: str) -> bool:
    """Whether a file belongs to the manifest of shards: each host needs it."""
    return name == MANIFEST or bool(COLUMNS.fullmatch(name))
