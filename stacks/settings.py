"""ClusterConfig: the validated settings of one stack, read from `pulumi config`.

Pure but for the public key's file. stacks/keys.py has the table of keys; what is wrong is told
all at once, one line each, before any resource exists.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stacks import machines, rules
from stacks.conflicts import conflicts, image_by_default, placement_by_default
from stacks.keys import KEYS, Key
from stacks.machines import Machine
from stacks.rules import ConfigError


@dataclass(frozen=True)
class ClusterConfig:
    """One cluster as it was asked for. docs/config.md says what each key means."""

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
    quotas: str = "check"
    contact_email: str | None = None
    price_per_hour: float | None = None
    oslogin: bool = False

    @property
    def machine(self) -> Machine | None:
        """The type of its machines; None for local hosts."""
        if self.cloud == "aws":
            return machines.AWS[self.machine_type]
        if self.cloud == "gcp":
            assert self.gpu_type and self.gpu_count
            return machines.gcp_machine(self.machine_type, self.gpu_type, self.gpu_count)
        return None


def read(values: Mapping[str, str], *, stack: str) -> ClusterConfig:
    """The settings of `stack` from its config: keys without their namespace, values as text.

    Raises:
        ConfigError: a rule is broken; the message has a line for every one.
    """
    cloud = rules.one_of("cloud", values.get("cloud", ""), ("aws", "gcp", "local"))
    keys = {key.name: key for key in KEYS if cloud in key.clouds}
    wrong = [_unknown(name, cloud) for name in values if name not in keys]
    read_values: dict[str, object] = {}
    for key in keys.values():
        try:
            read_values[key.name] = _value(key, values.get(key.name), cloud, stack)
        except ConfigError as error:
            wrong.append(str(error))
    if not wrong:
        wrong += conflicts(read_values)
    if wrong:
        raise ConfigError("\n".join(wrong))
    return _config(read_values)


def of_project(config: Mapping[str, str], project: str) -> dict[str, str]:
    """The keys of this project alone, without its namespace, from all that Pulumi passes."""
    start = f"{project}:"
    return {k.removeprefix(start): v for k, v in config.items() if k.startswith(start)}


def _unknown(name: str, cloud: str) -> str:
    """Why a key cannot stand there: it is another cloud's, or nobody's."""
    theirs = [key for key in KEYS if key.name == name]
    if theirs:
        clouds = " and ".join(theirs[0].clouds)
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
    """Who types this, where the system knows it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return os.environ.get("USER", "unknown")


def _config(values: dict[str, object]) -> ClusterConfig:
    """The settings, with the key's text in the place of its file's name, and the private half."""
    public = values.pop("public_key_file", None)
    if isinstance(public, Path):
        private = public.with_suffix("")
        values["public_key"] = public.read_text().strip()
        values["key_file"] = str(private) if private.exists() else None
    values.pop("allow_wide_cidr", None)
    given = {name: value for name, value in values.items() if value is not None}
    if given["cloud"] != "local":
        given.setdefault("image", image_by_default(values))
    if given["cloud"] == "aws":
        given.setdefault("placement", placement_by_default(values))
    return ClusterConfig(**given)  # type: ignore[arg-type]  # the keys' readers know the kinds
