"""`--hosts`: every form that it takes, and every one that it refuses with its rule."""

from __future__ import annotations

import pytest

from bootstrap.errors import UsageError
from bootstrap.inventory.hosts import SHAPE, Host, Inventory, parse_hosts

HOST = f"write {SHAPE}"
PORT = "is not a whole number from 1 to 65535"
SLOTS = "is not a whole number from 1 to 1024"
NAME = "letters, digits, '.', '_' and '-', beginning and ending with a letter, a digit or '_'"


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("h1", Host("h1", "h1")),
        ("  h1  ", Host("h1", "h1")),
        ("h1.example.org", Host("h1.example.org", "h1.example.org")),
        ("10.0.0.7", Host("10.0.0.7", "10.0.0.7")),
        ("my_alias-2", Host("my_alias-2", "my_alias-2")),
        ("ann@h1", Host("h1", "h1", user="ann")),
        ("first.last@h1", Host("h1", "h1", user="first.last")),
        ("h1:2222", Host("h1", "h1", port=2222)),
        ("h1:65535", Host("h1", "h1", port=65535)),
        ("h1*4", Host("h1", "h1", slots=4)),
        ("ann@h1:2222*4", Host("h1", "h1", user="ann", port=2222, slots=4)),
        ("[2001:db8::7]", Host("host-1", "2001:db8::7")),
        ("[::1]:22", Host("host-1", "::1", port=22)),
        ("ann@[::1]*2", Host("host-1", "::1", user="ann", slots=2)),
        ("[fe80::1%eth0]:2222*1", Host("host-1", "fe80::1%eth0", port=2222, slots=1)),
    ],
)
def test_a_host_is_written_in_one_of_these_forms(text: str, host: Host) -> None:
    assert parse_hosts(text).hosts == (host,)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("ann@h1:22*4", "ann@h1:22"), ("[::1]", "[::1]"), ("a@[::1]:7", "a@[::1]:7"), ("h1", "h1")],
)
def test_a_host_is_shown_as_it_was_typed(text: str, shown: str) -> None:
    assert str(parse_hosts(text).hosts[0]) == shown


def test_the_order_stands_and_the_first_is_the_chief() -> None:
    inventory = parse_hosts("b, a,,c,")
    assert [h.name for h in inventory.hosts] == ["b", "a", "c"]
    assert inventory.chief.name == "b"
    assert inventory.is_ad_hoc


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("h:1,h:2", ["h-1", "h-2"]),
        ("h,h:23", ["h-22", "h-23"]),
        ("[::1],h,[::2]", ["host-1", "h", "host-3"]),
        ("h-1,h:1,h:2", ["h-1", "h-1_", "h-2"]),
        ("h:1,h:2,h-1", ["h-1_", "h-2", "h-1"]),
        ("[::1],host-1", ["host-1_", "host-1"]),
        ("host:2,[::1],host:3", ["host-2", "host-2_", "host-3"]),
    ],
)
def test_every_host_has_a_name_of_its_own(text: str, names: list[str]) -> None:
    assert [h.name for h in parse_hosts(text).hosts] == names


def test_slots_for_all_leave_a_hosts_own_alone() -> None:
    assert [h.slots for h in parse_hosts("a,b*3", slots=2).hosts] == [2, 3]
    assert [h.slots for h in parse_hosts("a,b").hosts] == [None, None]


def test_the_same_hosts_are_the_same_cluster_whatever_their_slots() -> None:
    name = parse_hosts("ann@a:22,b").name
    assert parse_hosts(" ann@a:22*2 ,b", slots=3).name == name
    assert name not in {parse_hosts(text).name for text in ("b,ann@a:22", "ann@a:22", "a:22,b")}


