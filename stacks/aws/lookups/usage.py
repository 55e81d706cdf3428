"""How many vCPUs of a quota other users' machines use now. AWS's quotas do not report that."""

from __future__ import annotations

import pulumi
from pulumi_aws import ec2

from ...machine_types.aws import TYPES, VcpuQuota
from .existing import existing_machines, running_machines

MOST = 60  # machines that are looked up one by one; with more of them the use is unknown


def vcpus_of_others(own_id: str, quota: VcpuQuota, opts: pulumi.InvokeOptions) -> float | None:
    """The vCPUs of all machines that the quota counts and this stack did not create; None: unknown.
    On-demand and spot machines have separate quotas."""
    types = [f"{start}*" for start in quota.types]
    try:
        running = set(running_machines(opts, instance_type=types))
        if not running:
            return 0
        spot = set(running_machines(opts, instance_type=types, instance_lifecycle=["spot"]))
        counted = spot if quota.spot else running - spot
        return _vcpus(counted - set(existing_machines(own_id, opts)), quota, opts)
    except Exception as error:  # ConfigError, or the type that a failed invoke raises
        pulumi.log.warn(f"the machines that run cannot be counted: {error}")
        return None


def _vcpus(machines: set[str], quota: VcpuQuota, opts: pulumi.InvokeOptions) -> float | None:
    """For types in our table one lookup per size; other machines one by one, which needs more
    permissions."""
    total = 0
    for size, names in _names_by_size(quota).items():
        if machines:
            known = machines & set(running_machines(opts, instance_type=names))
            total += size * len(known)
            machines = machines - known
    if len(machines) > MOST:
        pulumi.log.warn(f"{len(machines)} machines of other types run: they are not counted")
        return None
    for machine in machines:
        kind = ec2.get_instance(instance_id=machine, opts=opts).instance_type
        if quota.counts(kind):
            total += ec2.get_instance_type(instance_type=kind, opts=opts).default_vcpus
    return float(total)


def _names_by_size(quota: VcpuQuota) -> dict[int, list[str]]:
    """The machine types of our table that the quota counts, by their vCPUs."""
    by_vcpus: dict[int, list[str]] = {}
    for name, machine in TYPES.items():
        if quota.counts(name):
            by_vcpus.setdefault(machine.vcpus, []).append(name)
    return by_vcpus
