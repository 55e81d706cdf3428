"""The image that hosts start from: a name of ours, looked up in AWS's parameters, or an id."""

from __future__ import annotations

import pulumi
from pulumi_aws import ssm

from stacks.aws.asking import answered
from stacks.settings import ClusterConfig

_DLAMI = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-{}/latest/ami-id"
_UBUNTU = "/aws/service/canonical/ubuntu/server/{}/stable/current/amd64/hvm/{}/ami-id"
PARAMETERS = {
    "dlami-base-ubuntu-22.04": _DLAMI.format("22.04"),
    "dlami-base-ubuntu-24.04": _DLAMI.format("24.04"),
    "ubuntu-22.04": _UBUNTU.format("22.04", "ebs-gp2"),  # only the parameter's name says gp2
    "ubuntu-24.04": _UBUNTU.format("24.04", "ebs-gp3"),
}


def is_pinned(config: ClusterConfig) -> bool:
    """Whether the config names one image for ever, and not the newest of a kind."""
    return config.image not in PARAMETERS


def image(config: ClusterConfig, opts: pulumi.InvokeOptions) -> str:
    """The image's id today.

    Raises:
        ConfigError: AWS does not say which one that is.
    """
    if is_pinned(config):
        return config.image
    parameter = PARAMETERS[config.image]
    found = answered("ssm:GetParameter", lambda: ssm.get_parameter(name=parameter, opts=opts)).value
    return str(found)
