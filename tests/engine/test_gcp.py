"""The Google Cloud stack on the real engine, against a provider that knows Google's descriptions.

No machine is made here; what a real Google says is still to be seen. tests/standins/gcp has what
is checked of each request.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine.aws import PUBLIC
from engine.stack import Done, Stack
from standins.gcp.cloud import BUCKET, INSTANCE, MEMBER, Cloud
from standins.gcp.plugin import serving
from standins.gcp.rest import TOKEN, Rest

from bootstrap.inventory.document import from_document
from railhead.documents.cluster import DocumentDeadline

# Every step starts an engine and a program: seconds alone, a minute beside other work.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ALL_GPUS, T4 = "GPUS-ALL-REGIONS-per-project", "NVIDIA-T4-GPUS-per-project-region"


def rows(value: int, region: str | None = None) -> list[dict[str, Any]]:
    """The rows of a quota, as Cloud Quotas has them: of T4 one for each region."""
    other = {"dimensions": {"region": "europe-west4"}, "details": [{"value": "1"}]}
    own = {
        "dimensions": {"region": region} if region else {},
        "applicableLocations": [region or "global"],
        "details": [{"value": str(value)}],
    }
    return [other, own] if region else [own]


@pytest.fixture
def cloud() -> Cloud:
    return Cloud(quotas={ALL_GPUS: rows(8), T4: rows(8, "us-central1")})


@pytest.fixture
def stack(engine: Path, tmp_path: Path, cloud: Cloud) -> Iterator[Stack]:
    key = tmp_path / "id.pub"
    key.write_text(f"{PUBLIC}\n")
    with serving(cloud) as port:
        found = Stack(engine, tmp_path / "project", "t4", providers={"gcp": port})
        found.config(
            cloud="gcp",
            project="p-12345",
            ssh_cidrs="203.0.113.7/32",
            public_key_file=key,
            owner="ann",
        )
        yield found


def changes(done: Done) -> set[str]:
    """What the engine did in the cloud, as in "create Instance cluster-host-1"."""
    steps = [step for step in done.ended(0).steps if step.type.startswith("gcp:")]
    return {f"{step.op} {step.type.rpartition(':')[2]} {step.name}" for step in steps}


def instances(cloud: Cloud) -> list[str]:
    """The names of the machines that exist."""
    return sorted(path.rpartition("/")[2] for path in cloud.every(INSTANCE))


def test_a_cluster_from_its_preview_to_its_end(stack: Stack, cloud: Cloud) -> None:
    seen = stack.preview().ended(
        0, f"({ALL_GPUS}, global): have 8, used by others unknown, need 2 GPU"
    )
    assert len(changes(seen)) == 10 and not cloud.things

    assert changes(stack.up()) == changes(seen)
    assert len(cloud.things) == 10 and instances(cloud) == ["t4-1", "t4-2"]

    cloud.image = "v20270301"
    again = stack.up("--expect-no-changes").ended(0, "v20270301; hosts that exist keep theirs")
    assert not changes(again)
    stack.refresh("--expect-no-changes").ended(0)

    check_that_a_bucket_with_objects_outlives_a_destroy(stack, cloud)
    assert changes(stack.up()) == changes(seen) - {"create Bucket cluster-results"}
    gone = stack.destroy()
    assert changes(gone) == {each.replace("create", "delete") for each in changes(seen)}
    assert not cloud.things and not stack.resources()


def check_that_a_bucket_with_objects_outlives_a_destroy(stack: Stack, cloud: Cloud) -> None:
    (bucket,) = cloud.every(BUCKET)
    cloud.objects[bucket] = 3
    stack.destroy().ended(1, f"bucket {bucket} containing objects")
    assert list(cloud.things) == [bucket]
    # By these words `fab teardown --destroy --with-bucket` finds it, as the receipt says.
    assert stack.output()["cluster"]["bucket"] == f"gs://{bucket}"
    cloud.objects.clear()


def test_a_change_of_config_changes_what_it_names_and_no_more(stack: Stack, cloud: Cloud) -> None:
    stack.up().ended(0)
    before = set(cloud.things)
    both = {"update Instance cluster-host-1", "update Instance cluster-host-2"}
    # Another person's up changes labels and descriptions and replaces nothing. Nor does another
    # deadline: the provider would replace machines to move theirs, so it stays, and the document
    # has it.
    stack.config(owner="bob", deadline_hours=4)
    firewalls = {"update Firewall cluster-inside", "update Firewall cluster-ssh"}
    assert changes(stack.up()) == {*both, *firewalls, "update Bucket cluster-results"}
    for host in cloud.every(INSTANCE).values():
        assert host.request.body["labels"]["railhead-owner"] == "bob"
    assert changes(stack.config(count=3).up()) == {"create Instance cluster-host-3"}
    seconds = [each["seconds"] for each in stack.output()["cluster"]["deadlines"]]
    assert seconds == [28800, 28800, 14400]
    stack.config(count=2, ssh_cidrs="198.51.100.9/32", machine_type="n1-standard-16")
    assert changes(stack.up()) == {
        *both,
        "delete Instance cluster-host-3",
        "update Firewall cluster-ssh",
    }
    (ssh,) = [one for path, one in cloud.things.items() if "firewalls/t4-ssh" in path]
    assert ssh.request.body["sourceRanges"] == ["198.51.100.9/32"]
    assert set(cloud.things) == before


def test_another_size_of_disks_replaces_no_machine(stack: Stack, cloud: Cloud) -> None:
    stack.config(count=1).up().ended(0)
    before = set(cloud.things)
    larger = stack.config(disk_gb=200).up().ended(0)
    assert not changes(larger)  # but the price
    where = "--zone us-central1-a --project p-12345"
    assert f"gcloud compute disks resize t4-1 --size 200GB {where}" in larger.text
    smaller = stack.config(disk_gb=60).up().ended(0, "t4-1 keeps its disk of 100 GB")
    assert "disks resize" not in smaller.text and set(cloud.things) == before
    stack.config(count=2).up().ended(0)
    sizes = [one.request.body["disks"][0] for one in cloud.every(INSTANCE).values()]
    assert sorted(int(one["initializeParams"]["diskSizeGb"]) for one in sizes) == [60, 100]


def check_that_a_request_removes_no_machine(stack: Stack, cloud: Cloud) -> None:
    before = dict(cloud.things)
    cloud.quotas[T4] = rows(1, "us-central1")
    stack.config(count=2, quotas="request", contact_email="ann@example.com")
    stack.up().ended(1, "Google gave no token", "gcloud auth application-default login")
    assert cloud.things == before
    stack.config(count=1, quotas=None, contact_email=None)
    cloud.quotas[T4] = rows(8, "us-central1")


def test_what_replaces_machines_takes_the_old_ones_away_first(stack: Stack, cloud: Cloud) -> None:
    stack.config(count=1).up().ended(0)
    check_that_a_request_removes_no_machine(stack, cloud)
    done = stack.config(spot=True).config(image="ubuntu-2404")
    cloud.quotas[f"PREEMPTIBLE-{T4}"] = rows(1, "us-central1")
    ops = {step.op for step in done.up().ended(0).steps if step.name == "cluster-host-1"}
    assert ops == {"delete-replaced", "replace", "create-replacement"}
    (host,) = cloud.every(INSTANCE).values()
    assert host.request.body["scheduling"]["provisioningModel"] == "SPOT"


def test_too_small_a_quota_is_reported_requested_and_then_used(
    stack: Stack, cloud: Cloud, rest: Rest
) -> None:
    cloud.quotas[T4] = rows(0, "us-central1")
    for done in (stack.preview(), stack.up()):
        done.ended(
            1,
            f"({T4}, us-central1): have 0, used by others unknown, need 2 GPU",
            "config set --stack t4 quotas request",
        )
    assert not cloud.things
    assert not [one for one in stack.resources() if one["type"].startswith("gcp:")]

    stack.config(quotas="request", contact_email="ann@example.com")
    stack.preview().ended(0, "now 2 are requested")
    assert rest.preferences == [], "a preview requests nothing"
    assert not changes(stack.up().ended(0, "no machines are created"))
    assert list(stack.output()) == ["next"] and "the quota is requested" in stack.output()["next"]
    assert [one["quotaConfig"] for one in rest.preferences] == [{"preferredValue": "2"}]
    stack.up("--expect-no-changes").ended(0, "requested 2, granted none; this stack needs 2")

    cloud.quotas[T4] = rows(2, "us-central1")
    stack.up().ended(0)
    assert instances(cloud) == ["t4-1", "t4-2"] and len(rest.preferences) == 1
    stack.destroy().ended(0)
    assert not cloud.things and len(rest.preferences) == 1


def test_a_stock_out_in_the_middle_leaves_a_state_that_goes_on(stack: Stack, cloud: Cloud) -> None:
    stack.config(count=3)
    cloud.refuse["t4-3"] = "ZONE_RESOURCE_POOL_EXHAUSTED: us-central1-a has no n1 with T4 now"
    failed = stack.up().ended(1, "ZONE_RESOURCE_POOL_EXHAUSTED")
    # The engine starts no step after a refusal: the others exist if they were begun before it.
    assert "host-3" in failed.text and {*instances(cloud)} <= {"t4-1", "t4-2"}
    cloud.refuse.clear()
    assert "create Instance cluster-host-3" in changes(stack.up())
    assert instances(cloud) == ["t4-1", "t4-2", "t4-3"]
    stack.destroy().ended(0)
    assert not cloud.things


def check_what_bootstrap_reads(stack: Stack, cloud: Cloud) -> None:
    document = stack.output()["cluster"]
    assert document["bucket"] is None and document["price"]["per_hour"] == 0.7487
    inventory = from_document(document)
    (host,) = inventory.hosts
    assert host.id in cloud.things
    assert (host.address, host.peer_address) == ("198.51.100.1", "10.164.0.1")
    assert host.host_key_source == "guest-attributes" and host.user == "railhead"
    deadline = DocumentDeadline("max-run-duration", "t4-1", host="t4-1", seconds=28800)
    assert inventory.deadlines == (deadline,)
    assert "8 hours after each start" in stack.output()["deadline"]


def test_data_of_other_buckets_is_read_with_rights_that_come_and_go(
    stack: Stack, cloud: Cloud
) -> None:
    given = "gs://images/v1,gs://images/v2"
    stack.config(bucket=False, count=1, data_buckets=given).up().ended(0)
    check_what_bootstrap_reads(stack, cloud)
    rights = [one.request for one in cloud.every(MEMBER).values()]
    assert [one.params["bucket"] for one in rights] == ["images", "images"]
    assert all(one.body["version"] == 3 for one in rights)
    assert all(one.body["bindings"][0]["condition"]["expression"] for one in rights)
    (host,) = cloud.every(INSTANCE).values()
    assert host.request.body["serviceAccounts"][0]["email"].startswith("rh-t4-")
    gone = changes(stack.config(data_buckets="gs://images/v2").up())
    assert gone == {"delete BucketIAMMember cluster-data-images/v1"}
    stack.destroy().ended(0)
    assert not cloud.things


@pytest.fixture
def rest(stack: Stack, cloud: Cloud) -> Iterator[Rest]:
    """Google's REST APIs, which the program asks with the provider's token."""
    found = Rest()
    with found.served() as env:
        stack.env |= env
        cloud.token = TOKEN
        yield found


def test_what_the_cloud_would_refuse_is_refused_at_preview(
    stack: Stack, cloud: Cloud, rest: Rest
) -> None:
    """Nothing is made: APIs, zones, what others use of quotas, images that there are not."""
    rest.off = {"iam.googleapis.com"}
    off = stack.preview().ended(1, "gcloud services enable iam.googleapis.com --project p-12345")
    rest.off = set()
    rest.quotas = {"us-central1": {"NVIDIA_T4_GPUS": (8, 8), "IN_USE_ADDRESSES": (8, 7)}}
    used = stack.preview().ended(1, "have 8, used by others 8, need 2 GPU")
    used.ended(
        1, "have 8, used by others 7, need 2 address", "pulumi config set --stack t4 quotas request"
    )
    rest.quotas = {}
    rest.zones = {"nvidia-tesla-t4": ["us-east1-c"]}
    zone = stack.preview().ended(
        1, "regions that have it: us-east1", "config set --stack t4 region us-east1"
    )
    rest.zones = {"nvidia-tesla-t4": ["us-central1-f"]}
    family = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts"
    image = (
        stack.config(image=family)
        .preview()
        .ended(1, "404", "images list --project ubuntu-os-cloud")
    )
    assert "Traceback" not in off.text + used.text + zone.text + image.text
    stack.config(image=None).preview().ended(0, "zone us-central1-f")
    assert not cloud.things


def test_machines_with_gpus_of_their_own_and_without(
    stack: Stack, cloud: Cloud, rest: Rest
) -> None:
    """Types with local SSDs too: they are not made anew by an `up` that changes nothing."""
    rest.zones = {"g2-standard-24": ["us-central1-b"], "e2-standard-4": ["us-central1-c"]}
    rest.zones["a2-ultragpu-2g"] = ["us-central1-b"]
    stack.config(machine_type="g2-standard-24", count=1).up().ended(0)
    (host,) = cloud.every(INSTANCE).values()
    assert host.request.body["guestAccelerators"] == []
    assert host.request.params["zone"] == "us-central1-b"
    described = stack.output()["cluster"]["hosts"][0]
    assert (described["slots"], described["gpu"]) == (2, {"type": "nvidia-l4", "count": 2})
    stack.config(machine_type="a2-ultragpu-2g").up().ended(0)
    changes: list[str] = []
    cloud.watch = changes.append
    stack.config(owner="bob").up().ended(0)
    assert changes == []
    replaced = stack.config(machine_type="e2-standard-4").up().ended(0)
    assert "replace" in {step.op for step in replaced.steps if step.name == "cluster-host-1"}
    (host,) = cloud.every(INSTANCE).values()
    assert host.request.body["scheduling"]["onHostMaintenance"] == "MIGRATE"
    described = stack.output()["cluster"]["hosts"][0]
    assert (described["slots"], described["gpu"]) == (1, None)
    assert described["zone"] == "us-central1-c"


def test_in_a_network_that_is_there(stack: Stack, cloud: Cloud) -> None:
    stack.config(network="elsewhere").preview().ended(1, "network: elsewhere in p-12345 cannot")
    stack.config(network="default").up().ended(0)
    for host in cloud.every(INSTANCE).values():
        (interface,) = host.request.body["networkInterfaces"]
        assert interface["subnetwork"].endswith("regions/us-central1/subnetworks/default")
    assert not [path for path in cloud.things if "/networks/" in path]


UNKNOWN = """
import pulumi
import pulumi_gcp as gcp

what = pulumi.Config().require("what")
provider = gcp.Provider("p", project="p-12345")
if what == "resource":
    gcp.pubsub.Topic("t", opts=pulumi.ResourceOptions(provider=provider))
if what == "invoke":
    gcp.compute.get_default_service_account(opts=pulumi.InvokeOptions(provider=provider))
if what == "property":
    gcp.compute.Network("n", project="p-12345", mtu=1500,
                        opts=pulumi.ResourceOptions(provider=provider))
"""


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("resource", "the stand-in does not know gcp:pubsub/topic:Topic"),
        ("invoke", "the stand-in does not know gcp:compute/getDefaultServiceAccount"),
        ("property", "the stand-in does not know mtu"),
    ],
)
def test_what_the_stand_in_does_not_know_is_an_error(
    engine: Path, tmp_path: Path, cloud: Cloud, what: str, says: str
) -> None:
    with serving(cloud) as port:
        stack = Stack(engine, tmp_path / "project", providers={"gcp": port}, program=UNKNOWN)
        done = stack.config(what=what).preview()
    assert done.code and says in done.text
