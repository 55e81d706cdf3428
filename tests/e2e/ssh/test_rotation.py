"""An injected host key is replaced at the first contact, with a real sshd, also after a failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hosts import systemd
from hosts.full_host import FullHost
from hosts.network import Network

from bootstrap.clouds.base import InstanceState
from bootstrap.console.wait import Clock
from bootstrap.errors import HostsNotReady
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import cloud_host_keys, key_rotation, power
from bootstrap.ssh import connect
from bootstrap.ssh.host_keys import ChangedHostKey
from bootstrap.ssh.session import Session

pytestmark = pytest.mark.root

Start = Callable[..., list[FullHost]]
FILE = key_rotation.KEY
SH = Session.sh


class Killed(BaseException):
    """The command is killed here."""


class Cluster:
    """Hosts whose keys were injected, and the control side's pins of them."""

    def __init__(self, hosts: list[FullHost], user: str = "root") -> None:
        self.machines = hosts
        self.injected = [host.host_key for host in hosts]
        self.messages: list[str] = []
        output = tuple(
            Host(
                one.name, one.address, user=user, host_key=one.host_key, host_key_source="injected"
            )
            for one in hosts
        )
        key = str(hosts[0].network.key)
        self.inventory = Inventory("rotated", output, cloud="aws", key_file=key)

    def contact(self) -> None:
        """The first steps of every command."""
        cloud: Any = None  # it is not called: the document has the keys
        standing = {
            h.name: InstanceState("running", None, "it", "", serial="i-1") for h in self.hosts
        }
        cloud_host_keys.pin(self.inventory, standing, cloud)
        key_rotation.rotate(self.inventory, self.messages.append)

    @property
    def hosts(self) -> tuple[Host, ...]:
        return self.inventory.hosts

    @property
    def pins(self) -> list[str]:
        path = local_state.cluster_folder("rotated") / "known_hosts"
        return path.read_text().splitlines()

    def refused(self) -> None:
        """No host can be reached, because of its key alone."""
        sessions = connect.open_sessions(self.inventory)
        assert not sessions
        assert all(isinstance(error, ChangedHostKey) for error in sessions.failed.values())

    def known(self) -> None:
        """Every host can be reached."""
        power.wait_for_ssh(self.inventory, self.messages.append, Clock())

    def changed(self) -> None:
        """Every host has a new key, and only that one is pinned."""
        keys = [one.host_key for one in self.machines]
        assert not set(keys) & set(self.injected)
        lines = [f"{one.name} {key} i-1" for one, key in zip(self.machines, keys, strict=True)]
        assert sorted(self.pins) == lines
        self.known()


def test_the_first_contact_makes_a_key_on_the_host_and_the_next_does_not(full_hosts: Start) -> None:
    cluster = Cluster(full_hosts("h1", "h2"))
    cluster.contact()
    cluster.changed()
    keys = [one.host_key for one in cluster.machines]
    changes = ["changing the injected host keys of h1, h2"]
    assert cluster.messages == changes
    cluster.contact()
    assert [one.host_key for one in cluster.machines] == keys and cluster.messages == changes
    (first, _) = cluster.machines
    files = first.exec("sh", "-c", f"ls -l {FILE}*; ssh-keygen -y -f {FILE}").stdout.splitlines()
    assert [line.split()[0] for line in files[:2]] == ["-rw-------", "-rw-r--r--"]
    assert " ".join(files[2].split()[:2]) == keys[0], "the key on the disk is the one in use"
    first.restart()
    cluster.known()


def kill_at(patch: pytest.MonkeyPatch, step: str) -> None:
    """Kill the command before a step."""
    if step == "pin":
        patch.setattr(
            cloud_host_keys, "replace_pins", before_second(cloud_host_keys.replace_pins, dying)
        )
    elif step == "switch":
        patch.setattr(Session, "sh", before_switch(dying))
    elif step == "answer":
        patch.setattr(Session, "sh", after_switch)
    else:
        patch.setattr(key_rotation, "_wait_for_new_keys", dying)


def dying(*_: object) -> None:
    raise Killed


def before_second(put: Any, happens: Callable[[], None]) -> Any:
    """Call `happens` before the pins of the new keys are written."""
    written: list[Any] = []

    def one(inventory: Inventory, pins: Any) -> None:
        if pins and written:
            happens()
        written.extend(pins)
        put(inventory, pins)

    return one


def before_switch(happens: Callable[[], None]) -> Any:
    """Call `happens` before sshd loads the new key."""

    def one(session: Session, text: str, **options: Any) -> str:
        if "NEW=" in text:
            happens()
        return SH(session, text, **options)

    return one


def after_switch(session: Session, text: str, **options: Any) -> str:
    """Kill the command after the host has switched, before its reply arrives."""
    output = SH(session, text, **options)
    if "NEW=" in text:
        raise Killed
    return output


