"""The image of the hosts: one of our names, looked up in AWS's public parameters, or an AMI id.

Either is looked up before anything is created: one that does not exist, or that does not fit on the
disk, would break an `up` at its first machine.
"""

from __future__ import annotations

import pulumi
from pulumi_aws import ec2, ssm

from ..config.images import refusal
from ..config.settings import ClusterConfig
from ..next_command import rm, set_
from ..rules.validators import ConfigError
from .lookups.existing import is_complete

_DLAMI = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-{}/latest/ami-id"
_UBUNTU = "/aws/service/canonical/ubuntu/server/{}/stable/current/amd64/hvm/{}/ami-id"
PARAMETERS = {
    "dlami-base-ubuntu-22.04": _DLAMI.format("22.04"),
    "dlami-base-ubuntu-24.04": _DLAMI.format("24.04"),
    "ubuntu-22.04": _UBUNTU.format("22.04", "ebs-gp2"),  # gp2 is only in the parameter's name
    "ubuntu-24.04": _UBUNTU.format("24.04", "ebs-gp3"),
}


def is_pinned(config: ClusterConfig) -> bool:
    """Whether the config has an AMI id, not one of our names."""
    return config.image not in PARAMETERS


def image_id(config: ClusterConfig, own_id: str, opts: pulumi.InvokeOptions) -> str:
    """The id of the image that new machines get. Existing machines keep theirs: if all exist, an
    unusable image is only a warning. ConfigError: the region has no such image for this account, it
    does not fit on the disk, or it is for other processors."""
    ami = config.image if is_pinned(config) else _newest(config, opts)
    try:
        check(config, _describe(config, ami, opts))
    except ConfigError as error:
        if not is_complete(config, own_id, opts):
            raise
        pulumi.log.warn(f"for new machines: {error}")
    return ami


def _newest(config: ClusterConfig, opts: pulumi.InvokeOptions) -> str:
    parameter = PARAMETERS[config.image]
    try:
        return str(ssm.get_parameter(name=parameter, opts=opts).value)
    except Exception as error:  # the type that a failed invoke raises
        raise ConfigError(
            f"image: AWS does not name the newest {config.image} in {config.region}: {error}",
            f"aws ssm get-parameter --region {config.region} --name {parameter}   "
            "# it needs the permission ssm:GetParameter; or set image to an AMI id",
        ) from None


def _describe(
    config: ClusterConfig, ami: str, opts: pulumi.InvokeOptions
) -> ec2.AwaitableGetAmiResult:
    try:
        return ec2.get_ami(
            filters=[ec2.GetAmiFilterArgs(name="image-id", values=[ami])],
            include_deprecated=True,
            opts=opts,
        )
    except Exception as error:  # the type that a failed invoke raises
        raise ConfigError(
            f"image: {ami} is not in {config.region}, or not for this account: {error}",
            f"aws ec2 describe-images --region {config.region} --image-ids {ami}",
            "  # or the default:",
            rm("image"),
        ) from None


def check(config: ClusterConfig, ami: ec2.GetAmiResult) -> None:
    """Raises ConfigError if the image does not fit on the disk, is for other processors, or is
    one on which no launcher works."""
    if ami.architecture != "x86_64":
        raise ConfigError(
            f"image: {ami.id} is for {ami.architecture}, and the machines are x86_64", rm("image")
        )
    if why := refusal(ami.name, config.machine.gpu if config.machine else None):
        raise ConfigError(f"image: {why}", rm("image"))
    sizes = [
        int(disk.ebs["volume_size"])
        for disk in ami.block_device_mappings
        if disk.device_name == ami.root_device_name and disk.ebs.get("volume_size")
    ]
    if sizes and sizes[0] > config.disk_gb:
        raise ConfigError(
            f"disk_gb: {config.disk_gb} is less than the {sizes[0]} GB of {ami.name} ({ami.id})",
            set_("disk_gb", sizes[0]),
        )
