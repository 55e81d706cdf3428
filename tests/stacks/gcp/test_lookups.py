"""What is looked up in Google Cloud before anything is made: APIs, zones, machines, OS Login."""

from __future__ import annotations

from typing import Any

import pytest
from standins.gcp.rest import Rest, machines

from stacks.machine_types import gcp as machine_types

from .world import INSTANCE, asking, denied, made, refuse, world

T4 = "nvidia-tesla-t4"
KEY = "ssh-ed25519 AAAA"
FAMILY = "projects/deeplearning-platform-release/global/images/family/"
LIST = "gcloud compute images list --project deeplearning-platform-release --format 'value(family)'"
LOGIN: dict[str, Any] = {"oslogin": True, "ssh_user": "ann_example_com"}
RIGHTS = {"compute.instances.osAdminLogin", "iam.serviceAccounts.actAs"}


def denied_with(rest: Rest, **changes: Any) -> str:
    """Why there is no cluster, and that nothing was made for it."""
    with asking(rest) as token:
        return denied(world(**token), **changes)


def test_apis_that_are_not_enabled_are_named_before_anything_is_made() -> None:
    message = denied_with(Rest(off={"cloudquotas.googleapis.com", "iam.googleapis.com"}))
    assert "project: these APIs are not enabled in p-12345: cloudquotas.googleapis.com, iam" in (
        message
    )
    enable = "gcloud services enable cloudquotas.googleapis.com iam.googleapis.com"
    assert f"  next: {enable} --project p-12345" in message
    everywhere = Rest(zones={T4: ["us-central1-a"]}, off={"iam.googleapis.com"})
    with asking(everywhere) as token:
        assert made(world(**token), bucket=False).every(INSTANCE), "no account, no API for it"


def test_the_project_pays_for_requests_with_a_users_credentials() -> None:
    (provider,) = made().every("pulumi:providers:gcp")
    assert provider.inputs["userProjectOverride"] == "true"
    assert provider.inputs["billingProject"] == "p-12345"


def test_computes_list_of_zones_counts_before_our_table() -> None:
    there = Rest(zones={T4: ["us-central1-b", "us-central1-f", "us-east7-a"]})
    with asking(there) as token:
        hosts = made(world(**token)).every(INSTANCE)
        assert {host.inputs["zone"] for host in hosts} == {"us-central1-b"}
        in_f = made(world(**token), zones=("us-central1-a", "us-central1-f")).every(INSTANCE)
        assert {host.inputs["zone"] for host in in_f} == {"us-central1-f"}
    message = denied_with(there, zones=("us-central1-a",))
    assert "zones: us-central1-a has no n1-standard-8 with nvidia-tesla-t4; in us-central1 there"
    assert "  next: pulumi config rm zones" in message


def test_a_project_of_a_domain_is_looked_up_by_its_whole_id() -> None:
    there = Rest(zones={T4: ["us-central1-b"]}, project="example.com:p-12345")
    with asking(there) as token:
        cluster = made(world(**token), project="example.com:p-12345")
    assert {host.inputs["zone"] for host in cluster.every(INSTANCE)} == {"us-central1-b"}
    assert "cannot be listed" not in cluster.text and "cannot be counted" not in cluster.text


def test_a_region_without_the_gpus_names_one_with_them() -> None:
    message = denied_with(Rest(zones={T4: ["us-east7-a", "us-west1-a"]}))
    assert "has n1-standard-8 with nvidia-tesla-t4; regions that have it: us-east7" in message
    assert "  next: pulumi config set region us-east7" in message


def test_an_n1_machine_needs_a_zone_with_its_type_too() -> None:
    there = Rest(
        zones={T4: ["us-central1-a", "us-central1-b"], "n1-standard-96": ["us-central1-b"]}
    )
    with asking(there) as token:
        hosts = made(world(**token), machine_type="n1-standard-96", gpu_count=4).every(INSTANCE)
    assert {host.inputs["zone"] for host in hosts} == {"us-central1-b"}


