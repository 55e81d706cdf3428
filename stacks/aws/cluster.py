"""The component: from the config to the cluster document. All checks come before any resource."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from railhead.documents.cluster import ClusterDocument, DocumentHost
from railhead.documents.codec import encode

from .. import broken_up, cluster_id, outputs, place
from ..component import computed
from ..component.logical_names import LogicalNames, Named, known_by_former_names, names_of
from ..component.parts import after, given_provider, placed, plus
from ..config.settings import ClusterConfig
from ..cost import price
from ..machine_types.aws import same_gpus
from ..quotas import QuotaNeed
from . import changes, image, quota, schedule, user_data
from .access import Access
from .bucket import Bucket
from .hosts import Host, HostInputs
from .lookups.calls import Caller, caller
from .lookups.existing import check_names, is_other_family, name_others, not_twice
from .network import Network
from .tags import ID, TYPES, tags
from .zone import Location, choose_location

Document = ClusterDocument | None
COMPONENT = "railhead:aws:Cluster"
FORMER = {
    "deadline-role": "railhead-{}-deadline",
    "group": "railhead-{}",
    "key": "railhead-{}",
    "placement": "railhead-{}",
    "profile": "railhead-{}-host",
    "results": "railhead-{}",
    "role": "railhead-{}-host",
}


@dataclass(frozen=True)
class Lookups:
    """What was looked up in AWS before anything is created."""

    location: Location
    ami: str
    account: str
    others: broken_up.Alternatives
    not_twice: pulumi.ResourceHook
    before_update: pulumi.ResourceHook
    is_other_family: bool


class Cluster(Named):
    """`count` machines in one zone, each with its deadlines; their network, role and bucket.
    `document` is the cluster document; None if only a quota was requested. `gone` are the ids of
    machines in Pulumi's state that the cloud does not have any more."""

    def __init__(
        self,
        name: str,
        config: ClusterConfig,
        opts: pulumi.ResourceOptions | None = None,
        *,
        existing: place.Existing = place.nobody_looks,
    ) -> None:
        """Check, then register.

        Args:
            name: the logical name, with which those of all its resources begin.
            config: the requested cluster. The settings in computed.COMPUTED may be Outputs; the
                checks before the first resource need all others.
            opts: as in `parts.placed`, and a provider of AWS.
            existing: finds what exists in the stack's previous place, before it may move.

        Raises:
            ConfigError: a value is refused, or a quota is too small; no resource exists.
            RunError: an argument is refused.
        """
        computed.check(config)
        names = names_of(name, config)
        id_record = cluster_id.make_id(names)
        here = place.keep_place(names, config, id_record, existing)
        program_provider = given_provider(opts, "aws")
        provider = program_provider or _provider(names, config, id_record.value, here)
        invoke = pulumi.InvokeOptions(provider=provider)
        who = caller(config, invoke)
        pulumi.log.info(f"account {who.account}, region {config.region}, as {who.arn}")
        if program_provider:
            _check_region(config, invoke)
        place.keep_account(names, who.account)
        requests = quota.check(config, id_record.value, invoke)
        lookups = None if requests else _look_up(names, config, who, id_record.value, invoke)
        own_id = id_record.output
        every = tags(config, pulumi.get_stack()) if program_provider else {}
        transforms = [
            cluster_id.on_every_resource(TYPES, "tags", {**config.labels, **every, ID: own_id}),
            known_by_former_names(names, config.name, COMPONENT, "aws:s3/bucket:Bucket", FORMER),
        ]
        if lookups:
            transforms.append(broken_up.on_failure(names, config, lookups.others))
            broken_up.announce(names, config, lookups.location.zone, lookups.others)
        of_it = pulumi.ResourceOptions(
            providers=[provider], transforms=transforms, aliases=names.former(config.name)
        )
        self.cluster = name
        super().__init__(COMPONENT, name, {"name": config.name}, placed(opts, of_it))
        # Our own provider waits for the place; if the program gives one, all other resources wait.
        waits = after(opts, *([here] if program_provider else []))
        self.inner = plus(waits, parent=self)
        self.gone: pulumi.Output[list[str]] = pulumi.Output.from_input([])
        self.document: pulumi.Output[Document] = (
            self._make(config, lookups, own_id) if lookups else self._request(requests)
        )
        self.register_outputs({"document": self.document.apply(encode)})

    def _request(self, requests: Sequence[QuotaNeed]) -> pulumi.Output[Document]:
        quota.request(requests, self)
        return pulumi.Output.from_input(None)

    def _make(
        self, config: ClusterConfig, lookups: Lookups, own_id: pulumi.Output[str]
    ) -> pulumi.Output[Document]:
        store = Bucket(config, self.inner).bucket if config.bucket else None
        opts = plus(self.inner, depends_on=[store] if store else [])
        inputs = HostInputs(
            ami=lookups.ami,
            network=Network(config, lookups.location, opts),
            access=Access(config, lookups.account, own_id, store, opts),
            tags={**config.labels, **tags(config, pulumi.get_stack()), ID: own_id},
            not_twice=lookups.not_twice,
            before_update=lookups.before_update,
            is_other_family=lookups.is_other_family,
        )
        hosts = [Host(config, number + 1, inputs, opts) for number in range(config.count)]
        self.gone = name_others(own_id, [host.machine.id for host in hosts], self)
        return _document(config, own_id, hosts, store.id if store else None)


