"""From a config to the document; what is refused, and that nothing exists by then."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from places import CASES

from tests.stacks.mocks import preview

from .world import CONFIG, INSTANCE, cluster, denied, made, refuse, world

DOCUMENTS = CASES / "documents"


def test_the_document_is_the_golden_one() -> None:
    golden = json.loads((DOCUMENTS / "cluster-gcp.json").read_text())

    def zones(args: dict[str, Any]) -> dict[str, Any]:
        return {"names": ["europe-west4-a", "europe-west4-b"]}

    document = made(
        world(getZones=zones),
        name="gcp-t4",
        count=1,
        region="europe-west4",
        zones=("europe-west4-b",),
        project="p-1",
        bucket=False,
        key_file="/home/ann/.railhead/clusters/gcp-t4/key",
    ).outputs["cluster"]
    (host,) = document["hosts"]
    assert (host["address"], host["peer_address"]) == ("198.51.100.1", "10.164.0.1")
    host.update(address="198.51.100.8", peer_address="10.164.0.8")
    # Mocks drop what is null; tests/engine sees it.
    price = {item["name"]: item.get("usd") for item in document.pop("price")["parts"]}
    assert price["price of n1-standard-8 in europe-west4"] and all(price.values())
    assert document == {key: value for key, value in golden.items() if value is not None}


def test_a_deadline_stands_for_every_host() -> None:
    document = made(count=3, deadline_hours=0.5).outputs["cluster"]
    assert document["deadlines"] == [
        {"kind": "max-run-duration", "id": f"t4-{n}", "host": f"t4-{n}", "seconds": 1800}
        for n in (1, 2, 3)
    ]
    assert [host["slots"] for host in document["hosts"]] == [1, 1, 1]


def _image(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda args: {"name": name, "diskSizeGb": 50}


def test_a_family_is_not_resolved_by_us() -> None:
    """Else an `up` weeks later, when the family names another image, would replace machines."""
    images = []
    for today in ("image-v1", "image-v2"):
        everything = made(world(getImage=_image(today)))
        hosts = everything.every(INSTANCE)
        images += [resource.inputs["bootDisk"]["initializeParams"]["image"] for resource in hosts]
        assert f"INFO: image {today}; hosts that exist keep theirs" in everything.text
    assert set(images) == {
        "projects/deeplearning-platform-release/global/images/family/"
        "common-cu129-ubuntu-2204-nvidia-580"
    }


@pytest.mark.parametrize(
    ("zones", "there_are", "chosen"),
    [
        ((), "abcf", "us-central1-a"),
        ((), "bcf", "us-central1-b"),
        ((), None, "us-central1-a"),
        (("us-central1-f", "us-central1-c"), "abcf", "us-central1-f"),
        (("us-central1-f", "us-central1-c"), "abc", "us-central1-c"),
    ],
)
def test_the_first_zone_that_there_is(
    zones: tuple[str, ...], there_are: str | None, chosen: str
) -> None:
    names = [f"us-central1-{letter}" for letter in there_are or ""]
    answer = refuse if there_are is None else (lambda args: {"names": names})
    everything = made(world(getZones=answer), zones=zones)
    assert {resource.inputs["zone"] for resource in everything.every(INSTANCE)} == {chosen}
    assert ("our table decides" in everything.text) is (there_are is None)


def test_zones_are_listed_in_every_state() -> None:
    """A zone that is down for an hour must not move the machines to another one."""
    (call,) = [call for call in made().calls if "getZones" in call.token]
    assert call.args == {"project": "p-12345", "region": "us-central1"}


@pytest.mark.parametrize(
    ("changes", "answers", "says"),
    [
        (
            {"zones": ("us-central1-x",)},
            {},
            "zones: us-central1-x has no n1-standard-8 with nvidia-te",
        ),
        ({"gpu_type": "nvidia-tesla-v100"}, {}, "zones: not set, and our table has no zones of"),
        ({"disk_gb": 49}, {}, "disk_gb: 49 is less than the 50 GB of image-v20261101"),
        ({}, {"getImage": refuse}, "403: Permission denied"),
        (
            {"image": "projects/debian-cloud/global/images/family/debian-11"},
            {"getImage": _image("debian-11-bullseye-v20261110")},
            "image: debian-11-bullseye-v20261110: debian-11 has no Python of a runtime",
        ),
        ({"network": "n"}, {"getNetwork": refuse}, "network: n in p-12345 cannot be read: "),
    ],
)
def test_what_is_refused_leaves_nothing(
    changes: dict[str, Any], answers: dict[str, Any], says: str
) -> None:
    assert says in denied(world(**answers), **changes)


@pytest.mark.parametrize("image", ["projects/p/global/images/x", "ubuntu-2204"])
def test_an_image_and_a_family_are_looked_up_by_their_own_argument(image: str) -> None:
    (call,) = [call for call in made(image=image).calls if "getImage" in call.token]
    named = {"project": "p", "name": "x"}
    family = {"project": "ubuntu-os-cloud", "family": "ubuntu-2204-lts"}
    assert call.args == (named if "/" in image else family)


def test_a_first_preview_shows_the_same_resources() -> None:
    seen = preview(cluster(CONFIG), world())
    assert len(seen.every(INSTANCE)) == 2 and len(seen.resources) == 21


def test_everything_goes_through_the_explicit_provider() -> None:
    everything = made()
    (provider,) = everything.every("pulumi:providers:gcp")
    for resource in everything.resources:
        if resource.type in everything.kinds:
            assert resource.provider.startswith(provider.urn)
    assert everything.calls and all(c.provider.startswith(provider.urn) for c in everything.calls)
