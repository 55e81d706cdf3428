"""Images that no launcher works on are known by their publisher's names."""

from __future__ import annotations

import pytest

from bootstrap.facts.host import PYTHON_OF_APT
from bootstrap.plan import drivers
from bootstrap.plan.runtimes import ROWS
from railhead.documents.machine_types import T4, V100
from stacks.config.images import WITH_GPUS, WITHOUT_GPUS, refusal
from stacks.gcp.image import alike

# Names as their publishers gave them in 2025 and 2026.
UBUNTU, DLAMI = "ubuntu/images/hvm-ssd", "Deep Learning Base OSS Nvidia Driver GPU AMI"
NO_APT, PYTHON, OPEN = "has no apt", "has no Python of a runtime", "does not support V100"


@pytest.mark.parametrize(
    ("image", "without", "t4", "v100"),
    [
        (f"{UBUNTU}/ubuntu-jammy-22.04-amd64-server-20261101", "", "", ""),
        (f"{UBUNTU}-gp3/ubuntu-noble-24.04-amd64-server-20261101", "", "", ""),
        (f"{UBUNTU}/ubuntu-focal-20.04-amd64-server-20250401", PYTHON, PYTHON, PYTHON),
        (f"{UBUNTU}-gp3/ubuntu-plucky-25.04-amd64-server-20250801", "", "no driver", "no driver"),
        ("ubuntu-2204-jammy-v20261101", "", "", ""),
        ("ubuntu-minimal-2404-noble-amd64-v20261101", "", "", ""),
        ("ubuntu-pro-1804-bionic-v20250101", PYTHON, PYTHON, PYTHON),
        ("debian-12-amd64-20261101-1980", "", "", ""),
        ("debian-12-bookworm-v20261110", "", "", ""),
        ("debian-11-amd64-20250101-1980", PYTHON, PYTHON, PYTHON),
        ("debian-13-trixie-v20261110", "", "no driver", "no driver"),
        (f"{DLAMI} (Ubuntu 22.04) 20261009", "", "", OPEN),
        (f"{DLAMI} (Amazon Linux 2023) 20261009", NO_APT, NO_APT, OPEN),
        (
            "Deep Learning Base Proprietary Nvidia Driver AMI (Amazon Linux 2) Version 71.6",
            NO_APT, NO_APT, NO_APT,
        ),
        ("Deep Learning Base Proprietary Nvidia Driver GPU AMI (Ubuntu 22.04) 1", "", "", ""),
        ("common-cu129-ubuntu-2204-nvidia-580-v20260818", "", "", OPEN),
        ("c0-deeplearning-common-cpu-v20250325-debian-11-py310", PYTHON, PYTHON, PYTHON),
        ("amzn2-ami-kernel-5.10-hvm-2.0.20260101-x86_64-gp2", NO_APT, NO_APT, NO_APT),
        ("al2023-ami-2023.9.20261101-kernel-6.12-x86_64", NO_APT, NO_APT, NO_APT),
        ("RHEL-9.6.0_HVM-20260101-x86_64-0-Hourly2-GP3", NO_APT, NO_APT, NO_APT),
        ("rocky-linux-9-v20261101", NO_APT, NO_APT, NO_APT),
        ("Windows_Server-2025-English-Full-Base-2026.11.01", NO_APT, NO_APT, NO_APT),
        ("windows-server-2025-dc-v20261101", NO_APT, NO_APT, NO_APT),
        # One's own: what is in it is unknown.
        ("my-debian-11", "", "", ""),
        ("team-ubuntu-20.04-with-driver", "", "", ""),
        ("cosmos", "", "", ""),
    ],
)  # fmt: skip
def test_an_image_is_refused_by_its_publishers_name_alone(
    image: str, without: str, t4: str, v100: str
) -> None:
    expected = {None: without, T4: t4, V100: v100, "nvidia-tesla-v100": v100}
    for gpu, text in expected.items():
        message = refusal(image, gpu)
        assert (
            (text in message and image in message) if text and message else (message or "") == text
        )


def test_the_systems_are_those_that_bootstrap_prepares() -> None:
    pythons = {python for row in ROWS.values() for python in row.pythons}
    assert set(WITH_GPUS) == set(drivers.SYSTEMS) < set(PYTHON_OF_APT) < set(WITHOUT_GPUS)
    assert set(PYTHON_OF_APT.values()) <= pythons


def test_a_family_of_ubuntu_is_replaced_by_one_of_ubuntu() -> None:
    there = ["ubuntu-2404-lts-amd64", "ubuntu-minimal-2404-lts-amd64", "ubuntu-2604-lts-amd64"]
    assert alike("ubuntu-2204-lts", there) == ["ubuntu-2604-lts-amd64", "ubuntu-2404-lts-amd64"]
