"""The runtime and its Horovod wheel on hosts: in which order, and what a failure leaves.

The hosts are sessions that record each call; real ones are in tests/e2e.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from standins.connected import connected

from bootstrap.console.live import Board
from bootstrap.errors import HostsFailed, RailheadError
from bootstrap.facts.egress import UNREAD, Egress
from bootstrap.facts.host import HostFacts
from bootstrap.inventory import caches
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan import decide, runtimes
from bootstrap.plan.cluster import Options, SurveyedCluster
from bootstrap.plan.hostfile import Peer
from bootstrap.plan.internet import CA, Internet
from bootstrap.plan.runtimes import uv_digest
from bootstrap.plan.steps import Plan, Step
from bootstrap.provision import apply as apply_plan
from bootstrap.provision import survey, uv, wheel_store
from bootstrap.provision.host_step import HostStep
from bootstrap.provision.wheel_store import wheel_folder
from bootstrap.ssh.session import Session
from bootstrap.workflows.bootstrap import make_ready
from railhead.documents.agent.commands import CommandResult, Grown, Line
from railhead.documents.agent.files import Read, Replace, Replaced, Text, TextFile

if TYPE_CHECKING:
    from standins.stores.buckets import OnGcs, World

WHEEL = "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
BUILT = b"PK a wheel\xff" * 999


class RecordedHost:
    """Stands for the session of one host; what begins with `fails` ends with 1."""

    def __init__(self, name: str, fails: str = "") -> None:
        self.host = Host(name, name)
        self.fails = fails
        self.ran: list[list[str]] = []
        self.variables: list[Mapping[str, str]] = []  # of each command
        self.executable: set[str] = set()
        self.locks: set[str] = set()  # that a command had
        self.written: dict[str, str] = {}
        self.removed: list[str] = []
        self.got = b""  # the wheel that was sent to it

    def start_agent(self, python: str) -> None:
        """Nothing is on the other side."""

    def egress(self) -> Egress:
        return UNREAD

    def write(self, *files: TextFile) -> None:
        self.written |= {file.path: file.text for file in files}
        self.executable |= {file.path for file in files if file.mode == 0o755}

    def read(self, path: str) -> str | None:
        return self.written.get(path)

    def call(self, request: Read | Replace) -> Text | Replaced:
        if isinstance(request, Read):
            return Text(self.read(request.path))
        self.write(request.file)
        return Replaced(True)

    def remove(self, *paths: str) -> None:
        self.removed += paths

    def run(
        self, argv: Sequence[str], env: Mapping[str, str], *, lock: str, **_: Any
    ) -> CommandResult:
        self.ran.append(list(argv))
        self.locks.add(lock)
        self.variables.append(env)
        if self.fails and argv[0] == self.fails:
            return CommandResult(1, (f"the last line {env.get('HTTPS_PROXY', '')}".strip(),))
        return CommandResult(0, (f"/home/rail/.railhead/build/out/{WHEEL}",))

    def send_tree(
        self, bundle: Any, dest: str, *, prune: bool, on_sent: Callable[[int, int], None]
    ) -> None:
        self.ran.append(["sent", dest])
        on_sent(bundle.total_bytes, bundle.total_bytes)
        if dest.endswith("/wheels"):
            self.got = (bundle.root / bundle.files[0].path).read_bytes()

    def send_folder(self, bundle: Any, dest: str, *, on_sent: Callable[[int, int], None]) -> None:
        self.ran.append(["sent whole", dest])

    def get_file(self, path: str, out: Path, *, limit: int) -> None:
        self.ran.append(["fetched", path])
        out.write_bytes(BUILT)

    def command(self, name: str) -> list[str]:
        """The command that was run by this program; empty when it was not."""
        return next((argv for argv in self.ran if argv[0] == name), [])


@pytest.fixture
def cluster(debian: HostFacts) -> SurveyedCluster:
    """Two hosts that have neither the runtime nor a wheel."""
    environment = runtimes.Environment(runtimes.RUNTIMES["tf2.18-gpu"], "3.11", "")
    facts = {"h1": debian, "h2": debian}
    peers = tuple(Peer(name, f"10.0.0.{i}", 22, "u", 1, "k") for i, name in enumerate(facts))
    inventory = Inventory("c", tuple(Host(n, n) for n in facts))
    return SurveyedCluster(inventory, facts, environment, peers, None)


def apply(cluster: SurveyedCluster, hosts: Mapping[str, RecordedHost], *steps: str) -> None:
    plan = Plan(tuple(hosts), tuple(Step(host, step, "") for host in hosts for step in steps))
    apply_plan.apply(connected(cluster, hosts), plan, Board(io.StringIO(), tuple(hosts)))


def test_the_installer_is_sent_as_a_folder_that_appears_whole(
    cluster: SurveyedCluster, home: Path
) -> None:
    """It was fetched before."""
    installer = caches.cache("uv-for-hosts") / uv_digest() / "uv"
    installer.parent.mkdir(parents=True)
    installer.write_text("an installer")
    host = RecordedHost("h1")
    apply(cluster, {"h1": host}, "uv")
    assert host.ran == [["sent whole", f"~/.railhead/uv/{uv_digest()}"]]


def test_a_wheel_is_tried_where_it_was_built_before_others_get_it(cluster: SurveyedCluster) -> None:
    hosts = {name: RecordedHost(name) for name in ("h1", "h2")}
    apply(cluster, hosts, "horovod")
    built, tried = hosts["h1"].command("sh"), hosts["h1"].command("mpirun")
    folder = f"~/.railhead/build/{cluster.environment.wheel_key(cluster.facts['h1'])}"
    assert built[3:5] == [f"{folder}/horovod.sh", cluster.environment.folder]
    assert tried[-3:] == [f"{folder}/try_wheel.py", "mpi", "nccl"]
    order = [argv[0] for argv in hosts["h1"].ran]
    assert order.index("sh") < order.index("mpirun") < order.index("fetched") < order.index("sent")
    assert hosts["h2"].command("sh") == hosts["h2"].command("mpirun") == []
    recipe = {f"{folder}/{path.name}" for path in cluster.environment.runtime.recipe}
    assert recipe <= set(hosts["h1"].written)
    assert f"{folder}/horovod_compile.sh" in hosts["h1"].executable
    assert hosts["h1"].locks == hosts["h2"].locks == {f"{folder}.lock"}
    for host in hosts.values():
        assert f"{cluster.environment.folder}/.ok" in host.written
    assert [path.name for path in wheel_folder(cluster).iterdir()] == [WHEEL]


def with_keys(cluster: SurveyedCluster, *keys: str) -> SurveyedCluster:
    """The cluster with these verified host keys."""
    peers = zip(cluster.peers, keys, strict=True)
    return replace(cluster, peers=tuple(replace(peer, host_key=key) for peer, key in peers))


def of(cluster: SurveyedCluster, **inventory: Any) -> SurveyedCluster:
    """The cluster with other properties of its inventory."""
    return replace(cluster, inventory=replace(cluster.inventory, **inventory))


OTHERS: Mapping[str, Callable[[SurveyedCluster], SurveyedCluster]] = {
    "the same hosts": lambda c: c,
    "the same hosts under another name": lambda c: of(c, name="other"),
    "the same hosts in another order": lambda c: with_keys(c, "key 2", "key 1"),
    "the same hosts, but one": lambda c: with_keys(c, "key 1", "key 3"),
    "hosts without the builder": lambda c: with_keys(c, "key 3", "key 2"),
    "hosts on this computer": lambda c: of(c, cloud="local"),
    "a stack": lambda c: of(c, cluster_id="dev-1"),
    "another stack": lambda c: of(c, cluster_id="dev-2"),
}
AD_HOC = [name for name in OTHERS if name.startswith("the same hosts")]


@pytest.mark.parametrize(
    ("builder", "users"),
    [("the same hosts", AD_HOC), ("a stack", ["a stack"]), ("hosts on this computer", [*OTHERS])],
)
def test_a_wheel_is_installed_by_whoever_built_it_and_one_of_this_computer_by_all(
    cluster: SurveyedCluster, builder: str, users: list[str]
) -> None:
    keyed = with_keys(cluster, "key 1", "key 2")
    apply(OTHERS[builder](keyed), {name: RecordedHost(name) for name in ("h1", "h2")}, "horovod")
    found_by = {name: survey.with_wheel(other(keyed)).wheel for name, other in OTHERS.items()}
    assert [name for name, wheel in found_by.items() if wheel] == users
    assert {wheel.read_bytes() for wheel in found_by.values() if wheel} == {BUILT}


def test_a_wheel_of_an_earlier_version_is_not_used(cluster: SurveyedCluster) -> None:
    """Nobody knows who built it."""
    old = caches.cache("wheels") / cluster.environment.wheel_key(cluster.facts["h1"])
    old.mkdir()
    (old / WHEEL).write_bytes(BUILT)
    assert [survey.with_wheel(other(cluster)).wheel for other in OTHERS.values()] == [None] * 8


def test_hosts_on_this_computer_use_no_wheel_of_a_bucket(
    cluster: SurveyedCluster, world: World
) -> None:
    bucket = {"bucket": world.inventory.bucket, "region": world.inventory.region}
    stack = of(cluster, **bucket, cloud=world.inventory.cloud, cluster_id="dev-1")
    apply(survey.with_wheel(stack), {n: RecordedHost(n) for n in ("h1", "h2")}, "horovod")
    assert len(world.names()) == 2
    here = survey.with_wheel(of(stack, cloud="local"))
    assert here.wheel is None and here.cached_wheel is None


class Hostile(RecordedHost):
    """A host that says another name of its wheel."""

    wheel = ""

    def run(self, argv: Sequence[str], env: Mapping[str, str], **options: Any) -> CommandResult:
        return (
            CommandResult(0, (self.wheel,))
            if argv[0] == "sh"
            else super().run(argv, env, **options)
        )


@pytest.mark.parametrize(
    "wheel",
    ["", "/out/..", f"/out/{WHEEL}\n", "/out/horovod-1.whl/evil.pth", "/out/--target=x.whl"],
    ids=["none", "above", "line", "path", "option"],
)
def test_what_has_not_the_name_of_a_wheel_is_not_fetched(
    cluster: SurveyedCluster, wheel: str
) -> None:
    hosts = {"h1": Hostile("h1"), "h2": RecordedHost("h2")}
    hosts["h1"].wheel = wheel  # type: ignore[attr-defined]
    with pytest.raises(HostsFailed, match="as the name of a wheel"):
        apply(cluster, hosts, "horovod")
    assert not hosts["h1"].command("fetched") and kept_wheels() == []


def kept_wheels() -> list[str]:
    """All files below the cache of wheels."""
    files = caches.cache("wheels").rglob("*")
    return [path.name for path in files if path.is_file()]


def test_commands_on_a_host_cache_in_our_folder_and_use_the_proxy(cluster: SurveyedCluster) -> None:
    host = RecordedHost("h1")
    internet = Internet(proxy="http://me:s3cret@p.example", ca="certificates")
    apply(replace(cluster, internet=internet), {"h1": host}, "runtime", "horovod")
    assert host.written[CA] == "certificates"
    for variables in host.variables:
        assert variables["UV_CACHE_DIR"] == "~/.railhead/cache/uv"
        assert variables["PIP_CACHE_DIR"] == "~/.railhead/cache/pip"
        assert variables["KERAS_HOME"] == "~/.railhead/keras"
        assert variables["https_proxy"] == internet.proxy and variables["SSL_CERT_FILE"] == CA
    assert not any("s3cret" in word for argv in host.ran for word in argv)


def test_local_hosts_share_the_cache_of_this_machine(cluster: SurveyedCluster) -> None:
    host = RecordedHost("h1")
    inventory = replace(cluster.inventory, cloud="local")
    apply(replace(cluster, inventory=inventory), {"h1": host}, "runtime")
    assert host.variables and not any("UV_CACHE_DIR" in v for v in host.variables)


def test_a_failure_through_a_proxy_shows_no_password(cluster: SurveyedCluster) -> None:
    behind = replace(cluster, internet=Internet(proxy="http://me:s3cret@p.example"))
    with pytest.raises(HostsFailed) as caught:
        apply(behind, {"h1": RecordedHost("h1", "sh"), "h2": RecordedHost("h2")}, "horovod")
    assert "the last line http://me:[secret]@p.example" in caught.value.outcomes["h1"]


def test_a_host_that_waits_for_a_wheel_has_low_priority_and_imports_meanwhile(
    cluster: SurveyedCluster,
) -> None:
    hosts = {name: RecordedHost(name) for name in ("h1", "h2")}
    apply(cluster, hosts, "runtime", "horovod")
    waiting = [argv for argv in hosts["h2"].ran if argv[0] not in ("sent", "fetched")]
    assert all(argv[:3] == ["nice", "-n", "19"] for argv in waiting)
    imports = [i for i, argv in enumerate(hosts["h2"].ran) if "-c" in argv]
    wheel = next(i for i, argv in enumerate(hosts["h2"].ran) if argv[-1].endswith("/wheels"))
    assert len(imports) == 2 and imports[0] < wheel < imports[1]
    assert not hosts["h1"].command("nice")
    there = replace(cluster, wheel=wheel_folder(cluster) / WHEEL)
    again = {name: RecordedHost(name) for name in ("h1", "h2")}
    apply(there, again, "runtime", "horovod")
    assert not again["h2"].command("nice")


def test_an_environment_that_another_bootstrap_has_completed_is_left_as_it_is(
    cluster: SurveyedCluster,
) -> None:
    """A run may use it already."""
    wheel = wheel_folder(cluster) / WHEEL
    wheel.parent.mkdir()
    wheel.write_bytes(BUILT)
    hosts = {name: RecordedHost(name) for name in ("h1", "h2")}
    folder = cluster.environment.folder
    hosts["h1"].written[f"{folder}/.ok"] = f"{cluster.environment.digest}\n"
    hosts["h2"].written[f"{folder}/.ok"] = "another\n"
    apply(replace(cluster, wheel=wheel), hosts, "runtime", "horovod")
    changes = {
        name: [argv[1:3] for argv in host.ran if argv[0] in (uv.PROGRAM, "sent")]
        for name, host in hosts.items()
    }
    assert changes["h1"] == [] and ["pip", "sync"] in changes["h2"]


class WithKeys(RecordedHost):
    """A host on which one file cannot be written."""

    fails_to_write = ""

    def read(self, path: str) -> str | None:
        return "ssh-ed25519 AAAA"

    def write(self, *files: TextFile) -> None:
        super().write(*files)
        if self.fails_to_write in self.written:
            raise RailheadError("the disk is full")


@pytest.mark.parametrize(
    ("fails", "kept"),
    [
        ("imports on h1", []),
        ("imports on h2", [WHEEL]),
        ("keys on h1", []),
        ("keys on h2", [WHEEL]),
    ],
)
def test_a_wheel_is_kept_only_when_its_builder_is_ready(
    cluster: SurveyedCluster, fails: str, kept: list[str]
) -> None:
    hosts = {name: WithKeys(name) for name in ("h1", "h2")}
    step, _, name = fails.partition(" on ")
    hosts[name].fails_to_write = {
        "imports": f"{cluster.environment.folder}/.ok",
        "keys": "~/.ssh/authorized_keys",
    }[step]
    with pytest.raises(HostsFailed):
        apply(cluster, hosts, "horovod", "key")
    assert kept_wheels() == kept


@pytest.mark.parametrize("leftover", ["nothing", "no public key", "empty files"])
def test_a_host_that_lost_its_power_while_its_key_was_created_gets_a_pair(
    cluster: SurveyedCluster, home: Path, leftover: str
) -> None:
    """The command of the chief is run here, in the home of this test."""
    hosts = {name: WithKeys(name) for name in ("h1", "h2")}
    apply(cluster, hosts, "key")
    key = home / ".railhead/cluster/key"
    key.parent.mkdir(parents=True)
    before = None
    if leftover == "empty files":
        key.touch(0o600)
        key.with_suffix(".pub").touch()
    elif leftover == "no public key":
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        key.with_suffix(".pub").unlink()
        before = key.read_bytes()
    subprocess.run(hosts["h1"].command("sh"), stdin=subprocess.DEVNULL, check=True)
    argv = ["ssh-keygen", "-y", "-f", str(key)]
    public = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert key.with_suffix(".pub").read_text().split()[:2] == public.split()[:2]
    assert before in (None, key.read_bytes())


@pytest.mark.parametrize(("fails", "removed"), [("sh", 0), ("mpirun", 1)])
def test_a_wheel_that_fails_is_not_kept_and_nobody_gets_it(
    cluster: SurveyedCluster, fails: str, removed: int
) -> None:
    """One that was built, and fails its test, does not stay on its host for the next command."""
    hosts = {"h1": RecordedHost("h1", fails), "h2": RecordedHost("h2")}
    with pytest.raises(HostsFailed) as caught:
        apply(cluster, hosts, "horovod")
    assert f"horovod: {fails} ended with 1\nthe last line" in caught.value.outcomes["h1"]
    assert caught.value.outcomes["h2"] == "no Horovod wheel: its build on h1 failed"
    assert not wheel_folder(cluster).exists()
    key = cluster.environment.wheel_key(cluster.facts["h1"])
    assert hosts["h1"].removed == [f"~/.railhead/build/{key}/out"] * removed
    assert not any(path.endswith(".ok") for host in hosts.values() for path in host.written)


def of_stack(cluster: SurveyedCluster, world: World) -> SurveyedCluster:
    """Two hosts of a stack with a bucket, which lack only the runtime, as a computer sees them."""
    environment = replace(cluster.environment, runtime=runtimes.RUNTIMES["tf2.18-cpu"])
    line = decide.leader_line(cluster, cluster.peers[0], "ssh-ed25519 AAAA c")
    there = frozenset({runtimes.BucketClient("3.11").digest})
    facts = {
        name: replace(
            host,
            cluster_key="ssh-ed25519 AAAA c",
            authorized=frozenset({line}),
            uvs=frozenset({uv_digest()}),
            envs=there,
        )
        for name, host in cluster.facts.items()
    }
    inventory = replace(world.inventory, name="c", hosts=cluster.inventory.hosts)
    cluster = replace(cluster, inventory=inventory, facts=facts, environment=environment)
    return survey.with_wheel(cluster)


def made_ready(
    cluster: SurveyedCluster, capsys: pytest.CaptureFixture[str]
) -> tuple[str, list[RecordedHost]]:
    """What a person reads while hosts are made ready, and the hosts."""
    hosts = {name: RecordedHost(name) for name in cluster.facts}
    make_ready(connected(cluster, hosts), Options())
    return capsys.readouterr().out, list(hosts.values())


def test_a_wheel_that_was_built_once_is_built_on_no_other_computer(
    cluster: SurveyedCluster, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    first = of_stack(cluster, world)
    url = f"{world.inventory.bucket}/wheels/{wheel_folder(first).name}"
    output, (builder, _) = made_ready(first, capsys)
    assert (
        f"[h1] horovod: no wheel for this system yet: built here, once, then kept in {url}"
        in output
    )
    assert "[h2] horovod: install the wheel that h1 builds\n" in output and builder.command("sh")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another computer"))
    output, hosts = made_ready(of_stack(cluster, world), capsys)
    assert f"[h1, h2] horovod: install the wheel kept in {url} ({WHEEL})\n" in output
    for host in hosts:
        assert host.command("sh") == host.command("mpirun") == [] and host.got == BUILT

    output, _ = made_ready(of_stack(cluster, world), capsys)
    assert f"[h1, h2] horovod: install the wheel built before ({WHEEL})\n" in output
    assert len(world.names()) == 2, "the second computer had nothing to bring"


def test_a_wheel_that_was_here_before_the_bucket_is_kept_there(
    cluster: SurveyedCluster, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = wheel_folder(of_stack(cluster, world))
    folder.mkdir()
    (folder / WHEEL).write_bytes(BUILT)  # as `make gpu-wheel` leaves it
    output, _ = made_ready(of_stack(cluster, world), capsys)
    url = f"{world.inventory.bucket}/wheels/{folder.name}"
    assert f"[h1] horovod: install the wheel built before ({WHEEL}), then kept in {url}" in output
    assert f"[h2] horovod: install the wheel built before ({WHEEL})\n" in output
    assert f"wheels/{folder.name}/wheel.json" in world.names()


def test_a_bucket_that_may_not_be_written_to_stops_nothing(
    cluster: SurveyedCluster, on_gcs: OnGcs, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = of_stack(cluster, on_gcs)
    on_gcs.store.denied = (403, "forbidden", "ann does not have storage.objects.create access")
    output, hosts = made_ready(seen, capsys)
    assert seen.cached_wheel
    assert f"the wheel was not kept in {seen.cached_wheel.url}: Google refuses" in output
    assert "ann does not have storage.objects.create access" in output
    assert all(f"{seen.environment.folder}/.ok" in host.written for host in hosts)
    assert wheel_folder(seen).joinpath(WHEEL).read_bytes() == BUILT


def test_a_bucket_that_could_not_be_queried_is_not_written_to(
    cluster: SurveyedCluster, on_gcs: OnGcs, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan did not say so, and it would fail as well."""
    on_gcs.store.denied = (403, "forbidden", "ann does not have storage.objects.get access")
    seen = of_stack(cluster, on_gcs)
    on_gcs.store.denied = None
    output, _ = made_ready(seen, capsys)
    assert "ann does not have storage.objects.get access" in output and on_gcs.names() == []


