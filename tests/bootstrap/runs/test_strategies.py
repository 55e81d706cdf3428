from __future__ import annotations

import pytest

from bootstrap.errors import UsageError
from bootstrap.runs.strategies import STRATEGIES, launcher_for, resolve, tf_cluster


def test_a_cluster_has_each_role_in_the_order_of_the_ranks() -> None:
    cluster = tf_cluster([("worker", "10.0.0.2", 23002), ("worker", "10.0.0.1", 23001)])
    assert cluster == {"worker": ("10.0.0.2:23002", "10.0.0.1:23001")}


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        ("h1", "h1:23001"),
        ("fd00::1", "[fd00::1]:23001"),
        ("[fd00::1]", "[fd00::1]:23001"),
        ("::1", "[::1]:23001"),
    ],
)
def test_an_ipv6_address_is_in_brackets(address: str, endpoint: str) -> None:
    assert tf_cluster([("worker", address, 23001)]) == {"worker": (endpoint,)}


@pytest.mark.parametrize(
    ("hosts", "says"),
    [
        ([], "^TF_CONFIG needs at least one host$"),
        (
            [("worker", "127.77.0.1", 23001), ("ps", "127.77.0.2", 23001)],
            "127.77.0.1 and 127.77.0.2 .* 23001",
        ),
        ([("worker", "h1", 0)], "h1: 0 is not a port"),
        ([("worker", "h1", 65536)], "65536 is not a port"),
    ],
)
def test_a_cluster_that_tensorflow_could_not_start_is_refused(
    hosts: list[tuple[str, str, int]], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        tf_cluster(hosts)


def test_the_lowest_and_the_highest_port_are_accepted() -> None:
    cluster = tf_cluster([("worker", "h1", 1), ("worker", "h2", 65535)])
    assert cluster == {"worker": ("h1:1", "h2:65535")}


@pytest.mark.parametrize(
    ("launcher", "strategy", "text", "hint"),
    [
        (None, "miror", "^strategy 'miror': one of ", ""),
        (
            "horovod",
            "parameter-server",
            "^strategy parameter-server is for launcher tensorflow, not for horovod",
            "--strategy parameter-server   # without --launcher",
        ),
    ],
)
def test_a_wrong_name_and_the_other_launcher_are_refused(
    launcher: str | None, strategy: str, text: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        launcher_for(launcher, strategy)
    assert caught.value.hint == hint


def test_a_strategy_of_one_host_names_that_of_several() -> None:
    with pytest.raises(UsageError) as caught:
        resolve("tensorflow", "mirrored", 2)
    assert caught.value.hint == "--strategy multiworker   # or name one host"


@pytest.mark.parametrize(
    ("strategy", "slots", "servers", "placement"),
    [
        ("horovod", [2, 1], 0, ["worker worker", "worker"]),
        ("multiworker", [2, 1], 0, ["worker", "worker"]),
        ("one-device", [4], 0, ["worker"]),
        ("parameter-server", [1], 1, ["chief ps worker"]),
        ("parameter-server", [1, 1], 1, ["chief worker", "ps worker"]),
        ("parameter-server", [1, 1], 0, ["chief worker", "ps worker"]),
        ("parameter-server", [1, 1, 1], 1, ["chief worker", "ps worker", "worker"]),
        ("parameter-server", [1, 2, 1], 3, ["chief ps worker", "ps worker worker", "ps worker"]),
        ("parameter-server", [1, 1], 5, ["chief ps ps worker", "ps ps ps worker"]),
    ],
)
def test_processes_are_placed_on_hosts(
    strategy: str, slots: list[int], servers: int, placement: list[str]
) -> None:
    roles = STRATEGIES[strategy].place(slots, servers)
    assert [" ".join(host) for host in roles] == placement
