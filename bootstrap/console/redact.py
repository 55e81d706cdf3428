"""Removes secrets from text that goes into the debug log."""

from __future__ import annotations

import json
import re

MASK = "[redacted]"

# Texts that look like keys of any service.
_KEYS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"  # AWS access key id
    r"|\b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[a-z]-|ya29\.|pul-)[\w.-]{8,}"
    r"|\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?"  # JSON web token
    r"|(?<=Bearer )\S+"
    r"|(?<=://)[^\s/@:]*:[^\s/@]+(?=@)"  # user and password in an address
    # 40 characters as in a secret key of AWS, or a long mixed token. Hexadecimal digests have no
    # capital letters, and the fingerprint of a host key is public.
    r"|(?<![A-Za-z0-9/+=])(?=[a-z0-9/+]*[A-Z])(?=[A-Z0-9/+]*[a-z])(?=[A-Za-z/+]*\d)"
    r"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"
    r"|(?<![\w-])(?<!SHA256:)(?=[a-z0-9_-]*[A-Z])(?=[A-Z0-9_-]*[a-z])(?=[A-Za-z_-]*\d)"
    r"[\w-]{32,}",
    re.DOTALL,
)
# A value after the name of a secret: `API_KEY: 'x'`, `token=x`, `--password x`. The lookbehind and
# the bound keep the time proportional to the length of the text.
_NAMES = "secret|token|passw(?:or)?d|passphrase|credential|api[_-]?key|access[_-]?key"
_NAME = rf"(?=[\w-]{{0,100}}(?:{_NAMES}))[\w-]+"
_VALUE = re.compile(rf"((?<![\w-]){_NAME}['\"]?\s*[=:]\s*['\"]?)[^\s'\"&;]+", re.IGNORECASE)
_OPTION = re.compile(rf"((?<![\w-])--(?!secret\s){_NAME}\s+)\S+", re.IGNORECASE)
LONGEST = 100_000  # characters; longer texts are cut
SHORTEST = 4  # characters of a line of a secret, as in the output of ranks

_secrets: set[str] = set()


def add_secret(value: str) -> None:
    """Remove this value from everything that is logged from now on."""
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        lines = [line for line in lines if len(line) >= SHORTEST]
    pieces = filter(None, (value, value.strip(), *lines))
    _secrets.update(text for piece in pieces for text in (piece, json.dumps(piece)[1:-1]))


def redacted(text: str) -> str:
    """`text` without the known secrets and without texts that look like keys."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    text = text[:LONGEST]
    for pattern in (_VALUE, _OPTION, _KEYS):
        text = pattern.sub(_masked, text)
    return text


def _masked(match: re.Match[str]) -> str:
    """The mask, after the name of the secret if there is one."""
    return (match[1] or "" if match.re.groups else "") + MASK


def redacted_argv(argv: list[str]) -> list[str]:
    """The words of a command line, without the values of `--env NAME=value`."""
    shown, is_value = [], False
    for arg in argv:
        if is_value or arg.startswith("--env="):
            option, _, assignment = ("", "", arg) if is_value else arg.partition("=")
            name = assignment.partition("=")[0]
            arg = f"{option}{'=' if option else ''}{name}={MASK}"
        is_value = arg == "--env"
        shown.append(arg)
    return shown
