"""`fab leaks` on Google Cloud, a stand-in held against Google's descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standins.leak_reports import LIVES, HasStacks, Run, ids, of
from standins.pulumi_command import exported, resource

pytest.importorskip("googleapiclient", reason="scripts/setup --dev installs it")
requests = pytest.importorskip("requests", reason="scripts/setup --stacks installs it")

from standins.gcp.lists import Lists  # noqa: E402

from bootstrap.clouds.gcp import areas, gcs  # noqa: E402
from bootstrap.clouds.gcp import client as gcp_client  # noqa: E402
from bootstrap.clouds.machines import Place  # noqa: E402
from railhead.documents.leaks import LEAKED, LIVING, OTHERS  # noqa: E402

LOST, BOBS = "0a1b2c3d4e5f", "bbbbbbbbbbbb"
OURS = "p-12345"


def state(project: str, cluster_id: str) -> str:
    """The script that prints the state of a stack in a project."""
    provider = resource("pulumi:providers:gcp", id="p", inputs={"project": project})
    stash = resource("pulumi:index:Stash", "cluster-id", id="s", outputs={"output": cluster_id})
    return exported(provider, stash)


@pytest.fixture
def google(
    no_cloud: None, has_stacks: HasStacks, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lists]:
    """The project of the credentials."""
    lists = Lists(projects=[OURS])
    has_stacks("dev", export=state(OURS, LIVES))
    with lists.served() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

        def connect() -> gcp_client.GoogleClient:
            compute = environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"]
            return gcp_client.GoogleClient(requests.Session(), f"{lists.address}/storage/", compute)

        monkeypatch.setattr(areas, "connect", connect)
        monkeypatch.setattr(areas, "default_project", lambda: OURS)
        yield lists


def labels(owner: str, cluster_id: str) -> dict[str, str]:
    return {"railhead-cluster": "gpu", "railhead-owner": owner, "railhead-id": cluster_id}


def whole_cluster(
    google: Lists,
    owner: str,
    cluster_id: str,
    project: str = OURS,
    name: str = "gpu",
    *,
    former: bool = False,
) -> dict[str, str]:
    """Everything that a stack makes, and what people add with its labels; the ids by kind.

    `former`: until 0.1.0 a description had neither id nor owner."""
    tags, zone = labels(owner, cluster_id), f"projects/{project}/zones/us-central1-a"
    region = f"projects/{project}/regions/us-central1"
    more = "" if former else f", id {cluster_id}, owner {owner}"
    description = {"description": f"Railhead cluster gpu{more}"}
    network = f"projects/{project}/global/networks/{name}"
    inside = {"network": f"https://www.googleapis.com/compute/v1/{network}", **description}
    account = f"rh-gpu-{cluster_id}@{project}.iam.gserviceaccount.com"
    google.accounts[f"projects/{project}/serviceAccounts/{account}"] = {
        "name": f"projects/{project}/serviceAccounts/{account}",
        "email": account,
        "projectId": project,
        **description,
    }
    bucket = f"{name}-{cluster_id}"
    google.buckets[bucket] = {
        "name": bucket, "project": project, "labels": tags, "location": "US-CENTRAL1",
        "timeCreated": "2026-11-20T10:00:00Z",
    }  # fmt: skip
    gpu = {"acceleratorType": "zones/z/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 1}
    return {
        "machine": google.add(
            f"{zone}/instances/{name}-1", labels=tags, status="RUNNING", guestAccelerators=[gpu],
            machineType=f"{zone}/machineTypes/n1-standard-8",
        ),
        "disk": google.add(
            f"{zone}/disks/{name}-1",
            labels=tags,
            sizeGb="100",
            type=f"{zone}/diskTypes/pd-balanced",
        ),
        "snapshot": google.add(f"projects/{project}/global/snapshots/{name}", labels=tags),
        "address": google.add(
            f"{region}/addresses/{name}", labels=tags, address="198.51.100.9", status="RESERVED"
        ),
        "firewall rule": google.add(
            f"projects/{project}/global/firewalls/{name}-ssh", **inside
        ),
        "subnet": google.add(f"{region}/subnetworks/{name}", **inside),
        "network": google.add(network, **description),
        "role": f"projects/{project}/serviceAccounts/{account}",
        "bucket": bucket,
    }  # fmt: skip


def test_everything_is_listed_over_all_pages_with_its_cost_and_command(
    google: Lists, run: Run
) -> None:
    for number in range(5):  # more than a page
        google.add(f"projects/{OURS}/zones/us-central1-b/disks/other-{number}")
    lost = whole_cluster(google, "ann", LOST)
    report, error = run()
    assert error and ids(report, LEAKED) == lost
    rows = of(report, LEAKED)
    assert all(row.cluster == "gpu" and row.end.startswith("gcloud ") for row in rows.values())
    assert all(row.cluster_id == LOST and row.owner == "ann" for row in rows.values())
    assert rows["machine"].usd_per_day == round(24 * (8 * 0.0474998 + 0.35), 4)
    assert "n1-standard-8 with 1 nvidia-tesla-t4, running" in rows["machine"].details
    assert rows["disk"].usd_per_day == round(100 * 0.10 * 24 / 730, 4)
    assert rows["machine"].since == "2026-11-20 18:00:00 UTC"
    assert rows["machine"].end == (
        f"gcloud compute instances delete gpu-1 --project {OURS} --zone us-central1-a"
    )
    assert rows["subnet"].end == (
        f"gcloud compute networks subnets delete gpu --project {OURS} --region us-central1"
    )


@pytest.mark.parametrize("former", [False, True])
def test_end_removes_what_leaked_and_nothing_of_another_owner(
    google: Lists, run: Run, former: bool
) -> None:
    """One project, one cluster name. The networks of a former version have no owner: they stay."""
    lost = whole_cluster(google, "ann", LOST, former=former)
    bobs = whole_cluster(google, "bob", BOBS, name="bobs", former=former)
    before = dict(google.resources)
    report, error = run(end=True, yes=True)
    without_owner = ("firewall rule", "subnet", "network") if former else ()
    removed = {lost[kind] for kind in lost.keys() - {*without_owner}}
    assert {*report.ended} == removed == {*google.deleted} and error is None
    assert {path: google.resources[path] for path in bobs.values() if path in before} == {
        path: body for path, body in before.items() if path in bobs.values()
    }
    assert ids(report, OTHERS)["machine"] == bobs["machine"]


def test_a_network_without_an_owner_is_listed_with_its_command_and_stays(
    google: Lists, run: Run
) -> None:
    network = f"projects/{OURS}/global/networks/gpu"
    google.add(network, description="Railhead cluster gpu")
    google.add(f"projects/{OURS}/global/networks/default", description="")
    report, error = run(end=True, yes=True)
    assert error and ids(report, LEAKED) == {"network": network} and not google.deleted


def test_a_network_lives_with_the_machines_of_its_cluster(google: Lists, run: Run) -> None:
    lives = whole_cluster(google, "bob", LIVES)
    report, error = run()
    assert error is None and ids(report, LIVING) == lives


def test_a_bucket_with_objects_stays_unless_its_content_goes_too(
    google: Lists, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = whole_cluster(google, "ann", LOST)["bucket"]
    google.objects[bucket] = [
        {"name": "runs/r1/result.json", "generation": str(n), "size": "5"} for n in (1, 2, 3)
    ]
    report, error = run(end=True, yes=True)
    assert error and "--with-bucket" in error.hint
    assert ids(report, LEAKED)["bucket"] == bucket and bucket in google.buckets
    row = of(report, LEAKED)["bucket"]
    assert row.details.startswith("3 objects with their old versions")
    assert row.end == f"gcloud storage rm --recursive --all-versions gs://{bucket}"

    def remove(_: gcs.Gcs, versions: Any) -> int:
        google.objects[bucket] = google.objects[bucket][len(versions) :]
        return len(versions)

    monkeypatch.setattr(gcs.Gcs, "remove", remove)
    run(end=True, yes=True, with_bucket=True)
    assert bucket not in google.buckets


def test_a_bucket_that_a_killed_up_left_is_removed_by_its_id_where_it_is_empty(
    google: Lists,
) -> None:
    client = gcp_client.GoogleClient(requests.Session(), f"{google.address}/storage/")
    full, empty, bobs = (f"gpu-{name}" for name in ("full", "empty", "bobs"))
    for name, cluster_id in ((full, LOST), (empty, LOST), (bobs, BOBS)):
        google.buckets[name] = {"name": name, "project": OURS, "labels": labels("ann", cluster_id)}
    google.objects[full] = [{"name": "x", "generation": "1", "size": "5"}]
    gone = [
        gcs.remove_bucket(Place("gcp", project=OURS), name, LOST, client)
        for name in (full, empty, bobs, "none")
    ]
    assert gone == [False, True, False, False] and google.buckets.keys() == {full, bobs}


def test_projects_that_resource_manager_lists_are_read_too(google: Lists, run: Run) -> None:
    google.projects += ["p-2", "p-3", "p-4", "p-off"]
    lost = whole_cluster(google, "ann", LOST, project="p-3")
    for method in ("compute.instances.aggregatedList", "compute.disks.aggregatedList"):
        google.refused[f"{method} p-4"] = (403, "forbidden")
    google.refused["compute.instances.aggregatedList p-off"] = (403, "accessNotConfigured")
    report, _ = run()
    assert ids(report, LEAKED) == lost
    states = {area.name: area.state for area in report.areas if area.cloud == "gcp"}
    assert states == {OURS: "ok", "p-2": "ok", "p-3": "ok", "p-4": "skipped", "p-off": "ok"}


def test_a_zone_that_google_does_not_reach_is_named_and_ends_with_1(
    google: Lists, run: Run
) -> None:
    lost = whole_cluster(google, "ann", LOST)
    google.warned = ("zones/us-east1-c",)
    report, error = run(end=True, yes=True)
    (area,) = (area for area in report.areas if area.is_missing)
    assert area.name == OURS and "us-east1-c" in area.reason and error and OURS in error.message
    assert report.ended == () and google.deleted in ([], [lost["machine"]])


def test_a_refusal_in_the_project_of_the_credentials_is_a_failure(google: Lists, run: Run) -> None:
    google.refused["iam.projects.serviceAccounts.list"] = (403, "forbidden")
    google.refused["cloudresourcemanager.projects.list"] = (403, "forbidden")
    report, error = run()
    (area,) = (area for area in report.areas if area.cloud == "gcp")
    assert area.state == "failed" and area.reason.startswith("role:") and error


def test_a_project_of_a_stack_is_read(google: Lists, run: Run, has_stacks: HasStacks) -> None:
    has_stacks("dev", export=state("p-9", LIVES))
    assert "p-9" in [area.name for area in run()[0].areas]


def test_credentials_without_a_project_are_no_failure(
    no_cloud: None, has_stacks: HasStacks, run: Run, home: Path
) -> None:
    has_stacks()
    assert {(a.cloud, a.state) for a in run()[0].areas} == {("aws", "skipped"), ("gcp", "skipped")}


def test_a_machine_that_runs_without_a_deadline_of_the_cloud_is_marked(
    google: Lists, run: Run
) -> None:
    bounded = {"maxRunDuration": {"seconds": "14400"}, "provisioningModel": "STANDARD"}
    zone = f"projects/{OURS}/zones/us-central1-a"
    for name, scheduling, status in (
        ("gpu-1", bounded, "RUNNING"), ("gpu-2", {}, "RUNNING"), ("gpu-3", {}, "TERMINATED"),
    ):  # fmt: skip
        google.add(
            f"{zone}/instances/{name}", labels=labels("ann", LOST), status=status,
            scheduling=scheduling, machineType=f"{zone}/machineTypes/n1-standard-8",
        )  # fmt: skip
    marked = [row.id for row in run()[0].resources if "NO DEADLINE" in row.details]
    assert [id.rpartition("/")[2] for id in marked] == ["gpu-2"]