def _provider(
    names: LogicalNames, config: ClusterConfig, own_id: str, after: pulumi.Resource
) -> aws.Provider:
    """Its default tags are in the request for a machine, also for the disk: an account may require
    tags there. The provider adds the disk's own tags later."""
    known = {key: value for key, value in config.labels.items() if isinstance(value, str)}
    return aws.Provider(
        names.of("aws"),
        region=config.region,
        default_tags=aws.ProviderDefaultTagsArgs(
            tags={**known, **tags(config, pulumi.get_stack()), ID: own_id}
        ),
        opts=pulumi.ResourceOptions(
            depends_on=[after],
            aliases=names.former("aws", config.name),  # the second until 0.1.0
        ),
    )


def _check_region(config: ClusterConfig, invoke: pulumi.InvokeOptions) -> None:
    """Refuse a program's provider for another region than that of the config."""
    region = aws.get_region(opts=invoke).region
    if region != config.region:
        raise pulumi.RunError(
            f"region: the config has {config.region}, and the provider in opts has {region}"
        )


def _look_up(
    names: LogicalNames, config: ClusterConfig, who: Caller, own_id: str, opts: pulumi.InvokeOptions
) -> Lookups:
    check_names(config, own_id, opts)
    location = choose_location(config, opts)
    others = broken_up.Alternatives(location.others, same_gpus(config.machine_type))
    ami = image.image_id(config, own_id, opts)
    return Lookups(
        location,
        ami,
        who.account,
        others,
        not_twice(names, own_id, opts),
        changes.before_update(names, opts),
        is_other_family(config, own_id, opts),
    )


def _document(
    config: ClusterConfig,
    own_id: pulumi.Output[str],
    hosts: Sequence[Host],
    bucket: pulumi.Output[str] | None,
) -> pulumi.Output[Document]:
    each = [
        pulumi.Output.all(
            id=host.machine.id,
            zone=host.machine.availability_zone,
            public=host.machine.public_ip,
            private=host.machine.private_ip,
            key=pulumi.Output.unsecret(host.machine.user_data.apply(user_data.injected_key)),
            stop=host.schedule.name,
            when=host.schedule.schedule_expression,
        )
        for host in hosts
    ]
    return pulumi.Output.all(own_id, pulumi.Output.from_input(bucket), *each).apply(
        lambda values: _plain_document(config, values[0], values[1], values[2:])
    )


def _plain_document(
    config: ClusterConfig, own_id: str, bucket_name: str | None, machines: Sequence[dict[str, Any]]
) -> Document:
    """The cluster document; `machines` has the plain values of each and of its schedule."""
    named = [(f"{config.name}-{n}", machine) for n, machine in enumerate(machines, start=1)]
    return outputs.cluster_document(
        config,
        [_host(name, machine) for name, machine in named],
        cluster_id=own_id,
        bucket=f"s3://{bucket_name}" if bucket_name else None,
        deadlines=[
            schedule.document_entry(name, machine["stop"], machine["when"], config.deadline_hours)
            for name, machine in named
        ],
        price=price(config),
    )


def _host(name: str, machine: dict[str, Any]) -> DocumentHost:
    return DocumentHost(
        name=name,
        id=machine["id"],
        zone=machine["zone"],
        address=machine["public"],
        peer_address=machine["private"],
        stop=outputs.POWER_OFF,
        host_key=machine["key"],
        host_key_source="injected" if machine["key"] else "console",
    )