def test_a_wheel_that_does_not_work_on_its_builder_is_not_kept(
    cluster: SurveyedCluster, world: World
) -> None:
    seen = of_stack(cluster, world)
    hosts = {name: RecordedHost(name) for name in seen.facts}
    hosts["h1"].fails = f"{seen.environment.folder}/bin/python"
    with pytest.raises(HostsFailed, match="horovod: python ended with 1"):
        apply(seen, hosts, "horovod")
    assert world.names() == []


def test_a_host_that_comes_later_builds_for_itself(cluster: SurveyedCluster) -> None:
    """The others are ready, and no computer has the wheel any more: none of them would build."""
    done = replace(cluster.facts["h1"], envs=frozenset({cluster.environment.digest}))
    grown = replace(cluster, facts={"h1": done, "h2": cluster.facts["h2"]})
    assert cluster.builder == "h1" and grown.builder == "h2"


def test_a_wheel_serves_a_host_that_is_added(cluster: SurveyedCluster) -> None:
    two = with_keys(cluster, "key 1", "key 2")
    wheel_folder(two).mkdir(parents=True)
    (wheel_folder(two) / WHEEL).touch()
    built = replace(two.facts["h1"], envs=frozenset({cluster.environment.digest}))
    facts = {"h1": built, "h2": built, "h3": two.facts["h2"]}
    third = replace(two.peers[1], name="h3", host_key="key 3")
    grown = replace(two, facts=facts, peers=(*two.peers, third))
    assert grown.builder == "h3" and wheel_store.find_wheel(grown)


