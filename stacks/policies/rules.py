"""Six rules for the resources of a stack, also of a program of one's own. Pure.

A rule sees all resources of a stack and yields those that break it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

INSTANCE, VM = "aws:ec2/instance:Instance", "gcp:compute/instance:Instance"
SCHEDULE = "aws:scheduler/schedule:Schedule"
BUCKET, BLOCK = "aws:s3/bucket:Bucket", "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
GCS, MEMBER = "gcp:storage/bucket:Bucket", "gcp:storage/bucketIAMMember:BucketIAMMember"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
FIREWALL = "gcp:compute/firewall:Firewall"
WIDEST = {4: 16, 6: 48}  # the shortest prefix that may connect, by IP version
BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
ENDS = re.compile(r"arn:[\w-]+:scheduler:::aws-sdk:ec2:(stop|terminate)Instances")


@dataclass(frozen=True)
class Resource:
    """A resource: its type, name and properties as Pulumi has them."""

    kind: str
    name: str
    props: Mapping[str, Any]

    def of(self, *path: str) -> Any:
        """A property inside others; None where there is none."""
        value: Any = self.props
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


Broken = Iterator[tuple[Resource, str]]
Rule = Callable[[Sequence[Resource]], Broken]


def _each(resources: Sequence[Resource], *kinds: str) -> Iterator[Resource]:
    return (one for one in resources if one.kind in kinds)


def deadline(resources: Sequence[Resource]) -> Broken:
    """The cloud ends each machine by itself."""
    ends = [
        one for one in _each(resources, SCHEDULE) if ENDS.fullmatch(str(one.of("target", "arn")))
    ]
    for number, one in enumerate(_each(resources, INSTANCE)):
        if number >= len(ends):
            yield one, "no schedule of EventBridge stops or terminates it"
    for one in _each(resources, VM):
        if not one.of("scheduling", "maxRunDuration"):
            yield one, "scheduling.maxRunDuration is not set"


def metadata_by_token(resources: Sequence[Resource]) -> Broken:
    """Only IMDSv2 reads the metadata of an EC2 machine, and with it the rights of its role."""
    for one in _each(resources, INSTANCE):
        if one.of("metadataOptions", "httpTokens") != "required":
            yield one, "metadataOptions.httpTokens is not required"


def narrow(resources: Sequence[Resource]) -> Broken:
    """No network wider than /16 (IPv6: /48) connects."""
    for one in _each(resources, INGRESS, FIREWALL):
        if one.of("direction") == "EGRESS":
            continue
        ranges = [one.of("cidrIpv4"), one.of("cidrIpv6"), *(one.of("sourceRanges") or ())]
        for text in filter(None, ranges):
            network = ipaddress.ip_network(text, strict=False)
            if network.prefixlen < WIDEST[network.version]:
                yield one, f"{text} is wider than /{WIDEST[network.version]}"


def encrypted(resources: Sequence[Resource]) -> Broken:
    """The disks of EC2 machines are encrypted; those of Google Cloud always are."""
    for one in _each(resources, INSTANCE):
        if one.of("rootBlockDevice", "encrypted") is not True:
            yield one, "rootBlockDevice.encrypted is not true"


def labelled(resources: Sequence[Resource]) -> Broken:
    """What is billed has the stack's id, by which `fab leaks` finds it."""
    keys = {INSTANCE: ("tags", "railhead:id"), BUCKET: ("tags", "railhead:id")}
    keys |= {VM: ("labels", "railhead-id"), GCS: ("labels", "railhead-id")}
    for one in _each(resources, *keys):
        if not one.of(*keys[one.kind]):
            yield one, f"{'.'.join(keys[one.kind])} is not set"


def private_buckets(resources: Sequence[Resource]) -> Broken:
    """Nobody outside of the account reads a bucket."""
    whole = [one for one in _each(resources, BLOCK) if all(one.of(key) is True for key in BLOCKS)]
    for number, one in enumerate(_each(resources, BUCKET)):
        if number >= len(whole):
            yield one, f"no BucketPublicAccessBlock with {', '.join(BLOCKS)}"
    for one in _each(resources, GCS):
        if one.of("publicAccessPrevention") != "enforced":
            yield one, "publicAccessPrevention is not enforced"
    for one in _each(resources, MEMBER):
        if one.of("member") in ("allUsers", "allAuthenticatedUsers"):
            yield one, f"{one.of('member')} may read it"


RULES: Mapping[str, Rule] = {
    "railhead-deadline": deadline,
    "railhead-metadata-by-token": metadata_by_token,
    "railhead-narrow-networks": narrow,
    "railhead-encrypted-disks": encrypted,
    "railhead-labels": labelled,
    "railhead-private-buckets": private_buckets,
}
