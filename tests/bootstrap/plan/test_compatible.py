"""For each machine and image that the stacks offer: driver, CUDA, cuDNN, TensorFlow, Horovod fit.

The rules are the vendors', as read in November 2026; docs/tasks-hosts.md says them. A row that
breaks one cannot come into a table of ours without a test here failing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from standins.gpu_hosts import CARD_OF, with_cards

from bootstrap.errors import UsageError
from bootstrap.facts.egress import Egress, EgressCheck, origin
from bootstrap.facts.gpu import Driver
from bootstrap.facts.host import PYTHON_OF_APT, HostFacts
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan import drivers
from bootstrap.plan.cluster import Options, SurveyedCluster
from bootstrap.plan.decide import decide
from bootstrap.plan.downloads import DEBIAN
from bootstrap.plan.hostfile import Peer
from bootstrap.plan.runtimes import LOCKS, RUNTIMES, Runtime, choose_runtime
from bootstrap.plan.system_changes import refuse
from bootstrap.runs.strategies import LAUNCHERS
from railhead.documents.machine_types import A10G, A100, H100, L4, L40S, T4, V100
from stacks.aws.image import PARAMETERS
from stacks.gcp.image import FAMILIES, choose_image
from stacks.machine_types import aws as aws_types
from stacks.machine_types import gcp as gcp_types
from stacks.rules import aws as aws_rules
from stacks.rules import gcp as gcp_rules

# The generations' compute capability, and the last of each: driver branch, CUDA, cuDNN below.
RULES = {"aws": aws_rules, "gcp": gcp_rules}
ARCHES = {
    V100: "volta",
    T4: "turing",
    A10G: "ampere",
    A100: "ampere",
    L4: "ada",
    L40S: "ada",
    H100: "hopper",
    "nvidia-tesla-t4": "turing",
    "nvidia-tesla-v100": "volta",
    "nvidia-a100-80gb": "ampere",
}
CAPABILITY = {"volta": 70, "turing": 75, "ampere": 80, "ada": 89, "hopper": 90}
LAST = {"volta": {"branch": 580, "cuda": 12, "cudnn": (9, 11)}}
PROPRIETARY_ONLY = ("volta",)
LEAST_DRIVER = {12: (525, 60, 13), 13: (580, 65, 6)}  # by CUDA
# What the wheels are built for; a card runs the code of an older one of its major.
BUILT_FOR = {
    "tf2.18": (60, 70, 80, 89, 90),
    "tf2.21": (60, 70, 80, 89, 90),
    "jax0.6": (50, 60, 70, 80, 90, 100, 120),
    "torch2.10": (70, 75, 80, 86, 89, 90, 100, 120),
}
HOROVOD_BUILDS_WITH = ("2.18.1", "2.21.0")  # and runs with: all that was tried
# The driver that AWS's image brings, as its notes of October 2026 have it.
DLAMI = Driver("595.91.07", 595, "open")


@dataclass(frozen=True)
class Stack:
    """What lies one upon the other: a card's driver, and what TensorFlow brings."""

    arch: str
    branch: int
    flavour: str
    version: tuple[int, ...]
    cuda: int
    cudnn: tuple[int, ...]
    runtime: str
    framework: str
    horovod: bool


