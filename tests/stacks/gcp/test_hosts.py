"""The machines: what Google can do with them, who they are, and what a change leaves alone."""

from __future__ import annotations

import pytest
from standins.gcp.cloud import bundled_disks
from standins.gcp.compute import stop_action_error

from stacks.gcp import image
from stacks.timer.deadline import install_script
from tests.stacks.mocks import CLUSTER_ID

from .world import ACCOUNT, BUCKET, INSTANCE, made


@pytest.mark.parametrize("spot", [False, True])
def test_every_machine_ends_by_itself_and_none_starts_again(spot: bool) -> None:
    for host in made(spot=spot, count=3, deadline_hours=1.5).every(INSTANCE):
        scheduling = host.inputs["scheduling"]
        assert scheduling["onHostMaintenance"] == "TERMINATE"
        assert host.replace_on_changes == ("scheduling.onHostMaintenance",)
        assert scheduling["automaticRestart"] is False
        assert scheduling["maxRunDuration"] == {"seconds": 5400}
        assert scheduling["instanceTerminationAction"] == "STOP"
        assert scheduling["provisioningModel"] == ("SPOT" if spot else "STANDARD")
        assert scheduling["preemptible"] is spot
        assert "desiredStatus" not in host.inputs


@pytest.mark.parametrize(
    ("name", "spot", "action"),
    [
        ("e2-standard-4", False, "MIGRATE"),
        ("e2-standard-4", True, "TERMINATE"),
        ("n2-standard-4", False, "TERMINATE"),
    ],
)
def test_compute_does_for_maintenance_what_the_type_allows(
    name: str, spot: bool, action: str
) -> None:
    """It refuses e2 that would be stopped, unless it is spot."""
    no_gpus = {"gpu_type": None, "gpu_count": None}
    host = made(None, machine_type=name, spot=spot, **no_gpus).every(INSTANCE)[0]
    assert host.inputs["scheduling"]["onHostMaintenance"] == action


@pytest.mark.parametrize(
    "name", ["a2-ultragpu-1g", "a2-ultragpu-8g", "a2-highgpu-1g", "g2-standard-24", "e2-standard-4"]
)
def test_compute_may_discard_the_local_ssds_of_every_type_that_has_some(name: str) -> None:
    """It refuses machines with local SSDs otherwise, and others with it."""
    no_gpus = {"gpu_type": None, "gpu_count": None}
    host = made(None, machine_type=name, zones=("us-central1-a",), **no_gpus).every(INSTANCE)[0]
    scheduling = host.inputs["scheduling"]
    assert not stop_action_error(scheduling, local_ssd=bool(bundled_disks(name)))
    assert ("scratchDisks" in host.ignore_changes) == bool(bundled_disks(name))


def test_every_name_of_an_image_has_its_family() -> None:
    """As Google lists them: a family that does not exist would end every `up`."""
    dlvm, ubuntu = "deeplearning-platform-release", "ubuntu-os-cloud"
    assert {
        "dlvm-cu129-ubuntu-2204": (dlvm, "common-cu129-ubuntu-2204-nvidia-580"),
        "dlvm-cu129-ubuntu-2404": (dlvm, "common-cu129-ubuntu-2404-nvidia-580"),
        "ubuntu-2204": (ubuntu, "ubuntu-2204-lts"),
        "ubuntu-2404": (ubuntu, "ubuntu-2404-lts-amd64"),
    } == image.FAMILIES


def test_every_machine_has_its_timer_which_no_later_up_changes() -> None:
    for host in made(deadline_hours=1.5, idle_minutes=45).every(INSTANCE):
        assert host.inputs["metadata"]["startup-script"] == install_script(1.5, 45)
        assert 'metadata["startup-script"]' in host.ignore_changes


@pytest.mark.parametrize("cards", [1, 2, 4])
def test_every_machine_has_its_cards(cards: int) -> None:
    hosts = made(gpu_count=cards).every(INSTANCE)
    assert [host.inputs["guestAccelerators"] for host in hosts] == [
        [{"type": "nvidia-tesla-t4", "count": cards}]
    ] * 2
    assert {host.inputs["machineType"] for host in hosts} == {"n1-standard-8"}


