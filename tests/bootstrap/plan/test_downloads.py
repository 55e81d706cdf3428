"""How parts get to hosts without outbound access, as the plan says it, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bootstrap.errors import UsageError
from bootstrap.facts.egress import Egress, EgressCheck
from bootstrap.facts.host import HostFacts
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan import decide, runtimes
from bootstrap.plan.cluster import Options, SurveyedCluster
from bootstrap.plan.downloads import cut_off, mirrors, refuse, routed
from bootstrap.plan.drivers import DriverRow
from bootstrap.plan.hostfile import Peer
from bootstrap.plan.steps import MINUTES, Plan, Step
from bootstrap.plan.system_changes import Changes

SHUT = Egress(EgressCheck("mirror.example", False), EgressCheck("proxy.example:3128", False))
RUNTIME = Step("h1", "runtime", "not there", MINUTES, fetches=317)
WHEEL = Path("horovod-0.28.1.whl")


@pytest.fixture
def shut_in(debian: HostFacts) -> HostFacts:
    return replace(debian, egress=SHUT)


def cluster(*hosts: HostFacts, wheel: Path | None = WHEEL, gpu: bool = False) -> SurveyedCluster:
    facts = {f"h{i}": host for i, host in enumerate(hosts, 1)}
    runtime = runtimes.RUNTIMES["tf2.18-gpu" if gpu else "tf2.18-cpu"]
    environment = runtimes.Environment(runtime, "3.11", "a reason")
    peers = tuple(Peer(name, f"10.0.0.{i}", 22, "u", 1, "k") for i, name in enumerate(facts))
    inventory = Inventory("c", tuple(Host(n, n) for n in facts), cloud="aws", bucket="s3://results")
    return SurveyedCluster(inventory, facts, environment, peers, wheel)


def plan(*hosts: HostFacts, wheel: Path | None = WHEEL) -> Plan:
    return decide.decide(cluster(*hosts, wheel=wheel), Options())


@pytest.mark.parametrize(("answered", "sends"), [(True, 0), (None, 0), (False, 317)])
def test_only_a_host_that_was_seen_to_be_shut_in_is_sent_its_wheels(
    debian: HostFacts, answered: bool | None, sends: int
) -> None:
    way = Egress(EgressCheck("", None), EgressCheck("", answered))
    step = routed(RUNTIME, replace(debian, egress=way))
    assert (step.sends, step.fetches) == (sends, 317 - sends)
    assert cut_off(replace(debian, egress=way)) is bool(sends)


def test_the_plan_reports_how_each_part_reaches_its_host_and_its_size(
    debian: HostFacts, shut_in: HostFacts
) -> None:
    output = plan(shut_in, debian).describe()
    assert [line for line in output if "has no outbound access" in line] == [
        "[h1] has no outbound access (no answer from proxy.example:3128): "
        "wheels are downloaded here once, "
        "checked by hash, and sent through this connection"
    ]
    runtime = [line.rpartition("(")[2] for line in output if " runtime: " in line]
    megabytes = runtimes.Environment(runtimes.RUNTIMES["tf2.18-cpu"], "3.11", "").megabytes
    assert runtime == [
        f"minutes, about {megabytes} MB through this connection)",
        f"minutes, fetches about {megabytes} MB)",
    ]
    assert [line for line in output if "bucket:" in line][0].endswith(
        " MB through this connection)"
    )


def test_what_has_to_be_there_already_changes_no_step(
    debian: HostFacts, shut_in: HostFacts
) -> None:
    names = [step.name for step in plan(shut_in).steps]
    assert names == [step.name for step in plan(debian).steps]


def test_what_is_sent_needs_more_space_than_what_is_downloaded(
    debian: HostFacts, shut_in: HostFacts
) -> None:
    room = 2_000_000_000
    assert plan(replace(debian, disk_free=room))
    with pytest.raises(UsageError, match=r"\[h1\] runtime, bucket needs 2.7 GB"):
        plan(replace(shut_in, disk_free=room))


BARE = replace(SHUT, mirrors=("http://mirror.example", "https://b.example"))
ROW = DriverRow(580, "open", ("nvidia-open-580",), "", repository=True, megabytes=670)
NVIDIA = "https://developer.download.nvidia.com"


@pytest.mark.parametrize(
    ("changes", "extra"),
    [
        (Changes(), None),
        (Changes(wait_cloud_init=True, hold=("*nvidia*",), reboot=True), None),
        (Changes(driver=replace(ROW, packages=(), repository=False, installer="/opt/x")), None),
        (Changes(packages=("python3",)), ()),
        (Changes(mend_dpkg=True), ()),
        (Changes(driver=replace(ROW, repository=False)), ()),
        (Changes(driver=ROW), (NVIDIA,)),
    ],
)
@pytest.mark.parametrize("answered", [False, True, None])
def test_apt_asks_its_mirrors_through_this_connection_where_it_must(
    debian: HostFacts, changes: Changes, extra: tuple[str, ...] | None, answered: bool | None
) -> None:
    host = replace(debian, egress=replace(BARE, apt=EgressCheck("mirror.example", answered)))
    expected = () if extra is None or answered is not False else (*BARE.mirrors, *extra)
    assert mirrors(host, changes) == expected


@pytest.mark.parametrize("name", ["system", "driver"])
def test_packages_go_through_apt_and_not_with_the_wheels(debian: HostFacts, name: str) -> None:
    step = Step("h1", name, "", fetches=30)
    for apt, index in ((True, False), (False, True)):
        host = replace(debian, egress=Egress(EgressCheck("m", apt), EgressCheck("i", index)))
        assert routed(step, host).sends == (0 if apt else 30)


def test_the_plan_reports_what_a_bare_host_gets_from_here(
    debian: HostFacts, shut_in: HostFacts
) -> None:
    bare = replace(shut_in, tools={}, egress=BARE)
    output = plan(debian, bare).describe()
    expected = (
        "[h2] its apt has no outbound access (no answer from mirror.example): its requests to "
    )
    assert (
        f"{expected}http://mirror.example, https://b.example go through this connection" in output
    )
    (step,) = [line for line in output if "] system: " in line]
    assert step.startswith("[h2] ") and step.endswith("about 30 MB through this connection)")


def test_an_images_own_installer_is_refused_where_it_could_not_fetch(shut_in: HostFacts) -> None:
    row = DriverRow(580, "either", (), "", installer="/opt/x.sh")
    with pytest.raises(
        UsageError, match="h1 has no outbound access, .* downloads directly: /opt/x.sh"
    ):
        refuse({"h1": shut_in}, {"h1": Changes(driver=row)})
    out = replace(shut_in, egress=replace(SHUT, apt=EgressCheck("m", True)))
    refuse({"h1": out}, {"h1": Changes(driver=row)})


def test_the_host_that_builds_is_one_that_can_or_whose_apt_may_help(
    debian: HostFacts, shut_in: HostFacts
) -> None:
    bare, far = replace(debian, mpi_headers=False), replace(shut_in, mpi_headers=False)
    assert cluster(bare, shut_in).builder == "h2"
    assert cluster(far, bare).builder == "h2"
    assert cluster(debian, shut_in).builder == cluster(far, far).builder == "h1"


def test_what_a_wheel_for_gpus_is_built_with_goes_through_this_connection(
    shut_in: HostFacts,
) -> None:
    host = replace(shut_in, gpus=("Tesla V100-SXM2-16GB",), disk_free=10**12)
    with_toolkit = replace(host, gpu=replace(host.gpu, cuda={"12.8": "/usr/local/cuda-12.8"}))
    for wheel, facts, sends in ((None, host, 117), (None, with_toolkit, 0), (WHEEL, host, 0)):
        (step,) = [
            step
            for step in decide.decide(cluster(facts, wheel=wheel, gpu=True), Options()).steps
            if step.name == "horovod"
        ]
        assert (step.fetches, step.sends) == (0, sends)


def test_the_plan_names_every_place_that_a_build_may_ask(shut_in: HostFacts) -> None:
    host = replace(shut_in, gpus=("Tesla V100-SXM2-16GB",), disk_free=10**12, egress=BARE)
    lacking = replace(cluster(host, wheel=None, gpu=True), archive="http://archive.example/debian")
    (note,) = [note for note in decide.decide(lacking, Options()).notes if "its apt" in note]
    places = "http://mirror.example, https://b.example, http://archive.example"
    assert f"its requests to {places} go" in note
