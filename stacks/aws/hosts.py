"""The hosts: each is a machine and its deadline."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2

from railhead.documents.clouds import COMMON_FACTS

from ..component.logical_names import named
from ..component.parts import Part, plus
from ..config.settings import ClusterConfig
from ..next_command import UP, set_, typed
from . import host_key, image, schedule, user_data
from .access import Access
from .network import Network


@dataclass(frozen=True)
class HostInputs:
    """What all hosts of a cluster share."""

    ami: str
    network: Network
    access: Access
    tags: dict[str, pulumi.Input[str]]
    not_twice: pulumi.ResourceHook
    before_update: pulumi.ResourceHook
    is_other_family: bool


class Host(Part):
    """One machine, with the schedule that stops it at its deadline."""

    def __init__(
        self, config: ClusterConfig, number: int, inputs: HostInputs, opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("aws:Host", f"host-{number}", opts)
        self.name = f"{config.name}-{number}"
        stopper = inputs.access.stopper
        # What may stop a machine exists before the machine does.
        ready = plus(self.inner, depends_on=[stopper.rights])
        self.machine = _machine(config, number, inputs, ready)
        self.schedule = schedule.schedule(config, number, self.machine, stopper, self.inner)
        self.register_outputs({"id": self.machine.id, "address": self.machine.public_ip})


def _machine(
    config: ClusterConfig, number: int, inputs: HostInputs, opts: pulumi.ResourceOptions
) -> ec2.Instance:
    """The machine. It accepts the operator's key, has a timer that powers it off at its deadline,
    and generates its host key unless one is injected. bootstrap installs everything else."""
    name, timers = f"{config.name}-{number}", (config.deadline_hours, config.idle_minutes)
    injected = host_key.HostKey(f"host-{number}", opts) if config.host_keys == "injected" else None
    # checkov:skip=CKV_AWS_126: detailed monitoring is billed, and nothing reads it
    instance = ec2.Instance(
        named(opts, f"host-{number}"),
        ami=inputs.ami,
        instance_type=config.machine_type,
        subnet_id=inputs.network.subnet,
        vpc_security_group_ids=[inputs.network.group],
        key_name=inputs.access.key,
        # checkov:skip=CKV2_AWS_41: without a bucket and data to read a host needs no permission
        iam_instance_profile=inputs.access.profile,
        user_data=injected.user_data(*timers) if injected else user_data.cloud_config(*timers),
        placement_group=inputs.network.placement if config.placement else None,
        root_block_device=_disk(config, {**inputs.tags, "Name": name}),
        metadata_options=_metadata(),
        instance_market_options=_market(config),
        # A power-off stops the machine and keeps the disk. AWS cannot stop one-time spot
        # machines: those are terminated.
        instance_initiated_shutdown_behavior="terminate" if config.spot else "stop",
        ebs_optimized=True,
        tags={"Name": name},
        opts=pulumi.ResourceOptions.merge(opts, _options(config, inputs)),
    )
    instance.ami.apply(lambda ami: _log_newer_image(name, ami, inputs.ami))
    if config.placement:
        instance.placement_group.apply(lambda group: _log_no_group(name, group))
    return instance


def _log_newer_image(name: str, current: str, newest: str) -> None:
    if current != newest:
        change = typed((set_("image", newest), "&&", UP), pulumi.get_stack())
        pulumi.log.info(
            f"{name} keeps its image {current}; the newest is {newest}. To use it, with new "
            f"machines and empty disks: {change}"
        )


def _log_no_group(name: str, group: str | None) -> None:
    if not group:
        pulumi.log.info(
            f"{name} stays outside of the placement group of new machines: to move it would "
            "replace it and its disk"
        )


def _options(config: ClusterConfig, inputs: HostInputs) -> pulumi.ResourceOptions:
    """How machines are replaced. Old ones are removed first: a quota may not allow both.

    Values that each `up` looks up again are fixed when a machine is created: a newer image, or
    another first subnet of an existing VPC, must not replace machines and their disks. Changed
    user data would stop them: a machine keeps the timer and the key of its creation. It also keeps
    its placement group: another `count` or `placement` must not replace it.

    Another `spot` replaces them, because the shutdown behavior then differs; the provider ignores
    that market options were removed (terraform-provider-aws#38141). Another type of spot machines
    also replaces them, because EC2 cannot change it, and so does another family of types: EC2 may
    refuse that after the provider has stopped the machine (pulumi-aws#4291).
    """
    fixed = ["userData"] if image.is_pinned(config) else ["ami", "userData"]
    if not config.spot:
        fixed.append("placementGroup")
    if config.network and not config.zones:
        fixed.append("subnetId")
    replacing = ["instanceInitiatedShutdownBehavior"]
    if config.spot or inputs.is_other_family:
        replacing.append("instanceType")
    return pulumi.ResourceOptions(
        depends_on=list(inputs.network.ready),
        replace_on_changes=replacing,
        hooks=pulumi.ResourceHookBinding(
            before_create=[inputs.not_twice], before_update=[inputs.before_update]
        ),
        delete_before_replace=True,
        ignore_changes=fixed,
        additional_secret_outputs=host_key.SECRET,
    )


def _disk(
    config: ClusterConfig, tags: dict[str, pulumi.Input[str]]
) -> ec2.InstanceRootBlockDeviceArgs:
    """Encrypted with the account's EBS key."""
    return ec2.InstanceRootBlockDeviceArgs(
        volume_type=COMMON_FACTS["aws"].disk_type,
        volume_size=config.disk_gb,
        throughput=config.disk_mbps,
        iops=config.disk_iops,
        encrypted=True,
        delete_on_termination=True,
        tags=tags,
    )


def _metadata() -> ec2.InstanceMetadataOptionsArgs:
    """Only with a token (IMDSv2) and one hop: ranks run on the host itself, so no container or
    proxy needs the role's credentials. Tags are readable."""
    return ec2.InstanceMetadataOptionsArgs(
        http_endpoint="enabled",
        http_tokens="required",
        http_put_response_hop_limit=1,
        instance_metadata_tags="enabled",
    )


def _market(config: ClusterConfig) -> ec2.InstanceInstanceMarketOptionsArgs | None:
    """One-time: a persistent request starts machines again by itself, even after a destroy."""
    if not config.spot:
        return None
    return ec2.InstanceInstanceMarketOptionsArgs(
        market_type="spot",
        spot_options=ec2.InstanceInstanceMarketOptionsSpotOptionsArgs(
            spot_instance_type="one-time", instance_interruption_behavior="terminate"
        ),
    )
