"""The distribution strategies of a run, one row each. Pure.

A new strategy is a row here, and an adapter and its name in the training package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from bootstrap.errors import UsageError


@dataclass(frozen=True)
class Strategy:
    """How the processes of a run are placed and how they find each other.

    `process_per_slot`: one process per slot of a host; else one per host. `one_host`: refused on
    several hosts. `roles`: the TF_CONFIG role of each host in order, the last one for all further
    hosts; empty for no TF_CONFIG. `script_keras`: the default Keras version for scripts.
    """

    name: str
    launcher: str
    process_per_slot: bool = False
    one_host: bool = False
    roles: tuple[str, ...] = ()
    script_keras: int = 3

    def processes(self, slots: int) -> int:
        """The number of processes on a host with `slots` slots."""
        return slots if self.process_per_slot else 1

    def tf_cluster(self, hosts: Sequence[tuple[str, int]]) -> dict[str, list[str]] | None:
        """`cluster` of TF_CONFIG from the (peer address, port) of each host; None without roles."""
        return tf_cluster(hosts, self.roles) if self.roles else None


# A launcher's default is its first row; on a single host, its first row with `one_host` if any.
_ROWS = (
    Strategy("horovod", "horovod", process_per_slot=True, script_keras=2),
    Strategy("multiworker", "tensorflow", roles=("worker",), script_keras=2),
    Strategy("mirrored", "tensorflow", one_host=True),
    Strategy("one-device", "tensorflow", one_host=True),
)
STRATEGIES = {row.name: row for row in _ROWS}
LAUNCHERS = tuple(dict.fromkeys(row.launcher for row in _ROWS))


def choose(value: str, choices: Sequence[str], what: str) -> str:
    """Return `value` if it is one of `choices`; UsageError with the nearest one otherwise."""
    if value in choices:
        return value
    near = get_close_matches(value, choices, 1)
    guess = f". Did you mean {near[0]}?" if near else ""
    raise UsageError(f"{what} {value!r}: one of {', '.join(choices)}{guess}")


def names(launcher: str) -> tuple[str, ...]:
    """The names of a launcher's strategies."""
    return tuple(row.name for row in _ROWS if row.launcher == launcher)


def resolve(launcher: str, name: str | None, hosts: int) -> Strategy:
    """The strategy called `name`, or the launcher's default for this number of hosts.

    Raises:
        UsageError: the strategy runs on one host, and there are several.
    """
    strategy = STRATEGIES[name] if name else _default(launcher, hosts)
    if strategy.one_host and hosts > 1:
        raise UsageError(
            f"strategy {strategy.name} runs on one host; {hosts} were given",
            hint="--strategy multiworker, or give one host",
        )
    return strategy


def _default(launcher: str, hosts: int) -> Strategy:
    rows = [row for row in _ROWS if row.launcher == launcher]
    return min(rows, key=lambda row: row.one_host is not (hosts == 1))


def tf_cluster(
    hosts: Sequence[tuple[str, int]], roles: Sequence[str] = ("worker",)
) -> dict[str, list[str]]:
    """`cluster` of TF_CONFIG from the (peer address, port) of each host, by role.

    UsageError when there is no host, a port is out of range, or two hosts share a port: TensorFlow
    listens on every address of its machine, so hosts that share a machine need different ports.
    """
    if not hosts:
        raise UsageError("TF_CONFIG needs at least one host")
    owner: dict[int, str] = {}
    for address, port in hosts:
        if not 0 < port < 65536:
            raise UsageError(f"{address}: {port} is not a port (1 to 65535)")
        if port in owner:
            raise UsageError(f"{owner[port]} and {address} both have port {port}: each its own")
        owner[port] = address
    cluster: dict[str, list[str]] = {}
    for index, (address, port) in enumerate(hosts):
        role = roles[min(index, len(roles) - 1)]
        cluster.setdefault(role, []).append(_endpoint(address, port))
    return cluster


def _endpoint(address: str, port: int) -> str:
    """`address:port`, with brackets around an IPv6 address."""
    bare = address.removeprefix("[").removesuffix("]")
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"
