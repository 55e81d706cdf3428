"""What a user's program may compute: settings that are Outputs, checked when they are known.

The checks before the first resource need all other settings: whether the account, the region and
its quotas have room for these machines.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pulumi

from railhead.documents.uri import BucketUri

from ..config.settings import ClusterConfig
from ..rules import validators
from ..rules.rules import WIDEST
from ..rules.validators import ConfigError

T = TypeVar("T")
U = TypeVar("U")
Data = BucketUri | pulumi.Output[BucketUri]
COMPUTED = ("bucket_name", "data_buckets", "labels", "ssh_cidrs")
OURS = "railhead"  # the cluster's own tags and labels begin with it


def check(config: ClusterConfig) -> None:
    """Refuse an Output in a setting that must be known before the first resource. RunError: it
    names the setting, and those that may be Outputs."""
    for name, value in vars(config).items():
        if name not in COMPUTED and isinstance(value, pulumi.Output):
            raise pulumi.RunError(
                f"{name}: an Output; the checks before the first resource need its value. Only "
                f"{', '.join(COMPUTED)} may be Outputs"
            )
    for key in config.labels:
        if key.startswith(OURS):
            raise pulumi.RunError(f"labels: {key}: those that begin with {OURS} are the cluster's")


def networks(config: ClusterConfig) -> Iterator[tuple[str, str | pulumi.Output[str]]]:
    """The networks of ssh_cidrs, each with a name for its rule: itself, or its number if it is an
    Output."""
    for number, network in enumerate(config.ssh_cidrs, start=1):
        if isinstance(network, pulumi.Output):
            yield str(number), network.apply(_network)
        elif isinstance(network, str):
            yield network, network


def _network(text: str) -> str:
    (cidr,) = _read("ssh_cidrs", validators.cidrs, text)
    network = ipaddress.ip_network(cidr)
    if network.prefixlen < WIDEST[network.version]:
        raise pulumi.RunError(f"ssh_cidrs: {cidr} is wider than /{WIDEST[network.version]}")
    return cidr


def bucket_name(config: ClusterConfig) -> pulumi.Input[str] | None:
    """The name of the bucket; None if the stack chooses one."""
    name = config.bucket_name
    if isinstance(name, pulumi.Output):
        return name.apply(partial(_read, "bucket_name", validators.bucket_name))
    return name


def data_buckets(config: ClusterConfig) -> Iterator[tuple[str, Data]]:
    """The data of data_buckets, each with a name: its address, or its number if it is an Output."""
    for number, prefix in enumerate(config.data_buckets, start=1):
        if isinstance(prefix, pulumi.Output):
            yield str(number), prefix.apply(_prefix)
        elif isinstance(prefix, BucketUri):
            yield f"{prefix.bucket}/{prefix.prefix}", prefix


def _prefix(text: str) -> BucketUri:
    (prefix,) = _read("data_buckets", validators.data_prefixes, text)
    return prefix


def _read(key: str, reader: Callable[[str, str], T], text: str) -> T:
    """The value of a text, read like one in the config; RunError, without a traceback, for a
    mistake."""
    try:
        return reader(key, text)
    except ConfigError as error:
        raise pulumi.RunError(str(error)) from None


def mapped(value: T | pulumi.Output[T], of: Callable[[T], U]) -> U | pulumi.Output[U]:
    """The result of a function for a value, when that is known."""
    return value.apply(of) if isinstance(value, pulumi.Output) else of(value)
