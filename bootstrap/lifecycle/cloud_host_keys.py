"""Reads each machine's host key through its cloud, and pins it for that machine.

A pin in the cluster's known_hosts contains the host's name, so a new address changes nothing. It
also contains the cloud's serial number of the machine, so the key of a recreated machine is read
again. What one computer has pinned is stored in the stack's bucket for others: EC2's console shows
a key after the first boot alone, and an injected key is replaced at the first login. Machines may
not write there: they write below runs/ only. There is no trust on first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railhead.documents.lazy import dataclass
from railhead.documents.names import is_name

from ..clouds.base import Cloud, InstanceState
from ..clouds.bucket import Bucket
from ..console.output import Reporter
from ..console.wait import Clock, wait_until
from ..errors import HostsNotReady, RailheadError
from ..inventory import local_state
from ..inventory.files import atomic_write
from ..inventory.hosts import Host, Inventory
from ..ssh.host_keys import parsed_key
from ..ssh.login.route import is_pinned_by_name

INJECTED = "injected"  # mark of a pin: others may know this key; key_rotation.py replaces it
WAIT_SECONDS = 300.0  # EC2's console output has the keys only some minutes after boot
POLL_SECONDS = 10.0
FOLDER = "host-keys/"  # in the bucket
LIMIT = 20_000  # bytes of the keys of one machine
KEY_SOURCES = {
    "console": "EC2's console output, which shows keys after a machine's first boot alone",
    "guest-attributes": "its guest attributes, which the guest agent writes at boot",
}


@dataclass(frozen=True)
class HostKeyStore:
    """One object for each machine, named after its serial number in the cloud: a machine that was
    created again has another one."""

    bucket: Bucket

    def read(self, serial: str) -> list[str]:
        """The public keys of a machine, `ssh-ed25519 AAAA...` each; none if there are none."""
        data = self.bucket.read(f"{FOLDER}{serial}", LIMIT) if is_name(serial) else None
        return (data or b"").decode("ascii", "replace").splitlines()

    def write(self, serial: str, keys: list[str]) -> None:
        """Replace the public keys of a machine."""
        if is_name(serial):
            self.bucket.store.write(f"{FOLDER}{serial}", "".join(f"{k}\n" for k in keys).encode())


def pin(
    inventory: Inventory,
    instance_states: Mapping[str, InstanceState],
    cloud: Cloud,
    *,
    store: HostKeyStore | None = None,
    report: Reporter = lambda _: None,
    clock: Clock | None = None,
) -> None:
    """Pin the key of every running host that has no pin for its current machine.

    Args:
        store: the keys that other computers know; those that are read here are added. They replace
            an injected key: another computer may have changed it since this one pinned it.

    Raises:
        HostsNotReady: a host's key was not available within five minutes.
    """
    hosts = {h.name: h for h in inventory.hosts}
    unpinned = [h for h in inventory.hosts if needs_pin(h, inventory, instance_states)]
    injected = injected_names(inventory)
    not_final = [h for h in inventory.hosts if h in unpinned or h.name in injected]
    shared = _shared(not_final, instance_states, store, report) if store else {}
    replace_pins(inventory, shared)
    unpinned = [h for h in unpinned if h.name not in shared]
    keys: dict[str, tuple[str, ...]] = {h.name: (h.host_key,) for h in unpinned if h.host_key}
    unread = [h for h in unpinned if h.name not in keys]
    if unread:
        report(f"reading the host keys of {', '.join(h.name for h in unread)} through their cloud")
        keys |= _read_keys(unread, cloud, clock or Clock())
    missing = {h.name: _missing_key_reason(h, inventory) for h in unread if h.name not in keys}
    replace_pins(
        inventory,
        {
            n: _pin_texts(hosts[n], instance_states[n].serial, key_texts)
            for n, key_texts in keys.items()
        },
    )
    if keys and store:
        share(inventory.only(keys), store, report)
    if missing:
        outcomes = {h.name: missing.get(h.name, "ok") for h in inventory.hosts}
        raise HostsNotReady(
            "host keys that the cloud does not show yet", outcomes, hint="the same again"
        )


def needs_pin(
    host: Host, inventory: Inventory, instance_states: Mapping[str, InstanceState]
) -> bool:
    """Whether a running host has no pin for its current machine."""
    if not is_pinned_by_name(host, inventory) or instance_states[host.name].state != "running":
        return False
    serials = {line[3] for line in pin_fields(inventory) if line[0] == host.name and len(line) > 3}
    return instance_states[host.name].serial not in serials


def _shared(
    hosts: Sequence[Host],
    instance_states: Mapping[str, InstanceState],
    store: HostKeyStore,
    report: Reporter,
) -> dict[str, list[str]]:
    """The pins of these machines that another computer has stored; none without a bucket."""
    pins = {}
    try:
        for host in hosts:
            serial = instance_states[host.name].serial
            if keys := [key for key in store.read(serial) if is_key(key)]:
                pins[host.name] = [f"{' '.join(key.split()[:2])} {serial}" for key in keys]
    except RailheadError as error:
        report(f"host keys are not read from {store.bucket.store.url}: {error.message}")
    return pins


def share(inventory: Inventory, store: HostKeyStore, report: Reporter) -> None:
    """Store the pinned keys of these machines for other computers; a failure is reported. A key
    that others may know is not stored: it is replaced soon."""
    by_serial: dict[str, list[str]] = {}
    for name, *pin in pin_fields(inventory):
        if name in inventory.names and len(pin) == 3:  # no mark
            by_serial.setdefault(pin[2], []).append(f"{pin[0]} {pin[1]}")
    try:
        for serial, keys in by_serial.items():
            store.write(serial, keys)
    except RailheadError as error:
        report(f"host keys are not stored in {store.bucket.store.url}: {error.message}")


def _read_keys(hosts: Sequence[Host], cloud: Cloud, clock: Clock) -> dict[str, tuple[str, ...]]:
    """The keys of these hosts that their cloud provides within WAIT_SECONDS."""
    names = {h.name for h in hosts}
    shown: dict[str, tuple[str, ...]] = {}

    def complete() -> bool:
        nonlocal shown
        keys = cloud.host_keys()
        shown = {n: k for n, k in keys.items() if n in names and any(map(is_key, k))}
        return len(shown) == len(names)

    wait_until(complete, seconds=WAIT_SECONDS, every=POLL_SECONDS, clock=clock)
    return shown


def is_key(text: str) -> bool:
    """Whether a text can be parsed as a public key."""
    return parsed_key(text) is not None


def _pin_texts(host: Host, serial: str, keys: Sequence[str]) -> list[str]:
    """Each key with the machine's serial, and the INJECTED mark if others may know the key."""
    mark = f" {INJECTED}" if host.host_key_source == INJECTED else ""
    return [f"{' '.join(key.split()[:2])} {serial}{mark}" for key in keys if is_key(key)]