class Locked(RecordedHost):
    """A host with a key of a cluster's chief, whose own keys can be read and perhaps written."""

    def __init__(self, name: str, board: io.StringIO, *, full: bool) -> None:
        super().__init__(name)
        self.board, self.full = board, full
        self.board_before = ""

    def read(self, path: str) -> str | None:
        return "ssh-ed25519 AAAA"

    def write(self, *files: TextFile) -> None:
        self.board_before = self.board.getvalue()
        if self.full:
            raise RailheadError("the disk is full")


@pytest.mark.parametrize("full", [False, True])
def test_a_host_is_ready_when_the_chief_may_log_in_everywhere(
    cluster: SurveyedCluster, full: bool
) -> None:
    board = io.StringIO()
    hosts = {"h1": Locked("h1", board, full=False), "h2": Locked("h2", board, full=full)}
    plan = Plan(tuple(hosts), tuple(Step(host, "key", "") for host in hosts))
    with contextlib.ExitStack() as held:
        if full:
            held.enter_context(pytest.raises(HostsFailed))
        apply_plan.apply(connected(cluster, hosts), plan, Board(board, tuple(hosts)))
    assert hosts["h2"].board_before and "ready" not in hosts["h2"].board_before
    assert ("[h1] ready in " in board.getvalue()) is not full


