"""Who may do what: the operator's key, the role of the hosts, the role of the deadlines."""

from __future__ import annotations

import pulumi
from pulumi_aws import ec2, s3

from ..component.logical_names import named
from ..component.parts import Part, keeping, unique
from ..config.settings import ClusterConfig
from . import identity, schedule


class Access(Part):
    """The key and the roles.

    Attributes:
        key: the name of the operator's key.
        profile: the name of the hosts' instance profile; None if they need no rights.
        stopper: the role of the schedules that stop the machines.
    """

    def __init__(
        self,
        config: ClusterConfig,
        account: str,
        own_id: pulumi.Output[str],
        bucket: s3.Bucket | None,
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("aws:Access", "access", opts)
        self.key = _key(config, self.inner).key_name
        profile = identity.instance_profile(config, bucket, self.inner)
        self.profile = profile.name if profile else None
        self.stopper = schedule.stop_role(config, account, own_id, self.inner)
        self.register_outputs({"key": self.key, "profile": self.profile})


def _key(config: ClusterConfig, opts: pulumi.ResourceOptions) -> ec2.KeyPair:
    """The operator's key without its comment: another comment must not replace machines."""
    fields = config.public_key.split()[:2]
    return ec2.KeyPair(
        named(opts, "key"),
        key_name=unique("railhead", config.name),
        public_key=" ".join(fields),
        opts=keeping(opts, "keyName"),
    )
