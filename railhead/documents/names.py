"""Names that can be part of a path, a host list and an argv."""

from __future__ import annotations

import re

NAME_LENGTH = 200  # with our suffixes it is still a file's name
NAME_FORM = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")


def is_name(name: str) -> bool:
    """Whether `name` can be part of a path, a host list and an argv."""
    return len(name) <= NAME_LENGTH and bool(NAME_FORM.fullmatch(name)) and ".." not in name


NAME = (is_name, "a name that can be part of a path")  # a rule of a key
