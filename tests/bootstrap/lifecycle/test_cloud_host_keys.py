"""Host keys of a cloud's machines: read through the cloud, pinned for that very machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from places import CASES

from bootstrap.cli import shell
from bootstrap.clouds.base import InstanceState, Refused
from bootstrap.clouds.bucket import Bucket
from bootstrap.clouds.local import cluster
from bootstrap.console.wait import Clock
from bootstrap.errors import HostsNotReady
from bootstrap.inventory import local_state
from bootstrap.inventory.document import from_document
from bootstrap.inventory.files import atomic_write
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import cloud_host_keys, key_rotation, reach
from bootstrap.lifecycle.cloud_host_keys import HostKeyStore


def key() -> str:
    """A new public key."""
    public = Ed25519PrivateKey.generate().public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """Two EC2 machines whose keys are on their consoles, and a home of one's own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return from_document(json.loads((CASES / "documents/cluster-aws.json").read_text()))


class Telling:
    """A cloud that tells the keys of its machines from given seconds on; the time is its own."""

    def __init__(self, keys: dict[str, tuple[float, str]]) -> None:
        self.keys, self.time, self.requests = keys, 0.0, 0

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        self.requests += 1
        return {n: (k,) for n, (time, k) in self.keys.items() if time <= self.time}

    def _sleep(self, seconds: float) -> None:
        self.time += seconds

    def pin(
        self,
        inventory: Inventory,
        serials: dict[str, str],
        state: str = "running",
        objects: dict[str, bytes] | None = None,
    ) -> None:
        values = {
            n: InstanceState(state, "192.0.2.1", "it", "", serial=s) for n, s in serials.items()
        }
        cloud: Any = self
        store = None if objects is None else HostKeyStore(Bucket(Objects(objects)))  # type: ignore[arg-type]
        clock = Clock(lambda: self.time, self._sleep)
        cloud_host_keys.pin(inventory, values, cloud, store=store, clock=clock)


