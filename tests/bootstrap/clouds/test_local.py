"""Local SSH hosts: where they listen, what is theirs, and that stopping ends that and no more."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from e2e.local_hosts import wait_until
from hosts.operator import line
from places import ROOT

from bootstrap.clouds.local import cluster, processes
from bootstrap.clouds.local import host as local_host
from bootstrap.clouds.local.host import LocalHost
from bootstrap.clouds.local.instances import Local
from bootstrap.clouds.local.processes import Ended
from bootstrap.errors import UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.document import from_document
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import reach, teardown


@pytest.fixture
def pair(home: Path) -> Iterator[list[LocalHost]]:
    """Two started hosts of the cluster `pair`."""
    cluster.start("pair", 2)
    yield cluster.existing("pair")
    cluster.stop("pair")


def sockets(pid: int) -> list[tuple[str, int]]:
    """The addresses and ports on which a process listens."""
    links = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(str(path.readlink()))
    inodes = {link[8:-1] for link in links if link.startswith("socket:")}
    tables = [Path(f"/proc/{pid}/net/{name}") for name in ("tcp", "tcp6", "udp", "udp6")]
    rows = [x.split() for t in tables if t.exists() for x in t.read_text().splitlines()[1:]]
    return [address(row[1]) for row in rows if row[9] in inodes and row[3] in ("0A", "07")]


def address(text: str) -> tuple[str, int]:
    """An address of /proc/net: each 32 bits in the machine's order, here little-endian."""
    ip, _, port = text.partition(":")
    args = [bytes.fromhex(ip[i : i + 8])[::-1] for i in range(0, len(ip), 8)]
    return str(ipaddress.ip_address(b"".join(args))), int(port, 16)


def ask(text: str) -> dict[str, str]:
    """What sh says on every host of `pair`."""
    with reach.sessions(local_state.load_cluster("pair")) as opened:
        return {name: session.sh(text).strip() for name, session in opened.items()}


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# What a host is


def test_each_listens_on_its_own_loopback_address_alone(pair: list[LocalHost]) -> None:
    for machine in pair:
        assert machine.pid
        assert sockets(machine.pid) == [(machine.address, machine.port)]
        assert ipaddress.ip_address(machine.address).is_loopback
    assert len({machine.address for machine in pair}) == 2


def test_each_has_its_own_key_home_and_temporary_folder(pair: list[LocalHost]) -> None:
    output = ask("echo $HOME; echo $TMPDIR; cat $HOME/../host_key.pub")
    assert len(set(output.values())) == 2
    for machine in pair:
        home, temporary, key = output[machine.name].splitlines()
        assert Path(home) == machine.home != Path.home()
        assert Path(temporary).is_dir() and Path(temporary).is_relative_to(machine.folder)
        assert key.split()[1] in line(machine)


