"""The component: from a config to the cluster document. Nothing exists until all checks passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws
from pulumi_aws import ec2, s3, scheduler

from stacks import outputs
from stacks.aws import bucket, deadline, host_key, hosts, identity, image, network, quota
from stacks.aws.asking import answered
from stacks.aws.place import Place, place
from stacks.aws.tags import tags
from stacks.needs import Need
from stacks.prices import price
from stacks.settings import ClusterConfig

Document = dict[str, Any] | None


@dataclass(frozen=True)
class Known:
    """What AWS answered before anything was made."""

    place: Place
    ami: str
    account: str


class Cluster(pulumi.ComponentResource):
    """`count` machines in one zone, with their network, role, bucket and deadline.

    `document` is the cluster document; None where only a quota was asked for.
    """

    def __init__(self, name: str, config: ClusterConfig) -> None:
        """Check, then register.

        Raises:
            ConfigError: something is refused, or too small a quota; no resource exists.
        """
        network.check(config)
        hosts.check(config)
        provider = _provider(name, config)
        asking = pulumi.InvokeOptions(provider=provider)
        asked = quota.check(config, asking)
        known = None if asked else _known(config, asking)
        super().__init__(
            "railhead:aws:Cluster", name, None, pulumi.ResourceOptions(providers=[provider])
        )
        self.document: pulumi.Output[Document] = (
            self._make(config, known) if known else self._ask(asked)
        )
        self.register_outputs({"document": self.document})

    def _ask(self, asked: Sequence[Need]) -> pulumi.Output[Document]:
        quota.ask(asked, self)
        return pulumi.Output.from_input(None)

    def _make(self, config: ClusterConfig, known: Known) -> pulumi.Output[Document]:
        kept = bucket.bucket(config, self) if config.bucket else None
        opts = pulumi.ResourceOptions(parent=self, depends_on=[kept] if kept else [])
        profile = identity.identity(config, kept, opts) if kept else None
        group = hosts.group(config, opts)
        around = hosts.Around(
            ami=known.ami,
            network=network.network(config, known.place, opts),
            key=hosts.key(config, opts).key_name,
            profile=profile.name if profile else None,
            group=group.name if group else None,
            tags=tags(config, pulumi.get_stack()),
        )
        made = [hosts.host(config, number + 1, around, opts) for number in range(config.count)]
        stop = deadline.deadline(config, known.account, made, opts)
        return _document(config, made, kept, stop)


def _provider(name: str, config: ClusterConfig) -> aws.Provider:
    everywhere = aws.ProviderDefaultTagsArgs(tags=tags(config, pulumi.get_stack()))
    return aws.Provider(name, region=config.region, default_tags=everywhere)


def _known(config: ClusterConfig, opts: pulumi.InvokeOptions) -> Known:
    who = answered("sts:GetCallerIdentity", lambda: aws.get_caller_identity(opts=opts))
    return Known(place(config, opts), image.image(config, opts), who.account_id)


def _document(
    config: ClusterConfig,
    made: Sequence[ec2.Instance],
    kept: s3.Bucket | None,
    stop: scheduler.Schedule,
) -> pulumi.Output[Document]:
    each = [
        pulumi.Output.all(
            id=one.id,
            zone=one.availability_zone,
            public=one.public_ip,
            private=one.private_ip,
            key=pulumi.Output.unsecret(one.user_data.apply(host_key.injected)),
        )
        for one in made
    ]
    name = kept.id if kept else pulumi.Output.from_input(None)
    when = pulumi.Output.all(stop.name, stop.schedule_expression)
    return pulumi.Output.all(name, when, *each).apply(
        lambda known: _told(config, known[0], known[1], known[2:])
    )


def _told(
    config: ClusterConfig, bucket_name: str | None, when: list[str], each: list[dict[str, Any]]
) -> Document:
    return outputs.cluster_document(
        config,
        [
            outputs.HostFacts(
                name=f"{config.name}-{number}",
                id=one["id"],
                zone=one["zone"],
                address=one["public"],
                peer_address=one["private"],
                stop=outputs.POWER_OFF,
                host_key=one["key"],
                host_key_source="injected" if one["key"] else "console",
            )
            for number, one in enumerate(each, start=1)
        ],
        bucket=f"s3://{bucket_name}" if bucket_name else None,
        deadlines=[deadline.documented(when[0], when[1], config.deadline_hours)],
        price=price(config),
    )
