"""The component: from the config to the cluster document. All checks come before any resource."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp import compute, storage

from railhead.documents.cluster import ClusterDocument, DocumentDeadline, DocumentHost
from railhead.documents.codec import encode

from .. import broken_up, cluster_id, outputs, place
from ..config.settings import ClusterConfig
from ..cost import price
from ..quotas import QuotaNeed
from . import bucket, firewall, hosts, identity, image, network, quota
from .image import Image
from .labels import ID, labels
from .lookups import apis, existing, oslogin, rest
from .machine_types import same_gpus
from .network import Network
from .zone import Location, choose_location

Document = ClusterDocument | None


@dataclass(frozen=True)
class Lookups:
    """What was looked up in Google Cloud before anything is created. `network` is an existing one;
    `google` is None where there is no token for Google's REST APIs."""

    location: Location
    image: Image
    network: Network | None
    google: rest.Google | None


class Cluster(pulumi.ComponentResource):
    """`count` machines in one zone, with their network, service account and bucket.

    `document` is the cluster document; None where only quotas were requested.
    """

    def __init__(self, name: str, config: ClusterConfig) -> None:
        """Check, then register.

        Raises:
            ConfigError: a value is refused, or a quota is too small; no resource exists.
        """
        own = cluster_id.make_id()
        provider = _provider(name, config, place.keep_place(config, own))
        invoke = pulumi.InvokeOptions(provider=provider)
        found = _look_up(config, own.value, invoke)
        requests = quota.check(config, own.value, found.location, found.google, invoke)
        own_id = own.output
        transformations = [cluster_id.on_every_resource("labels", ID, own_id)]
        if not requests:
            types = same_gpus(config.machine_type)
            others = broken_up.Alternatives(found.location.others, types)
            transformations.append(broken_up.on_failure(config, others))
            broken_up.announce(config, found.location.zone, others)
        opts = pulumi.ResourceOptions(providers=[provider], transformations=transformations)
        super().__init__("railhead:gcp:Cluster", name, None, opts)
        self.document: pulumi.Output[Document] = (
            self._request(config, requests) if requests else self._make(config, own_id, found)
        )
        self.register_outputs({"document": self.document.apply(encode)})

    def _request(
        self, config: ClusterConfig, requests: Sequence[QuotaNeed]
    ) -> pulumi.Output[Document]:
        quota.request(requests, config, self)
        return pulumi.Output.from_input(None)

    def _make(
        self, config: ClusterConfig, own_id: pulumi.Output[str], found: Lookups
    ) -> pulumi.Output[Document]:
        location = found.location
        net = found.network or network.make_network(config, location, self)
        rules = firewall.make_rules(config, location, net, self)
        store = bucket.make_bucket(config, location, self) if config.bucket else None
        account = identity.service_account(config, location, store, own_id, self)
        email = account.email if account else None
        inputs = hosts.HostInputs(location, found.image, net.subnet, email, own_id)
        opts = pulumi.ResourceOptions(parent=self, depends_on=rules)
        made = [hosts.host(config, number + 1, inputs, opts) for number in range(config.count)]
        existing.name_others(own_id, [machine.id for machine in made], found.google)
        return _document(config, own_id, made, store)


def _provider(name: str, config: ClusterConfig, after: pulumi.Resource) -> gcp.Provider:
    """The project also pays for requests: with a user's credentials some APIs, Cloud Quotas among
    them, refuse requests that no project pays for."""
    return gcp.Provider(
        name,
        project=config.project,
        region=config.region,
        default_labels=labels(config),
        user_project_override=True,
        billing_project=config.project,
        opts=pulumi.ResourceOptions(depends_on=[after]),
    )


def _look_up(config: ClusterConfig, own_id: str, invoke: pulumi.InvokeOptions) -> Lookups:
    chosen = image.choose_image(config)
    google = rest.connect(str(config.project), invoke)
    apis.check(config, google)
    existing.check_names(config, own_id, google)
    location = choose_location(config, own_id, google, invoke)
    pulumi.log.info(f"project {location.project}, zone {location.zone}")
    image.check(chosen, config, invoke)
    oslogin.check(config, google, invoke)
    own = network.existing(config.network, location, invoke) if config.network else None
    return Lookups(location, chosen, own, google)


def _document(
    config: ClusterConfig,
    own_id: pulumi.Output[str],
    made: Sequence[compute.Instance],
    store: storage.Bucket | None,
) -> pulumi.Output[Document]:
    each = [
        pulumi.Output.all(
            name=one.name, id=one.id, zone=one.zone, on=one.network_interfaces, when=one.scheduling
        )
        for one in made
    ]
    bucket_name = store.name if store else pulumi.Output.from_input(None)
    return pulumi.Output.all(own_id, bucket_name, *each).apply(
        lambda values: _plain_document(config, values[0], values[1], values[2:])
    )


def _plain_document(
    config: ClusterConfig, own_id: str, bucket_name: str | None, each: Sequence[Any]
) -> Document:
    """The cluster document; `each` has the plain values of one machine."""
    return outputs.cluster_document(
        config,
        [_host(one) for one in each],
        cluster_id=own_id,
        bucket=f"gs://{bucket_name}" if bucket_name else None,
        deadlines=[_deadline(one) for one in each],
        price=price(config),
    )


def _host(one: dict[str, Any]) -> DocumentHost:
    interface = one["on"][0]
    return DocumentHost(
        name=one["name"],
        id=one["id"],
        zone=one["zone"],
        address=interface["access_configs"][0]["nat_ip"],
        peer_address=interface["network_ip"],
        stop=outputs.POWER_OFF,
        host_key_source="guest-attributes",
    )


def _deadline(one: dict[str, Any]) -> DocumentDeadline:
    """The deadline of the machine itself: a later config does not change it."""
    seconds = one["when"]["max_run_duration"]["seconds"]
    name = one["name"]
    return DocumentDeadline("max-run-duration", name, name, int(seconds))
