"""A Google Cloud for mock tests: what it answers, and a config to change."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import grpc  # type: ignore[import-untyped]
import pulumi
from standins.gcp.rest import TOKEN, Rest

from railhead.documents.codec import encode
from stacks.config.settings import ClusterConfig
from stacks.gcp.cluster import Cluster
from tests.stacks.mocks import Made, World, make, refused

INSTANCE = "gcp:compute/instance:Instance"
NETWORK = "gcp:compute/network:Network"
SUBNET = "gcp:compute/subnetwork:Subnetwork"
FIREWALL = "gcp:compute/firewall:Firewall"
BUCKET = "gcp:storage/bucket:Bucket"
ACCOUNT = "gcp:serviceaccount/account:Account"
MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"

T4 = "NVIDIA-T4-GPUS-per-project-region"
T4_SPOT = "PREEMPTIBLE-NVIDIA-T4-GPUS-per-project-region"
ALL_GPUS = "GPUS-ALL-REGIONS-per-project"

CONFIG = ClusterConfig(
    cloud="gcp",
    name="t4",
    count=2,
    owner="ann",
    deadline_hours=4,
    region="us-central1",
    machine_type="n1-standard-8",
    gpu_type="nvidia-tesla-t4",
    gpu_count=1,
    project="p-12345",
    image="dlvm-cu129-ubuntu-2204",
    ssh_cidrs=("203.0.113.7/32",),
    ssh_user="railhead",
    public_key="ssh-ed25519 AAAA ann@desk",
    bucket=True,
)


def config(**changes: Any) -> ClusterConfig:
    """The usual config with changes."""
    return replace(CONFIG, **changes)


def row(value: str | None, region: str | None = None, *locations: str) -> dict[str, Any]:
    """One row of a quota, of a region or of all `locations`."""
    return {
        "dimensions": {"region": region} if region else {},
        "applicableLocations": list(locations) or [region or "global"],
        "details": [] if value is None else [{"value": value}],
    }


ENOUGH = {
    T4: [row("1", "europe-west4"), row("16", "us-central1")],
    T4_SPOT: [row("16", "us-central1")],
    ALL_GPUS: [row("64")],
}


# Of CPUs, addresses and disks.
PLENTY = [row("9999", "us-central1"), row("9999")]


class Refused(grpc.RpcError):  # type: ignore[misc]  # grpc has no types
    """What an engine answers where the cloud refuses."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        return "403: Permission denied"


def refuse(args: dict[str, Any]) -> Mapping[str, Any]:
    """An answer of a cloud that lets nobody ask."""
    raise Refused


def world(
    quotas: Mapping[str, list[dict[str, Any]]] | None = None,
    **answers: Callable[[dict[str, Any]], Mapping[str, Any]],
) -> World:
    """A world with these quotas; answers by the invoke's short name, as in getZones=refuse."""
    rows = {**ENOUGH, **(quotas or {})}
    usual: dict[str, Callable[[dict[str, Any]], Mapping[str, Any]]] = {
        "getZones": lambda args: {"names": [f"{args['region']}-{letter}" for letter in "abcf"]},
        "getImage": lambda args: {"name": "image-v20261101", "diskSizeGb": 50},
        "getNetwork": lambda args: {
            "selfLink": f"projects/p-12345/global/networks/{args['name']}",
            "subnetworksSelfLinks": ["projects/p-12345/regions/us-central1/subnetworks/s-1"],
        },
        "getSQuotaInfo": lambda args: {"dimensionsInfos": rows.get(args["quotaId"], PLENTY)},
        "getClientConfig": refuse,  # no token: REST is not called
        "getClientOpenIdUserInfo": lambda args: {"email": "ann@example.com"},
    }
    folder = {
        "getSQuotaInfo": "cloudquota",
        "getClientConfig": "organizations",
        "getClientOpenIdUserInfo": "organizations",
    }
    return World(
        {
            f"gcp:{folder.get(name, 'compute')}/{name}:{name}": answer
            for name, answer in {**usual, **answers}.items()
        },
        {
            INSTANCE: _instance,
            ACCOUNT: _account,
            BUCKET: _bucket,
        },
    )


@contextmanager
def asking(rest: Rest) -> Iterator[dict[str, Any]]:
    """The answer for a world in which the program has a token, while REST answers it."""
    with rest.served() as env, patch.dict(os.environ, env):
        yield {"getClientConfig": lambda args: {"accessToken": TOKEN}}


def cluster(config: ClusterConfig) -> Callable[[], None]:
    """A program of one cluster, that exports its document."""
    return lambda: pulumi.export("cluster", Cluster("cluster", config).document.apply(encode))


def made(answering: World | None = None, **changes: Any) -> Made:
    """All that a cluster of the changed config makes; in the usual world each config is made
    once."""
    if answering is None:
        return copy.deepcopy(_usual(**changes))
    return make(cluster(config(**changes)), answering)


def denied(where: World, **changes: Any) -> str:
    """Why there is no cluster, and that nothing was made for it."""
    message, half = refused(cluster(config(**changes)), where)
    assert not half.kinds
    return message


@cache
def _usual(**changes: Any) -> Made:
    return make(cluster(config(**changes)), world())


def _instance(name: str, inputs: dict[str, Any]) -> Mapping[str, Any]:
    number = int(name.rpartition("-")[2])
    name = inputs["name"]
    interface = {**inputs["networkInterfaces"][0], "networkIp": f"10.164.0.{number}"}
    interface["accessConfigs"] = [{"natIp": f"198.51.100.{number}"}]
    path = f"projects/{inputs['project']}/zones/{inputs['zone']}/instances/{name}"
    return {"id": path, "networkInterfaces": [interface]}


def _account(name: str, inputs: dict[str, Any]) -> Mapping[str, Any]:
    return {"email": f"{inputs['accountId']}@{inputs['project']}.iam.gserviceaccount.com"}


def _bucket(name: str, inputs: dict[str, Any]) -> Mapping[str, Any]:
    return {"name": inputs["name"]}
