"""The image of the hosts: one of our names, looked up in AWS's public parameters, or an AMI id."""

from __future__ import annotations

import pulumi
from pulumi_aws import ssm

from stacks.aws.lookups import lookup
from stacks.settings import ClusterConfig

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


def image_id(config: ClusterConfig, opts: pulumi.InvokeOptions) -> str:
    """The current image's id.

    Raises:
        ConfigError: the lookup failed.
    """
    if is_pinned(config):
        return config.image
    parameter = PARAMETERS[config.image]
    found = lookup("ssm:GetParameter", lambda: ssm.get_parameter(name=parameter, opts=opts)).value
    return str(found)
