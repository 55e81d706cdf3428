"""ClusterConfig: the validated settings of one stack, read from `pulumi config`.

Pure, except that it reads the public key's file. stacks/config_schema.py has the table of keys.
All mistakes are reported together, one line each, before any resource exists.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stacks.clouds import CLOUDS
from stacks.config_schema import KEYS, Key
from stacks.data_buckets import DataPrefix
from stacks.machine_types import MachineType
from stacks.quotas import QuotaNeed
from stacks.validators import ConfigError, one_of


@dataclass(frozen=True)
class ClusterConfig:
    """The requested cluster. docs/config.md says what each key means."""

    cloud: str
    name: str
    count: int
    owner: str
    deadline_hours: float
    region: str | None = None
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
    ssh_cidrs: tuple[str, ...] = ()
    ssh_user: str | None = None
    public_key: str = field(default="", repr=False)
    key_file: str | None = None
    host_keys: str = "console"
    network: str | None = None
    bucket: bool = False
    bucket_name: str | None = None
    data_buckets: tuple[DataPrefix, ...] = ()
    quotas: str = "check"
    contact_email: str | None = None
    price_per_hour: float | None = None
    oslogin: bool = False

    @property
    def machine(self) -> MachineType | None:
        """The type of its machines; None for local hosts."""
        cloud = CLOUDS[self.cloud]
        return cloud.machine_type(self.machine_type, self.gpu_type, self.gpu_count)

    @property
    def quota_needs(self) -> tuple[QuotaNeed, ...]:
        """The quotas that the stack needs when all its machines run; empty for local hosts."""
        cloud = CLOUDS[self.cloud]
        return cloud.quota_needs(self.machine, self.count, self.region, spot=self.spot)


def read(values: Mapping[str, str], *, stack: str) -> ClusterConfig:
    """The settings of `stack` from its config: keys without their namespace, values as text.

    Raises:
        ConfigError: a rule is broken; the message has a line for every one.
    """
    cloud = one_of("cloud", values.get("cloud", ""), CLOUDS)
    keys = {key.name: key for key in KEYS if cloud in key.clouds}
    errors = [_unknown(name, cloud) for name in values if name not in keys]
    found: dict[str, object] = {}
    for key in keys.values():
        try:
            found[key.name] = _value(key, values.get(key.name), cloud, stack)
        except ConfigError as error:
            errors.append(str(error))
    if not errors:
        errors += CLOUDS[cloud].contradictions(found)
    if errors:
        raise ConfigError("\n".join(errors))
    return _config(found)


def of_project(config: Mapping[str, str], project: str) -> dict[str, str]:
    """The keys of this project, without its namespace, of everything that Pulumi passes."""
    start = f"{project}:"
    return {k.removeprefix(start): v for k, v in config.items() if k.startswith(start)}


def _unknown(name: str, cloud: str) -> str:
    """Why a key is refused: it is one of another cloud, or there is no such key."""
    known = [key for key in KEYS if key.name == name]
    if known:
        clouds = " and ".join(known[0].clouds)
        return f"{name}: a key of {clouds}, and this stack's cloud is {cloud}: one cloud per stack"
    return f"{name}: there is no such key. There are {', '.join(k.name for k in KEYS)}"


def _value(key: Key, text: str | None, cloud: str, stack: str) -> object:
    if text is None or text == "":
        text = key.default_for(cloud)
    if text is None:
        if key.required:
            raise ConfigError(f"{key.name}: not set. {key.doc}\n  next: {key.example}")
        return None
    return key.read(key.name, text.replace("{stack}", stack).replace("{user}", _user()))


def _user() -> str:
    """The login name of whoever runs the command, where the system knows it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return os.environ.get("USER", "unknown")


def _config(values: dict[str, object]) -> ClusterConfig:
    """The settings. The public key's text replaces its file name; the private key's path is added
    where that file exists."""
    public = values.pop("public_key_file", None)
    if isinstance(public, Path):
        private = public.with_suffix("")
        values["public_key"] = public.read_text().strip()
        values["key_file"] = str(private) if private.exists() else None
    values.pop("allow_wide_cidr", None)
    given = {name: value for name, value in values.items() if value is not None}
    complete = {**CLOUDS[str(values["cloud"])].defaults(values), **given}
    return ClusterConfig(**complete)  # type: ignore[arg-type]  # the keys' readers check the types
