"""The distribution strategies of runs, one row each. Pure.

A new strategy is a row here, and an adapter and its name in the training package.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from railhead.documents.lazy import dataclass
from railhead.documents.rule import nearest
from railhead.documents.runs.run import Role

from ..errors import UsageError

AUTO = "auto"  # `choose_for` replaces it by a strategy
DEFAULT_LAUNCHER = "horovod"


@dataclass(frozen=True)
class Strategy:
    """How the processes of a run are placed and how they find each other.

    `process_per_slot`: one worker per slot of a host, not per host. `one_host`: refused on several
    hosts. `roles`: the roles of its processes in TF_CONFIG; empty for no TF_CONFIG. `coordinator`:
    rank 0 listens on a port through which the ranks find each other.
    """

    name: str
    launcher: str
    process_per_slot: bool = False
    one_host: bool = False
    roles: tuple[str, ...] = ()
    coordinator: bool = False

    @property
    def has_servers(self) -> bool:
        """Whether it has parameter servers."""
        return "ps" in self.roles

    def place(self, slots: Sequence[int], servers: int = 0) -> list[list[str]]:
        """The role of each process of each host, in the order of the ranks.

        Workers take the slots. The chief only coordinates: it is an additional process on the first
        host. Parameter servers (one if `servers` is 0) are additional processes too, round robin
        from the second host on, because the chief sends the data from the first one.
        """
        hosts = [["worker"] * (number if self.process_per_slot else 1) for number in slots]
        for number in range((servers or 1) if self.has_servers else 0):
            hosts[(number + 1) % len(hosts)].insert(0, "ps")
        if "chief" in self.roles:
            hosts[0].insert(0, "chief")
        return hosts


# A launcher's default is its first row; on a single host, its first row with `one_host` if any.
_ROWS = (
    Strategy("horovod", "horovod", process_per_slot=True),
    Strategy("multiworker", "tensorflow", roles=("worker",)),
    Strategy("mirrored", "tensorflow", one_host=True),
    Strategy("one-device", "tensorflow", one_host=True),
    Strategy(
        "parameter-server",
        "tensorflow",
        process_per_slot=True,
        roles=("chief", "ps", "worker"),
    ),
    Strategy("jax", "jax", process_per_slot=True, coordinator=True),
    Strategy("torch", "torch", process_per_slot=True, coordinator=True),
)
STRATEGIES = {row.name: row for row in _ROWS}
LAUNCHERS = tuple(dict.fromkeys(row.launcher for row in _ROWS))
SCRIPTS_ONLY = ("jax", "torch")  # launchers that the built-in training is not written for


def choose(value: str, choices: Sequence[str], what: str) -> str:
    """Return `value` if it is one of `choices`; UsageError with the nearest one otherwise."""
    if value in choices:
        return value
    near = nearest(value, choices)
    guess = f". Did you mean {near}?" if near else ""
    raise UsageError(f"{what} {value!r}: one of {', '.join(choices)}{guess}")


def names() -> tuple[str, ...]:
    """The values of --strategy."""
    return (*STRATEGIES, AUTO)


def launcher_named(name: str | None) -> str | None:
    """The launcher of this name, or None; UsageError for an unknown one."""
    return name if name is None else choose(name, LAUNCHERS, "launcher")


def launcher_for(launcher: str | None, strategy: str | None) -> str:
    """The launcher of a run: the chosen one, the strategy's, or the default.

    Raises:
        UsageError: unknown names, or a strategy of another launcher.
    """
    launcher_named(launcher)
    if strategy is not None:
        choose(strategy, names(), "strategy")
    if strategy in (None, AUTO):
        return launcher or DEFAULT_LAUNCHER
    own = STRATEGIES[strategy].launcher
    if launcher not in (None, own):
        raise UsageError(
            f"strategy {strategy} is for launcher {own}, not for {launcher}",
            hint=f"--strategy {strategy}   # without --launcher",
        )
    return own


def resolve(launcher: str, name: str | None, hosts: int) -> Strategy:
    """The strategy called `name`, or the launcher's default for this number of hosts.

    Raises:
        UsageError: the strategy runs on one host, and there are several.
    """
    strategy = STRATEGIES[name] if name else _default(launcher, hosts)
    if strategy.one_host and hosts > 1:
        raise UsageError(
            f"strategy {strategy.name} runs on one host, not on {hosts}",
            hint="--strategy multiworker   # or name one host",
        )
    return strategy


def choose_for(
    launcher: str, slots: Sequence[int], gpus: int, *, compiled: bool = True
) -> tuple[str, str]:
    """The strategy that `auto` stands for, and why.

    Args:
        slots: of each host, in order.
        gpus: of the first host.
        compiled: whether Horovod needs no compilation; otherwise several hosts
            train with one of TensorFlow.
    """
    if len(slots) > 1 and not compiled:
        return "multiworker", f"{len(slots)} hosts, and Horovod is not installed there"
    if len(slots) > 1:
        return _default(launcher, len(slots)).name, f"{len(slots)} hosts"
    if gpus > 1:
        return "mirrored", f"one host with {gpus} GPUs"
    if slots[0] > 1 and launcher == "horovod":
        return "horovod", f"one host with {slots[0]} slots"
    return "one-device", f"one host with {'one GPU' if gpus else 'no GPU'}"


def _default(launcher: str, hosts: int) -> Strategy:
    rows = [row for row in _ROWS if row.launcher == launcher]
    return min(rows, key=lambda row: row.one_host is not (hosts == 1))


def tasks(roles: Iterable[str]) -> tuple[Role, ...]:
    """`task` of TF_CONFIG for each rank: its role, and its number among the ranks of that role."""
    numbers: dict[str, count[int]] = {}
    return tuple(Role(role, next(numbers.setdefault(role, count()))) for role in roles)


def tf_cluster(processes: Sequence[tuple[str, str, int]]) -> dict[str, tuple[str, ...]]:
    """`cluster` of TF_CONFIG from the (role, peer address, port) of each rank.

    UsageError when there is no process, a port is out of range, or two share a port: TensorFlow
    listens on every address of its machine, so hosts that share a machine need different ports.
    """
    if not processes:
        raise UsageError("TF_CONFIG needs at least one host")
    owner: dict[int, str] = {}
    cluster: dict[str, tuple[str, ...]] = {}
    for role, address, port in processes:
        if not 0 < port < 65536:
            raise UsageError(f"{address}: {port} is not a port (1 to 65535)")
        if port in owner:
            raise UsageError(
                f"{owner[port]} and {address} both have port {port}: use different ones"
            )
        owner[port] = address
        cluster[role] = (*cluster.get(role, ()), endpoint(address, port))
    return cluster


def endpoint(address: str, port: int) -> str:
    """`address:port`, with brackets around an IPv6 address."""
    bare = address.removeprefix("[").removesuffix("]")
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"
