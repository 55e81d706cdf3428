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
        """A property inside others; None if there is none."""
        value: Any = self.props
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


Broken = Iterator[tuple[Resource, str]]
Rule = Callable[[Sequence[Resource]], Broken]


def _each(resources: Sequence[Resource], *kinds: str) -> Iterator[Resource]:
    return (resource for resource in resources if resource.kind in kinds)


def deadline(resources: Sequence[Resource]) -> Broken:
    """The cloud ends each machine by itself."""
    ends = [
        end for end in _each(resources, SCHEDULE) if ENDS.fullmatch(str(end.of("target", "arn")))
    ]
    for number, machine in enumerate(_each(resources, INSTANCE)):
        if number >= len(ends):
            yield machine, "no schedule of EventBridge stops or terminates it"
    for machine in _each(resources, VM):
        if not machine.of("scheduling", "maxRunDuration"):
            yield machine, "scheduling.maxRunDuration is not set"


def metadata_by_token(resources: Sequence[Resource]) -> Broken:
    """Only IMDSv2 reads the metadata of an EC2 machine, and with it the rights of its role."""
    for machine in _each(resources, INSTANCE):
        if machine.of("metadataOptions", "httpTokens") != "required":
            yield machine, "metadataOptions.httpTokens is not required"


def narrow(resources: Sequence[Resource]) -> Broken:
    """No network wider than /16 (IPv6: /48) connects."""
    for rule in _each(resources, INGRESS, FIREWALL):
        if rule.of("direction") == "EGRESS":
            continue
        ranges = [rule.of("cidrIpv4"), rule.of("cidrIpv6"), *(rule.of("sourceRanges") or ())]
        for text in filter(None, ranges):
            network = ipaddress.ip_network(text, strict=False)
            if network.prefixlen < WIDEST[network.version]:
                yield rule, f"{text} is wider than /{WIDEST[network.version]}"


def encrypted(resources: Sequence[Resource]) -> Broken:
    """The disks of EC2 machines are encrypted; those of Google Cloud always are."""
    for machine in _each(resources, INSTANCE):
        if machine.of("rootBlockDevice", "encrypted") is not True:
            yield machine, "rootBlockDevice.encrypted is not true"


def labelled(resources: Sequence[Resource]) -> Broken:
    """What is billed has the stack's id, by which `fab leaks` finds it."""
    keys = {INSTANCE: ("tags", "railhead:id"), BUCKET: ("tags", "railhead:id")}
    keys |= {VM: ("labels", "railhead-id"), GCS: ("labels", "railhead-id")}
    for resource in _each(resources, *keys):
        if not resource.of(*keys[resource.kind]):
            yield resource, f"{'.'.join(keys[resource.kind])} is not set"


def private_buckets(resources: Sequence[Resource]) -> Broken:
    """Nobody outside of the account reads a bucket."""
    blocks = [b for b in _each(resources, BLOCK) if all(b.of(key) is True for key in BLOCKS)]
    for number, bucket in enumerate(_each(resources, BUCKET)):
        if number >= len(blocks):
            yield bucket, f"no BucketPublicAccessBlock with {', '.join(BLOCKS)}"
    for bucket in _each(resources, GCS):
        if bucket.of("publicAccessPrevention") != "enforced":
            yield bucket, "publicAccessPrevention is not enforced"
    for member in _each(resources, MEMBER):
        if member.of("member") in ("allUsers", "allAuthenticatedUsers"):
            yield member, f"{member.of('member')} may read it"


RULES: Mapping[str, Rule] = {
    "railhead-deadline": deadline,
    "railhead-metadata-by-token": metadata_by_token,
    "railhead-narrow-networks": narrow,
    "railhead-encrypted-disks": encrypted,
    "railhead-labels": labelled,
    "railhead-private-buckets": private_buckets,
}
