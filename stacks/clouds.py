"""The registry of clouds: what the stacks must know of each without a query. Pure.

A new cloud is one entry here, a folder beside `aws/` and `gcp/`, a module in `machine_types` and in
`rules`, and its own keys in config/schema.py. Other code reads a property of a cloud, never its
name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from railhead.documents.clouds import COMMON_FACTS

from .machine_types import aws as aws_types
from .machine_types import gcp as gcp_types
from .machine_types.types import MachineType
from .quotas import QuotaNeed
from .rules import aws as aws_rules
from .rules import gcp as gcp_rules
from .rules.rules import Rule, Values


@dataclass(frozen=True)
class Cloud:
    """One cloud.

    `component` is the module with the Pulumi component `Cluster`; it is imported when the cloud
    is used, because an SDK takes a second and 50 MB. `rules` list what is wrong with config
    values that are each valid, and `defaults` gives those that depend on other values.
    `key_defaults` and `examples` are texts of keys that differ between clouds. `shell_keys` are
    keys of Pulumi's own package for it that a variable of the shell replaces here, with that
    variable. `free` is whether its machines cost nothing.
    """

    component: str
    rules: tuple[Rule, ...] = ()
    defaults: Callable[[Values], dict[str, object]] = lambda _: {}
    machine_type: Callable[[str, str | None, int | None], MachineType | None] = lambda *_: None
    quota_needs: Callable[..., tuple[QuotaNeed, ...]] = lambda *_, **__: ()
    key_defaults: Mapping[str, str] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    shell_keys: Mapping[str, str] = field(default_factory=dict)
    free: bool = False


CLOUDS = {
    "aws": Cloud(
        component=f"{__package__}.aws.cluster",
        rules=aws_rules.RULES,
        defaults=aws_rules.defaults,
        machine_type=aws_types.machine_type,
        quota_needs=aws_types.quota_needs,
        key_defaults={
            "region": COMMON_FACTS["aws"].default_region,
            "machine_type": "g4dn.xlarge",
            "ssh_user": aws_rules.USER,
        },
        examples={"data_buckets": "s3://my-data/cassava"},
        shell_keys={"profile": "AWS_PROFILE"},
    ),
    "gcp": Cloud(
        component=f"{__package__}.gcp.cluster",
        rules=gcp_rules.RULES,
        defaults=gcp_rules.defaults,
        machine_type=gcp_types.machine_type,
        quota_needs=gcp_types.quota_needs,
        key_defaults={
            "region": COMMON_FACTS["gcp"].default_region,
            "machine_type": "n1-standard-8",
            "ssh_user": gcp_rules.USER,
        },
        examples={"data_buckets": "gs://my-data/cassava"},
    ),
    "local": Cloud(component=f"{__package__}.local", free=True),
}