def test_all_are_in_one_zone_under_their_own_names() -> None:
    hosts = made(count=16, zones=("us-central1-c", "us-central1-a")).every(INSTANCE)
    assert {host.inputs["zone"] for host in hosts} == {"us-central1-c"}
    assert {host.inputs["name"] for host in hosts} == {f"t4-{n}" for n in range(1, 17)}


def test_no_machine_is_the_default_account() -> None:
    everything = made()
    account = everything.one(ACCOUNT).inputs["accountId"]
    for host in everything.every(INSTANCE):
        who = host.inputs["serviceAccount"]
        assert who["email"] == f"{account}@p-12345.iam.gserviceaccount.com"
        assert who["scopes"] == ["https://www.googleapis.com/auth/devstorage.read_write"]


def test_without_a_bucket_a_machine_has_no_account_at_all() -> None:
    everything = made(bucket=False)
    assert not everything.kinds & {ACCOUNT, BUCKET}
    assert all("serviceAccount" not in resource.inputs for resource in everything.every(INSTANCE))
    assert everything.outputs["cluster"].get("bucket") is None


def test_one_key_and_no_other_way_in() -> None:
    for host in made().every(INSTANCE):
        metadata = host.inputs["metadata"]
        assert metadata["ssh-keys"] == "railhead:ssh-ed25519 AAAA ann@desk"
        assert metadata["block-project-ssh-keys"] == "TRUE"
        assert metadata["enable-oslogin"] == "FALSE"
        assert metadata["serial-port-enable"] == "FALSE"
        assert metadata["enable-guest-attributes"] == "TRUE"


def test_with_os_login_the_metadata_has_no_key() -> None:
    metadata = made(oslogin=True).every(INSTANCE)[0].inputs["metadata"]
    assert metadata["enable-oslogin"] == "TRUE" and "ssh-keys" not in metadata


@pytest.mark.parametrize(
    ("image", "secure", "driver"),
    [
        ("dlvm-cu129-ubuntu-2204", False, "True"),
        ("ubuntu-2404", True, None),
        ("projects/p/global/images/mine", False, None),
        (
            "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2404",
            False, "True",
        ),
    ],
)  # fmt: skip
def test_secure_boot_where_the_driver_module_is_signed(
    image: str, secure: bool, driver: str | None
) -> None:
    for host in made(image=image).every(INSTANCE):
        shielded = host.inputs["shieldedInstanceConfig"]
        assert shielded["enableVtpm"] and shielded["enableIntegrityMonitoring"]
        assert shielded["enableSecureBoot"] is secure
        assert host.inputs["metadata"].get("install-nvidia-driver") == driver


def test_disks_go_with_their_machine_and_are_labelled() -> None:
    for host in made(disk_gb=250).every(INSTANCE):
        disk = host.inputs["bootDisk"]
        assert disk["autoDelete"] is True
        assert disk["initializeParams"]["size"] == 250
        assert disk["initializeParams"]["labels"] == {
            "railhead-cluster": "t4",
            "railhead-owner": "ann",
            "railhead-id": CLUSTER_ID,
        }
        assert not {"kmsKeySelfLink", "diskEncryptionKeyRaw"} & set(disk)


def test_network_cards_are_fast_and_have_an_address_for_ssh() -> None:
    for host in made().every(INSTANCE):
        (interface,) = host.inputs["networkInterfaces"]
        assert interface["nicType"] == "GVNIC"
        assert interface["accessConfigs"] == [{}]


def test_what_would_replace_machines_for_nothing_is_left_alone() -> None:
    for host in made().every(INSTANCE):
        assert host.ignore_changes == (
            "name",
            "bootDisk.initializeParams.labels",
            "bootDisk.initializeParams.size",
            "scheduling.maxRunDuration",
            'metadata["startup-script"]',
            "zone",
        )
        assert "zone" not in made(zones=(host.inputs["zone"],)).every(INSTANCE)[0].ignore_changes
        assert host.delete_before_replace
        assert host.inputs["allowStoppingForUpdate"] is True, "another type replaces no disk"
