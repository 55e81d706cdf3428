"""The component: from the config to the cluster document. All checks come before any resource."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws
from pulumi_aws import ec2, s3, scheduler

from railhead.documents.cluster import ClusterDocument, DocumentHost
from railhead.documents.codec import encode

from .. import broken_up, cluster_id, outputs, place
from ..config.settings import ClusterConfig
from ..cost import price
from ..quotas import QuotaNeed
from . import bucket, hosts, identity, image, network, quota, schedule, user_data
from .lookups.calls import Caller, caller
from .lookups.existing import check_names, name_others
from .machine_types import same_gpus
from .tags import ID, tags
from .zone import Location, choose_location

Document = ClusterDocument | None


@dataclass(frozen=True)
class Lookups:
    """What was looked up in AWS before anything is created."""

    location: Location
    ami: str
    account: str
    others: broken_up.Alternatives


class Cluster(pulumi.ComponentResource):
    """`count` machines in one zone, each with its deadlines; their network, role and bucket.

    `document` is the cluster document; None where only a quota was requested.
    """

    def __init__(self, name: str, config: ClusterConfig) -> None:
        """Check, then register.

        Raises:
            ConfigError: a value is refused, or a quota is too small; no resource exists.
        """
        own = cluster_id.make_id()
        provider = _provider(name, config, place.keep_place(config, own))
        invoke = pulumi.InvokeOptions(provider=provider)
        who = caller(config, invoke)
        pulumi.log.info(f"account {who.account}, region {config.region}, as {who.arn}")
        place.keep_account(who.account, own)
        requests = quota.check(config, own.value, invoke)
        found = None if requests else _look_up(config, who, own.value, invoke)
        own_id = own.output
        transformations = [cluster_id.on_every_resource("tags", ID, own_id)]
        if found:
            transformations.append(broken_up.on_failure(config, found.others))
            broken_up.announce(config, found.location.zone, found.others)
        opts = pulumi.ResourceOptions(providers=[provider], transformations=transformations)
        super().__init__("railhead:aws:Cluster", name, None, opts)
        self.document: pulumi.Output[Document] = (
            self._make(config, found, own_id) if found else self._request(requests)
        )
        self.register_outputs({"document": self.document.apply(encode)})

    def _request(self, requests: Sequence[QuotaNeed]) -> pulumi.Output[Document]:
        quota.request(requests, self)
        return pulumi.Output.from_input(None)

    def _make(
        self, config: ClusterConfig, found: Lookups, own_id: pulumi.Output[str]
    ) -> pulumi.Output[Document]:
        store = bucket.make_bucket(config, self) if config.bucket else None
        opts = pulumi.ResourceOptions(parent=self, depends_on=[store] if store else [])
        profile = identity.instance_profile(config, store, opts)
        group = hosts.group(config, opts)
        inputs = hosts.HostInputs(
            ami=found.ami,
            network=network.make_network(config, found.location, opts),
            key=hosts.key(config, opts).key_name,
            profile=profile.name if profile else None,
            group=group.name if group and config.placement else None,
            tags={**tags(config, pulumi.get_stack()), ID: own_id},
        )
        stopper = schedule.stop_role(config, found.account, own_id, opts)
        # What may stop a machine exists before the machine does.
        ready = pulumi.ResourceOptions(depends_on=[stopper.rights])
        ready = pulumi.ResourceOptions.merge(opts, ready)
        made = []
        for number in range(1, config.count + 1):
            machine = hosts.host(config, number, inputs, ready)
            made.append((machine, schedule.schedule(config, number, machine, stopper, opts)))
        name_others(own_id, [machine.id for machine, _ in made], self)
        return _document(config, own_id, made, store)


def _provider(name: str, config: ClusterConfig, after: pulumi.Resource) -> aws.Provider:
    everywhere = aws.ProviderDefaultTagsArgs(tags=tags(config, pulumi.get_stack()))
    opts = pulumi.ResourceOptions(depends_on=[after])
    return aws.Provider(name, region=config.region, default_tags=everywhere, opts=opts)


def _look_up(
    config: ClusterConfig, who: Caller, own_id: str, opts: pulumi.InvokeOptions
) -> Lookups:
    check_names(config, own_id, opts)
    location = choose_location(config, opts)
    others = broken_up.Alternatives(location.others, same_gpus(config.machine_type))
    return Lookups(location, image.image_id(config, own_id, opts), who.account, others)


def _document(
    config: ClusterConfig,
    own_id: pulumi.Output[str],
    made: Sequence[tuple[ec2.Instance, scheduler.Schedule]],
    store: s3.Bucket | None,
) -> pulumi.Output[Document]:
    each = [
        pulumi.Output.all(
            id=one.id,
            zone=one.availability_zone,
            public=one.public_ip,
            private=one.private_ip,
            key=pulumi.Output.unsecret(one.user_data.apply(user_data.injected_key)),
            stop=stop.name,
            when=stop.schedule_expression,
        )
        for one, stop in made
    ]
    name = store.id if store else pulumi.Output.from_input(None)
    return pulumi.Output.all(own_id, name, *each).apply(
        lambda values: _plain_document(config, values[0], values[1], values[2:])
    )


def _plain_document(
    config: ClusterConfig,
    own_id: str,
    bucket_name: str | None,
    each: Sequence[dict[str, Any]],
) -> Document:
    """The cluster document; `each` has the plain values of one machine and its schedule."""
    named = [(f"{config.name}-{number}", one) for number, one in enumerate(each, start=1)]
    return outputs.cluster_document(
        config,
        [_host(name, one) for name, one in named],
        cluster_id=own_id,
        bucket=f"s3://{bucket_name}" if bucket_name else None,
        deadlines=[
            schedule.document_entry(name, one["stop"], one["when"], config.deadline_hours)
            for name, one in named
        ],
        price=price(config),
    )


def _host(name: str, one: dict[str, Any]) -> DocumentHost:
    return DocumentHost(
        name=name,
        id=one["id"],
        zone=one["zone"],
        address=one["public"],
        peer_address=one["private"],
        stop=outputs.POWER_OFF,
        host_key=one["key"],
        host_key_source="injected" if one["key"] else "console",
    )
