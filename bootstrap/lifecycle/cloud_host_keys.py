"""Which key each machine of a cloud has: read through its cloud, and pinned for that very machine.

Pins stand under the host's name in the cluster's known_hosts, so that another address changes
nothing, and with the cloud's own number of the machine: one that was made anew is asked anew.
Nothing is ever trusted because it was there first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paramiko.hostkeys import HostKeyEntry

from bootstrap.clouds.base import Cloud, InstanceState
from bootstrap.console.output import Reporter
from bootstrap.console.wait import Clock
from bootstrap.errors import HostsNotReady
from bootstrap.inventory import local_state
from bootstrap.inventory.files import atomic_write
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.ssh.host_keys import host_key_alias

INJECTED = "injected"  # behind a pin: others may know this key, too; rotation.py changes it
WAIT_SECONDS = 300.0  # EC2's console shows keys some minutes after boot
POLL_SECONDS = 10.0
WHERE = {
    "console": "EC2's console output, which shows keys after a machine's first boot alone",
    "guest-attributes": "its guest attributes, which the guest agent writes at boot",
}


def pin(
    inventory: Inventory,
    instance_states: Mapping[str, InstanceState],
    cloud: Cloud,
    *,
    report: Reporter = lambda _: None,
    clock: Clock | None = None,
) -> None:
    """Pin the key of every running host that has no pin of this very machine yet.

    Raises:
        HostsNotReady: a host's key was not to be had within five minutes.
    """
    hosts = {h.name: h for h in inventory.hosts}
    wanting = [h for h in inventory.hosts if _wants(h, inventory, instance_states)]
    keys: dict[str, tuple[str, ...]] = {h.name: (h.host_key,) for h in wanting if h.host_key}
    asked = [h for h in wanting if h.name not in keys]
    if asked:
        report(f"reading the host keys of {', '.join(h.name for h in asked)} through their cloud")
        keys |= _read(asked, cloud, clock or Clock())
    missing = {h.name: _why(h, inventory) for h in asked if h.name not in keys}
    put(
        inventory, {n: _pins(hosts[n], instance_states[n].serial, told) for n, told in keys.items()}
    )
    if missing:
        told = {h.name: missing.get(h.name, "ok") for h in inventory.hosts}
        raise HostsNotReady("host keys that nobody vouches for yet", told, hint="the same again")


def _wants(host: Host, inventory: Inventory, instance_states: Mapping[str, InstanceState]) -> bool:
    if host_key_alias(host, inventory) is None or instance_states[host.name].state != "running":
        return False
    serials = {line[3] for line in lines(inventory) if line[0] == host.name and len(line) > 3}
    return instance_states[host.name].serial not in serials


def _read(hosts: Sequence[Host], cloud: Cloud, clock: Clock) -> dict[str, tuple[str, ...]]:
    """The keys of these hosts, as far as their cloud has them within the time."""
    names = {h.name for h in hosts}
    end = clock.now() + WAIT_SECONDS
    while True:
        found = {n: k for n, k in cloud.host_keys().items() if n in names and any(map(is_key, k))}
        if len(found) == len(names) or clock.now() >= end:
            return found
        clock.sleep(POLL_SECONDS)


def is_key(text: str) -> bool:
    """Whether a text is a public key that can be compared with one."""
    try:
        return HostKeyEntry.from_line(f"name {text}") is not None
    except Exception:  # its decoders raise whatever they raise
        return False


def _pins(host: Host, serial: str, keys: Sequence[str]) -> list[str]:
    """What is pinned: each key, the machine's own number, and a mark where others know it."""
    mark = f" {INJECTED}" if host.host_key_source == INJECTED else ""
    return [f"{' '.join(key.split()[:2])} {serial}{mark}" for key in keys if is_key(key)]


def put(inventory: Inventory, pins: Mapping[str, Sequence[str]]) -> None:
    """Replace all pins of these hosts, each what stands behind the name; those of others stay."""
    if not pins:
        return
    kept = [" ".join(line) for line in lines(inventory) if line[0] not in pins]
    kept += [f"{name} {pin}" for name, each in pins.items() for pin in each]
    path = local_state.cluster_folder(inventory.name) / "known_hosts"
    atomic_write(path, "\n".join(kept) + "\n")


def lines(inventory: Inventory) -> list[list[str]]:
    """The words of every pin of the cluster."""
    path = local_state.cluster_folder(inventory.name) / "known_hosts"
    text = path.read_text() if path.exists() else ""
    return [line.split() for line in text.splitlines() if line.strip()]


def _why(host: Host, inventory: Inventory) -> str:
    folder = local_state.cluster_folder(inventory.name)
    return (
        f"its key does not stand in {WHERE[host.host_key_source or 'console']}. If it was used "
        f"from another computer before, copy that one's {folder / 'known_hosts'}"
    )