def test_the_programs_of_the_system_come_before_those_beside_this_python(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of conda's Python may have the mpirun of another MPI."""
    names = ("ssh", "ls", "python3.99")
    (tmp_path / "bin").mkdir()
    for name in names:
        (tmp_path / "bin" / name).symlink_to("/bin/true")
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    cluster.start("pair", 2)
    try:
        for output in ask(f"for name in {' '.join(names)}; do command -v $name; done").values():
            ssh, ls, python = output.splitlines()
            assert not {ssh, ls} & {str(path) for path in (tmp_path / "bin").iterdir()}
            assert python == str(tmp_path / "bin/python3.99")
    finally:
        cluster.stop("pair")


def test_its_key_is_pinned_without_a_question(pair: list[LocalHost]) -> None:
    inventory = local_state.load_cluster("pair")
    assert [f"[{h.address}]:{h.port} {h.host_key}\n" for h in inventory.hosts] == [
        line(machine) for machine in pair
    ]
    assert not (Path.home() / ".ssh").exists()
    assert list(ask("echo in").values()) == ["in", "in"]


def test_nothing_of_a_host_is_readable_by_others(pair: list[LocalHost]) -> None:
    folder = local_state.cluster_folder("pair")
    for path in [folder, folder / "key", *(machine.folder / "host_key" for machine in pair)]:
        assert path.stat().st_mode & 0o077 == 0, path


# Starting


def state(machines: list[LocalHost]) -> list[tuple[Any, ...]]:
    """What must not change: where each is, its process and its key."""
    return [(m.address, m.port, m.pid, (m.folder / "host_key").read_bytes()) for m in machines]


def test_starting_twice_changes_nothing(pair: list[LocalHost]) -> None:
    before, inventory = state(pair), local_state.load_cluster("pair")
    assert cluster.start("pair", 2) == inventory
    assert state(cluster.existing("pair")) == before


def test_a_dead_one_is_started_again_with_its_key_and_what_it_had(pair: list[LocalHost]) -> None:
    before = state(pair)
    ask("echo kept >kept")
    os.kill(pair[0].pid or 0, signal.SIGKILL)
    while cluster.existing("pair")[0].pid:
        time.sleep(0.01)
    cluster.start("pair", 2)
    after = state(cluster.existing("pair"))
    assert after[1] == before[1]
    assert (after[0][0], after[0][3]) == (before[0][0], before[0][3])
    assert after[0][2] not in (None, before[0][2])
    assert ask("cat kept") == {"h1": "kept", "h2": "kept"}


def test_a_pid_that_is_somebody_elses_by_now_is_not_taken_for_it(pair: list[LocalHost]) -> None:
    cluster.stop("pair")
    (pair[0].folder / "sshd.pid").write_text(f"{os.getpid()}\n")
    assert cluster.read("pair")["h1"].running is False
    assert processes.of(pair[0].folder) == []
    cluster.start("pair", 2)
    assert ask("echo in")["h1"] == "in"


def test_keys_that_others_added_stay(pair: list[LocalHost]) -> None:
    cluster.stop("pair")
    path = pair[0].home / ".ssh/authorized_keys"
    path.write_text("ssh-ed25519 AAAA railhead:pair\n")
    cluster.start("pair", 2)
    cluster.start("pair", 2)
    assert path.read_text().splitlines()[0] == "ssh-ed25519 AAAA railhead:pair"
    assert len(path.read_text().splitlines()) == 2


# Stopping


BACKGROUND = """
sleep 4001 >/dev/null 2>&1 &
setsid nohup sleep 4002 >/dev/null 2>&1 </dev/null &
( trap '' TERM; sleep 4003; sleep 4003 ) >/dev/null 2>&1 &
"""


def sleeping(machine: LocalHost) -> list[int]:
    """The pids of a host's background processes; a new one is a shell for a moment."""
    pids = []
    for pid in processes.of(machine.folder):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if "sleep" in processes.command_line(pid):
                pids.append(pid)
    return pids


def test_stopping_ends_every_process_of_the_host_and_no_other(pair: list[LocalHost]) -> None:
    other = subprocess.Popen(["sleep", "4009"])
    try:
        ask(BACKGROUND + "true")
        wait_until(lambda: all(len(sleeping(m)) >= 3 for m in pair), 30, "they have started")
        theirs = [processes.of(machine.folder) for machine in pair]
        assert all(len(pids) >= 5 for pids in theirs)
        neighbour = sleeping(pair[1])
        output = cluster.stop("pair", ["h1"])
        assert output == {"h1": Ended(output["h1"].ended, (), True)}
        assert output["h1"].ended >= 5
        assert not any(map(alive, theirs[0]))
        assert alive(other.pid) and all(map(alive, neighbour))
        assert ask_one("h2") == "in"
    finally:
        other.kill()
        other.wait()


def ask_one(name: str) -> str:
    """Whether one host of `pair` lets us in."""
    inventory = local_state.load_cluster("pair")
    chosen = tuple(host for host in inventory.hosts if host.name == name)
    alone = Inventory(inventory.name, chosen, key_file=inventory.key_file)
    with reach.sessions(alone) as opened:
        return opened[name].sh("echo in").strip()


def test_open_sessions_and_children_without_the_mark_end_too(pair: list[LocalHost]) -> None:
    with reach.sessions(local_state.load_cluster("pair")) as opened:
        pid = int(opened["h1"].sh("env -i sleep 4004 >/dev/null 2>&1 & echo $!").strip())
        assert pid in processes.of(pair[0].folder)
        cluster.stop("pair")
        assert not alive(pid)
        assert not any(processes.of(machine.folder) for machine in pair)


def test_stopping_twice_is_fine_and_reports_so(pair: list[LocalHost]) -> None:
    cluster.stop("pair")
    nothing = Ended(0, (), True)
    assert cluster.stop("pair") == {"h1": nothing, "h2": nothing}


def test_what_does_not_end_is_reported(pair: list[LocalHost]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "SIGNAL_SECONDS", 0)  # seconds: no time to end
        output = cluster.stop("pair", ["h1"])["h1"]
    assert pair[0].pid in output.left
    assert output.port_closed is False


def test_destroying_removes_homes_and_record(home: Path) -> None:
    cluster.start("gone", 1)
    (machine,) = cluster.existing("gone")
    cluster.destroy("gone")
    assert not machine.folder.exists()
    with pytest.raises(UsageError, match="no cluster 'gone'"):
        local_state.load_cluster("gone")


def test_a_host_is_gone_only_when_its_folder_is(pair: list[LocalHost]) -> None:
    inventory = local_state.load_cluster("pair")

    def states() -> set[tuple[str, bool]]:
        now = Local(inventory).instance_states().values()
        return {(state.state, state.certain) for state in now}

    assert states() == {("running", True)}
    local_state.forget_cluster("pair")
    assert states() == {("unknown", False)}
    local_state.save_cluster(inventory)
    cluster.remove("pair", ["h1", "h2"])
    (local_state.cluster_folder("pair") / "runs").mkdir(parents=True)  # those are kept
    assert states() == {("gone", True)}
    local_state.save_cluster(inventory)  # for the fixture, which stops it once more


def test_a_teardown_with_destroy_leaves_nothing(home: Path) -> None:
    cluster.start("gone", 1)
    inventory = local_state.load_cluster("gone")
    local_state.save_cluster(inventory)
    teardown.teardown_hosts(inventory, purge=False, discard=False, destroy=True)
    assert not local_state.cluster_folder("gone").exists()
    with pytest.raises(UsageError, match="no hosts"):
        local_state.last_cluster()


@pytest.mark.parametrize("module", [cluster, local_host, processes])
def test_no_code_of_it_can_power_anything_off(module: ModuleType) -> None:
    text = r"poweroff|power_off|shutdown|\bhalt\b|reboot|systemctl|\binit 0\b|sysrq|killall|pkill"
    assert not re.findall(text, Path(module.__file__ or "").read_text())


# As a command


def answer(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    """What the command prints, in this process."""
    capsys.readouterr()
    assert cluster.main([*args]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_command_reads_and_prints_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "bootstrap.clouds.local", "start", "verbs", "h1", "h2"],
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    started = json.loads(process.stdout)
    try:
        assert from_document(started) == local_state.load_cluster("verbs")
        running = answer(capsys, "read", "verbs", "h1", "h2")
        host = started["hosts"][1]
        assert running["h2"]["running"] and running["h2"]["address"] == host["address"]
        process = subprocess.run(host["stop"], cwd=ROOT, text=True, capture_output=True)
        assert list(json.loads(process.stdout)) == ["h2"]
        states = answer(capsys, "read", "verbs", "h1", "h2")
        assert {name: state["running"] for name, state in states.items()} == {
            "h1": True,
            "h2": False,
        }
    finally:
        stopped = answer(capsys, "stop", "verbs")
    assert [host["port_closed"] for host in stopped.values()] == [True, True]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["stop", "nowhere"], "no cluster 'nowhere' is recorded here"),
        (["stop", "../x"], "is not a cluster's name"),
        (["explode", "recorded"], "is not one of: start, stop, read, remove, check"),
        ([], "is not one of: start, stop, read, remove, check"),
        (["stop", "recorded", "h9"], "recorded has no host 'h9'; it has h1"),
    ],
)
def test_a_command_that_cannot_be_done_ends_with_2(
    capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    local_state.save_cluster(Inventory("recorded", (Host("h1", "127.0.0.1"),), cloud="local"))
    before = sorted(local_state.home().rglob("*"))
    assert cluster.main(args) == 2
    output = capsys.readouterr()
    assert output.out == "" and message in output.err
    assert sorted(local_state.home().rglob("*")) == before


# As an ordinary user

# In every /etc/passwd, and no account that any system locks by name, as some do `nobody`.
PLAIN = pwd.getpwnam("daemon")
AS_USER = ("setpriv", f"--reuid={PLAIN.pw_uid}", f"--regid={PLAIN.pw_gid}", "--clear-groups", "--")


def python_of_others() -> str:
    """A Python that an ordinary user may run and that can read this code; skips without one."""
    if os.geteuid():
        pytest.skip("needs root, to become an ordinary user; elsewhere all tests here run as one")
    if not shutil.which("setpriv"):
        pytest.skip("needs setpriv, to become an ordinary user")
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import bootstrap.clouds.local.cluster"
    for python in (sys.executable, "/usr/bin/python3"):
        argv = [*AS_USER, python, "-I", "-B", "-c", code]
        if subprocess.run(argv, capture_output=True, cwd="/").returncode == 0:
            return python
    pytest.skip("an ordinary user can neither read this clone nor run a Python here")


@pytest.fixture
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of an ordinary user with a home of their own."""
    folder = Path("/tmp") / f"railhead-test-{os.getpid()}"
    folder.mkdir(mode=0o700)
    os.chown(folder, PLAIN.pw_uid, PLAIN.pw_gid)
    yield {
        "HOME": str(folder),
        "USER": PLAIN.pw_name,
        "LOGNAME": PLAIN.pw_name,
        "PATH": os.environ["PATH"],
    }
    shutil.rmtree(folder)


def test_an_ordinary_user_can_do_the_same(plain: dict[str, str]) -> None:
    python = python_of_others()

    def run(*args: str) -> Any:
        argv = [*AS_USER, python, "-B", "-m", "bootstrap.clouds.local", *args]
        process = subprocess.run(argv, text=True, capture_output=True, env=plain, cwd=ROOT)
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)

    started = run("start", "plain", "h1")
    try:
        (host,) = started["hosts"]
        folder = Path(plain["HOME"]) / ".railhead/clusters/plain"
        pid = int((folder / "hosts/h1/sshd.pid").read_text())
        assert Path(f"/proc/{pid}").stat().st_uid == PLAIN.pw_uid
        assert sockets(pid) == [(host["address"], started["ssh"]["port"])]
        assert login(folder, host["address"], started["ssh"]["port"])
    finally:
        output = run("stop", "plain")
    assert output == {"h1": {"ended": output["h1"]["ended"], "left": [], "port_closed": True}}
    assert not alive(pid)


def login(folder: Path, address: str, port: int) -> bool:
    """Whether the key opens the host; the shell of a system's account refuses to do anything."""
    options = [f"UserKnownHostsFile={folder}/known_hosts", "StrictHostKeyChecking=yes"]
    args = [word for option in [*options, "BatchMode=yes"] for word in ("-o", option)]
    argv = ["ssh", "-F", "none", *args, "-i", str(folder / "key"), "-p", str(port)]
    subprocess.run([*argv, f"{PLAIN.pw_name}@{address}", "true"], capture_output=True, timeout=60)
    return f"Accepted publickey for {PLAIN.pw_name}" in (folder / "hosts/h1/sshd.log").read_text()