def serving(cluster: SurveyedCluster, *launchers: str) -> runtimes.Environment:
    """The environment of a runtime that serves these launchers."""
    runtime = cluster.environment.runtime
    row = replace(runtime.row, launchers=launchers)
    return replace(cluster.environment, runtime=replace(runtime, row=row))


@pytest.mark.parametrize(
    ("launchers", "complete"), [(("horovod", "tensorflow"), False), (("tensorflow",), True)]
)
def test_an_environment_without_horovod_is_complete_once_it_is_imported(
    cluster: SurveyedCluster, launchers: tuple[str, ...], complete: bool
) -> None:
    environment = serving(cluster, *launchers)
    host = RecordedHost("h1")
    apply(replace(cluster, environment=environment), {"h1": host}, "runtime")
    python = f"{environment.folder}/bin/python"
    assert bool(host.command(python)) is complete
    assert (f"{environment.folder}/.ok" in host.written) is complete


def test_an_environment_that_is_not_imported_is_not_complete(cluster: SurveyedCluster) -> None:
    environment = serving(cluster, "tensorflow")
    host = RecordedHost("h1", fails=f"{environment.folder}/bin/python")
    with pytest.raises(HostsFailed, match="runtime: python ended with 1"):
        apply(replace(cluster, environment=environment), {"h1": host}, "runtime")
    assert f"{environment.folder}/.ok" not in host.written