class Objects:
    """A bucket of these objects."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects, self.url = objects, "s3://results"

    def read(self, name: str) -> Iterator[bytes]:
        if name in self.objects:
            return iter([self.objects[name]])
        if self.objects.get("refuses"):
            raise Refused("no right to read", "AccessDenied")
        raise KeyError(name)

    def write(self, name: str, data: bytes) -> None:
        if self.objects.get("refuses"):
            raise Refused("no right to write", "AccessDenied")
        self.objects[name] = data


def pins(inventory: Inventory) -> list[str]:
    path = local_state.cluster_folder(inventory.name) / "known_hosts"
    return path.read_text().splitlines() if path.exists() else []


ONE, TWO = "aws-g4dn-1", "aws-g4dn-2"
SERIALS = {ONE: "i-1", TWO: "i-2"}


def test_keys_are_pinned_under_the_hosts_names_and_queried_once(golden: Inventory) -> None:
    first, second = key(), key()
    cloud = Telling({ONE: (0, first), TWO: (40, second)})
    cloud.pin(golden, SERIALS)
    assert pins(golden) == [f"{ONE} {first} i-1", f"{TWO} {second} i-2"]
    assert 40 <= cloud.time < 60
    request = cloud.requests
    cloud.pin(golden, SERIALS)
    assert cloud.requests == request


def test_a_second_computer_knows_the_keys_from_the_bucket(
    golden: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = key(), key()
    objects: dict[str, bytes] = {}
    Telling({ONE: (0, first), TWO: (0, second)}).pin(golden, SERIALS, objects=objects)
    expected = {"host-keys/i-1": f"{first}\n".encode(), "host-keys/i-2": f"{second}\n".encode()}
    assert objects == expected
    monkeypatch.setenv("HOME", str(tmp_path / "second"))
    cloud = Telling({})
    cloud.pin(golden, SERIALS, objects=objects)
    assert pins(golden) == [f"{ONE} {first} i-1", f"{TWO} {second} i-2"] and not cloud.requests
    new = key()
    made_anew = Telling({ONE: (0, new), TWO: (0, new)})
    made_anew.pin(golden, SERIALS | {ONE: "i-9"}, objects=objects)
    assert made_anew.requests == 1 and objects["host-keys/i-9"] == f"{new}\n".encode()
    assert sorted(pins(golden)) == [f"{ONE} {new} i-9", f"{TWO} {second} i-2"]


@pytest.mark.parametrize(
    "objects", [{"host-keys/i-1": b"ssh-ed25519 AAAA\n\xff"}, {"refuses": b"yes"}]
)
def test_a_bucket_without_a_key_pins_nothing(golden: Inventory, objects: dict[str, bytes]) -> None:
    first, second = key(), key()
    Telling({ONE: (0, first), TWO: (0, second)}).pin(golden, SERIALS, objects=objects)
    assert pins(golden) == [f"{ONE} {first} i-1", f"{TWO} {second} i-2"]


def test_an_injected_key_is_not_stored_for_others(golden: Inventory) -> None:
    hosts = tuple(replace(h, host_key=key(), host_key_source="injected") for h in golden.hosts)
    objects: dict[str, bytes] = {}
    Telling({}).pin(replace(golden, hosts=hosts), SERIALS, objects=objects)
    assert objects == {}


def test_an_injected_key_that_another_computer_has_replaced_is_read_from_the_bucket(
    golden: Inventory,
) -> None:
    """It was pinned here before; the machine does not have it any more."""
    hosts = tuple(replace(h, host_key=key(), host_key_source="injected") for h in golden.hosts)
    injected, cloud, new = replace(golden, hosts=hosts), Telling({}), key()
    objects: dict[str, bytes] = {}
    cloud.pin(injected, SERIALS, objects=objects)
    before = pins(golden)
    cloud_host_keys.replace_pins(golden, {ONE: [before[0].split(" ", 1)[1], f"{key()} i-1 next"]})
    cloud.pin(injected, SERIALS, objects=objects | {"host-keys/i-1": f"{new}\n".encode()})
    assert sorted(pins(golden)) == [f"{ONE} {new} i-1", before[1]]
    assert [host.name for host in (key_rotation.due(injected) or golden).hosts] == [TWO]
    cloud.pin(injected, SERIALS, objects={"refuses": b"yes"})
    assert sorted(pins(golden)) == [f"{ONE} {new} i-1", before[1]] and not cloud.requests


def test_a_machine_that_was_made_anew_is_queried_anew_and_alone(golden: Inventory) -> None:
    old, other, new = key(), key(), key()
    Telling({ONE: (0, old), TWO: (0, other)}).pin(golden, SERIALS)
    Telling({ONE: (0, new), TWO: (0, new)}).pin(golden, SERIALS | {ONE: "i-9"})
    assert sorted(pins(golden)) == [f"{ONE} {new} i-9", f"{TWO} {other} i-2"]


def test_a_key_that_is_not_to_be_had_is_never_guessed(golden: Inventory) -> None:
    first = key()
    cloud = Telling({ONE: (0, first)})
    with pytest.raises(HostsNotReady, match="the cloud does not show") as caught:
        cloud.pin(golden, SERIALS)
    assert 300 <= cloud.time < 320
    assert caught.value.code == 2
    assert "console output" in caught.value.outcomes[TWO]
    assert caught.value.outcomes[ONE] == "ok"
    assert pins(golden) == [f"{ONE} {first} i-1"]


@pytest.mark.parametrize("bad", ["ssh-ed25519 AAAA", "ssh-ed25519", "ssh-rsa not-base64", ""])
def test_what_is_no_key_is_not_pinned(golden: Inventory, bad: str) -> None:
    with pytest.raises(HostsNotReady):
        Telling({ONE: (0, bad), TWO: (0, bad)}).pin(golden, SERIALS)
    assert pins(golden) == []


def test_stopped_machines_and_those_without_a_source_are_not_queried(golden: Inventory) -> None:
    cloud = Telling({})
    cloud.pin(golden, SERIALS, "stopped")
    bare = tuple(replace(h, host_key_source=None) for h in golden.hosts)
    cloud.pin(replace(golden, hosts=bare), SERIALS)
    assert cloud.requests == 0


def test_a_key_in_the_document_is_pinned_as_it_stands(golden: Inventory) -> None:
    with_console = key()
    hosts = tuple(replace(h, host_key=with_console) for h in golden.hosts)
    cloud = Telling({})
    cloud.pin(replace(golden, hosts=hosts), SERIALS)
    assert pins(golden) == [f"{ONE} {with_console} i-1", f"{TWO} {with_console} i-2"]
    assert cloud.requests == 0


def test_an_injected_key_is_pinned_with_a_mark_until_another_is(golden: Inventory) -> None:
    """Its host is due to get another; the mark is ours, and a pin holds with it."""
    first, second = key(), key()
    one, two = golden.hosts
    one = replace(one, host_key=first, host_key_source="injected")
    mixed = replace(golden, hosts=(one, two))
    cloud = Telling({TWO: (0, second)})
    cloud.pin(mixed, SERIALS)
    assert sorted(pins(golden)) == [f"{ONE} {first} i-1 injected", f"{TWO} {second} i-2"]
    assert [host.name for host in (key_rotation.due(mixed) or mixed).hosts] == [ONE]
    both = [f"{first} i-1 injected", f"{second} i-1 next"]
    cloud_host_keys.replace_pins(golden, {ONE: both})
    cloud.pin(mixed, SERIALS)
    assert {f"{ONE} {pin}" for pin in both} < set(pins(golden)), "what was made is not forgotten"
    cloud_host_keys.replace_pins(golden, {ONE: [f"{second} i-1"]})
    cloud.pin(mixed, SERIALS)
    assert sorted(pins(golden)) == [f"{ONE} {second} i-1", f"{TWO} {second} i-2"], "once"
    assert key_rotation.due(mixed) is None
    Telling({}).pin(mixed, SERIALS | {ONE: "i-9"})
    assert f"{ONE} {first} i-9 injected" in pins(golden), "another machine, another time"


# --- With a real sshd ------------------------------------------------------------------------


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inventory]:
    """A local host that is with_console as if it stood in a cloud: its pin is under its name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    inventory = cluster.start("identity", 1)
    (local_state.cluster_folder("identity") / "known_hosts").unlink()
    yield replace(inventory, cloud="aws", hosts=(with_console(inventory.chief),))
    cluster.stop("identity")


