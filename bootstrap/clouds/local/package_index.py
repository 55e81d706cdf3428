"""How this computer reaches package indexes: pip's settings, for uv, which reads none of them."""

from __future__ import annotations

import ast
import contextlib
import os
import sys
from functools import lru_cache
from pathlib import Path

from ...console import log

# Of each setting the variable for uv, and others that stand for the same.
VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "proxy": ("ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"),
    "cert": ("SSL_CERT_FILE",),
    "trusted-host": ("UV_INSECURE_HOST",),
}
SECTIONS = ("global", "install", ":env:")  # a later one counts


def settings_of_pip() -> dict[str, str]:
    """What pip's files and variables say of the index and the network, as variables of uv, except
    for those that are set here."""
    own = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "XDG_"))}
    settings = _listed(frozenset({**own, "HOME": str(Path.home())}.items()))
    return {
        variables[0]: settings[name]
        for name, variables in VARIABLES.items()
        if name in settings and not any(map(os.environ.get, variables))
    }


@lru_cache(1)
def _listed(variables: frozenset[tuple[str, str]]) -> dict[str, str]:
    """The settings that `pip config list` prints, SECTION.NAME='VALUE' each, by their names; none
    without a pip that runs."""
    argv = [sys.executable, "-I", "-m", "pip", "config", "list"]
    text = ""
    with contextlib.suppress(OSError):
        text = log.run(argv, env=dict(variables), cwd="/", capture_output=True).stdout
    settings = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {
        name: " ".join(str(ast.literal_eval(settings[f"{section}.{name}"])).split())
        for section in SECTIONS
        for name in VARIABLES
        if f"{section}.{name}" in settings
    }
