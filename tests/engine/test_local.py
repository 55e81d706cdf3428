"""`pulumi up` of local hosts, on the real engine, with a real sshd each."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine.stack import Stack
from places import CASES

from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.clouds.local import processes
from bootstrap.inventory.document import from_document
from bootstrap.inventory.hosts import Inventory

HOST = "pulumi-python:dynamic/local:Host"


@pytest.fixture(scope="module")
def module_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def home(module_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of all tests here: the hosts are in it."""
    monkeypatch.setenv("HOME", str(module_home))
    return module_home


@pytest.fixture(scope="module")
def stack(
    engine: Path, module_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """A stack of two local hosts, not yet up; destroyed at the end, whatever it has by then."""
    stack = Stack(engine, tmp_path_factory.mktemp("stack") / "project").config(cloud="local")
    stack.env = {"HOME": str(module_home)}
    yield stack
    stack.destroy()
    assert not (module_home / ".railhead/clusters/test/hosts").exists()


@pytest.fixture
def running(stack: Stack) -> Stack:
    """Its two hosts run; a test leaves them so."""
    if len(made(stack)) != 2 or None in pids().values():
        stack.config(count=None).up("--refresh").ended(0)
    return stack


@pytest.fixture
def empty(engine: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """A stack in a home of its own that has nothing yet, and gets nothing."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Stack(engine, tmp_path / "project").config(cloud="local")


def cluster(stack: Stack) -> Inventory:
    """What `fab` reads of it."""
    return from_document(stack.output()["cluster"])


def ssh(inventory: Inventory, name: str) -> str:
    """The output of ssh itself for a host, with the key of the document pinned and no question."""
    (host,) = (h for h in inventory.hosts if h.name == name)
    pins = Path(inventory.key_file or "").with_name(f"pin-{name}")
    pins.write_text(f"[{host.address}]:{host.port} {host.host_key}\n")
    options = ("StrictHostKeyChecking=yes", f"UserKnownHostsFile={pins}", "BatchMode=yes")
    argv = ["ssh", "-F", "none", *(word for each in options for word in ("-o", each))]
    argv += ["-i", inventory.key_file or "", "-p", str(host.port), f"{host.user}@{host.address}"]
    done = subprocess.run([*argv, "echo in"], capture_output=True, text=True, timeout=30)
    return done.stdout.strip() or done.stderr


def pids() -> dict[str, int | None]:
    """The sshd of each host."""
    return {host.name: host.pid for host in local_cluster.existing("test")}


def kill(name: str) -> None:
    """End an sshd as a crash would."""
    pid = pids()[name]
    assert pid
    os.kill(pid, signal.SIGKILL)
    while pids()[name]:
        time.sleep(0.01)


def made(stack: Stack) -> dict[str, Any]:
    """The hosts that the state has."""
    return {r["outputs"]["name"]: r["outputs"] for r in stack.resources() if r["type"] == HOST}


def test_up_makes_hosts_that_let_us_in_and_destroy_ends_them(stack: Stack, home: Path) -> None:
    assert stack.preview().ended(0).summary == {"create": 6}
    assert not (home / ".railhead").exists()
    done = stack.up().ended(0, "fab train", "it costs nothing")
    assert {step.name for step in done.steps if step.type == HOST} == {"cluster-h1", "cluster-h2"}
    inventory = cluster(stack)
    assert [ssh(inventory, host.name) for host in inventory.hosts] == ["in", "in"]
    hosts = local_cluster.existing("test")
    stack.destroy().ended(0)
    for host in hosts:
        assert processes.of(host.folder) == []
        assert processes.free(host.address, host.port)
    assert stack.resources() == []


def test_up_again_changes_nothing(running: Stack) -> None:
    before = pids()
    assert running.up("--expect-no-changes").ended(0).steps == []
    running.refresh("--expect-no-changes").ended(0)
    assert pids() == before


def test_one_more_and_one_less_leave_the_others_running(running: Stack) -> None:
    before = pids()
    assert running.config(count=3).preview().ended(0).changed == {"cluster-h3": "create"}
    assert running.up().ended(0).changed == {"cluster-h3": "create"}
    inventory = cluster(running)
    assert [host.name for host in inventory.hosts] == ["h1", "h2", "h3"]
    assert ssh(inventory, "h3") == "in"
    gone = local_cluster.existing("test")[2]
    assert running.config(count=2).up().ended(0).changed == {"cluster-h3": "delete"}
    assert pids() == before
    assert processes.of(gone.folder) == [] and not gone.folder.exists()


def test_a_dead_host_shows_and_is_started_again(running: Stack) -> None:
    before, inventory = pids(), cluster(running)
    kill("h2")
    assert running.refresh().ended(0).changed == {"cluster-h2": "update"}
    assert {name: host["running"] for name, host in made(running).items()} == {
        "h1": True,
        "h2": False,
    }
    assert running.up().ended(0).changed == {"cluster-h2": "update"}
    after = cluster(running)
    assert ssh(after, "h2") == "in"
    assert [host.host_key for host in after.hosts] == [host.host_key for host in inventory.hosts]
    assert pids()["h1"] == before["h1"]


def test_a_host_that_was_removed_by_hand_is_made_again(running: Stack) -> None:
    local_cluster.remove("test", ["h1"])
    assert running.refresh().ended(0).changed == {"cluster-h1": "delete"}
    assert running.up().ended(0).changed == {"cluster-h1": "create"}
    assert ssh(cluster(running), "h1") == "in"


def test_each_hosts_stop_ends_that_host_and_its_key_is_no_secret(running: Stack) -> None:
    for host in cluster(running).hosts:
        folder = Path.home() / ".railhead/clusters/test/hosts" / host.name
        assert host.stop and host.stop[1:] == processes.argv(folder)[1:]
        assert host.host_key and host.host_key.startswith("ssh-ed25519 ")


# Each mistake is reported in a line, before anything is made


def test_wrong_settings_are_reported_before_any_resource(empty: Stack) -> None:
    done = empty.config(count=17, spot=True, owner="").up().ended(1)
    assert sorted(line.partition(":")[0] for line in done.problems) == ["count", "spot"]
    assert "Traceback" not in done.text and "unhandled" not in done.text
    assert {r["type"] for r in empty.resources()} == {"pulumi:pulumi:Stack"}
    assert not (Path.home() / ".railhead").exists()


def test_a_name_that_a_clouds_cluster_has_is_reported_at_preview(empty: Stack) -> None:
    golden = CASES / "documents/cluster-aws.json"
    folder = Path.home() / ".railhead/clusters/taken"
    folder.mkdir(parents=True)
    (folder / "cluster.json").write_text(golden.read_text())
    empty.config(name="taken")
    for done in (empty.preview(), empty.up()):
        done.ended(1, "cluster 'taken' is one of aws, not of this computer")
        assert "Traceback" not in done.text
    assert made(empty) == {}


def test_what_fails_later_is_reported_without_a_traceback(running: Stack, home: Path) -> None:
    (home / ".railhead/clusters/test/cluster.json").rename(home / "kept")
    (home / ".railhead/clusters/test/cluster.json").write_text("no JSON")
    done = running.refresh()
    (home / "kept").rename(home / ".railhead/clusters/test/cluster.json")
    done.ended(1, "the record of cluster test is damaged")
    assert "Traceback" not in done.text


TEARDOWN = ("teardown", "--destroy", "--yes", "--stack", "test")


def test_a_teardown_goes_on_where_the_one_before_it_left_something(running: Stack) -> None:
    (urn,) = [one["urn"] for one in running.resources() if one["urn"].endswith("::cluster-place")]
    running.run("state", "protect", "--yes", "--stack", "test", urn).ended(0)
    unprotect = "pulumi state unprotect --all --yes --stack test"
    running.fab(*TEARDOWN).ended(1, "it is protected", unprotect)
    assert made(running) == {} and running.resources() != []
    running.run(*unprotect.split()[1:]).ended(0)
    running.fab(*TEARDOWN).ended(0)
    assert running.resources() == []


def test_a_protected_host_ends_a_teardown_before_anything(running: Stack) -> None:
    (urn, *_) = [one["urn"] for one in running.resources() if one["type"] == HOST]
    running.run("state", "protect", "--yes", "--stack", "test", urn).ended(0)
    before = pids()
    unprotect = "pulumi state unprotect --all --yes --stack test"
    running.fab(*TEARDOWN).ended(2, "protected; nothing was removed", unprotect)
    assert pids() == before and None not in before.values()
    running.run(*unprotect.split()[1:]).ended(0)
    running.fab(*TEARDOWN).ended(0)
    assert running.resources() == []
