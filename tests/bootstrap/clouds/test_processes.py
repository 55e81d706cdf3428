"""A local host's `stop` argv: it ends the host from anywhere, and can end nothing else."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.local_hosts import wait_until

from bootstrap.clouds.local import cluster, processes
from bootstrap.clouds.local import host as local_host
from bootstrap.clouds.local.host import LocalHost
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import reach
from bootstrap.ssh.session import ConnectionLost
from railhead.documents.runs.run_record import RunRecord

POWER = ("poweroff", "shutdown", "systemctl", "halt", "reboot", "init", "telinit", "sudo", "kill")


@pytest.fixture
def pair(home: Path) -> Iterator[list[LocalHost]]:
    """Two started hosts of the cluster `pair`."""
    cluster.start("pair", 2)
    yield cluster.existing("pair")
    cluster.remove("pair", ["h1", "h2", "h3"])


@pytest.fixture
def fakes(tmp_path: Path) -> Path:
    """A folder with programs that would power a machine off, which write down their call here."""
    for name in POWER:
        path = tmp_path / "fakes" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {name} $* >>{tmp_path / 'called'}\n")
        path.chmod(0o755)
    return tmp_path / "fakes"


def stop_of(host: LocalHost) -> tuple[str, ...]:
    """The argv that the cluster document has for it."""
    (argv,) = (h.stop for h in local_state.load_cluster("pair").hosts if h.name == host.name)
    assert argv
    return argv


def inside(host: LocalHost, text: str) -> str:
    """What sh says on one host."""
    inventory = local_state.load_cluster("pair")
    (chosen,) = (h for h in inventory.hosts if h.name == host.name)
    alone = Inventory(inventory.name, (chosen,), key_file=inventory.key_file)
    with reach.sessions(alone) as opened:
        return opened[host.name].sh(text).strip()


def wait_until_gone(host: LocalHost) -> None:
    """Nothing of it is left, and its port is closed."""
    end = time.monotonic() + 60
    while processes.of(host.folder) or not processes.free(host.address, host.port):
        assert time.monotonic() < end, [
            processes.command_line(p) for p in processes.of(host.folder)
        ]
        time.sleep(0.05)


def test_from_outside_with_another_home_and_folder(
    pair: list[LocalHost], tmp_path: Path, fakes: Path
) -> None:
    (tmp_path / "bootstrap").mkdir()
    (tmp_path / "json.py").write_text("raise SystemExit(9)")
    process = subprocess.run(
        stop_of(pair[0]),
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": str(fakes), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    output = json.loads(process.stdout)["h1"]
    assert output == {"ended": output["ended"], "left": [], "port_closed": True}
    assert output["ended"] >= 1
    assert cluster.read("pair")["h1"].running is False
    assert cluster.read("pair")["h2"].running is True
    assert not (tmp_path / "called").exists()


SUPERVISOR = """
import subprocess, sys, time
subprocess.run(sys.argv[2:])
open(sys.argv[1], "w").write("outlived its host")
"""


@pytest.mark.parametrize("how", ["as a child of what is ended", "in a session that is ended"])
def test_from_inside_who_ends_them_goes_last(
    pair: list[LocalHost], tmp_path: Path, fakes: Path, how: str
) -> None:
    args = shlex.join(stop_of(pair[0]))
    if how.startswith("as a child"):
        python = stop_of(pair[0])[0]
        args = f"{python} -c {shlex.quote(SUPERVISOR)} {tmp_path / 'outlived'} {args}"
    path = f"PATH={fakes}:$PATH; export PATH"
    text = f"{path}; sleep 4001 & setsid sleep 4002 & cd /; {args}; echo here still"
    with pytest.raises(ConnectionLost):
        inside(pair[0], text)
    wait_until_gone(pair[0])
    assert not (tmp_path / "outlived").exists()
    assert not (tmp_path / "called").exists()
    assert inside(pair[1], "echo in") == "in"


def test_a_detached_one_from_inside_ends_it_too(pair: list[LocalHost], tmp_path: Path) -> None:
    text = shlex.join(stop_of(pair[0]))
    inside(pair[0], f"setsid nohup {text} >{tmp_path / 'output'} 2>&1 </dev/null &")
    wait_until_gone(pair[0])
    assert json.loads((tmp_path / "output").read_text())["h1"]["left"] == []


SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)


def ignored(pid: int) -> set[signal.Signals]:
    """Those of SIGNALS that a process ignores."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = int(status.partition("SigIgn:")[2].split()[0], 16)
    return {sign for sign in SIGNALS if mask >> (sign - 1) & 1}


def test_who_ends_them_does_not_stop_halfway_and_two_at_once_end_it_too(
    pair: list[LocalHost],
) -> None:
    inside(pair[0], "( trap '' TERM; sleep 4003; sleep 4003 ) >/dev/null 2>&1 &")
    enders = [subprocess.Popen(stop_of(pair[0]), stdout=subprocess.DEVNULL) for _ in range(2)]
    wait_until(lambda: all(ignored(e.pid) >= {*SIGNALS} for e in enders), 60, "both have begun")
    for ender in enders:
        for sign in SIGNALS:
            ender.send_signal(sign)
    assert [ender.wait(60) for ender in enders] == [0, 0]
    wait_until_gone(pair[0])
    assert pair[1].pid


