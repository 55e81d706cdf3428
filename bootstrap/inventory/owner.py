"""Who types: their account, and whose machines they may stop or remove (the owner in the tags of a
stack's resources)."""

from __future__ import annotations

import os
import pwd

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


def account() -> pwd.struct_passwd:
    """The account of the user who types.

    Raises:
        UsageError: their id has none, as in a container with `--user`: ssh then refuses to run.
    """
    try:
        return pwd.getpwuid(os.getuid())
    except KeyError:
        line = f"me:x:{os.getuid()}:{os.getgid()}::{os.environ.get('HOME', '/tmp')}:/bin/sh"
        raise UsageError(
            f"the user id {os.getuid()} has no account on this computer, and ssh needs one",
            hint=f"add this line to /etc/passwd, or log in as a user of it: {line}",
        ) from None
