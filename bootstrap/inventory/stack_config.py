"""The config files of the project's stacks, read without Pulumi: its state may be lost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.lazy import dataclass
from railhead.documents.names import login_name, owner_name

from . import pulumi_cli

NAMESPACE = "railhead:"


@dataclass(frozen=True)
class StackConfig:
    """The keys of a stack's config that say where its machines are, and how to log in to them."""

    stack: str
    cloud: str
    cluster: str
    owner: str
    region: str | None = None
    regions: tuple[str, ...] = ()
    project: str | None = None
    ssh_user: str | None = None
    key_file: str | None = None


def read(stack: str) -> StackConfig | None:
    """The config of a stack, from its file in the project; None without a file that can be read."""
    from invoke.util import yaml  # type: ignore[attr-defined]  # late: few commands read it

    folder = pulumi_cli.project()
    if folder is None:
        return None
    try:
        text = (folder / f"Pulumi.{stack}.yaml").read_text()
        document = yaml.safe_load(text)  # type: ignore[no-untyped-call]
        keys: Mapping[str, object] = document["config"]
        texts = {key: value for key, value in keys.items() if isinstance(value, (str, int))}
        values = {key.removeprefix(NAMESPACE): str(value) for key, value in texts.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError):
        return None
    cloud = values.get("cloud", "")
    facts = COMMON_FACTS.get(cloud)
    return StackConfig(
        stack=stack,
        cloud=cloud,
        cluster=values.get("name") or stack,
        owner=values.get("owner") or own_name(),
        region=values.get("region") or (facts.default_region if facts else None),
        regions=tuple(filter(None, map(str.strip, values.get("regions", "").split(",")))),
        project=values.get("project"),
        ssh_user=values.get("ssh_user") or (facts.ssh_user if facts else None),
        key_file=_private(values.get("public_key_file")),
    )


def every() -> list[StackConfig]:
    """The configs of all stacks with a file in the project."""
    return [config for stack in names() if (config := read(stack))]


def names() -> list[str]:
    """The names of the stacks with a file in the project."""
    folder = pulumi_cli.project()
    files = sorted(folder.glob("Pulumi.*.yaml")) if folder else []
    return [file.stem.removeprefix("Pulumi.") for file in files]


def own_name() -> str:
    """The owner of a stack whose config has none: whoever runs the command."""
    return owner_name(login_name()) or "unknown"


def _private(public: str | None) -> str | None:
    """The private key beside a public one, if it exists."""
    path = Path(public).expanduser().with_suffix("") if public else None
    return str(path) if path and path.exists() else None