def replace_pins(inventory: Inventory, pins: Mapping[str, Sequence[str]]) -> None:
    """Replace all pins of these hosts (the text after the name); other hosts keep theirs."""
    if not pins:
        return
    lines = [" ".join(line) for line in pin_fields(inventory) if line[0] not in pins]
    lines += [f"{name} {pin}" for name, texts in pins.items() for pin in texts]
    path = local_state.cluster_folder(inventory.name) / "known_hosts"
    atomic_write(path, "\n".join(lines) + "\n")


def pin_fields(inventory: Inventory) -> list[list[str]]:
    """The fields of every pin of the cluster."""
    path = local_state.cluster_folder(inventory.name) / "known_hosts"
    text = path.read_text() if path.exists() else ""
    return [line.split() for line in text.splitlines() if line.strip()]


def injected_names(inventory: Inventory) -> set[str]:
    """The names with the pin of an injected key."""
    return {line[0] for line in pin_fields(inventory) if line[4:] == [INJECTED]}


def _missing_key_reason(host: Host, inventory: Inventory) -> str:
    folder = local_state.cluster_folder(inventory.name)
    source = KEY_SOURCES[host.host_key_source or "console"]
    return (
        f"its key is not in {source}. If it was used "
        f"from another computer before, copy that one's {folder / 'known_hosts'}"
    )
