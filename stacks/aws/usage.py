"""How many vCPUs of a quota run now in the machines of others. AWS's quotas do not say it."""

from __future__ import annotations

import pulumi
from pulumi_aws import ec2

from stacks.aws.lookups import existing_machines, running_machines
from stacks.aws.machine_types import TYPES, VcpuQuota
from stacks.settings import ClusterConfig

MOST = 60  # machines that are looked up one by one; with more of them the use is unknown


def vcpus_of_others(
    config: ClusterConfig, quota: VcpuQuota, opts: pulumi.InvokeOptions
) -> float | None:
    """The vCPUs of all machines that the quota counts and this stack did not make; None: unknown.

    A quota counts on-demand and spot machines apart.
    """
    types = [f"{start}*" for start in quota.types]
    try:
        running = set(running_machines(opts, instance_type=types))
        if not running:
            return 0
        spot = set(running_machines(opts, instance_type=types, instance_lifecycle=["spot"]))
        counted = spot if quota.spot else running - spot
        others = sorted(counted - set(existing_machines(config, opts)))
        if len(others) > MOST:
            pulumi.log.warn(f"{len(others)} machines run: their vCPUs are not counted")
            return None
        kinds = [_type(one, opts) for one in others]
        sizes = {kind: _vcpus(kind, opts) for kind in set(kinds) if quota.counts(kind)}
    except Exception as error:  # ConfigError, or the type that a failed invoke raises
        pulumi.log.warn(f"the machines that run cannot be counted: {error}")
        return None
    return float(sum(sizes.get(kind, 0) for kind in kinds))


def _type(machine: str, opts: pulumi.InvokeOptions) -> str:
    return ec2.get_instance(instance_id=machine, opts=opts).instance_type


def _vcpus(kind: str, opts: pulumi.InvokeOptions) -> int:
    if kind in TYPES:
        return TYPES[kind].vcpus
    return ec2.get_instance_type(instance_type=kind, opts=opts).default_vcpus
