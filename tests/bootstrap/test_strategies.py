from __future__ import annotations

import pytest

from bootstrap.errors import UsageError
from bootstrap.runs.strategies import tf_cluster


def test_a_cluster_has_one_worker_per_host_in_the_order_of_the_run() -> None:
    cluster = tf_cluster([("10.0.0.2", 23002), ("10.0.0.1", 23001)])
    assert cluster == {"worker": ["10.0.0.2:23002", "10.0.0.1:23001"]}


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        ("h1", "h1:23001"),
        ("fd00::1", "[fd00::1]:23001"),
        ("[fd00::1]", "[fd00::1]:23001"),
        ("::1", "[::1]:23001"),
    ],
)
def test_a_v6_address_stands_in_brackets(address: str, endpoint: str) -> None:
    assert tf_cluster([(address, 23001)]) == {"worker": [endpoint]}


@pytest.mark.parametrize(
    ("hosts", "says"),
    [
        ([], "at least one host"),
        ([("127.77.0.1", 23001), ("127.77.0.2", 23001)], "127.77.0.1 and 127.77.0.2 .* 23001"),
        ([("h1", 0)], "h1: 0 is not a port"),
        ([("h1", 65536)], "65536 is not a port"),
    ],
)
def test_a_cluster_that_tensorflow_could_not_start_is_refused(
    hosts: list[tuple[str, int]], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        tf_cluster(hosts)
