"""Which driver a host needs, and what brings it there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from standins.gpu_hosts import CARD_OF, card, with_cards

from bootstrap.errors import UsageError
from bootstrap.facts.gpu import Driver
from bootstrap.facts.host import HostFacts
from bootstrap.plan import drivers

UBUNTU = {"ubuntu-22.04": "6.8.0-1043-aws", "ubuntu-24.04": "6.14.0-1021-gcp"}


def host(debian: HostFacts, os: str, kernel: str, arch: str) -> HostFacts:
    """A host of a system and a kernel with a card in it."""
    system = replace(debian.system, kernel=kernel)
    return with_cards(replace(debian, os=os, system=system), arch)


def server(kernel: str, kind: str = "") -> str:
    """The packages that Ubuntu has for a flavour of its kernels."""
    modules = f"linux-modules-nvidia-580-server{kind}{kernel}"
    return f"{modules} nvidia-headless-no-dkms-580-server{kind} nvidia-utils-580-server"


@pytest.mark.parametrize(
    ("os", "kernel", "arch", "packages"),
    [
        ("ubuntu-22.04", "6.8.0-1043-aws", "volta", server("-aws")),
        ("ubuntu-24.04", "6.14.0-1021-gcp", "turing", server("-gcp", "-open")),
        ("ubuntu-22.04", "5.15.0-140-generic", "ada", server("-generic", "-open")),
        ("ubuntu-22.04", "6.8.0-87-generic", "volta", server("-generic-hwe-22.04")),
        ("ubuntu-24.04", "6.8.0-87-generic", "hopper", server("-generic", "-open")),
        (
            "ubuntu-24.04", "6.8.0-1010-mine", "ampere",
            "nvidia-headless-580-server-open nvidia-utils-580-server",
        ),
        (
            "debian-12", "6.1.0-28-cloud-amd64", "volta",
            "linux-image-cloud-amd64 linux-headers-cloud-amd64 cuda-drivers-580",
        ),
        (
            "debian-12", "6.1.0-28-amd64", "turing",
            "linux-image-amd64 linux-headers-amd64 nvidia-open-580",
        ),
    ],
)  # fmt: skip
def test_a_row_names_the_packages_of_its_system(
    debian: HostFacts, os: str, kernel: str, arch: str, packages: str
) -> None:
    row = drivers.row(host(debian, os, kernel, arch))
    assert row.packages == tuple(packages.split())
    assert (row.branch, row.installer) == (580, None)
    assert row.flavour == ("proprietary" if arch == "volta" else "open")
    assert (row.repository, row.pin is not None) == ((os == "debian-12"),) * 2
    assert row.signed is packages.startswith("linux-modules-nvidia")
    assert "*nvidia*" in row.hold and row.reboot
    assert row.megabytes * 1_000_000 < row.disk


def test_headers_that_are_there_are_built_with(debian: HostFacts) -> None:
    there = host(debian, "debian-12", "6.18.44-mine", "turing")
    there = replace(there, system=replace(there.system, headers=True))
    assert drivers.row(there).packages == ("nvidia-open-580",)


def test_a_new_kernel_is_held_back_where_its_module_would_be_missing(debian: HostFacts) -> None:
    hold = drivers.row(host(debian, "ubuntu-22.04", "6.8.0-1043-aws", "turing")).hold
    assert {"linux-aws", "linux-image-aws", "linux-headers-aws"} < set(hold)
    hold = drivers.row(host(debian, "debian-12", "6.1.0-28-cloud-amd64", "turing")).hold
    assert {"linux-image-cloud-amd64", "cuda-drivers*"} < set(hold)


def test_the_images_own_installer_is_taken_except_for_v100(debian: HostFacts) -> None:
    for arch, taken in (("turing", True), ("ada", True), ("volta", False)):
        there = host(debian, "ubuntu-22.04", "6.8.0-1043-gcp", arch)
        there = replace(there, gpu=replace(there.gpu, installer="/opt/x/install-driver.sh"))
        row = drivers.row(there)
        assert bool(row.installer) is taken and bool(row.packages) is not taken
        why = "the image has its own installer"
        of_image = drivers.DriverRow(
            580, "either", (), why, installer=there.gpu.installer, reboot=row.reboot
        )
        assert (row == of_image) is taken
        assert row.reboot is not taken
        nouveau = replace(there, gpu=replace(there.gpu, nouveau=True))
        assert drivers.row(nouveau).reboot, "Nouveau has the card until the next start"


def test_a_v100_beside_another_card_decides(debian: HostFacts) -> None:
    there = host(debian, "ubuntu-22.04", "6.8.0-1043-aws", "turing")
    cards = (*there.gpu.cards, card(CARD_OF["volta"], "volta"))
    row = drivers.row(replace(there, gpu=replace(there.gpu, cards=cards)))
    assert row.flavour == "proprietary"


@pytest.mark.parametrize(
    ("arch", "version", "flavour", "wrong"),
    [
        ("volta", "580.178.04", "proprietary", ""),
        ("volta", "535.183.01", "proprietary", ""),
        ("volta", "525.60.13", "proprietary", ""),
        ("volta", "525.60.11", "proprietary", "older than 525.60.13"),
        ("volta", "470.256.02", "proprietary", "older than 525.60.13"),
        ("volta", "595.91.07", "proprietary", "does not support V100"),
        ("volta", "580.178.04", "open", "does not support V100"),
        ("turing", "580.178.04", "open", ""),
        ("turing", "580.178.04", "proprietary", ""),
        ("turing", "595.91.07", "open", ""),
        ("ada", "610.43.02", "open", ""),
        ("ada", "515.105.01", "open", "older than 525.60.13"),
    ],
)
def test_a_driver_works_or_not(
    debian: HostFacts, arch: str, version: str, flavour: str, wrong: str
) -> None:
    there = with_cards(debian, arch)
    driver = Driver(version, int(version.split(".")[0]), flavour)
    names = tuple(map(str, there.gpu.cards))
    there = replace(there, gpu=replace(there.gpu, driver=driver), gpus=names)
    assert wrong in drivers.wrong(there) and bool(drivers.wrong(there)) is bool(wrong)
    assert (drivers.choose(there) is None) is not bool(wrong)


@pytest.mark.parametrize(
    ("smi", "gpus", "wrong"),
    [
        ("Failed to initialize NVML: x\nNVML library version: 580.1", (), "Failed to initialize"),
        ("", (), "nvidia-smi shows no GPU"),
        ("", ("Tesla T4",), ""),
    ],
)
def test_a_module_alone_is_not_a_driver_that_works(
    t4: HostFacts, smi: str, gpus: tuple[str, ...], wrong: str
) -> None:
    driver = Driver("580.178.04", 580, "open")
    there = replace(t4, gpu=replace(t4.gpu, driver=driver, smi=smi), gpus=gpus)
    assert drivers.wrong(there).startswith(wrong) and "\n" not in drivers.wrong(there)


def test_a_host_without_a_card_needs_no_driver(debian: HostFacts) -> None:
    assert drivers.choose(debian) is None
    assert drivers.choose(replace(debian, os="fedora-41", arch="aarch64")) is None


@pytest.mark.parametrize("os", ["debian-11", "debian-13", "ubuntu-20.04", "ubuntu-26.04", "arch"])
def test_a_system_without_a_row_is_refused_with_those_that_have_one(t4: HostFacts, os: str) -> None:
    with pytest.raises(UsageError, match=f"no driver is known for {os} on x86_64") as caught:
        drivers.choose(replace(t4, os=os))
    assert all(known in caught.value.message for known in drivers.SYSTEMS)
