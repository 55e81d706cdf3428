"""The check of what is installed as `railhead` here: another project has this name on the public
Python index, and its files would replace ours."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import Distribution, PackageNotFoundError
from urllib.parse import unquote, urlsplit

from railhead.documents.doctor import Check
from railhead.installation import DISTRIBUTION, IS_WHEEL, PROJECT
from railhead.version import VERSION

NAME = "Railhead"
OTHER = "railhead"


def check() -> Check:
    """Whose package `railhead` is, and where it came from."""
    other = _distribution(OTHER)
    if other is None:
        return Check(NAME, "ok", _ours())
    about = " ".join(str(other.metadata["Summary"] or "no summary").split())
    text = f"this Python also has the distribution {OTHER} {other.version} ({about}), which writes"
    text += f" the same files; ours is {DISTRIBUTION}"
    return Check(NAME, "warns", text, _again())


def _ours() -> str:
    if not IS_WHEEL:
        return f"{VERSION}, the clone {PROJECT.parent.parent}"
    return f"{VERSION}, distribution {DISTRIBUTION}, from {_wheel() or 'an index'}"


def _wheel() -> str:
    """The file or the address from which ours was installed; empty if it came from an index."""
    ours = _distribution(DISTRIBUTION)
    source = ours.read_text("direct_url.json") if ours else None
    url = urlsplit(str(json.loads(source).get("url", ""))) if source else urlsplit("")
    return unquote(url.path) if url.scheme == "file" else url.geturl()


def _again() -> str:
    """The commands that remove the other package and install ours again."""
    pip = f"{shlex.quote(sys.executable)} -m pip"
    if not IS_WHEEL:
        return f"{pip} uninstall -y {OTHER}   # the clone itself is not touched"
    ours = shlex.quote(_wheel() or DISTRIBUTION)
    return f"{pip} uninstall -y {OTHER} && {pip} install --force-reinstall --no-deps {ours}"


def _distribution(name: str) -> Distribution | None:
    try:
        return Distribution.from_name(name)
    except PackageNotFoundError:
        return None
