"""The machines, their key, and the group that places them close together."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2

from stacks.aws import host_key, image
from stacks.aws.network import Network
from stacks.rules import ConfigError
from stacks.settings import ClusterConfig

KEY_KINDS = ("ssh-ed25519", "ssh-rsa")


@dataclass(frozen=True)
class Around:
    """What a host is made of and stands in."""

    ami: str
    network: Network
    key: pulumi.Input[str]
    profile: pulumi.Input[str] | None
    group: pulumi.Input[str] | None
    tags: dict[str, str]


def check(config: ClusterConfig) -> None:
    """Raises ConfigError for a kind of key that EC2 does not take."""
    kind = config.public_key.split()[0]
    if kind not in KEY_KINDS:
        raise ConfigError(
            f"public_key_file: EC2 takes {' and '.join(KEY_KINDS)}, and this is {kind}\n"
            "  next: ssh-keygen -t ed25519 && pulumi config set public_key_file ..."
        )


def key(config: ClusterConfig, opts: pulumi.ResourceOptions) -> ec2.KeyPair:
    """Without its comment: another comment is no reason for other machines."""
    words = config.public_key.split()[:2]
    return ec2.KeyPair(f"railhead-{config.name}", public_key=" ".join(words), opts=opts)


def group(config: ClusterConfig, opts: pulumi.ResourceOptions) -> ec2.PlacementGroup | None:
    """Machines in one such group share a rack's network; None where the config wants none."""
    if not config.placement:
        return None
    return ec2.PlacementGroup(f"railhead-{config.name}", strategy="cluster", opts=opts)


def host(
    config: ClusterConfig, number: int, around: Around, opts: pulumi.ResourceOptions
) -> ec2.Instance:
    """One machine. It starts with the cluster's key, and with a host key of its own making unless
    one is to be injected: bootstrap does the rest."""
    name = f"{config.name}-{number}"
    own = host_key.HostKey(name, opts) if config.host_keys == "injected" else None
    # checkov:skip=CKV_AWS_126: detailed monitoring is billed, and nobody here reads it
    made = ec2.Instance(
        name,
        ami=around.ami,
        instance_type=config.machine_type,
        subnet_id=around.network.subnet,
        vpc_security_group_ids=[around.network.group],
        key_name=around.key,
        # checkov:skip=CKV2_AWS_41: without a bucket a host has nothing to be allowed
        iam_instance_profile=around.profile,
        user_data=own.user_data if own else host_key.NONE,
        placement_group=around.group,
        root_block_device=_disk(config, {**around.tags, "Name": name}),
        metadata_options=_metadata(),
        instance_market_options=_market(config),
        # A power-off from inside ends the bill, and keeps the disk. AWS cannot stop spot
        # machines that are asked for once: those end.
        instance_initiated_shutdown_behavior="terminate" if config.spot else "stop",
        ebs_optimized=True,
        tags={"Name": name},
        opts=pulumi.ResourceOptions.merge(opts, _ways(config, around.network)),
    )
    made.ami.apply(lambda has: _say_if_renewed(name, has, around.ami))
    return made


def _say_if_renewed(name: str, has: str, today: str) -> None:
    if has != today:
        pulumi.log.info(
            f"{name} keeps its image {has}; today's is {today}. To take it, with new machines "
            f"and empty disks: pulumi config set image {today} && pulumi up"
        )


def _ways(config: ClusterConfig, network: Network) -> pulumi.ResourceOptions:
    """How machines change. Old ones go first: a quota may hold no second set.

    What is looked up anew at each `up` was fixed when they were made: an image that AWS renewed,
    or another first subnet of an existing VPC, must not replace machines and their disks. Other
    user data would stop them and be read by nobody: cloud-init takes keys at the first boot alone.
    """
    fixed = ["userData"] if image.is_pinned(config) else ["ami", "userData"]
    if config.network and not config.zones:
        fixed.append("subnetId")
    return pulumi.ResourceOptions(
        depends_on=list(network.ready),
        delete_before_replace=True,
        ignore_changes=fixed,
        additional_secret_outputs=host_key.SECRET,
    )


def _disk(config: ClusterConfig, tags: dict[str, str]) -> ec2.InstanceRootBlockDeviceArgs:
    """Encrypted with the account's own key of EBS. gp3 gives 0.25 MiB/s per IOPS at most."""
    return ec2.InstanceRootBlockDeviceArgs(
        volume_type="gp3",
        volume_size=config.disk_gb,
        throughput=config.disk_mbps,
        iops=max(3000, 4 * config.disk_mbps),
        encrypted=True,
        delete_on_termination=True,
        tags=tags,
    )


def _metadata() -> ec2.InstanceMetadataOptionsArgs:
    """Only with a token, and one hop: ranks run on the host itself, so a container, or what a
    proxy was talked into, has no business with the role's keys. Tags are there to read."""
    return ec2.InstanceMetadataOptionsArgs(
        http_endpoint="enabled",
        http_tokens="required",
        http_put_response_hop_limit=1,
        instance_metadata_tags="enabled",
    )


def _market(config: ClusterConfig) -> ec2.InstanceInstanceMarketOptionsArgs | None:
    """Asked for once: a persistent request starts machines again by itself, after a destroy too."""
    if not config.spot:
        return None
    return ec2.InstanceInstanceMarketOptionsArgs(
        market_type="spot",
        spot_options=ec2.InstanceInstanceMarketOptionsSpotOptionsArgs(
            spot_instance_type="one-time", instance_interruption_behavior="terminate"
        ),
    )