def with_console(host: Host) -> Host:
    return replace(host, host_key_source="console")


def write_pin(text: str) -> None:
    atomic_write(local_state.cluster_folder("identity") / "known_hosts", text + "\n")


def test_a_pin_under_the_name_holds_at_any_address(sshd: Inventory) -> None:
    write_pin(f"h1 {sshd.chief.host_key} i-1")
    with reach.sessions(sshd) as opened:
        assert opened["h1"].sh("echo in").strip() == "in"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_any_of_several_pins_of_one_kind_holds(sshd: Inventory, place: int) -> None:
    lines = [f"h1 {key()} i-1 injected", f"h1 {key()} i-1 next"]
    lines.insert(place, f"h1 {sshd.chief.host_key} i-1 next")
    write_pin("\n".join(lines))
    with reach.sessions(sshd) as opened:
        assert opened["h1"].sh("echo in").strip() == "in"


def test_none_of_several_pins_is_refused(sshd: Inventory) -> None:
    write_pin(f"h1 {key()} i-1 injected\nh1 {key()} i-1 next")
    changed = pytest.raises(HostsNotReady, match="REFUSED, its host key changed")
    with changed, reach.sessions(sshd):
        pass


@pytest.mark.parametrize("file", [".ssh/known_hosts", ".railhead/known_hosts"])
def test_only_the_clusters_own_file_vouches_for_a_machine_in_a_cloud(
    sshd: Inventory, tmp_path: Path, file: str
) -> None:
    """Another machine may have had its address before, and its key is in the user's file then."""
    host = sshd.chief
    names = f"h1,{host.address},[{host.address}]:{host.port}"
    atomic_write(tmp_path / file, f"{names} {host.host_key}\n")
    refused = pytest.raises(HostsNotReady, match="does not confirm this key")
    with refused, reach.sessions(sshd):
        pass


def test_an_injected_pin_that_fails_names_no_way_to_forget_it(sshd: Inventory) -> None:
    """The injected key would only be pinned again."""
    write_pin(f"h1 {key()} i-1 injected")
    injected = replace(sshd.chief, host_key=key(), host_key_source="injected")
    copied = pytest.raises(HostsNotReady, match="copy that one's .*known_hosts")
    with copied as refused, reach.sessions(replace(sshd, hosts=(injected,))):
        pass
    assert "ssh-keygen -R" not in str(refused.value)


def test_another_key_than_the_pinned_one_is_refused(sshd: Inventory) -> None:
    write_pin(f"h1 {key()} i-1")
    with pytest.raises(HostsNotReady, match="REFUSED") as refused, reach.sessions(sshd):
        pass
    assert "ssh-keygen -R h1 -f" in str(refused.value)


def test_a_pin_of_the_address_counts_for_nothing(sshd: Inventory) -> None:
    write_pin(f"[{sshd.chief.address}]:{sshd.chief.port} {sshd.chief.host_key}")
    atomic_write(
        local_state.home() / "known_hosts",
        f"[{sshd.chief.address}]:{sshd.chief.port} {sshd.chief.host_key}\n",
    )
    with pytest.raises(HostsNotReady, match="does not confirm this key"), reach.sessions(sshd):
        pass


def test_ssh_is_reported_of_the_name_too(sshd: Inventory) -> None:
    text = shell.write_config(sshd).read_text()
    assert "  HostKeyAlias h1\n" in text
    assert str(Path.home() / ".ssh") not in text