def test_new_machines_join_those_that_exist() -> None:
    """Whatever zone comes first in Compute's lists by now; configured zones count before."""
    there = Rest(zones={T4: ["us-central1-a", "us-central1-c"]})
    there.instances = machines({"t4-1": "TERMINATED", "t4-77": "RUNNING"}, "us-central1-c")
    with asking(there) as token:
        hosts = made(world(**token)).every(INSTANCE)
        assert {host.inputs["zone"] for host in hosts} == {"us-central1-c"}
        elsewhere = made(world(**token), zones=("us-central1-a",)).every(INSTANCE)
        assert {host.inputs["zone"] for host in elsewhere} == {"us-central1-a"}
        there.instances = machines({"t4-77": "RUNNING"}, "us-central1-c")
        hosts = made(world(**token)).every(INSTANCE)
    assert {host.inputs["zone"] for host in hosts} == {"us-central1-a"}, "not one of this config"


def test_machines_in_no_state_are_named_after_an_up() -> None:
    """As SIGKILL of Pulumi leaves them: with the stack's id, and not in its config."""
    there = Rest(instances=machines({"t4-1": "RUNNING", "t4-9": "RUNNING"}))
    with asking(there) as token:
        text = made(world(**token)).text
    assert "projects/p-12345/zones/us-central1-a/instances/t4-9: machines with this" in text
    assert "fab teardown --destroy --stack" in text and "instances/t4-1" not in text
    with asking(Rest(refused={"compute.instances.aggregatedList": (403, "forbidden")})) as token:
        assert "machines with this stack's id cannot be counted" in made(world(**token)).text


def test_after_a_refusal_for_capacity_other_types_with_the_same_gpus_are_named() -> None:
    assert machine_types.same_gpus("g2-standard-4") == [
        f"g2-standard-{vcpus}" for vcpus in (8, 12, 16, 32)
    ]
    assert machine_types.same_gpus("a2-highgpu-1g") == [], "80 GB is another GPU"
    assert machine_types.same_gpus("n1-standard-8") == [], "its GPUs are what is missing"


def test_v100_zones_are_read_from_compute() -> None:
    there = Rest(zones={"nvidia-tesla-v100": ["us-central1-c"]})
    with asking(there) as token:
        hosts = made(world(**token), gpu_type="nvidia-tesla-v100", image="ubuntu-2204")
    assert {host.inputs["zone"] for host in hosts.every(INSTANCE)} == {"us-central1-c"}


@pytest.mark.parametrize(
    "name", ["g2-standard-24", "a2-highgpu-1g", "a2-ultragpu-8g", "e2-standard-2", "n2-standard-8"]
)
def test_machines_that_are_no_n1_have_no_attached_gpus(name: str) -> None:
    """And their zones are those that have the machine type."""
    there = Rest(zones={name: ["us-central1-b"]})
    with asking(there) as token:
        cluster = made(world(**token), machine_type=name, gpu_type=None, gpu_count=None)
    (host, _) = cluster.every(INSTANCE)
    assert host.inputs["machineType"] == name and host.inputs["zone"] == "us-central1-b"
    assert "guestAccelerators" not in host.inputs
    machine = machine_types.machine_type(name, None, None)
    (document, _) = cluster.outputs["cluster"]["hosts"]
    assert document["slots"] == (machine.gpus or 1)
    cards = {"type": machine.gpu, "count": machine.gpus} if machine.gpu else None
    assert document.get("gpu") == cards


def test_without_an_answer_our_table_decides_and_a_zone_is_taken_at_its_word() -> None:
    there = Rest(refused={"compute.acceleratorTypes.aggregatedList": (403, "forbidden")})
    with asking(there) as token:
        cluster = made(world(**token))
        assert "Compute does not list its machines, our table decides" in cluster.text
        assert cluster.every(INSTANCE)[0].inputs["zone"] == "us-central1-a"
    hosts = made(gpu_type="nvidia-tesla-v100", image="ubuntu-2204", zones=("us-central1-f",))
    assert hosts.every(INSTANCE)[0].inputs["zone"] == "us-central1-f"