def broken(stack: Stack) -> list[str]:
    """The rules that a stack breaks."""
    last, faults = LAST.get(stack.arch, {}), []
    if stack.branch > int(str(last.get("branch", 10**6))):
        faults.append(f"branch {stack.branch} does not know {stack.arch}")
    if stack.arch in PROPRIETARY_ONLY and stack.flavour != "proprietary":
        faults.append(f"the {stack.flavour} module does not know {stack.arch}")
    if stack.cuda > int(str(last.get("cuda", 10**6))):
        faults.append(f"CUDA {stack.cuda} does not know {stack.arch}")
    if "cudnn" in last and stack.cudnn >= last["cudnn"]:  # type: ignore[operator]
        faults.append(f"cuDNN {stack.cudnn} does not know {stack.arch}")
    if stack.version < LEAST_DRIVER[stack.cuda]:
        faults.append(f"driver {stack.version} is too old for CUDA {stack.cuda}")
    capability = CAPABILITY[stack.arch]
    if not any(b // 10 == capability // 10 and b <= capability for b in BUILT_FOR[stack.runtime]):
        faults.append(f"{stack.runtime} has no code for sm_{capability}")
    if stack.horovod and stack.framework not in HOROVOD_BUILDS_WITH:
        faults.append(f"Horovod was never built with TensorFlow {stack.framework}")
    return faults


def pinned(runtime: Runtime, package: str) -> tuple[int, ...]:
    """The one version of a package in a runtime's lock."""
    versions = set(re.findall(rf"^{re.escape(package)}==([\d.]+)", runtime.lock.read_text(), re.M))
    assert len(versions) == 1, f"{runtime.name} has {package} {versions}"
    return drivers.version(versions.pop())


def offers() -> Iterator[tuple[str, str, str, str, bool]]:
    """Machine, generation, cloud, image, and whether the stacks take the two together."""
    for name, machine in aws_types.TYPES.items():
        for chosen in PARAMETERS if machine.gpu else ():
            yield name, ARCHES[machine.gpu or ""], "aws", chosen, _taken("aws", name, None, chosen)
    on_gcp = [(name, gpu) for name in gcp_types.N1 for gpu in gcp_types.GPU_LIMITS]
    on_gcp += [(name, row[1]) for name, row in gcp_types.WITH_GPUS.items()]
    for name, gpu in on_gcp:
        for chosen in FAMILIES:
            yield name, ARCHES[gpu], "gcp", chosen, _taken("gcp", name, gpu, chosen)


def _taken(cloud: str, machine: str, card: str | None, chosen: str) -> bool:
    values = {"cloud": cloud, "machine_type": machine, "gpu_type": card, "image": chosen}
    return not [*RULES[cloud]._image(values)]


OFFERS = list(offers())
TAKEN = sorted({offer[1:4] for offer in OFFERS if offer[4]})
GPU_RUNTIMES = [runtime for runtime in RUNTIMES.values() if runtime.gpu]


def fresh(debian: HostFacts, arch: str, cloud: str, chosen: str) -> HostFacts:
    """A machine of an image at its first boot, before anybody changed it."""
    release = "22.04" if "22" in chosen else "24.04"
    os = f"ubuntu-{release}"
    system = replace(debian.system, kernel=f"6.8.0-1043-{cloud}", cloud=cloud, headers=True)
    system = replace(system, secure_boot=cloud == "gcp" and not chosen.startswith("dlvm"))
    python = PYTHON_OF_APT[os]
    host = replace(debian, os=os, system=system, pythons={python: f"/usr/bin/python{python}"})
    host = with_cards(host, arch)
    if chosen.startswith("dlvm"):
        path = "/opt/deeplearning/install-driver.sh"
        return replace(host, gpu=replace(host.gpu, installer=path))
    return with_driver(host, DLAMI) if chosen.startswith("dlami") else host


def with_driver(host: HostFacts, driver: Driver) -> HostFacts:
    """The host once a driver runs on it."""
    names = tuple(map(str, host.gpu.cards))
    return replace(host, gpu=replace(host.gpu, driver=driver, smi=""), gpus=names)


def resolved(host: HostFacts) -> tuple[int, str, tuple[int, ...]]:
    """The driver that this host ends up with: branch, flavour, version."""
    row = drivers.choose(host)
    if row is None:
        assert host.gpu.driver
        return (
            host.gpu.driver.branch,
            host.gpu.driver.flavour,
            drivers.version(host.gpu.driver.version),
        )
    refuse(host, row)
    return row.branch, row.flavour, (row.branch, 999)


@pytest.mark.parametrize("runtime", GPU_RUNTIMES, ids=lambda runtime: runtime.name)
@pytest.mark.parametrize(("arch", "cloud", "chosen"), TAKEN)
def test_what_is_offered_fits(
    debian: HostFacts, arch: str, cloud: str, chosen: str, runtime: Runtime
) -> None:
    host = fresh(debian, arch, cloud, chosen)
    branch, flavour, version = resolved(host)
    stack = Stack(
        arch, branch, flavour, version,
        cuda=pinned(runtime, "nvidia-cuda-runtime-cu12")[0],
        cudnn=pinned(runtime, "nvidia-cudnn-cu12"),
        runtime=runtime.row.name,
        framework=".".join(map(str, pinned(runtime, runtime.framework.module))),
        horovod=runtime.horovod,
    )  # fmt: skip
    assert broken(stack) == []
    assert stack.framework == runtime.version
    assert set(host.pythons) & set(runtime.row.pythons)


@pytest.mark.parametrize(("arch", "cloud", "chosen"), TAKEN)
def test_a_fresh_machine_gets_a_runtime_for_gpus_before_its_driver_is_there(
    debian: HostFacts, arch: str, cloud: str, chosen: str
) -> None:
    environment = choose_runtime({"h1": fresh(debian, arch, cloud, chosen)}, None, None)
    assert environment.runtime.gpu and environment.runtime.horovod


@pytest.mark.parametrize("open_", [True, False], ids=["with outbound access", "without"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(("arch", "cloud", "chosen"), TAKEN)
def test_fresh_machines_of_each_image_can_be_prepared_for_each_launcher(
    debian: HostFacts, arch: str, cloud: str, chosen: str, launcher: str, open_: bool
) -> None:
    """Of their image alone: no variable, no cache, no wheel. V100's has no CUDA toolkit."""
    host = fresh(debian, arch, cloud, chosen)
    check = EgressCheck("archive.example", open_)
    there = Egress(check, check, ("http://archive.example",))
    host = replace(
        host, disk_free=10**12, envs=frozenset(), egress=there, tools={}, uvs=frozenset()
    )
    if host.gpu.installer and not open_:
        return  # refused in words: test_downloads.py
    facts = {"h1": host, "h2": host}
    hosts = tuple(Host(name, name) for name in facts)
    peers = tuple(Peer(name, f"10.0.0.{i}", 22, "u", 1, "k") for i, name in enumerate(facts))
    inventory = Inventory("c", hosts, cloud=cloud)
    environment = choose_runtime(facts, launcher, None)
    plan = decide(SurveyedCluster(inventory, facts, environment, peers), Options())
    names = [step.name for step in plan.of("h1")]
    assert "runtime" in names and environment.runtime.gpu
    if launcher == "horovod":
        (build,) = [step for step in plan.of("h1") if step.name == "horovod"]
        assert (build.fetches, build.sends) == ((117, 0) if open_ else (0, 117))
        assert open_ or any(origin(DEBIAN) in note for note in plan.notes)
    else:
        assert "horovod" not in names and not {"g++", "mpi.h"} & set(str(plan.of("h1")).split())


def test_every_machine_has_an_image_that_fits_and_all_are_looked_at() -> None:
    machines_of = {offer[0] for offer in OFFERS}
    with_gpus = {name for name, machine in aws_types.TYPES.items() if machine.gpu}
    assert machines_of == {*with_gpus, *gcp_types.N1, *gcp_types.WITH_GPUS}
    assert machines_of == {offer[0] for offer in OFFERS if offer[4]}
    assert {offer[1] for offer in OFFERS} == set(ARCHES.values()) <= set(CARD_OF)
    assert set(PARAMETERS) == set(aws_rules.IMAGES)
    assert set(FAMILIES) == set(gcp_rules.IMAGES)


def test_the_default_image_of_each_machine_is_one_that_fits() -> None:
    for name, _, cloud, _, _ in OFFERS:
        for card in gcp_types.GPU_LIMITS if cloud == "gcp" else [None]:
            values = {"cloud": cloud, "machine_type": name, "gpu_type": card}
            assert _taken(cloud, name, card, RULES[cloud].default_image(values))


def test_what_the_stacks_refuse_would_not_fit(debian: HostFacts) -> None:
    # Machines with NVSwitch need Fabric Manager, which Ubuntu's image does not bring.
    switched = {n for n, machine in aws_types.TYPES.items() if machine.has_nvswitch}
    assert all(o[3].startswith("ubuntu") for o in OFFERS if o[0] in switched and not o[4])
    refused = sorted({o[1:4] for o in OFFERS if not o[4] and o[0] not in switched})
    assert {(arch, chosen[:2]) for arch, _, chosen in refused} == {("volta", "dl")}
    for arch, cloud, chosen in refused:
        host = fresh(debian, arch, cloud, chosen)
        brought = host.gpu.driver or Driver("580.1", 580, "either")
        stack = replace(GOOD, arch=arch, branch=brought.branch, version=(999,), cudnn=(9, 3))
        assert broken(replace(stack, flavour=brought.flavour))


def test_a_driver_of_a_foreign_image_that_does_not_know_its_card_is_refused(
    debian: HostFacts,
) -> None:
    """The stacks take any image by its id: what they cannot see is reported before a cost."""
    host = fresh(debian, "volta", "aws", "dlami-base-ubuntu-22.04")
    row = drivers.choose(host)
    assert row and row.flavour == "proprietary"
    with pytest.raises(UsageError, match="does not support V100, and apt did not install"):
        refuse(host, row)


def test_secure_boot_goes_with_images_whose_driver_is_signed(debian: HostFacts) -> None:
    from stacks.config.settings import ClusterConfig

    for chosen in FAMILIES:
        config = ClusterConfig("gcp", "c", 1, "ann", 8.0, image=chosen)
        row = drivers.row(fresh(debian, "turing", "gcp", chosen))
        assert row.signed or not choose_image(config).secure_boot


GOOD = Stack("volta", 580, "proprietary", (580, 178), 12, (9, 3, 0, 75), "tf2.18", "2.18.1", True)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"branch": 595}, "branch 595"),
        ({"flavour": "open"}, "the open module"),
        ({"flavour": "either"}, "the either module"),
        ({"cuda": 13}, "CUDA 13"),
        ({"cudnn": (9, 11, 0, 98)}, "cuDNN"),
        ({"cudnn": (9, 28)}, "cuDNN"),
        ({"version": (525, 60, 11)}, "too old for CUDA 12"),
        ({"framework": "2.18.2"}, "Horovod was never built"),
        ({"arch": "turing", "cuda": 13, "version": (570, 1)}, "too old for CUDA 13"),
    ],
)
def test_the_rules_find_what_does_not_fit(change: dict[str, object], rule: str) -> None:
    assert broken(GOOD) == []
    faults = broken(replace(GOOD, **change))  # type: ignore[arg-type]
    assert len(faults) == 1 and rule in faults[0]


def test_the_wheel_is_built_for_every_card_that_is_offered() -> None:
    text = (LOCKS.parent / "bootstrap/host/scripts/horovod_compile.sh").read_text()
    built = [int(number) for number in re.findall(r"arch=compute_(\d+)", text)]
    for arch in set(ARCHES.values()):
        assert min(built) <= CAPABILITY[arch], "a later one translates the code of the last"
