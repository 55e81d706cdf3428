"""The steps that bring a runtime and its Horovod wheel to hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bootstrap.errors import UsageError
from bootstrap.facts.host import HostFacts
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan import decide, runtimes
from bootstrap.plan.cluster import CachedWheel, Options, SurveyedCluster
from bootstrap.plan.hostfile import Peer
from bootstrap.plan.runtimes import Runtime
from bootstrap.plan.steps import MINUTES, Plan, Step

NO_WHEEL = "no wheel for this system yet: built here, once"
FOR_ALL = "; fab wheel --python 3.11 on such a computer serves all clusters"
WHEEL = Path("horovod-0.28.1-cp311-cp311-linux_x86_64.whl")
V100 = "Tesla V100-SXM2-16GB"


URL = "s3://b/wheels/k1"


def plan(
    host: HostFacts,
    runtime: str | Runtime,
    wheel: Path | None = None,
    kept: CachedWheel | None = None,
    cloud: str = "hosts",
) -> Plan:
    """What makes two such hosts ready, h1 and h2."""
    facts = {"h1": host, "h2": host}
    runtime = runtimes.RUNTIMES[runtime] if isinstance(runtime, str) else runtime
    environment = runtimes.Environment(runtime, "3.11", "a reason")
    peers = tuple(Peer(name, f"10.0.0.{i}", 22, "u", 1, "k") for i, name in enumerate(facts))
    inventory = Inventory("c", tuple(Host(n, n) for n in facts), cloud=cloud)
    two = SurveyedCluster(inventory, facts, environment, peers, wheel, kept)
    return decide.decide(two, Options())


def steps(
    host: HostFacts,
    runtime: str | Runtime,
    wheel: Path | None = None,
    kept: CachedWheel | None = None,
) -> dict[str, list[Step]]:
    """The steps of that plan by their name."""
    by_name: dict[str, list[Step]] = {}
    for step in plan(host, runtime, wheel, kept).steps:
        by_name.setdefault(step.name, []).append(step)
    return by_name


def with_gpu(host: HostFacts, **gpu: Any) -> HostFacts:
    return replace(host, gpus=(V100,), disk_free=10**12, gpu=replace(host.gpu, **gpu))


def test_one_host_builds_the_wheel_and_the_other_gets_it(debian: HostFacts) -> None:
    built, got = steps(debian, "tf2.18-cpu")["horovod"]
    assert built == Step("h1", "horovod", f"{NO_WHEEL}{FOR_ALL}", MINUTES)
    assert got == Step("h2", "horovod", "install the wheel that h1 builds")


@pytest.mark.parametrize(
    ("runtime", "cloud", "command"),
    [
        ("tf2.21-cpu", "hosts", "; fab wheel --runtime tf2.21 --python 3.11 on"),
        ("tf2.18-cpu", "aws", "; fab wheel --python 3.11 on"),
        ("tf2.18-cpu", "local", ""),  # what they build serves all clusters
    ],
)
def test_a_step_that_compiles_names_the_command_that_does_it_for_all_clusters(
    debian: HostFacts, runtime: str, cloud: str, command: str
) -> None:
    steps = plan(debian, runtime, cloud=cloud).steps
    built, got = [step.why for step in steps if step.name == "horovod"]
    assert command in built and ("fab wheel" in built) is bool(command)
    assert "fab wheel" not in got


def test_horovod_is_refused_where_it_does_not_compile_but_a_wheel_is_used(
    debian: HostFacts,
) -> None:
    newer = replace(debian, os="debian-13")
    with pytest.raises(UsageError, match="h1 is debian-13") as caught:
        steps(newer, "tf2.21-cpu")
    assert caught.value.hint.startswith("--launcher tensorflow")
    assert len(steps(newer, "tf2.21-cpu", WHEEL)["horovod"]) == 2


def test_a_wheel_that_there_is_is_installed(debian: HostFacts) -> None:
    expected = f"install the wheel built before ({WHEEL.name})"
    for step in steps(debian, "tf2.18-gpu", WHEEL)["horovod"]:
        assert (step.why, step.fetches) == (expected, 0)


@pytest.mark.parametrize(
    ("holds", "taken", "wheel", "output"),
    [
        (True, True, WHEEL, f"install the wheel kept in {URL} ({WHEEL.name})"),
        (True, False, WHEEL, f"install the wheel built before ({WHEEL.name})"),
        (None, False, WHEEL, f"install the wheel built before ({WHEEL.name})"),
        (None, False, None, f"{NO_WHEEL}{FOR_ALL}"),
        (False, False, None, f"{NO_WHEEL}, then kept in {URL}{FOR_ALL}"),
        (
            False, False, WHEEL,
            f"install the wheel built before ({WHEEL.name}), then kept in {URL}",
        ),
    ],
)  # fmt: skip
def test_one_host_reports_what_comes_from_the_bucket_or_goes_there(
    debian: HostFacts, holds: bool | None, taken: bool, wheel: Path | None, output: str
) -> None:
    kept = CachedWheel(URL, holds, taken, note="a reason" if holds is None else "")
    first, second = steps(debian, "tf2.18-cpu", wheel, kept)["horovod"]
    assert first.why == output and "then kept" not in second.why
    assert ("a reason" in plan(debian, "tf2.18-cpu", wheel, kept).notes) is (holds is None)


@pytest.mark.parametrize(
    ("cuda", "toolkit", "fetches"),
    [
        ({}, "an nvcc 12.4 that is fetched", 117),
        ({"13.0": "/usr/local/cuda-13.0"}, "an nvcc 12.4 that is fetched", 117),
        ({"12.8": "/usr/local/cuda-12.8"}, "/usr/local/cuda-12.8", 0),
    ],
)
def test_a_wheel_for_gpus_is_built_with_the_hosts_toolkit_if_it_has_one(
    debian: HostFacts, cuda: dict[str, str], toolkit: str, fetches: int
) -> None:
    built, got = steps(with_gpu(debian, cuda=cuda), "tf2.18-gpu")["horovod"]
    for_all = FOR_ALL.replace("3.11", "3.11 --gpu")
    assert (built.why, built.fetches) == (f"{NO_WHEEL}, for GPUs, with {toolkit}{for_all}", fetches)
    assert got.fetches == 0


@pytest.mark.parametrize(
    ("apt", "cuda", "refused"),
    [
        (False, {}, True),
        (False, {"13.0": "/usr/local/cuda-13.0"}, True),
        (False, {"12.8": "/usr/local/cuda-12.8"}, False),
        (True, {}, False),
    ],
)
def test_a_wheel_for_gpus_without_anything_to_build_it_with_is_refused_before_anything(
    debian: HostFacts, apt: bool, cuda: dict[str, str], refused: bool
) -> None:
    host = replace(with_gpu(debian, cuda=cuda), apt=apt)
    if not refused:
        assert plan(host, "tf2.18-gpu").needs("h1", "horovod")
        return
    with pytest.raises(UsageError, match="h1 builds Horovod for GPUs, has no CUDA 12 toolkit"):
        plan(host, "tf2.18-gpu")


@pytest.mark.parametrize("gpu", [False, True])
def test_a_runtime_without_horovod_has_no_step_for_it(debian: HostFacts, gpu: bool) -> None:
    runtime = Runtime(replace(runtimes.ROWS["tf2.21"], launchers=("tensorflow",)), gpu)
    todo = steps(replace(debian, disk_free=10**12), runtime)
    assert list(todo) == ["uv", "runtime", "key"]


PUBLIC = "ssh-ed25519 AAAAC3Nza key-of-c"
LINE = 'from="10.0.0.0",restrict ssh-ed25519 AAAAC3Nza railhead:c'
BUCKET = "s3://b"


def ready(debian: HostFacts, *left_out: str) -> HostFacts:
    """A host that has everything of a cluster with a bucket, but for these."""
    row = runtimes.RUNTIMES["tf2.18-cpu"]
    envs = {
        "runtime": runtimes.Environment(row, "3.11", "").digest,
        "client": runtimes.BucketClient("3.11").digest,
    }
    return replace(
        debian,
        envs=frozenset(digest for name, digest in envs.items() if name not in left_out),
        uvs=frozenset(() if "uv" in left_out else (runtimes.uv_digest(),)),
        cluster_key=None if "public" in left_out else PUBLIC,
        authorized=frozenset(("another",) if "line" in left_out else ("another", LINE)),
    )


def pair(
    chief: HostFacts, other: HostFacts, bucket: str | None = BUCKET, *, takeover: bool = False
) -> Plan:
    """The plan for two hosts."""
    facts = {"h1": chief, "h2": other}
    environment = runtimes.Environment(runtimes.RUNTIMES["tf2.18-cpu"], "3.11", "a reason")
    peers = tuple(Peer(name, f"10.0.0.{i}", 22, "u", 1, "k") for i, name in enumerate(facts))
    inventory = Inventory("c", tuple(Host(n, n) for n in facts), cloud="hosts", bucket=bucket)
    two = SurveyedCluster(inventory, facts, environment, peers, WHEEL, takeover=takeover)
    return decide.decide(two, Options())


LACKS = {
    "nothing": ((), (), []),
    "an installer that nothing needs": (("uv",), ("uv",), []),
    "the client on the chief": (("client",), (), ["h1 bucket"]),
    "the client elsewhere": ((), ("client",), []),
    "the client and the installer": (("client", "uv"), (), ["h1 uv", "h1 bucket"]),
    "a runtime": ((), ("runtime",), ["h2 runtime", "h2 horovod"]),
    "a line of the chief's key": ((), ("line",), ["h2 key"]),
    "the chief's own line": (("line",), (), ["h1 key"]),
    "the chief's key": (("public",), (), ["h1 key", "h2 key"]),
    "another host's key": ((), ("public",), []),
}


@pytest.mark.parametrize("chief, other, expected", LACKS.values(), ids=LACKS)
def test_only_what_is_missing_is_done(
    debian: HostFacts, chief: tuple[str, ...], other: tuple[str, ...], expected: list[str]
) -> None:
    plan = pair(ready(debian, *chief), ready(debian, *other))
    assert [f"{step.host} {step.name}" for step in plan.steps] == expected


LACKS_FOR_A_TAKEOVER = {
    "nothing": ((), (), []),
    "the client on the second host": ((), ("client",), ["h2 bucket"]),
    "the second host's key": ((), ("public",), ["h1 key", "h2 key"]),
    "the line of its key on the chief": (("line of h2",), (), ["h1 key"]),
}


@pytest.mark.parametrize(
    "chief, other, expected", LACKS_FOR_A_TAKEOVER.values(), ids=LACKS_FOR_A_TAKEOVER
)
def test_a_standby_writes_to_the_bucket_and_may_start_ranks(
    debian: HostFacts, chief: tuple[str, ...], other: tuple[str, ...], expected: list[str]
) -> None:
    second = "ssh-ed25519 AAAAC3Nzb key-of-c"
    line = 'from="10.0.0.1",restrict ssh-ed25519 AAAAC3Nzb railhead:c'
    hosts = []
    for lacks in (chief, other):
        host = ready(debian, *lacks)
        lines = host.authorized | ({line} if "line of h2" not in lacks else set())
        hosts.append(replace(host, authorized=frozenset(lines)))
    hosts[1] = replace(hosts[1], cluster_key=hosts[1].cluster_key and second)
    plan = pair(hosts[0], hosts[1], takeover=True)
    assert [f"{step.host} {step.name}" for step in plan.steps] == expected


def test_each_step_has_its_reason(debian: HostFacts) -> None:
    bare = ready(debian, "runtime", "client", "uv", "line")
    plan = pair(bare, ready(debian))
    digest = runtimes.Environment(runtimes.RUNTIMES["tf2.18-cpu"], "3.11", "").digest
    assert [step.why for step in plan.steps] == [
        "copy uv, which installs Python packages, over SSH",
        f"install the packages of tf2.18-cpu, environment {digest}",
        f"install the wheel built before ({WHEEL.name})",
        "install what writes to s3://b",
        "let the chief log in here, to start ranks",
    ]
    assert plan.notes[1] == "inside the cluster: h1 = 10.0.0.0, h2 = 10.0.0.1"


def test_without_a_bucket_nothing_writes_to_it(debian: HostFacts) -> None:
    lacks = ready(debian, "client")
    assert pair(lacks, lacks, bucket=None).steps == ()


def test_a_disk_that_is_just_large_enough_is_enough(debian: HostFacts) -> None:
    lacks = ready(debian, "runtime")
    environment = runtimes.Environment(runtimes.RUNTIMES["tf2.18-cpu"], "3.11", "")
    need = environment.megabytes * 5_000_000
    pair(replace(lacks, disk_free=need), ready(debian))
    short = replace(lacks, disk_free=need - 1)
    with pytest.raises(UsageError) as caught:
        pair(short, short)
    first, *hosts = caught.value.message.splitlines()
    assert first == "disk full: not enough space on the hosts"
    assert [line.split()[0] for line in hosts] == ["[h1]", "[h2]"]
