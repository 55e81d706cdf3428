"""The bucket, and who the machines are: they read it, write runs there, and nothing else."""

from __future__ import annotations

import re

import pytest

from bootstrap.clouds.gcp.labels import read_description
from stacks.gcp.identity import account_id
from stacks.rules.validators import data_prefixes
from tests.stacks.mocks import CLUSTER_ID, make

from .world import ACCOUNT, BUCKET, INSTANCE, MEMBER, cluster, config, made, world


def test_the_bucket_is_private_and_beside_the_machines() -> None:
    bucket = made().one(BUCKET).inputs
    assert bucket["uniformBucketLevelAccess"] is True
    assert bucket["publicAccessPrevention"] == "enforced"
    assert bucket["location"] == "US-CENTRAL1"


def test_old_versions_are_kept_for_a_while_and_nothing_bills_for_ever() -> None:
    bucket = made().one(BUCKET).inputs
    assert bucket["versioning"] == {"enabled": True}
    assert bucket["softDeletePolicy"] == {"retentionDurationSeconds": 0}
    assert [(rule["action"]["type"], rule["condition"]) for rule in bucket["lifecycleRules"]] == [
        ("Delete", {"daysSinceNoncurrentTime": 7}),
        ("Delete", {"withState": "ARCHIVED", "daysSinceCustomTime": 1}),
        ("AbortIncompleteMultipartUpload", {"age": 2}),
    ]


def test_a_destroy_does_not_empty_it() -> None:
    bucket = made().one(BUCKET)
    assert bucket.inputs["forceDestroy"] is False and not bucket.retain_on_delete


def test_its_name_is_the_chosen_one_or_pulumis() -> None:
    assert made(bucket_name="mine-1").one(BUCKET).inputs["name"] == "mine-1"
    usual = made()
    name = usual.one(BUCKET).inputs["name"]
    assert name.startswith("railhead-t4-") and usual.one(BUCKET).ignore_changes == ("name",)
    assert usual.outputs["cluster"]["bucket"] == f"gs://{name}"


def test_the_machines_can_read_this_bucket_and_write_only_runs() -> None:
    everything = made()
    account, bucket = everything.one(ACCOUNT), everything.one(BUCKET).inputs["name"]
    whose = {
        "bucket": bucket,
        "member": f"serviceAccount:{account.inputs['accountId']}@p-12345.iam.gserviceaccount.com",
    }
    runs = f'resource.name.startsWith("projects/_/buckets/{bucket}/objects/runs/")'
    # A host that could write elsewhere could change the wheels that later machines install.
    assert [resource.inputs for resource in everything.every(MEMBER)] == [
        {**whose, "role": "roles/storage.objectViewer"},
        {
            **whose,
            "role": "roles/storage.objectUser",
            "condition": {"title": "runs only", "expression": runs},
        },
    ]
    granting = {kind for kind in everything.kinds if re.search(r"iam|policy", kind, re.I)}
    assert granting == {MEMBER}


@pytest.mark.parametrize("bucket", [True, False])
def test_the_machines_read_data_below_the_named_prefixes_only(bucket: bool) -> None:
    prefixes = data_prefixes("data_buckets", "gs://images/cassava/v1/, gs://all")
    everything = made(bucket=bucket, data_buckets=prefixes)
    account = everything.one(ACCOUNT).inputs["accountId"]
    data = [r for r in everything.every(MEMBER) if r.name.startswith("cluster-data-")]
    for resource in data:
        member = f"serviceAccount:{account}@p-12345.iam.gserviceaccount.com"
        assert resource.inputs["member"] == member
        assert resource.inputs["role"] == "roles/storage.objectViewer"
    rules = {
        resource.inputs["bucket"]: resource.inputs["condition"]["expression"] for resource in data
    }
    here = "projects/_/buckets"
    assert rules == {
        "images": f'resource.name == "{here}/images/objects/cassava/v1" || '
        f'resource.name.startsWith("{here}/images/objects/cassava/v1/") || '
        'api.getAttribute("storage.googleapis.com/objectListPrefix", "")'
        '.startsWith("cassava/v1/")',
        "all": f'resource.name == "{here}/all" || resource.name.startsWith("{here}/all/objects/")',
    }
    titles = {resource.inputs["condition"]["title"] for resource in data}
    assert len(titles) == 2, "of one bucket and role, the title tells members apart"
    assert len(everything.every(MEMBER)) == (4 if bucket else 2)
    # A binding or a policy would remove the rights of others on a bucket that is not ours.
    assert {kind for kind in everything.kinds if re.search(r"iam|policy", kind, re.I)} == {MEMBER}
    assert all("serviceAccount" in resource.inputs for resource in everything.every(INSTANCE))


@pytest.mark.parametrize("name", ["a", "t4", "a-cluster-with-a-very-long-name"])
def test_an_account_has_a_name_that_google_takes(name: str) -> None:
    account = account_id(name, CLUSTER_ID)
    assert re.fullmatch(r"[a-z]([-a-z0-9]{4,28}[a-z0-9])", account)
    assert account != account_id(name, CLUSTER_ID[::-1]), "two stacks may have one name"


def test_an_account_that_a_killed_up_left_is_taken_over() -> None:
    account = made().one(ACCOUNT)
    assert account.inputs["createIgnoreAlreadyExists"] and CLUSTER_ID in account.inputs["accountId"]


def test_everything_that_can_be_labelled_is_labelled() -> None:
    everything = make(cluster(config(name="abc", owner="eve")), world())
    ours = {"railhead-cluster": "abc", "railhead-owner": "eve", "railhead-id": CLUSTER_ID}
    for resource in [*everything.every(INSTANCE), everything.one(BUCKET)]:
        assert resource.inputs["labels"] == ours
    (provider,) = everything.every("pulumi:providers:gcp")
    assert provider.inputs["project"] == "p-12345" and provider.inputs["region"] == "us-central1"
    assert "railhead-cluster" in provider.inputs["defaultLabels"]
    for resource in everything.resources:
        in_cloud = resource.custom and not resource.type.startswith("pulumi:")
        if in_cloud and "labels" not in resource.inputs:
            named = f"Railhead cluster abc, id {CLUSTER_ID}, owner eve"
            assert resource.type == MEMBER or resource.inputs["description"] == named
            description = read_description(named)
            assert (description.cluster, description.cluster_id, description.owner) == (
                "abc",
                CLUSTER_ID,
                "eve",
            )