@pytest.mark.parametrize("text", ["", " ", ",", " , ,"])
def test_no_hosts_is_an_error_that_shows_how_to_name_them(text: str) -> None:
    with pytest.raises(UsageError, match="^no hosts") as caught:
        parse_hosts(text)
    assert caught.value.hint == "fab train --hosts user@first,user@second"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,a", "a: the same host twice"),
        ("a,b,a*2", "a: the same host twice"),
        ("a,a:22", "a and a:22: the same host twice"),
        ("ann@a,bob@a", "ann@a and bob@a: the same host twice"),
        ("[::1],[::1]:22", "[::1] and [::1]:22: the same host twice"),
    ],
)
def test_a_host_twice_is_refused_and_named_as_typed(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_hosts(text)
    assert caught.value.message == f"{says}; write each host once"


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ("a,b;reboot", "'b;reboot'", HOST),
        ("$(x)", "'$(x)'", HOST),
        ("`x`", "'`x`'", HOST),
        ("a|b", "'a|b'", HOST),
        ("../..", "'../..'", HOST),
        ("..", "'..'", HOST),
        ("/etc", "'/etc'", HOST),
        ("a..b", "'a..b'", NAME),
        ("a" * 201, "a" * 201, "without '..', no longer than 200"),
        ("-oProxyCommand=x", "'-oProxyCommand=x'", HOST),
        ("--", "'--'", HOST),
        ("-h", "'-h'", HOST),
        ("a\nb", r"'a\nb'", HOST),
        ("a\tb", r"'a\tb'", HOST),
        ("a\0b", r"'a\x00b'", HOST),
        ("a b", "'a b'", HOST),
        ("höst", "'höst'", HOST),
        ("\N{FULLWIDTH LATIN SMALL LETTER A}", "'\N{FULLWIDTH LATIN SMALL LETTER A}'", HOST),
        ("a.", "'a.'", HOST),
        ("@a", "'@a'", HOST),
        ("ann@", "'ann@'", HOST),
        ("ann@bob@a", "'bob@a'", HOST),
        ("ann;x@a", "'ann;x'", NAME),
        ("-l@a", "'-l'", NAME),
        ("$(x)@a", "'$(x)'", NAME),
        ("a:", "'a:'", HOST),
        ("a:0", "port of 'a:0': 0", PORT),
        ("a:65536", "'65536'", PORT),
        ("a:x", "'x'", PORT),
        ("a:22:33", "'22:33'", PORT),
        ("a:\N{ARABIC-INDIC DIGIT THREE}", "'\N{ARABIC-INDIC DIGIT THREE}'", PORT),
        ("a*0", "slots of 'a*0': 0", SLOTS),
        ("a*-1", "'-1'", SLOTS),
        ("a*1025", "'1025'", SLOTS),
        ("a*2.5", "'2.5'", SLOTS),
        ("a*", "'a*'", HOST),
        ("a*2:22", "'2:22'", SLOTS),
        ("2001:db8::7", "'2001:db8::7'", "in brackets: [2001:db8::7]:22"),
        ("ann@::1", "'ann@::1'", "in brackets"),
        ("[::1", "'[::1'", HOST),
        ("[]", "'[]'", HOST),
        ("[::1]x", "'[::1]x'", HOST),
        ("[a]", "'a' is not an IPv6 address", HOST),
        ("[10.0.0.1]", "'10.0.0.1' is not an IPv6 address", HOST),
        ("[:]", "':' is not an IPv6 address", HOST),
        ("[::1%;x]", "'::1%;x' is not an IPv6 address", HOST),
    ],
)
def test_what_is_no_host_is_refused_with_its_value_and_the_rule(
    text: str, value: str, rule: str
) -> None:
    with pytest.raises(UsageError) as caught:
        parse_hosts(text)
    assert value.strip("'") in caught.value.message
    assert rule in caught.value.message
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"name": "../x"}, "'../x' is not a host's name"),
        ({"address": "$(x)"}, r"'\$\(x\)' is not a host"),
        ({"user": "a b"}, "'a b' is not a user"),
        ({"slots": 0}, "slots of h: 0. A host takes part with 1 slot or more"),
        ({"slots": -2}, "slots of h: -2"),
        ({"port": 0}, "port of h: 0 is not a whole number from 1 to 65535"),
        ({"port": 65536}, "65536"),
        ({"peer_address": "h1.internal"}, "peer address 'h1.internal': write an IP address"),
        ({"peer_address": "10.0.0.1/24"}, "write an IP address"),
        ({"peer_address": ""}, "write an IP address"),
    ],
)
def test_a_host_from_anywhere_keeps_the_same_rules(wrong: dict[str, object], says: str) -> None:
    values: dict[str, object] = {"name": "h", "address": "h"}
    with pytest.raises(UsageError, match=says):
        Host(**{**values, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["10.0.0.1", "fd00::1", "127.77.0.1"])
def test_a_peer_address_is_any_ip_address(address: str) -> None:
    assert Host("h", "h", peer_address=address).peer_address == address


def test_an_inventory_is_of_a_kind_that_we_know() -> None:
    with pytest.raises(UsageError, match="cloud 'azure': one of aws, gcp, local, hosts"):
        Inventory("c", (Host("h", "h"),), cloud="azure")
    assert not Inventory("c", (Host("h", "h"),), cloud="local").is_ad_hoc


def test_an_inventory_never_holds_one_name_twice() -> None:
    with pytest.raises(UsageError, match="10.0.0.1 and 10.0.0.2: the same host twice"):
        Inventory("c", (Host("h", "10.0.0.1"), Host("h", "10.0.0.2")))
    with pytest.raises(UsageError, match="10.0.0.1 and 10.0.0.1:22: the same host twice"):
        Inventory("c", (Host("a", "10.0.0.1"), Host("b", "10.0.0.1", port=22)))
    host = Host("h", "h")
    with pytest.raises(UsageError, match="twice"):
        Inventory("c", (host, host))
