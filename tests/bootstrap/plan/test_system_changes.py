"""What of a host's system changes, what is refused, and the plan that says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins.gpu_hosts import CARD_OF, card, with_cards

from bootstrap.errors import HostsNotReady, UsageError
from bootstrap.facts.gpu import Driver
from bootstrap.facts.host import HostFacts
from bootstrap.facts.marked import RunProcess
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan import decide, drivers, runtimes
from bootstrap.plan.cluster import Options, SurveyedCluster
from bootstrap.plan.hostfile import Peer
from bootstrap.plan.steps import MINUTES, Step
from bootstrap.plan.system_changes import Changes, changes, mixed
from bootstrap.provision.survey import without_idle_cards

SYSTEM = Options(system=True)
FAILED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."


def cluster(*hosts: HostFacts, cloud: str = "hosts", gpu: bool = True) -> SurveyedCluster:
    """Hosts h1, h2, ... of a cluster whose runtime is not there yet, with a wheel at hand."""
    facts = {f"h{i}": host for i, host in enumerate(hosts, 1)}
    runtime = runtimes.RUNTIMES["tf2.18-gpu" if gpu else "tf2.18-cpu"]
    environment = runtimes.Environment(runtime, "3.11", "a reason")
    peers = tuple(Peer(name, f"10.0.0.{i}", 22, "u", 1, "k") for i, name in enumerate(facts))
    inventory = Inventory("c", tuple(Host(n, n) for n in facts), cloud=cloud)
    return SurveyedCluster(inventory, facts, environment, peers, Path("horovod-0.28.1.whl"))


def of_system(facts: HostFacts, **changed: Any) -> HostFacts:
    return replace(facts, system=replace(facts.system, **changed))


def of_gpu(facts: HostFacts, **changed: Any) -> HostFacts:
    return replace(facts, gpu=replace(facts.gpu, **changed))


def why(host: HostFacts, step: str, **how: Any) -> str:
    return changes(cluster(host, **how), "h1").reasons[step]


def names(host: HostFacts, **how: Any) -> tuple[str, ...]:
    return changes(cluster(host, **how), "h1").names


# --- What is to be done --------------------------------------------------------------------


def test_a_host_that_has_every_part_is_left_alone(debian: HostFacts) -> None:
    todo = changes(cluster(debian, gpu=False), "h1")
    assert not todo
    assert (todo.steps("h1"), todo.as_root, todo.disk) == ([], (), {})


def test_missing_parts_are_one_step_with_their_packages(debian: HostFacts) -> None:
    bare = replace(debian, tools={}, mpi_headers=False)
    (step,) = changes(cluster(bare, gpu=False), "h1").steps("h1")
    expected = "mpirun, ssh, ssh-keygen missing: apt openmpi-bin openssh-client"
    assert step == Step("h1", "system", expected, MINUTES, fetches=30)


def test_a_builder_needs_a_compiler_as_well(debian: HostFacts) -> None:
    bare = replace(debian, tools={}, mpi_headers=False)
    todo = changes(replace(cluster(bare, gpu=False), wheel=None), "h1")
    assert {"g++", "libopenmpi-dev"} < set(todo.packages)
    assert todo.fetches == {"system": 149}


def test_the_host_that_builds_needs_the_compiler_also_beside_a_chief_that_is_ready(
    debian: HostFacts,
) -> None:
    bare = replace(debian, tools={}, mpi_headers=False)
    there = replace(cluster(bare, bare, gpu=False), wheel=None)
    ready = replace(bare, envs=frozenset({there.environment.digest}))
    there = replace(there, facts={"h1": ready, "h2": bare})
    packages = {name: changes(there, name).packages for name in there.facts}
    assert ["g++" in packages[name] for name in ("h1", "h2")] == [False, True]


def test_other_launchers_than_horovod_need_no_compiler(debian: HostFacts) -> None:
    bare = replace(debian, tools={}, mpi_headers=False)
    there = replace(cluster(bare, gpu=False), wheel=None)
    todo = changes(replace(there, environment=replace(there.environment, plain=True)), "h1")
    assert todo.packages == ("openmpi-bin", "openssh-client")


def test_a_host_without_python_gets_the_one_of_apt(debian: HostFacts) -> None:
    for there in ({}, {"3.13": "/usr/bin/python3.13"}):
        todo = changes(cluster(replace(debian, pythons=there), gpu=False), "h1")
        assert todo.packages == ("python3",)
        assert todo.reasons["system"] == "python3 missing: apt python3"


@pytest.mark.parametrize(
    ("state", "waits"),
    [("running", True), ("done", False), ("error", False), ("not started", False), (None, False)],
)
def test_only_an_unfinished_first_boot_is_waited_for(
    debian: HostFacts, state: str | None, waits: bool
) -> None:
    todo = changes(cluster(of_system(debian, cloud_init=state), gpu=False), "h1")
    assert todo.wait_cloud_init is waits
    assert todo.as_root == (), "waiting needs no root"


@pytest.mark.parametrize(
    ("changed", "cloud", "mends"),
    [
        ({}, "aws", True),
        ({}, "hosts", False),
        ({"apt_busy": ("apt-get",)}, "aws", False),
        ({"dpkg_broken": False}, "aws", False),
    ],
)
def test_a_broken_installation_is_repaired_on_machines_of_a_stack(
    debian: HostFacts, changed: dict[str, Any], cloud: str, mends: bool
) -> None:
    host = of_system(debian, **{"dpkg_broken": True, **changed})
    assert ("mend" in names(host, cloud=cloud, gpu=False)) is mends


def test_a_broken_installation_is_repaired_before_another_on_any_machine(debian: HostFacts) -> None:
    host = replace(of_system(debian, dpkg_broken=True), tools={})
    assert names(host, gpu=False) == ("mend", "system")


def test_the_program_that_locks_apt_is_named(debian: HostFacts) -> None:
    host = replace(of_system(debian, apt_busy=("unattended-upgr",)), tools={})
    assert why(host, "system", gpu=False).endswith("; after unattended-upgr")


def test_a_card_without_a_driver_gets_one_is_held_and_restarts(t4: HostFacts) -> None:
    todo = changes(cluster(t4), "h1")
    assert todo.names == ("driver", "reboot")
    assert todo.driver == drivers.row(t4) and todo.hold == todo.driver.hold
    driver, reboot = todo.steps("h1")
    assert driver.why == (
        "no driver is loaded: open 580, NVIDIA's repository, built on the host: "
        "linux-image-cloud-amd64 linux-headers-cloud-amd64 nvidia-open-580; held against upgrades"
    )
    assert (driver.reboots, driver.fetches) == (False, 670)
    assert str(reboot) == "reboot: loads the new driver (minutes, reboots)"
    assert why(of_gpu(t4, nouveau=True), "reboot") == "loads the new driver in place of Nouveau"


def test_a_driver_that_works_is_left_alone(t4: HostFacts) -> None:
    assert not changes(cluster(ready_gpu(t4)), "h1")


def test_a_driver_that_is_installed_and_not_loaded_needs_the_restart_alone(t4: HostFacts) -> None:
    there = dict.fromkeys(drivers.row(t4).packages, "580.178.04")
    host = of_gpu(of_system(t4, packages={**t4.system.packages, **there}), smi=FAILED)
    todo = changes(cluster(host), "h1")
    assert todo.driver is None and todo.reboot and todo.hold
    assert todo.reasons["reboot"] == f"{FAILED}, although the driver is installed"


def test_libraries_of_another_version_than_the_module_need_the_restart_alone(t4: HostFacts) -> None:
    mismatch = "Failed to initialize NVML: Driver/library version mismatch"
    there = dict.fromkeys(drivers.row(t4).packages, "580.178.04")
    host = of_system(ready_gpu(t4), packages={**t4.system.packages, **there})
    host = replace(of_gpu(host, smi=f"{mismatch}\nNVML library version: 580.178"), gpus=())
    todo = changes(cluster(host), "h1")
    assert todo.driver is None and todo.reboot
    assert todo.reasons["reboot"].startswith(mismatch)


@pytest.mark.parametrize(("cloud", "held"), [("aws", True), ("hosts", False)])
def test_what_was_installed_and_not_held_is_held_later_on_machines_of_a_stack(
    t4: HostFacts, cloud: str, held: bool
) -> None:
    there = dict.fromkeys(drivers.row(t4).packages, "580.178.04")
    host = of_system(ready_gpu(t4), packages=there)
    assert names(host, cloud=cloud) == (("driver",) if held else ())
    assert not names(of_system(host, held=frozenset(there)), cloud=cloud)


def test_a_card_that_is_too_old_is_neither_a_gpu_nor_an_error(debian: HostFacts) -> None:
    host = with_cards(debian, "pascal")
    assert not changes(cluster(host, gpu=False), "h1")
    plan = decide.decide(cluster(host, gpu=False), Options())
    assert "[h1] a CPU host: NVIDIA card 10de:1bb3 is too old to be used" in plan.notes


def ready_gpu(host: HostFacts, version: str = "580.178.04") -> HostFacts:
    """The host with a driver that serves."""
    driver = Driver(version, int(version.split(".")[0]), "open")
    names = tuple(str(card) for card in host.gpu.cards)
    return replace(of_gpu(host, driver=driver), gpus=names)


# --- What is refused -----------------------------------------------------------------------


Made = Callable[[HostFacts], HostFacts]
REFUSED: dict[str, tuple[Made, str]] = {
    "Secure Boot": (
        lambda h: of_system(h, secure_boot=True),
        "Secure Boot is on and the driver is not signed",
    ),
    "a run": (
        lambda h: replace(h, run_processes=(RunProcess(1, "20261121-101500-3f2a", h.home),)),
        "no driver is loaded, and the host is in use: run 20261121-101500-3f2a",
    ),
    "a process": (
        lambda h: of_gpu(ready_gpu(h, "470.57.02"), users=("4711 python3", "9 nvidia-persiste")),
        "driver 470.57.02 is older than 525.60.13, and the host is in use: 4711 python3",
    ),
    "by hand": (
        lambda h: of_gpu(h, smi=FAILED),
        "couldn't communicate with the NVIDIA driver., and apt did not install that driver",
    ),
    "another's kernel": (
        lambda h: of_system(h, kernel="6.18.44-mine"),
        "no headers for the kernel 6.18.44-mine",
    ),
    "another system": (
        lambda h: replace(h, os="fedora-41"),
        "no driver is known for fedora-41 on x86_64: they are known for debian-12, ubuntu-22.04,"
        " ubuntu-24.04",
    ),
    "another processor": (
        lambda h: replace(h, arch="aarch64"),
        "no driver is known for debian-12 on aarch64",
    ),
    "a card of next year": (
        lambda h: of_gpu(h, cards=(card("10de:3f00", None),)),
        "no driver is known for NVIDIA card 10de:3f00",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_driver_that_would_not_work_is_refused(t4: HostFacts, case: str) -> None:
    made, output = REFUSED[case]
    with pytest.raises(UsageError) as caught:
        changes(cluster(made(t4)), "h1")
    assert output in caught.value.message


@pytest.mark.parametrize(
    "made",
    [
        lambda h: of_gpu(ready_gpu(h, "470.57.02"), users=("9 nvidia-persiste",)),
        lambda h: of_system(h, kernel="6.18.44-mine", headers=True),
        lambda h: of_system(h, secure_boot=None),
    ],
    ids=["its own daemon", "another's kernel with headers", "nobody knows of Secure Boot"],
)
def test_what_disturbs_nobody_is_not_refused(t4: HostFacts, made: Made) -> None:
    host = made(of_system(t4, packages={"nvidia-utils-470": "470.57.02", **t4.system.packages}))
    assert names(host) == ("driver", "reboot")


def test_nothing_is_refused_for_a_driver_that_serves(t4: HostFacts) -> None:
    host = of_gpu(ready_gpu(t4), users=("4711 python3",))
    host = replace(
        of_system(host, secure_boot=True), run_processes=(RunProcess(1, "run", host.home),)
    )
    assert not changes(cluster(replace(host, os="fedora-41")), "h1")


def test_every_host_that_cannot_be_prepared_is_reported(t4: HostFacts) -> None:
    closed = of_system(t4, secure_boot=True)
    homeless = of_system(t4, home_on="", disks={})
    spaced = replace(t4, home="/home/ann b")
    with pytest.raises(HostsNotReady, match="4 of 5 hosts cannot be prepared") as caught:
        decide.decide(cluster(t4, closed, replace(t4, os="arch"), homeless, spaced), SYSTEM)
    assert caught.value.outcomes["h1"] == "ok"
    assert "Secure Boot" in caught.value.outcomes["h2"]
    assert "no driver is known for arch" in caught.value.outcomes["h3"]
    assert f"the home directory {t4.home} does not exist" in caught.value.outcomes["h4"]
    assert "'/home/ann b' has a space" in caught.value.outcomes["h5"]


@pytest.mark.parametrize(("cloud", "allowed"), [("hosts", False), ("local", False), ("aws", True)])
def test_machines_that_were_only_named_are_changed_with_system_alone(
    t4: HostFacts, cloud: str, allowed: bool
) -> None:
    todo = cluster(t4, cloud=cloud)
    assert decide.decide(todo, SYSTEM).needs("h1", "driver")
    if allowed:
        assert decide.decide(todo, Options()).needs("h1", "driver")
        return
    with pytest.raises(UsageError, match="these are ad-hoc hosts") as caught:
        decide.decide(todo, Options())
    assert "  [h1] loads the new driver" in caught.value.message
    assert "--system" in caught.value.hint


@pytest.mark.parametrize(
    ("changed", "lack"), [({"sudo": False}, "sudo without a password"), ({"apt": False}, "apt-get")]
)
def test_root_is_needed_only_where_roots_work_is(
    debian: HostFacts, changed: dict[str, Any], lack: str
) -> None:
    host = replace(debian, **changed)
    assert decide.decide(cluster(host, gpu=False), Options())
    with pytest.raises(UsageError, match=f"h1 has no {lack}") as caught:
        decide.decide(cluster(replace(host, tools={}), gpu=False), SYSTEM)
    assert "as root: apt-get install openmpi-bin openssh-client" in caught.value.hint


def test_a_first_boot_is_waited_for_without_any_permission(debian: HostFacts) -> None:
    host = replace(of_system(debian, cloud_init="running"), sudo=False)
    plan = decide.decide(cluster(host, gpu=False), Options())
    assert [s.name for s in plan.steps][0] == "cloud-init"


# --- Room ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("disks", "home_on", "free", "output"),
    [
        ({"/": 2 * 10**9}, "/home", 10**12, "[h1] driver needs 2.3 GB on /,"),
        ({"/": 10**12, "/usr": 10**9}, "/", 10**12, "[h1] driver needs 2.3 GB on /usr,"),
        ({"/": 10**12}, "/home", 10**9, "[h1] runtime needs"),
    ],
)
def test_the_space_for_all_steps_is_checked_before_any_download(
    t4: HostFacts, disks: dict[str, int], home_on: str, free: int, output: str
) -> None:
    host = replace(of_system(t4, disks=disks, home_on=home_on), disk_free=free)
    with pytest.raises(UsageError, match="disk full: not enough space on the hosts\n") as caught:
        decide.decide(cluster(host), SYSTEM)
    assert output in caught.value.message
    assert " are free" in caught.value.message


def test_steps_on_one_disk_share_what_is_free(t4: HostFacts) -> None:
    runtime = cluster(t4).environment.megabytes * 5 * 10**6
    for free, enough in ((runtime + 10**9, False), (runtime + 3 * 10**9, True)):
        host = replace(of_system(t4, disks={"/": free}, home_on="/"), disk_free=free)
        if enough:
            assert decide.decide(cluster(host), SYSTEM)
            continue
        with pytest.raises(UsageError, match=r"\[h1\] driver, runtime needs .* on /,"):
            decide.decide(cluster(host), SYSTEM)


def test_a_disk_of_two_parts_needs_the_sum_of_neither(t4: HostFacts) -> None:
    host = of_system(t4, disks={"/": 3 * 10**9, "/home": 10**12}, home_on="/home")
    assert decide.decide(cluster(replace(host, disk_free=10**12)), SYSTEM)


# --- Cards of several types ----------------------------------------------------------------


def test_cards_of_several_types_are_allowed_by_name_alone(t4: HostFacts) -> None:
    hosts = t4, with_cards(t4, "ada"), t4
    expected = "Tesla T4 on h1, h3; NVIDIA L4 on h2"
    assert mixed(dict(zip(("h1", "h2", "h3"), hosts, strict=True))) == expected
    with pytest.raises(UsageError) as caught:
        decide.decide(cluster(*hosts), SYSTEM)
    assert caught.value.message == f"GPUs of several types: {expected}"
    assert "--allow-mixed: every step waits for the slowest" in caught.value.hint
    plan = decide.decide(cluster(*hosts), replace(SYSTEM, allow_mixed=True))
    assert any(note.startswith(f"GPUs of several types: {expected}; every") for note in plan.notes)


def test_cards_of_one_type_are_no_mix(t4: HostFacts, debian: HostFacts) -> None:
    assert mixed({"h1": t4, "h2": with_cards(t4, "turing", 4)}) == ""
    assert mixed({"h1": debian}) == ""


def test_one_host_with_two_types_is_a_mix(t4: HostFacts) -> None:
    cards = (card(CARD_OF["turing"], "turing"), card(CARD_OF["volta"], "volta"))
    assert mixed({"h1": of_gpu(t4, cards=cards)}) == "Tesla T4 on h1; Tesla V100-SXM2-16GB on h1"


@pytest.mark.parametrize("how", [{"cloud": "local"}, {"cloud": "hosts", "card": "pascal"}])
def test_a_mix_that_nobody_trains_on_is_none(debian: HostFacts, how: dict[str, str]) -> None:
    """Cards that are too old, and those of somebody's own machine."""
    host = ready_gpu(with_cards(debian, "turing"))
    more = (*host.gpu.cards, card(CARD_OF[how.get("card", "ada")], how.get("card", "ada")))
    both = cluster(of_gpu(host, cards=more), cloud=how["cloud"])
    assert decide.decide(both, Options())