class Talking(RecordedHost):
    """uv says these lines, or how its installation has grown."""

    events: tuple[Grown | Line, ...] = ()

    def run(self, argv: Sequence[str], env: Mapping[str, str], **more: Any) -> CommandResult:
        for event in self.events if more["fetches"] else ():
            more["on_event"](event)
        return super().run(argv, env, **more)


def board_lines(board: Board) -> list[str]:
    """What a log shows of a board: each line, however fast it came."""
    stream = board._stream
    assert isinstance(stream, io.StringIO)
    return stream.getvalue().splitlines()


def test_an_installation_shows_what_moves_and_never_a_download_that_is_over(
    cluster: SurveyedCluster,
) -> None:
    host, board = Talking("h1"), Board(io.StringIO(), ["h1"], every=0)
    megabytes = cluster.environment.megabytes
    host.events = tuple(
        Grown(grown * 10**6, received * 10**6)
        for grown, received in ((1, 0), (9, megabytes // 2), (20, megabytes), (99, megabytes + 7))
    )
    step_host = HostStep(cast("Session", host), cluster, board)
    step_host.run("runtime", ["uv"], fetches=True)
    installs, half, whole, more = board_lines(board)
    assert "installs" in installs and "the disk has 1.0 MB more" in installs
    assert " of " in half and "50 %" in half and "left" in half
    for line, grown in ((whole, 20), (more, 99)):
        assert f"unpacks; the disk has {grown} MB more" in line
        assert "%" not in line and " left" not in line


@pytest.mark.parametrize("framework", [runtimes.TENSORFLOW, runtimes.JAX, runtimes.TORCH])
def test_what_is_imported_first_is_shown_while_it_is_imported(
    cluster: SurveyedCluster, framework: runtimes.Framework
) -> None:
    environment = serving(cluster, "tensorflow")
    row = replace(environment.runtime.row, framework=framework)
    environment = replace(environment, runtime=replace(environment.runtime, row=row))
    host, board = Talking("h1"), Board(io.StringIO(), ["h1"], every=0)
    host.events = (Line(" + wrapt==1.2"),)
    plan = Plan(("h1",), (Step("h1", "runtime", ""),))
    cluster = replace(cluster, environment=environment)
    apply_plan.apply(connected(cluster, {"h1": host}), plan, board)
    lines = [line for line in board_lines(board) if "runtime: " in line]
    assert lines[-2:] == [
        "[h1] runtime:  + wrapt==1.2",
        f"[h1] runtime: checking: import {framework.imports.rpartition('import ')[2]}",
    ]
