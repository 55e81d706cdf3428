"""The six rules of the policy pack: our stacks keep them, and a change that breaks one is found."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest

from stacks.policies.rules import (
    BLOCK,
    BUCKET,
    FIREWALL,
    GCS,
    INGRESS,
    INSTANCE,
    MEMBER,
    RULES,
    SCHEDULE,
    VM,
    Resource,
)
from tests.stacks.aws import world as aws
from tests.stacks.gcp import world as gcp

CLOUDS = {"aws": aws, "gcp": gcp}


@cache
def resources(cloud: str) -> tuple[Resource, ...]:
    """Those of a stack of two machines and a bucket, as its program registers them."""
    made = CLOUDS[cloud].made()
    return tuple(Resource(r.type, r.name, r.inputs) for r in made.resources)


def broken(judged: list[Resource]) -> dict[str, list[str]]:
    """The names of the resources that break each rule."""
    names = {name: [resource.name for resource, _ in rule(judged)] for name, rule in RULES.items()}
    return {name: those for name, those in names.items() if those}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_our_stacks_keep_every_rule(cloud: str) -> None:
    assert broken([*resources(cloud)]) == {}
    kinds = {resource.kind for resource in resources(cloud)}
    assert kinds >= (
        {INSTANCE, SCHEDULE, BUCKET, INGRESS} if cloud == "aws" else {VM, GCS, FIREWALL}
    )


@pytest.mark.parametrize(
    ("cloud", "kind", "path", "value", "rule"),
    [
        ("aws", INSTANCE, ("metadataOptions", "httpTokens"), "optional", "metadata-by-token"),
        ("aws", INSTANCE, ("metadataOptions",), None, "metadata-by-token"),
        ("aws", INSTANCE, ("rootBlockDevice", "encrypted"), False, "encrypted-disks"),
        ("aws", INSTANCE, ("rootBlockDevice",), None, "encrypted-disks"),
        ("aws", INSTANCE, ("tags",), {}, "labels"),
        ("aws", BUCKET, ("tags",), None, "labels"),
        ("aws", SCHEDULE, ("target", "arn"), "arn:aws:lambda:::function", "deadline"),
        ("aws", INGRESS, ("cidrIpv4",), "0.0.0.0/0", "narrow-networks"),
        ("aws", INGRESS, ("cidrIpv4",), "10.0.0.0/15", "narrow-networks"),
        ("aws", INGRESS, ("cidrIpv6",), "::/0", "narrow-networks"),
        ("aws", BLOCK, ("restrictPublicBuckets",), False, "private-buckets"),
        ("gcp", VM, ("scheduling", "maxRunDuration"), None, "deadline"),
        ("gcp", VM, ("labels",), {"railhead-cluster": "c"}, "labels"),
        ("gcp", GCS, ("labels",), None, "labels"),
        ("gcp", GCS, ("publicAccessPrevention",), "inherited", "private-buckets"),
        ("gcp", MEMBER, ("member",), "allUsers", "private-buckets"),
        ("gcp", FIREWALL, ("sourceRanges",), ["0.0.0.0/0"], "narrow-networks"),
    ],
)
def test_a_change_that_breaks_a_rule_is_found(
    cloud: str, kind: str, path: tuple[str, ...], value: Any, rule: str
) -> None:
    """One of a kind is changed; the others of that kind are not named."""
    changed = [Resource(r.kind, r.name, copy.deepcopy(r.props)) for r in resources(cloud)]
    first = next(resource for resource in changed if resource.kind == kind)
    holder: Any = first.props
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    names = broken(changed)
    assert [*names] == [f"railhead-{rule}"] and len(names[f"railhead-{rule}"]) == 1


@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "203.0.113.7/32", "2001:db8::/48"])
def test_a_narrow_network_may_connect(cidr: str) -> None:
    key = "cidrIpv6" if ":" in cidr else "cidrIpv4"
    assert broken([Resource(INGRESS, "ssh", {key: cidr})]) == {}


def test_a_machine_without_a_schedule_is_named_also_beside_one_that_has_one() -> None:
    kept = [resource for resource in resources("aws") if resource.kind != SCHEDULE]
    schedule = next(resource for resource in resources("aws") if resource.kind == SCHEDULE)
    assert len(broken([*kept, schedule])["railhead-deadline"]) == 1
    assert len(broken(kept)["railhead-deadline"]) == 2