@pytest.mark.parametrize(("cloud", "kept"), [("local", 0), ("hosts", 1), ("aws", 1)])
def test_a_card_of_this_computer_that_does_not_work_is_ignored_and_reported(
    t4: HostFacts, cloud: str, kept: int
) -> None:
    inventory = cluster(t4, cloud=cloud).inventory
    facts, output = without_idle_cards(inventory, {"h1": t4})
    assert len(facts["h1"].gpu.cards) == kept
    assert output == (
        "" if kept else "this computer's Tesla T4 has no driver that works, and is not used"
    )
    assert len(without_idle_cards(inventory, {"h1": ready_gpu(t4)})[0]["h1"].gpu.cards) == 1


# --- The plan ------------------------------------------------------------------------------


def test_the_systems_steps_come_first_on_each_host(t4: HostFacts) -> None:
    bare = replace(of_system(t4, cloud_init="running", dpkg_broken=True), tools={}, pythons={})
    plan = decide.decide(cluster(bare, t4), SYSTEM)
    ours = ["uv", "runtime", "horovod", "key"]
    first = ["cloud-init", "mend", "system", "driver", "reboot"]
    assert [s.name for s in plan.of("h1")] == first + ours
    assert [s.name for s in plan.of("h2")] == ["driver", "reboot", *ours]


def test_a_first_boot_that_failed_is_reported(debian: HostFacts) -> None:
    plan = decide.decide(cluster(of_system(debian, cloud_init="error"), gpu=False), Options())
    assert any("first boot failed" in note for note in plan.notes)


def test_changes_name_their_steps_in_order() -> None:
    every = Changes(True, True, ("x",), None, ("*nvidia*",), True)
    assert every.names == ("cloud-init", "mend", "system", "driver", "reboot")
    assert every.as_root == every.names[1:]
    assert not Changes()
