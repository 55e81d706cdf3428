"""Whose machines a command may stop or remove: the owner in the tags of a stack's resources."""

from __future__ import annotations

from railhead.documents.names import login_name, owner_name

from ..errors import UsageError


def owner_of(option: str | None) -> str:
    """The owner as tags have it: that of --owner, by default the login name.

    Raises:
        UsageError: a text that cannot be an owner.
    """
    text = login_name() if option is None else option
    owner = owner_name(text)
    if owner is None:
        raise UsageError(
            f"--owner: {text!r} has no letter and no digit",
            hint="the same command with --owner NAME",
        )
    return owner
