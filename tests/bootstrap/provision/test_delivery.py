"""Wheels on their way to a host without outbound access. The hosts record each call; a real one is
in tests/e2e."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from standins.connected import connected

from bootstrap.console.live import Board
from bootstrap.facts.egress import Egress, EgressCheck
from bootstrap.facts.host import HostFacts
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan import runtimes
from bootstrap.plan.cluster import SurveyedCluster
from bootstrap.plan.hostfile import Peer
from bootstrap.plan.runtimes import CUDA_LOCKS, LOCKS
from bootstrap.plan.steps import Plan, Step
from bootstrap.provision import apply as apply_plan
from bootstrap.provision import wheels
from bootstrap.provision.horovod_wheel import APT, supplied
from bootstrap.provision.host_step import HostStep
from bootstrap.ssh.bundle import Bundle
from bootstrap.ssh.session import Session
from railhead.documents.agent.commands import CommandResult
from railhead.documents.agent.files import TextFile

PYTHON = "3.11.4"  # of the hosts
ADDRESS = "http://127.0.0.1:4711"  # a port of the host's that leads here


class RecordedHost:
    """Stands for the session of one host."""

    def __init__(self, name: str) -> None:
        self.host = Host(name, name)
        self.sent: list[str] = []
        self.ran: list[tuple[list[str], Mapping[str, str]]] = []
        self.removed: list[str] = []
        self.forwarded: list[bool] = []
        self.written: list[TextFile] = []

    def start_agent(self, python: str) -> None:
        """Nothing is on the other side."""

    def write(self, *files: TextFile) -> None:
        self.written += files

    def read(self, path: str) -> None:
        """Nothing is there."""

    def remove(self, *paths: str) -> None:
        self.removed += paths

    @property
    def connection(self) -> Any:
        """It is the host itself."""
        return self

    @contextmanager
    def lend_port(self, serve: object) -> Iterator[int]:
        self.forwarded.append(True)
        yield 4711
        self.forwarded.append(False)

    def run(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, **_: Any
    ) -> CommandResult:
        if "sys.version_info" in argv[-1]:
            return CommandResult(0, (PYTHON,))
        self.ran.append((list(argv), env or {}))
        return CommandResult(0, ("/home/rail/.railhead/build/out/horovod.whl",))

    def send_tree(
        self, bundle: Bundle, dest: str, *, prune: bool, on_sent: Callable[[int, int], None]
    ) -> None:
        assert (dest, prune) == (wheels.FOLDER, False)
        self.sent += [file.path for file in bundle.files]
        on_sent(bundle.total_bytes, bundle.total_bytes)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Three files, one of them larger than a program's folder may be."""
    folder = tmp_path / "house"
    folder.mkdir()
    for name, size in {"b.whl": 200_000_001, "a.whl": 3000, "c.whl": 1000}.items():
        with (folder / name).open("wb") as file:
            file.truncate(size)
    return folder


def of(host: RecordedHost) -> Session:
    return cast("Session", host)


def test_small_files_go_together_and_are_taken_away_when_they_are_installed(house: Path) -> None:
    host, sent = RecordedHost("h1"), list[tuple[int, int]]()
    with wheels.deliver(of(host), house, lambda *bytes_sent: sent.append(bytes_sent)):
        assert host.sent == ["c.whl", "a.whl", "b.whl"]
        assert not host.removed
    hashes = {file.sha256 for bundle in wheels.bundles_of(house) for file in bundle.files}
    assert set(host.removed) == {wheels.FOLDER, *(f"~/.railhead/blobs/{x}" for x in hashes)}
    assert sent == [(4000, 200_004_001), (200_004_001, 200_004_001)]


def test_after_a_failure_they_stay_for_the_next_time(house: Path) -> None:
    host = RecordedHost("h1")
    with pytest.raises(OSError), wheels.deliver(of(host), house, lambda *_: None):
        raise OSError
    assert host.removed == []


