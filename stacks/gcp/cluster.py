"""The component: from the config to the cluster document. All checks come before any resource."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp

from railhead.documents.cluster import ClusterDocument, DocumentDeadline, DocumentHost
from railhead.documents.codec import encode

from .. import broken_up, cluster_id, outputs, place
from ..component import computed
from ..component.logical_names import LogicalNames, Named, known_by_former_names, names_of
from ..component.parts import after, given_provider, placed, plus
from ..config.settings import ClusterConfig
from ..cost import price
from ..machine_types.gcp import same_gpus
from . import image, network, quota
from .bucket import Bucket
from .hosts import Host, HostInputs
from .identity import Access
from .image import Image
from .labels import ID, TYPES, labels, on_every_resource_without_labels
from .lookups import apis, existing, oslogin, rest
from .network import ExistingNetwork, Network
from .zone import Location, choose_location

Document = ClusterDocument | None
COMPONENT = "railhead:gcp:Cluster"
FORMER = {"results": "railhead-{}", "subnet": "{}", "vpc": "{}"}


@dataclass(frozen=True)
class Lookups:
    """What was looked up in Google Cloud before anything is created. `network` is an existing one;
    `google` is None if there is no token for Google's REST APIs."""

    location: Location
    image: Image
    network: ExistingNetwork | None
    google: rest.Google | None
    not_twice: pulumi.ResourceHook


class Cluster(Named):
    """`count` machines in one zone, with their network, service account and bucket. `document` is
    the cluster document; None if only quotas were requested. `gone` are the ids of machines in
    Pulumi's state that the cloud does not have any more."""

    def __init__(
        self,
        name: str,
        config: ClusterConfig,
        opts: pulumi.ResourceOptions | None = None,
        *,
        existing: place.Existing = place.nobody_looks,
    ) -> None:
        """Check, then register: arguments and errors are as on AWS."""
        computed.check(config)
        names = names_of(name, config)
        id_record = cluster_id.make_id(names)
        here = place.keep_place(names, config, id_record, existing)
        program_provider = given_provider(opts, "gcp")
        provider = program_provider or _provider(names, config, here)
        invoke = pulumi.InvokeOptions(provider=provider)
        lookups = _look_up(names, config, id_record.value, invoke)
        requests = quota.check(config, id_record.value, lookups.location, lookups.google, invoke)
        if requests:
            quota.request(requests, config, id_record.value, lookups.google)
        own_id = id_record.output
        transforms = [
            cluster_id.on_every_resource(TYPES, "labels", {**config.labels, ID: own_id}),
            on_every_resource_without_labels(config, own_id),
            known_by_former_names(
                names, config.name, COMPONENT, "gcp:storage/bucket:Bucket", FORMER
            ),
        ]
        if not requests:
            types = same_gpus(config.machine_type)
            others = broken_up.Alternatives(lookups.location.others, types)
            transforms.append(broken_up.on_failure(names, config, others))
            broken_up.announce(names, config, lookups.location.zone, others)
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
            pulumi.Output.from_input(None) if requests else self._make(config, own_id, lookups)
        )
        self.register_outputs({"document": self.document.apply(encode)})

    def _make(
        self, config: ClusterConfig, own_id: pulumi.Output[str], lookups: Lookups
    ) -> pulumi.Output[Document]:
        location, opts = lookups.location, self.inner
        net = Network(config, location, lookups.network, opts)
        store = Bucket(config, location, opts).bucket if config.bucket else None
        access = Access(config, location, store, own_id, opts)
        inputs = HostInputs(
            location, lookups.image, net.subnet, access.account, own_id, lookups.not_twice
        )
        ready = plus(opts, depends_on=net.ready)
        hosts = [Host(config, number + 1, inputs, ready) for number in range(config.count)]
        ids = [host.machine.id for host in hosts]
        self.gone = existing.name_others(own_id, ids, lookups.google)
        return _document(config, own_id, hosts, store.name if store else None)


def _provider(names: LogicalNames, config: ClusterConfig, after: pulumi.Resource) -> gcp.Provider:
    """The project also pays for requests: with a user's credentials some APIs, Cloud Quotas among
    them, refuse requests for which no project pays."""
    return gcp.Provider(
        names.of("gcp"),
        project=config.project,
        region=config.region,
        default_labels=labels(config),
        user_project_override=True,
        billing_project=config.project,
        opts=pulumi.ResourceOptions(
            depends_on=[after],
            aliases=names.former("gcp", config.name),  # the second until 0.1.0
        ),
    )


def _look_up(
    names: LogicalNames, config: ClusterConfig, own_id: str, invoke: pulumi.InvokeOptions
) -> Lookups:
    chosen = image.choose_image(config)
    google = rest.connect(str(config.project), invoke)
    apis.check(config, google)
    existing.check_names(config, own_id, google)
    location = choose_location(config, own_id, google, invoke)
    pulumi.log.info(f"project {location.project}, zone {location.zone}")
    image.check(chosen, config, google, invoke)
    oslogin.check(config, google, invoke)
    found_network = network.existing(config.network, location, invoke) if config.network else None
    once = existing.not_twice(names, own_id, google)
    return Lookups(location, chosen, found_network, google, once)


def _document(
    config: ClusterConfig,
    own_id: pulumi.Output[str],
    hosts: Sequence[Host],
    bucket: pulumi.Output[str] | None,
) -> pulumi.Output[Document]:
    machines = [host.machine for host in hosts]
    each = [
        pulumi.Output.all(
            name=machine.name,
            id=machine.id,
            zone=machine.zone,
            on=machine.network_interfaces,
            when=machine.scheduling,
        )
        for machine in machines
    ]
    return pulumi.Output.all(own_id, pulumi.Output.from_input(bucket), *each).apply(
        lambda values: _plain_document(config, values[0], values[1], values[2:])
    )


def _plain_document(
    config: ClusterConfig, own_id: str, bucket_name: str | None, plain_machines: Sequence[Any]
) -> Document:
    """The cluster document; `plain_machines` has the values of each."""
    return outputs.cluster_document(
        config,
        [_host(machine) for machine in plain_machines],
        cluster_id=own_id,
        bucket=f"gs://{bucket_name}" if bucket_name else None,
        deadlines=[_deadline(machine) for machine in plain_machines],
        price=price(config),
    )


def _host(machine: dict[str, Any]) -> DocumentHost:
    interface = machine["on"][0]
    return DocumentHost(
        name=machine["name"],
        id=machine["id"],
        zone=machine["zone"],
        address=interface["access_configs"][0]["nat_ip"],
        peer_address=interface["network_ip"],
        stop=outputs.POWER_OFF,
        host_key_source="guest-attributes",
    )


def _deadline(machine: dict[str, Any]) -> DocumentDeadline:
    """The deadline of the machine itself: a later config does not change it."""
    seconds = machine["when"]["max_run_duration"]["seconds"]
    name = machine["name"]
    return DocumentDeadline("max-run-duration", name, name, int(seconds))
