"""ClusterConfig: the validated settings of one stack, read from `pulumi config`.

Pure, except that it reads the public key's file. stacks/config/schema.py has the table of keys.
All mistakes are reported together, one line each, before any resource exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from railhead.documents.names import login_name
from railhead.documents.uri import BucketUri
from railhead.money.table import Rates

from ..clouds import CLOUDS
from ..machine_types.types import MachineType
from ..next_command import rm, set_
from ..quotas import QuotaNeed
from ..rules.rules import Valid, contradictions
from ..rules.validators import ConfigError
from .schema import KEYS, Key

if TYPE_CHECKING:
    from pulumi import Input, Output


@dataclass(frozen=True)
class ClusterConfig:
    """The requested cluster. docs/config.md describes each key. `rates` are the cloud's own current
    prices; without them the table is used. `labels` are more tags (on Google Cloud labels) for
    billed resources; only a user's program gives them. A field whose type allows it may be an
    Output."""

    cloud: str
    name: str
    count: int
    owner: str
    deadline_hours: float
    idle_minutes: int = 0
    region: str | None = None
    regions: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    machine_type: str = ""
    gpu_type: str | None = None
    gpu_count: int | None = None
    project: str | None = None
    spot: bool = False
    placement: bool = False
    disk_gb: int = 100
    disk_mbps: int = 250
    image: str = ""
    ssh_cidrs: tuple[Input[str], ...] = ()
    ssh_user: str | None = None
    public_key: str = field(default="", repr=False)
    key_file: str | None = None
    host_keys: str = "console"
    network: str | None = None
    bucket: bool = False
    bucket_name: Input[str] | None = None
    data_buckets: tuple[BucketUri | Output[str], ...] = ()
    labels: Mapping[str, Input[str]] = field(default_factory=dict)
    quotas: str = "check"
    contact_email: str | None = None
    price_per_hour: float | None = None
    budget: float | None = None
    rates: Rates | None = field(default=None, repr=False)
    oslogin: bool = False

    @property
    def machine(self) -> MachineType | None:
        """The type of its machines; None for local hosts."""
        cloud = CLOUDS[self.cloud]
        return cloud.machine_type(self.machine_type, self.gpu_type, self.gpu_count)

    @property
    def disk_iops(self) -> int:
        """What the disk's throughput needs: gp3 gives 0.25 MiB/s per IOPS at most."""
        return max(3000, 4 * self.disk_mbps)

    @property
    def quota_needs(self) -> tuple[QuotaNeed, ...]:
        """The quotas that the stack needs when all its machines run; empty for local hosts."""
        cloud = CLOUDS[self.cloud]
        return cloud.quota_needs(
            self.machine, self.count, self.region, spot=self.spot, disk_gb=self.disk_gb
        )


def read(
    values: Mapping[str, str], *, stack: str, others: Mapping[str, str] | None = None
) -> ClusterConfig:
    """The settings of `stack` from its config: keys without their namespace, values as text.
    `others` are the keys of all namespaces, with them: aws:region. ConfigError: a rule is broken;
    the message has a line for each, followed by the command that corrects it."""
    try:
        cloud = str(_value(KEYS[0], values.get("cloud"), "aws", stack))
    except ConfigError as error:
        raise ConfigError(problems=mended(error)) from None
    keys = {key.name: key for key in KEYS if cloud in key.clouds}
    foreign = {name: text for name, text in values.items() if text and name not in keys}
    errors = [_unknown(name, cloud) for name, text in foreign.items() if not _default(name, text)]
    valid: dict[str, object] = {}
    for key in keys.values():
        try:
            valid[key.name] = _value(key, values.get(key.name), cloud, stack)
        except ConfigError as error:
            errors.append(error)
    errors += _other_namespaces(others or {}, cloud, valid)
    errors += contradictions(CLOUDS[cloud].rules, Valid(valid, keys.keys() - valid.keys()))
    if errors:
        raise ConfigError(problems=[*chain(*(mended(error, cloud) for error in errors))])
    return _config(valid)


def mended(error: ConfigError, cloud: str = "aws") -> list[ConfigError]:
    """The problems of an error, each with a command: its own, otherwise that of the key with which
    it begins."""
    keys = {key.name: key for key in KEYS}
    problems = []
    for problem in error.problems:
        key = keys.get(problem.text.partition(":")[0])
        if key and not problem.next:
            problem = ConfigError(problem.text, *key.command(cloud))
        problems.append(problem)
    return problems


def of_project(config: Mapping[str, str], project: str) -> dict[str, str]:
    """The keys of this project, without its namespace, of everything that Pulumi passes."""
    start = f"{project}:"
    return {k.removeprefix(start): v for k, v in config.items() if k.startswith(start)}


def _other_namespaces(
    others: Mapping[str, str], cloud: str, values: Mapping[str, object]
) -> list[ConfigError]:
    """Settings of Pulumi's own packages, as in aws:profile, which have no effect here; those that
    match what this stack has anyway are not a mistake."""
    errors = []
    for name, value in others.items():
        package, _, key = name.partition(":")
        same = key in ("region", "project") and values.get(key) == value
        if package in CLOUDS and not (package == cloud and same):
            errors.append(_without_effect(package, key, value, cloud))
    return errors


def _without_effect(package: str, key: str, value: str, cloud: str) -> ConfigError:
    name = f"{package}:{key}"
    if package == cloud and key in ("region", "project"):
        why = f"{value!r} has no effect; the {key} of this stack is its own key {key}"
        return ConfigError(f"{name}: {why}", set_(key, value), "&&", rm(name))
    if variable := CLOUDS[package].shell_keys.get(key):
        why = f"has no effect: pulumi and fab both take the {key} of your shell"
        return ConfigError(f"{name}: {why}", f"export {variable}={value} &&", rm(name))
    why = "the stack takes its settings from its own keys, and the credentials from your shell"
    return ConfigError(f"{name}: has no effect: {why}", rm(name))


def _default(name: str, text: str) -> bool:
    """Whether a value is the key's default, which Pulumi.yaml gives to every stack."""
    return any(key.name == name and key.default == text for key in KEYS)


def _unknown(name: str, cloud: str) -> ConfigError:
    """Why a key is refused: it belongs to another cloud, or it does not exist."""
    known = [key for key in KEYS if key.name == name]
    if known:
        clouds = " and ".join(known[0].clouds)
        why = f"a key of {clouds}, and this stack's cloud is {cloud}: one cloud per stack"
    else:
        why = f"there is no such key. There are {', '.join(k.name for k in KEYS)}"
    return ConfigError(f"{name}: {why}", rm(name))


def _value(key: Key, text: str | None, cloud: str, stack: str) -> object:
    if text is None or text == "":
        text = key.default_for(cloud)
    if text is None:
        if key.required:
            raise ConfigError(f"{key.name}: not set. {key.doc}", *key.command(cloud))
        return None
    return key.read(text.replace("{stack}", stack).replace("{user}", login_name()))


def _config(values: dict[str, object]) -> ClusterConfig:
    """The settings. The public key's text replaces its file name; the private key's path is added
    if that file exists."""
    public = values.pop("public_key_file", None)
    if isinstance(public, Path):
        private = public.with_suffix("")
        values["public_key"] = public.read_text().strip()
        values["key_file"] = str(private) if private.exists() else None
    values.pop("allow_wide_cidr", None)
    set_values = {name: value for name, value in values.items() if value is not None}
    complete = {**CLOUDS[str(values["cloud"])].defaults(values), **set_values}
    return ClusterConfig(**complete)  # type: ignore[arg-type]  # the keys' readers check the types