@pytest.fixture
def cluster(debian: HostFacts) -> SurveyedCluster:
    """Two hosts without a runtime; the first has no outbound access, and has to build the wheel."""
    environment = runtimes.Environment(runtimes.RUNTIMES["tf2.18-cpu"], "3.11", "", "extra==1.0")
    shut = replace(
        debian, egress=Egress(EgressCheck("m", False), EgressCheck("m", False), ("http://m",))
    )
    facts = {"h1": shut, "h2": debian}
    peers = tuple(Peer(name, f"10.0.0.{i}", 22, "u", 1, "k") for i, name in enumerate(facts))
    inventory = Inventory("c", tuple(Host(n, n) for n in facts))
    return SurveyedCluster(inventory, facts, environment, peers, None)


def apply(cluster: SurveyedCluster, steps: Sequence[Step]) -> dict[str, RecordedHost]:
    hosts = {name: RecordedHost(name) for name in cluster.facts}
    board = Board(io.StringIO(), list(hosts))
    apply_plan.apply(connected(cluster, hosts), Plan(tuple(hosts), tuple(steps)), board)
    return hosts


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be downloaded: what is installed was fetched before."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")


def wheel_folder(locks: list[str]) -> Path:
    """The folder in the cache of the wheels that these locks name."""
    return wheels._folder(wheels.applying(locks, PYTHON), wheels._wheels_only(PYTHON))


def there(folder: Path) -> Path:
    """The folder, whose parent is made."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder


def test_a_host_installs_from_what_the_plan_sends_it(
    cluster: SurveyedCluster, house: Path, no_index: None
) -> None:
    lock = cluster.environment.runtime.lock.read_text()
    shutil.move(house, there(wheel_folder([lock, "extra==1.0"])))
    hosts = apply(
        cluster, [Step("h1", "runtime", "", sends=317), Step("h2", "runtime", "", fetches=317)]
    )
    sync = {name: next(a for a, _ in host.ran if "sync" in a) for name, host in hosts.items()}
    assert set(wheels.FOR_UV) <= set(sync["h1"])
    assert "--require-hashes" in sync["h1"]
    assert not {"--offline", "--no-index"} & set(sync["h2"])
    assert hosts["h1"].sent == ["c.whl", "a.whl", "b.whl"]
    assert hosts["h2"].sent == [] and wheels.FOLDER in hosts["h1"].removed


def place(name: str, folder: Path) -> None:
    """What was fetched for a lock."""
    there(folder).mkdir()
    (folder / f"{name}.whl").touch()


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("has_toolkit", [False, True])
@pytest.mark.parametrize("shut", [False, True])
@pytest.mark.parametrize("archive", ["", "http://archive.example/debian"])
def test_a_builder_that_does_not_get_out_gets_all_parts_the_same_way(
    cluster: SurveyedCluster, no_index: None,
    archive: str, shut: bool, has_toolkit: bool, gpu: bool,
) -> None:  # fmt: skip
    lock = (LOCKS / "horovod.txt").read_text()
    place("horovod.txt", wheels._folder(lock, wheels.SOURCES_ONLY))
    for name in CUDA_LOCKS:  # each alone: together, the later one's versions would count
        place(name, wheel_folder([(LOCKS / name).read_text()]))
    facts = cluster.facts["h1" if shut else "h2"]
    facts = replace(facts, gpu=replace(facts.gpu, cuda={"12.8": "/x"} if has_toolkit else {}))
    runtime = runtimes.RUNTIMES["tf2.18-gpu" if gpu else "tf2.18-cpu"]
    environment = replace(cluster.environment, runtime=runtime)
    cluster = replace(cluster, facts={"h1": facts}, environment=environment, archive=archive)
    host = RecordedHost("h1")
    site = HostStep(of(host), cluster, Board(io.StringIO(), ["h1"]))
    with supplied(site) as variables:
        output = dict(variables)
    nvcc = gpu and not has_toolkit
    expected = ("horovod.txt", *(CUDA_LOCKS if nvcc else ())) if shut else ()
    assert host.sent == [f"{name}.whl" for name in expected]
    named = {"DEBIAN_MIRROR": archive} if archive else {}
    proxy = {"APT_CONFIG": APT} if shut and nvcc else {}
    assert output == named | proxy | (wheels.FOR_PIP if shut else {})
    assert host.forwarded == ([True, False] if shut and nvcc else [])
    assert [file.path for file in host.written if ADDRESS in file.text] == list(proxy.values())
