"""The component: from a config to the cluster document. Nothing exists until all checks passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp import compute, storage

from stacks import outputs
from stacks.gcp import bucket, firewall, hosts, identity, image, network, quota
from stacks.gcp.image import Image
from stacks.gcp.labels import labels
from stacks.gcp.network import Network
from stacks.gcp.place import Place, place
from stacks.needs import Need
from stacks.prices import price
from stacks.settings import ClusterConfig

Document = dict[str, Any] | None


class Cluster(pulumi.ComponentResource):
    """`count` machines in one zone, with their network, account and bucket.

    `document` is the cluster document; None where only quotas were asked for.
    """

    def __init__(self, name: str, config: ClusterConfig) -> None:
        """Check, then register.

        Raises:
            ConfigError: something is refused, or too small a quota; no resource exists.
        """
        firewall.check(config)
        chosen = image.image(config)
        provider = _provider(name, config)
        asking = pulumi.InvokeOptions(provider=provider)
        where = place(config, asking)
        image.check(chosen, config, asking)
        known = network.existing(config.network, where, asking) if config.network else None
        asked = quota.check(config, asking)
        super().__init__(
            "railhead:gcp:Cluster", name, None, pulumi.ResourceOptions(providers=[provider])
        )
        self.document: pulumi.Output[Document] = (
            self._ask(config, asked) if asked else self._make(config, where, chosen, known)
        )
        self.register_outputs({"document": self.document})

    def _ask(self, config: ClusterConfig, asked: Sequence[Need]) -> pulumi.Output[Document]:
        quota.ask(asked, config, self)
        return pulumi.Output.from_input(None)

    def _make(
        self, config: ClusterConfig, where: Place, chosen: Image, known: Network | None
    ) -> pulumi.Output[Document]:
        net = known or network.own(config, where, self)
        rules = firewall.firewall(config, where, net, self)
        kept = bucket.bucket(config, where, self) if config.bucket else None
        account = identity.identity(config, where, kept, self).email if kept else None
        around = hosts.Around(where, chosen, net.subnet, account)
        opts = pulumi.ResourceOptions(parent=self, depends_on=rules)
        made = [hosts.host(config, number + 1, around, opts) for number in range(config.count)]
        return _document(config, made, kept)


def _provider(name: str, config: ClusterConfig) -> gcp.Provider:
    return gcp.Provider(
        name, project=config.project, region=config.region, default_labels=labels(config)
    )


def _document(
    config: ClusterConfig, made: Sequence[compute.Instance], kept: storage.Bucket | None
) -> pulumi.Output[Document]:
    each = [
        pulumi.Output.all(
            name=one.name, id=one.id, zone=one.zone, on=one.network_interfaces, when=one.scheduling
        )
        for one in made
    ]
    bucket_name = kept.name if kept else pulumi.Output.from_input(None)
    return pulumi.Output.all(bucket_name, *each).apply(
        lambda known: _told(config, known[0], known[1:])
    )


def _told(config: ClusterConfig, bucket_name: str | None, each: Sequence[Any]) -> Document:
    """The document of machines as Compute answered; `each` has plain values only."""
    return outputs.cluster_document(
        config,
        [_host(one) for one in each],
        bucket=f"gs://{bucket_name}" if bucket_name else None,
        deadlines=[_deadline(one) for one in each],
        price=price(config),
    )


def _host(one: dict[str, Any]) -> outputs.HostFacts:
    interface = one["on"][0]
    return outputs.HostFacts(
        name=one["name"],
        id=one["id"],
        zone=one["zone"],
        address=interface["access_configs"][0]["nat_ip"],
        peer_address=interface["network_ip"],
        stop=outputs.POWER_OFF,
        host_key_source="guest-attributes",
    )


def _deadline(one: dict[str, Any]) -> dict[str, Any]:
    """As Compute has it: on a machine that exists, a later config does not move it."""
    seconds = one["when"]["max_run_duration"]["seconds"]
    return {"kind": "max-run-duration", "id": one["name"], "seconds": int(seconds)}