def test_no_stop_of_a_local_host_names_a_way_to_power_off(pair: list[LocalHost]) -> None:
    for host in pair:
        python, *text = stop_of(host)
        assert Path(python).name.startswith("python")
        assert text == ["-I", processes.__file__, str(host.folder)]
        assert not {Path(word).name for word in text} & set(POWER)


def test_a_folder_that_is_no_hosts_ends_nothing(tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "4009"])
    try:
        for folder in (Path("/"), tmp_path, Path("/proc"), Path.home()):
            assert processes.of(folder) == []
            assert processes.end(folder).ended == 0
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_host_whose_name_begins_the_same_is_another(tmp_path: Path) -> None:
    """h1 and h10."""
    variables = {**os.environ, processes.MARK: str(tmp_path / "h10")}
    bystander = subprocess.Popen(["sleep", "4010"], env=variables)
    try:
        assert bystander.pid in processes.of(tmp_path / "h10")
        assert processes.of(tmp_path / "h1") == []
    finally:
        bystander.kill()
        bystander.wait()


def test_an_sshd_gets_no_secret_of_who_starts_it(
    pair: list[LocalHost], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.stop("pair")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "sesame")
    sshd = tmp_path / "sshd"  # the real one writes its title over its environment
    sshd.write_text(f"#!/bin/sh\nenv >{tmp_path / 'env'}\n")
    sshd.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(local_host, "SSHD", (str(sshd),))
        local_host.run(pair[0])
    output = (tmp_path / "env").read_text()
    assert f"{processes.MARK}={pair[0].folder}" in output and "sesame" not in output
    assert "sesame" not in (pair[0].folder / "sshd_config").read_text()


def test_an_sshd_whose_folder_was_removed_ends_too(pair: list[LocalHost], tmp_path: Path) -> None:
    pid = pair[0].pid
    pair[0].folder.rename(tmp_path / "away")
    shutil.rmtree(tmp_path / "away", ignore_errors=True)
    assert pid in processes.of(pair[0].folder)
    assert cluster.remove("pair", ["h1"])["h1"].left == ()
    wait_until_gone(pair[0])
    assert pair[1].pid


# One host at a time, as a resource is made


def test_reading_makes_nothing(pair: list[LocalHost]) -> None:
    cluster.stop("pair")
    for path in (pair[0].folder / "host_key", pair[0].folder / "port", pair[1].folder / "port"):
        path.unlink()
    before = sorted(local_state.home().rglob("*"))
    assert {name: output.running for name, output in cluster.read("pair").items()} == {
        "h1": False,
        "h2": False,
    }
    cluster.stop("pair")
    assert sorted(local_state.home().rglob("*")) == before


def test_several_that_are_started_at_once_make_one_cluster(home: Path) -> None:
    argv = [sys.executable, "-m", "bootstrap.clouds.local", "start", "many"]
    env = {**os.environ, "PYTHONPATH": str(Path(cluster.__file__).parents[1])}
    started = [
        subprocess.Popen([*argv, *names], env=env, stdout=subprocess.DEVNULL)
        for names in (("h1", "h10"), ("h2", "h3"))
    ]
    assert [process.wait(60) for process in started] == [0, 0]
    try:
        assert [h.name for h in local_state.load_cluster("many").hosts] == ["h1", "h2", "h3", "h10"]
        with reach.sessions(local_state.load_cluster("many")) as opened:
            assert [session.sh("echo in").strip() for session in opened.values()] == ["in"] * 4
    finally:
        cluster.destroy("many")


def test_a_home_with_a_letter_of_another_alphabet_holds_local_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sshd writes such a letter into its title in another form."""
    monkeypatch.setenv("HOME", str(tmp_path / "josé"))
    cluster.start("pair", 2)
    hosts = cluster.existing("pair")
    assert len({host.pid for host in hosts} - {None}) == 2
    cluster.stop("pair")
    assert [host.pid for host in hosts] == [None, None]


def test_a_home_with_a_space_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "a home"))
    with pytest.raises(UsageError, match="spaces"):
        cluster.start("pair", 2)
    assert not [*tmp_path.iterdir()]


def test_one_more_leaves_the_others_as_they_are(pair: list[LocalHost]) -> None:
    before = [host.pid for host in pair]
    inventory = cluster.start_hosts("pair", ["h3"])
    assert [host.name for host in inventory.hosts] == ["h1", "h2", "h3"]
    assert [host.pid for host in cluster.existing("pair")][:2] == before
    output = cluster.remove("pair", ["h3"])
    assert output["h3"].left == ()
    assert cluster.existing("pair") == pair
    assert [host.pid for host in pair] == before


def test_with_the_last_one_keys_and_record_go_and_runs_stay(pair: list[LocalHost]) -> None:
    folder = local_state.cluster_folder("pair")
    local_state.save_run(RunRecord("r1", "pair", str(folder)))
    assert cluster.remove("pair", ["h1", "h9"]).keys() == {"h1"}
    assert (folder / "key").exists()
    assert cluster.remove("pair", ["h2"]).keys() == {"h2"}
    assert [path.name for path in folder.iterdir()] == ["runs"]
    assert cluster.remove("pair", ["h2"]) == {}
    assert local_state.clusters() == []


@pytest.mark.parametrize("name", ["h0", "x1", "h255", "h1/../h2", "", "h01"])
def test_a_name_that_is_no_local_hosts_is_refused(home: Path, name: str) -> None:
    with pytest.raises(RailheadError, match="is not the name of a local host: h1 to h254"):
        cluster.start_hosts("pair", [name])
    assert not local_state.home().exists()