@pytest.mark.parametrize(
    ("rest", "changes", "says"),
    [
        (
            Rest(users=["ann_example_com"], keys=[KEY]),
            LOGIN,
            "oslogin: ann@example.com cannot log in to the machines: no permission compute.inst",
        ),
        (
            Rest(users=["ann_example_com"], keys=[KEY], permissions=RIGHTS),
            {**LOGIN, "ssh_user": "ann"},
            "ssh_user: 'ann' is not your OS Login user, which is ann_example_com",
        ),
        (
            Rest(users=["ann_example_com"], keys=["ssh-ed25519 BBBB"], permissions=RIGHTS),
            LOGIN,
            "public_key_file: this key is not in your OS Login profile",
        ),
    ],
)
def test_machines_that_nobody_could_enter_are_refused(
    rest: Rest, changes: dict[str, Any], says: str
) -> None:
    rest.zones = {T4: ["us-central1-a"]}
    message = denied_with(rest, **changes)
    assert says in message and "\n  next: " in message


def test_with_the_role_the_key_and_the_user_os_login_is_accepted() -> None:
    rest = Rest(users=["ann_example_com"], keys=[f"{KEY} ann"], permissions=RIGHTS)
    rest.zones = {T4: ["us-central1-a"]}
    with asking(rest) as token:
        assert made(world(**token), **LOGIN).every(INSTANCE)
        alone = Rest(users=["ann_example_com"], keys=[KEY], permissions=RIGHTS - {"x"})
        alone.permissions.discard("iam.serviceAccounts.actAs")
    alone.zones = rest.zones
    with asking(alone) as token:
        assert made(world(**token), **LOGIN, bucket=False).every(INSTANCE), "no account to act as"


@pytest.mark.parametrize(
    ("families", "refused_", "command"),
    [
        (
            {
                "common-cu128-ubuntu-2204-nvidia-570": "DEPRECATED",
                "common-cu130-ubuntu-2404-nvidia-580": "",
                "common-cu128-ubuntu-2404-nvidia-575": "",
                "common-cu129-ubuntu-2404-nvidia-590": "",
                "pytorch-2-9-cu129-ubuntu-2404-nvidia-580": "",
            },
            {},
            f"pulumi config set image {FAMILY}common-cu129-ubuntu-2404-nvidia-590   # or "
            "common-cu128-ubuntu-2404-nvidia-575",
        ),
        ({}, {}, LIST),
        (
            {"common-cu129-ubuntu-2404-nvidia-590": ""},
            {"compute.images.list": (403, "forbidden")},
            LIST,
        ),
    ],
)
def test_a_retired_family_names_those_that_exist(
    families: dict[str, str], refused_: dict[str, tuple[int, str]], command: str
) -> None:
    with asking(Rest(families=families, refused=refused_)) as token:
        there = world(**token, getImage=refuse)
        message = denied(there, image="dlvm-cu129-ubuntu-2204")
    assert message.partition("  next: ")[2].startswith(command)
    assert "rm image" not in message


def test_names_of_anothers_machines_are_refused_before_anything_is_made() -> None:
    """Google has each name once in a project; the message names the owner and a free name."""
    theirs = {"railhead-cluster": "t4", "railhead-owner": "ben", "railhead-id": "ffffffffffff"}
    other = machines({"t4-ann-1": "RUNNING"}, labels={**theirs, "railhead-cluster": "t4-ann"})
    taken = Rest(instances={**machines({"t4-2": "RUNNING"}, labels=theirs), **other})
    message = denied_with(taken)
    assert "t4-2 (t4-2, owner ben, id ffffffffffff)" in message
    assert message.endswith("next: pulumi config set name t4-2")
    assert "fab adopt ffffffffffff" in denied_with(taken, owner="ben")
    both = {**machines({"t4-9": "RUNNING"}, labels=theirs), **machines({"t4-1": "RUNNING"})}
    with asking(Rest(instances=both)) as token:
        assert len(made(world(**token)).every(INSTANCE)) == 2


def test_machines_of_anothers_stack_are_not_joined_and_not_counted_as_own() -> None:
    theirs = {"railhead-cluster": "t4", "railhead-id": "ffffffffffff"}
    there = Rest(
        zones={T4: ["us-central1-a", "us-central1-c"]},
        instances=machines({"t4-9": "RUNNING"}, "us-central1-c", theirs),
    )
    with asking(there) as token:
        hosts = made(world(**token)).every(INSTANCE)
    assert {host.inputs["zone"] for host in hosts} == {"us-central1-a"}
