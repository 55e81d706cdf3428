"""The files by which the chief's mpirun finds and trusts the other hosts."""

from __future__ import annotations

import ipaddress
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from bootstrap.facts.host import Address, HostFacts
from bootstrap.plan.hostfile import (
    Link,
    Peer,
    alias,
    authorized_line,
    hostfile,
    known_hosts,
    links,
    networks,
    ssh_config,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB5pCFjpzH4qO6hFAT8JjnLtVmWjmyXzV9oE0iCk3WpX"
PEERS = (
    Peer("gpu-box", "10.0.1.5", 22, "ann", 4, KEY),
    Peer("laptop's alias", "fd00::6", 2222, "bob", 1, KEY.replace("5pCF", "6pCF")),
)


def test_the_chief_is_first_and_every_host_has_an_alias_without_dots() -> None:
    assert hostfile([4, 1]) == "railhead-1 slots=4\nrailhead-2 slots=1\n"
    assert [alias(i) for i in (0, 9)] == ["railhead-1", "railhead-10"]


def test_the_pins_are_the_keys_that_the_control_side_verified() -> None:
    assert known_hosts(PEERS).splitlines() == [
        f"railhead-1 {PEERS[0].host_key}",
        f"railhead-2 {PEERS[1].host_key}",
    ]


def test_the_chief_alone_may_use_the_key_and_only_from_its_address() -> None:
    line = authorized_line(f"{KEY} somebody@laptop\n", "10.0.1.5", "hosts-0a1b2c3d")
    assert line == f'from="10.0.1.5",restrict {KEY} railhead:hosts-0a1b2c3d'


@pytest.mark.parametrize("index", [0, 1])
def test_ssh_itself_reads_the_configuration(tmp_path: Path, index: int) -> None:
    if not shutil.which("ssh"):
        pytest.skip("no ssh here")
    file = tmp_path / "ssh_config"
    file.write_text(ssh_config(PEERS, key="/home/ann lee/key", pins="/home/ann lee/pins"))
    argv = ["ssh", "-G", "-F", str(file), alias(index)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    output = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    peer = PEERS[index]
    assert (output["hostname"], output["port"], output["user"]) == (
        peer.address,
        str(peer.port),
        peer.user,
    )
    assert output["hostkeyalias"] == alias(index)
    assert output["bindaddress"] == "10.0.1.5"
    assert output["stricthostkeychecking"] == "true"
    assert output["identitiesonly"] == output["batchmode"] == "yes"
    assert output["identityagent"] == "$RAILHEAD_KEY_AGENT"
    assert (output["forwardagent"], output["updatehostkeys"]) == ("no", "false")
    assert output["identityfile"].strip('"') == "/home/ann lee/key"
    assert output["userknownhostsfile"].strip('"') == "/home/ann lee/pins"
    assert output["globalknownhostsfile"] == "/dev/null"


def host_at(base: HostFacts, *addresses: str) -> HostFacts:
    """Facts of a host with these addresses: 10.0.1.5/24, of eth0, or ens5 10.0.1.5/24."""
    pairs = [("eth0", *text.split()) for text in addresses]
    interfaces = [(pair[-2], ipaddress.ip_interface(pair[-1])) for pair in pairs]
    return replace(
        base,
        addresses=tuple(
            Address(name, str(interface.ip), str(interface.network))
            for name, interface in interfaces
        ),
    )


LO = "127.0.0.1/8"


@pytest.mark.parametrize(
    ("peers", "facts", "expected"),
    [
        (["127.77.0.1", "127.77.0.2"], [[LO], [LO]], "127.0.0.0/8"),
        (["10.0.1.5", "10.0.1.6"], [[LO, "10.0.1.5/24"], [LO, "10.0.1.6/24"]], "10.0.1.0/24"),
        (
            ["10.0.1.5", "10.0.2.6"],
            [[LO, "10.0.1.5/24"], [LO, "10.0.2.6/24"]],
            "10.0.1.0/24,10.0.2.0/24",
        ),
        (
            ["10.0.1.5", "203.0.113.7"],
            [["10.0.1.5/24"], ["192.168.1.2/24"]],
            "10.0.1.0/24,203.0.113.7/32",
        ),
        (["203.0.113.7", "203.0.113.7"], [[], []], "203.0.113.7/32"),
        (["fd00::5", "fd00::6"], [["fd00::5/64"], ["fd00::6/64"]], "eth0"),
        (["fd00::5", "fd00::6"], [["fd00::5/64"], [LO, "ens5 fd00::6/64"]], ""),
        (["fd00::5", "fd00::9"], [["fd00::5/64"], ["fd00::6/64"]], ""),
        (["10.0.1.5", "fd00::6"], [["10.0.1.5/24"], [LO, "fd00::6/64"]], "eth0"),
        (["::1"], [["::1/128"]], "eth0"),
        (["10.0.1.5"], [["fe80::1/64", "172.17.0.1/16", "10.0.1.5/25"]], "10.0.1.0/25"),
    ],
    ids=[
        *("local", "one subnet", "two subnets", "NAT", "one NAT"),
        *("IPv6", "IPv6 by two names", "IPv6 and NAT", "both", "IPv6 on one host"),
        "many addresses",
    ],
)
def test_mpi_listens_in_the_networks_of_the_peers_alone(
    debian: HostFacts, peers: list[str], facts: list[list[str]], expected: str
) -> None:
    hosts = [Peer(f"h{i}", address, 22, "ann", 1, KEY) for i, address in enumerate(peers)]
    known = {
        peer.name: host_at(debian, *addresses) for peer, addresses in zip(hosts, facts, strict=True)
    }
    assert networks(hosts, known) == expected


TWO_LEGS = (
    Address("lo", "127.0.0.1", "127.0.0.0/8"),
    Address("docker0", "172.17.0.1", "172.17.0.0/16"),
    Address("ens5", "10.0.1.5", "10.0.1.0/24"),
    Address("ens6", "10.0.2.5", "10.0.2.0/24"),
    Address("ens7", "10.0.1.9", "10.0.1.0/24"),  # a second leg in the first one's network
    Address("ens8", "fd00::5", "fd00::/64"),
)


@pytest.mark.parametrize(
    ("address", "link"),
    [
        ("10.0.1.5", Link("ens5", "10.0.1.0/24")),
        ("10.0.1.9", Link("ens7", "10.0.1.0/24")),
        ("10.0.2.5", Link("ens6", "10.0.2.0/24")),
        ("127.77.0.1", Link("lo", "127.0.0.0/8")),
        ("fd00::5", Link("ens8", "fd00::5/128")),
        ("203.0.113.7", Link(None, "203.0.113.7/32")),
    ],
)
def test_the_interface_is_the_one_that_has_the_address_for_peers(
    debian: HostFacts, address: str, link: Link
) -> None:
    host = Peer("h1", address, 22, "ann", 1, KEY)
    facts = {"h1": replace(debian, addresses=TWO_LEGS)}
    assert links([host], facts) == (link,)
