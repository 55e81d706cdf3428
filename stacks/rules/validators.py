"""The readers of config values that need more than a Rule. Pure, except that one reads a public
key's file.

Each reader takes a key's name and its text and returns the value, or raises ConfigError with
the rule, the value and the choices.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from railhead.documents.names import owner_name
from railhead.documents.rule import Rule, Unfit
from railhead.documents.uri import BucketUri, bucket_uri

from ..next_command import Part, set_, typed

REGION = Rule(
    pattern=r"[a-z]{2,}-[a-z]+(-\d+|\d+)|us-gov-[a-z]+-\d", words="a region, as in us-east-1"
)
# On AWS also Local Zones (us-west-2-lax-1a) and Wavelength Zones (us-east-1-wl1-bos-wlz-1).
ZONE = Rule(
    pattern=r"[a-z]{2,}-[a-z]+(-\d+([a-z]|-[a-z]+-\d+[a-z]|-wl\d+-[a-z]+-wlz-\d+)|\d+-[a-z])",
    words="a zone, as in us-east-1b",
)
BUCKET = Rule(
    pattern=r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]",
    words="a bucket's name: 3 to 63 lowercase letters, digits and '-', with a letter or digit at "
    "each end",
)
RSA_BITS = 2048
KEY_TYPES = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-", "sk-ssh-ed25519", "sk-ecdsa-sha2-")
LARGEST_KEY = 100_000  # characters
MOST_PREFIXES = 10  # AWS: all policies of a role together have at most 10,240 characters
# `*`, `?` and `$` have a meaning in AWS's policies, quotes and backslashes in Google's conditions.
_SEGMENT = re.compile(r"[A-Za-z0-9._=+@,:() -]+")


class ConfigError(Exception):
    """A setting breaks a rule. `text` begins with its key and has the rule, the value and the
    choices; `next` mends it. The error of a whole config has several `problems`."""

    def __init__(self, text: str = "", *next_: Part, problems: Sequence[ConfigError] = ()) -> None:
        self.text, self.next, self.problems = text, next_, problems or (self,)

    def shown(self, stack: str = "") -> list[str]:
        """A message for each problem, with its next command as the last line."""
        return [
            problem.text + (f"\n  next: {typed(problem.next, stack)}" if problem.next else "")
            for problem in self.problems
        ]

    def __str__(self) -> str:
        return "\n".join(self.shown())


def fitting(key: str, text: str, rule: Rule) -> Any:
    """The value of a text that fits a rule; else ConfigError, with the nearest choice."""
    try:
        return rule.parsed(text)
    except Unfit as wrong:
        raise ConfigError(wrong.of(key), *([set_(key, wrong.near)] if wrong.near else [])) from None


def name(key: str, text: str) -> str:
    """A cluster's name, which is a part of the names of hosts, buckets and accounts."""
    if re.fullmatch(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?", text):
        return text
    near = re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", text).lower())
    near = re.sub(r"^[^a-z]+", "", near)[:30].strip("-") or "gpu"
    raise ConfigError(
        f"{key}: {text!r} is not a cluster's name: up to 30 lowercase letters, digits and '-', "
        "starting with a letter. Where it is not set, it is the name of the stack",
        set_(key, near),
    )


def owner(key: str, text: str) -> str:
    """A name that is valid in AWS tags and Google Cloud labels; other characters become `-`."""
    if kept := owner_name(text):
        return kept
    raise ConfigError(f"{key}: {text!r} has no letter and no digit")


def regions(key: str, text: str) -> tuple[str, ...]:
    """Regions in order, each once."""
    return _listed(key, text, REGION, "a region")


def zones(key: str, text: str) -> tuple[str, ...]:
    """Zones in order, each once."""
    return _listed(key, text, ZONE, "a zone")


def _listed(key: str, text: str, rule: Rule, kind: str) -> tuple[str, ...]:
    names = tuple(fitting(key, name.strip(), rule) for name in text.split(",") if name.strip())
    if len({*names}) != len(names):
        raise ConfigError(f"{key}: {text!r} names {kind} twice")
    return names


def bucket_name(key: str, text: str) -> str:
    """A name that is valid in S3 and in GCS."""
    bucket: str = fitting(key, text, BUCKET)
    for start in ("xn--", "sthree-", "amzn-s3-demo-", "goog"):
        if bucket.startswith(start):
            raise ConfigError(f"{key}: {text!r} begins with {start!r}, which the clouds refuse")
    for end in ("-s3alias", "--ol-s3", "--x-s3", "--table-s3"):
        if bucket.endswith(end):
            raise ConfigError(f"{key}: {text!r} ends with {end!r}, which S3 refuses")
    if word := refused_word(bucket):
        raise ConfigError(f"{key}: {text!r} contains {word!r}, which Google refuses in a bucket")
    return bucket


def refused_word(bucket: str) -> str | None:
    """What Google refuses in a bucket name: its own name, also written with zeros."""
    match = re.search(r"g[o0]{2}g[l1]e", bucket)
    return match[0] if match else None


def cidrs(key: str, text: str) -> tuple[str, ...]:
    """Networks, as in 203.0.113.7/32, each once. rules.py limits which may connect."""
    networks = tuple(_network(key, cidr.strip()) for cidr in text.split(","))
    for network in networks:
        if networks.count(network) > 1:
            raise ConfigError(f"{key}: {network} is there twice")
    return networks


def _network(key: str, text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        message = f"{key}: {text!r} is not a network as in 203.0.113.7/32: {error}"
    try:
        wider = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ConfigError(message) from None
    address = text.partition("/")[0]
    raise ConfigError(
        message,
        set_(key, f"{address}/{wider.max_prefixlen}"),
        f"  # one address; the whole network is {wider}",
    )


def data_prefixes(key: str, text: str) -> tuple[BucketUri, ...]:
    """The addresses of a list that is separated by commas, each once. ConfigError: one is not the
    address of a bucket, or is listed twice."""
    prefixes = tuple(_data_prefix(key, address.strip()) for address in text.split(","))
    for prefix in prefixes:
        if prefixes.count(prefix) > 1:
            raise ConfigError(f"{key}: {prefix} is there twice")
    if len(prefixes) > MOST_PREFIXES:
        raise ConfigError(f"{key}: {len(prefixes)} prefixes; at most {MOST_PREFIXES}")
    return prefixes


def _data_prefix(key: str, text: str) -> BucketUri:
    uri = bucket_uri(text, error=lambda why: ConfigError(f"{key}: {why}"))
    for segment in uri.prefix.split("/") if uri.prefix else ():
        if not _SEGMENT.fullmatch(segment) or segment in (".", ".."):
            raise ConfigError(
                f"{key}: {text!r} has the part {segment!r}; allowed are letters, digits, spaces "
                "and . _ = + @ : ( ) -, not empty and not a wildcard"
            )
    return uri


def small_text(path: Path) -> str:
    """The text of a regular file, of which a key fills only a small part; a device could be
    endless. OSError, ValueError: it is not such a file."""
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    with path.open(encoding="utf-8") as file:
        return file.read(LARGEST_KEY)


def public_key_file(key: str, text: str) -> Path:
    """The path of a file with one public SSH key."""
    try:
        path = Path(text).expanduser()
        content = small_text(path)
    except (OSError, UnicodeDecodeError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"{key}: {text} cannot be read: {error}",
            "ssh-keygen -t ed25519   # makes ~/.ssh/id_ed25519.pub",
        ) from None
    if "PRIVATE KEY" in content:
        raise ConfigError(
            f"{key}: {path} is a private key, which must stay on this machine; name its .pub file",
            set_(key, f"{text}.pub"),
        )
    if why := public_key_error(content):
        raise ConfigError(
            f"{key}: {path} is not one public ssh key: {why}",
            "ssh-keygen -y -f PRIVATE_KEY > PUBLIC_KEY   # writes it again",
        )
    if 0 < (bits := rsa_bits(content)) < RSA_BITS:
        raise ConfigError(
            f"{key}: {path} is an RSA key of {bits} bits; at least {RSA_BITS} are needed",
            "ssh-keygen -t ed25519 &&",
            set_(key, "~/.ssh/id_ed25519.pub"),
        )
    return path


def public_key_error(content: str) -> str:
    """Why a text is not one public SSH key; empty if it is one. The key itself is a sequence of
    fields, each with its length before it: RFC 4253."""
    if len(content.strip().splitlines()) != 1:
        return f"it has {len(content.strip().splitlines())} lines"
    kind, *rest = content.split()
    if not kind.startswith(KEY_TYPES):
        return f"it begins with {kind[:40]!r}, and not with one of {', '.join(KEY_TYPES)}"
    try:
        blob = base64.b64decode(rest[0] if rest else "", validate=True)
        fields = _fields(blob)
    except ValueError:
        return f"what follows {kind} is not a key, or not all of it"
    return "" if fields[:1] == [kind.encode()] and len(fields) > 1 else f"it is not a key of {kind}"


def rsa_bits(content: str) -> int:
    """The length of an RSA key: of its modulus, the third field. 0 for keys of other types."""
    kind, text, *_ = content.split()
    if kind != "ssh-rsa":
        return 0
    return int.from_bytes(_fields(base64.b64decode(text))[-1], "big").bit_length()


def _fields(blob: bytes) -> list[bytes]:
    """The fields of a key. ValueError: it ends in the middle of one."""
    fields = []
    while blob:
        size = int.from_bytes(blob[:4], "big")
        if len(blob) < 4 + size:
            raise ValueError("truncated")
        fields.append(blob[4 : 4 + size])
        blob = blob[4 + size :]
    return fields
