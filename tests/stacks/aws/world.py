"""What AWS answers in mock tests, and the ways to a cluster in it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pulumi

from railhead.documents.codec import encode
from stacks.aws.cluster import Cluster
from stacks.config.settings import ClusterConfig, read
from tests.stacks.mocks import CLUSTER_ID, Answer, Made, Refused, World, make, preview, refused

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBTkB+CnT0vqWgcl2EcN2m8yWFOXPHwWBQz5x0YMTLj4"
INSTANCE = "aws:ec2/instance:Instance"
QUOTA = "aws:servicequotas/serviceQuota:ServiceQuota"
OWN = {"railhead:id": CLUSTER_ID}  # the tag of this stack's machines
NAMED = (
    "aws:ec2/placementGroup:PlacementGroup",
    "aws:ec2/keyPair:KeyPair",
    "aws:iam/role:Role",
    "aws:iam/instanceProfile:InstanceProfile",
)
FOLDER = TemporaryDirectory(prefix="railhead-keys-")
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d")


def refuse(_: dict[str, Any]) -> dict[str, Any]:
    """An answer of an AWS that lets nobody ask."""
    raise Refused("AccessDenied")


def world(
    *,
    quota: float | None = 9999.0,
    sold_in: Sequence[str] = ZONES,
    subnets: dict[str, list[str]] | None = None,
    machines: Sequence[str] = (),
    family: str = "",
    others: Mapping[str, Mapping[str, str]] | None = None,
    running: Mapping[str, str] | None = None,
    spot: Sequence[str] = (),
    image_gb: int = 75,
    architecture: str = "x86_64",
    image: str = "an image",
) -> World:
    """An account with so much quota (None: no right to read it), zones that sell the type, the
    subnets of an existing VPC by zone, machines of this stack and the family of their types (as in
    g4dn.*; empty: the requested one), the tags of machines of other stacks, the types of all
    machines that run by their ids, and which of them are spot machines."""

    def instances(args: dict[str, Any]) -> dict[str, Any]:
        filters = {each["name"]: each["values"] for each in args.get("filters") or ()}
        if tags := args.get("instanceTags"):
            is_own = tags in (OWN, {"railhead:cluster": "c"})
            ours = list(machines) if is_own and _has(filters, family) else []
            shared = [
                id for id, existing in (others or {}).items() if tags.items() <= existing.items()
            ]
            return {"ids": [*ours, *shared]}
        starts = tuple(text.rstrip("*") for text in filters["instance-type"])
        ids = [id for id, kind in (running or {}).items() if kind.startswith(starts)]
        return {"ids": [id for id in ids if "instance-lifecycle" not in filters or id in spot]}

    def ami(args: dict[str, Any]) -> dict[str, Any]:
        ((kind,),) = [each["values"] for each in args["filters"]]
        if not image_gb:
            raise Refused("Your query returned no results")
        disk = {"deviceName": "/dev/sda1", "noDevice": "", "virtualName": ""}
        return {
            "id": kind,
            "name": image,
            "architecture": architecture,
            "rootDeviceName": "/dev/sda1",
            "blockDeviceMappings": [{**disk, "ebs": {"volume_size": str(image_gb)}}],
        }

    def have(args: dict[str, Any]) -> dict[str, Any]:
        if quota is None:
            raise Refused("AccessDeniedException: no right")
        return {"value": quota, "quotaCode": args["quotaCode"]}

    def in_zone(args: dict[str, Any]) -> dict[str, Any]:
        request = {each["name"]: each["values"][0] for each in args["filters"]}
        assert request["map-public-ip-on-launch"] == "true"
        return {"ids": (subnets or {}).get(request["availability-zone"], [])}

    answers: dict[str, Answer] = {
        "aws:index/getCallerIdentity:getCallerIdentity": lambda _: {
            "accountId": "123456789012",
            "arn": "arn:aws:iam::123456789012:user/ann",
        },
        "aws:ec2/getAmi:getAmi": ami,
        "aws:ec2/getInstance:getInstance": lambda args: {
            "instanceType": (running or {}).get(args["instanceId"], "g4dn.xlarge"),
            "tags": (others or {}).get(args["instanceId"], {}),
        },
        "aws:ec2/getInstanceType:getInstanceType": lambda _: {"defaultVcpus": 4},
        "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": lambda _: {
            "locations": list(reversed(sold_in))
        },
        "aws:ec2/getInstances:getInstances": instances,
        "aws:ec2/getSubnets:getSubnets": in_zone,
        "aws:ssm/getParameter:getParameter": lambda args: {"value": f"ami-of-{args['name'][-60:]}"},
        "aws:servicequotas/getServiceQuota:getServiceQuota": have,
    }
    named = {kind: _named for kind in NAMED}
    return World(answers, {INSTANCE: _instance, **named})


def _has(filters: dict[str, Any], family: str) -> bool:
    """Whether machines of this family pass the filters."""
    return not family or family in filters.get("instance-type", [family])


def _named(_: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """The id of these types is the name in the cloud."""
    return {"id": inputs.get("keyName") or inputs["name"]}


def _instance(_: str, inputs: dict[str, Any]) -> dict[str, Any]:
    name = inputs["tags"]["Name"]
    number = name.rsplit("-", 1)[-1]
    return {
        "id": f"i-{name}",
        "arn": f"arn:aws:ec2:us-east-1:123456789012:instance/i-{name}",
        "publicIp": f"203.0.113.{20 + int(number)}",
        "privateIp": f"10.0.1.{20 + int(number)}",
        "availabilityZone": "us-east-1b",
    }


def config(**values: Any) -> ClusterConfig:
    """Settings as a person would write them, with the fewest that are required."""
    chosen = {"cloud": "aws", "name": "c", "owner": "ann", "ssh_cidrs": "203.0.113.7/32", **values}
    public = chosen.pop("public_key", KEY + " ann@desk")
    texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in chosen.items()}
    return read({**texts, "public_key_file": _file(public)}, stack="test")


@cache
def _file(text: str) -> str:
    path = Path(FOLDER.name, f"{abs(hash(text))}.pub")
    path.write_text(text)
    return str(path)


def program(settings: ClusterConfig) -> Any:
    """The program of a stack."""
    return lambda: pulumi.export("cluster", Cluster("cluster", settings).document.apply(encode))


def made(where: World | None = None, **values: Any) -> Made:
    """A cluster, made; in the usual world each config is made once."""
    if where is None:
        return copy.deepcopy(_usual(**values))
    return make(program(config(**values)), where)


@cache
def _usual(**values: Any) -> Made:
    return make(program(config(**values)), world())


def previewed(where: World | None = None, **values: Any) -> Made:
    """A cluster at its first preview."""
    return preview(program(config(**values)), where or world())


def denied(where: World | None = None, **values: Any) -> str:
    """Why there is no cluster, and that nothing at all was made for it."""
    message, half = refused(program(config(**values)), where or world())
    assert half.kinds == set(), f"{message}\nafter {half.kinds}"
    return message


def policy(text: str) -> list[dict[str, Any]]:
    """The statements of a policy."""
    statements: list[dict[str, Any]] = json.loads(text)["Statement"]
    return statements