@pytest.mark.parametrize(
    ("step", "reboot"), [("pin", False), ("switch", True), ("answer", False), ("see", True)]
)
def test_killed_at_any_step_the_next_attempt_continues(
    full_hosts: Start, monkeypatch: pytest.MonkeyPatch, step: str, reboot: bool
) -> None:
    cluster = Cluster(full_hosts("h1"))
    with monkeypatch.context() as patch:
        kill_at(patch, step)
        with pytest.raises(Killed):
            cluster.contact()
    if reboot:
        cluster.machines[0].restart()
    cluster.known()
    shown = [one.host_key for one in cluster.machines]
    cluster.contact()
    cluster.changed()
    if shown != cluster.injected:  # it had switched: its key stays
        assert [one.host_key for one in cluster.machines] == shown


@pytest.mark.parametrize("lines", [0, 7, 8])
def test_a_host_that_crashed_within_its_own_steps_is_known(
    full_hosts: Start, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    """Before it moved anything, between its two files, and before sshd was reloaded."""
    cluster = Cluster(full_hosts("h1"))
    script = key_rotation.SWITCH.splitlines()
    with monkeypatch.context() as patch:
        patch.setattr(key_rotation, "SWITCH", "\n".join([*script[:lines], "exit 1"]))
        with pytest.raises(HostsNotReady, match="cannot be changed"):
            cluster.contact()
    moved = [line.rpartition("/")[2] for line in script[:lines] if line.startswith("mv")]
    assert moved == ["ssh_host_ed25519_key.pub", "ssh_host_ed25519_key"][: max(0, lines - 6)]
    cluster.machines[0].restart()
    cluster.known()
    cluster.contact()
    cluster.changed()


def test_an_sshd_that_does_not_load_the_new_key_is_reported(
    full_hosts: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(full_hosts("h1"))
    with monkeypatch.context() as patch:
        patch.setattr(key_rotation, "SWITCH", "true")
        patch.setattr(key_rotation, "NEW_KEY_SECONDS", 0)
        with pytest.raises(HostsNotReady, match="it shows the injected key"):
            cluster.contact()
    cluster.contact()
    cluster.changed()


def test_a_stranger_is_refused_before_during_and_after(
    full_hosts: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(full_hosts("h1"))
    (host,) = cluster.machines
    private, public = host.read(FILE), host.read(f"{FILE}.pub")
    host.swap_host_key()
    with pytest.raises(HostsNotReady, match="REFUSED.*\n.*copy that one's"):
        cluster.contact()
    host.write(FILE, private)
    host.write(f"{FILE}.pub", public)
    host.restart()
    with monkeypatch.context() as patch:
        kill_at(patch, "switch")
        with pytest.raises(Killed):
            cluster.contact()
    new, new_public = host.read(f"{FILE}.next"), host.read(f"{FILE}.next.pub")
    host.swap_host_key()
    cluster.refused()
    host.write(FILE, new)
    host.write(f"{FILE}.pub", new_public)
    host.restart()
    cluster.contact()
    cluster.changed()
    # Somebody with the injected key from the user data pretends to be the host.
    host.write(FILE, private)
    host.write(f"{FILE}.pub", public)
    host.restart()
    cluster.refused()


def test_two_computers_at_once_lock_nobody_out(
    full_hosts: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of them finds an unknown key on the disk, leaves it there, and reports it."""
    cluster = Cluster(full_hosts("h1"))
    second = Cluster(cluster.machines)

    def elsewhere() -> None:
        with monkeypatch.context() as away:
            away.setattr(Session, "sh", SH)
            away.setenv("HOME", str(tmp_path))
            second.contact()
            second.changed()

    with monkeypatch.context() as patch:
        patch.setattr(Session, "sh", before_switch(elsewhere))
        with pytest.raises(HostsNotReady, match="another key was created meanwhile"):
            cluster.contact()
    cluster.refused()
    monkeypatch.setenv("HOME", str(tmp_path))
    second.known()


@pytest.mark.slow
def test_under_systemd_and_by_sudo_as_on_a_machine_of_a_stack(
    network: Network, system_image: Path
) -> None:
    """There its unit reloads sshd; it keeps the new key after a reboot."""
    host = systemd.SystemdHost(network, "s1")
    host.start()
    try:
        cluster = Cluster([host], user="rail")
        pid = host.systemctl("show", "--property=MainPID", "ssh")
        cluster.contact()
        cluster.changed()
        assert host.systemctl("show", "--property=MainPID", "ssh") == pid, "reloaded, not ended"
        host.restart()
        cluster.known()
    finally:
        host.remove()


def test_without_root_the_key_stays_and_the_command_ends(full_hosts: Start) -> None:
    cluster = Cluster(full_hosts("h1"), user="rail")
    with pytest.raises(HostsNotReady, match="cannot be changed: .*sudo.*not found"):
        cluster.contact()
    assert cluster.machines[0].host_key == cluster.injected[0]
    cluster.known()
