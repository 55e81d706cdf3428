"""Which clusters live: those of the stacks of the Pulumi backend, and those recorded here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from railhead.documents.lazy import dataclass

from ..clouds.machines import Place
from ..console.threads import all_within
from ..errors import RailheadError
from ..inventory import local_state, pulumi_cli, pulumi_stack, stack_records
from ..inventory.hosts import Inventory
from ..inventory.stack_records import StackRecord
from ..inventory.stack_state import StackState

STATE_SECONDS = 120.0  # until the states of all stacks are read
AT_ONCE = 8  # Pulumi processes


@dataclass(frozen=True)
class Living:
    """What lives.

    Attributes:
        stacks: the stack of each cluster id, and of each id of a resource.
        recorded: the name of each cluster id that this computer has recorded: of a cluster that
            it used, or of a stack whose state is in another Pulumi backend.
        lost: the recorded ids of clusters that no stack of any known backend has, and that
            nobody adopted.
        places: where they are.
        unread: why it is not known of some stacks.
        next: what to do about that.
    """

    stacks: Mapping[str, str] = field(default_factory=dict)
    recorded: Mapping[str, str] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    places: tuple[Place, ...] = ()
    unread: tuple[str, ...] = ()
    next: str = ""


def read() -> Living:
    """Read the states of all stacks of the backend, and the records of this computer."""
    states, unread, following = _states()
    stacks = {id_: state.stack for state in states for id_ in state.ids}
    cluster_ids = [(id_, s.stack) for s in states for id_ in (s.cluster_id, *s.others.values())]
    stacks |= {id_: stack for id_, stack in cluster_ids if id_}
    clusters, damaged = _recorded()
    recorded = {cluster.cluster_id: cluster.name for cluster in clusters if cluster.cluster_id}
    elsewhere = {record.cluster_id: record.cluster for record in _elsewhere()}
    adopted = {cluster.cluster_id for cluster in clusters if cluster.is_adopted}
    lost = recorded.keys() - elsewhere.keys() - stacks.keys() - adopted
    places = {Place(s.cloud, s.region, s.project, s.account) for s in states if s.cloud}
    places |= {place_of(cluster) for cluster in clusters}
    return Living(
        stacks=stacks,
        recorded=recorded | elsewhere,
        lost=frozenset(lost),
        places=tuple(places),
        unread=(*unread, *damaged),
        next=following,
    )


def _states() -> tuple[list[StackState], list[str], str]:
    """The states that could be read, why others could not, and what to do where none could."""
    try:
        names = pulumi_stack.all_stacks()
    except RailheadError as error:
        return [], [error.message], str(error.hint)
    states: list[StackState] = []

    def read_state(stack: str) -> None:
        states.append(pulumi_stack.any_state(stack))

    outcomes = all_within(read_state, names, seconds=STATE_SECONDS, at_once=AT_ONCE)
    unread = [
        f"stack {name}: {_reason(outcome)}"
        for name, outcome in zip(names, outcomes, strict=True)
        if outcome
    ]
    return states, unread, ""


def _reason(outcome: Exception) -> str:
    if isinstance(outcome, TimeoutError):
        return f"its state was not read within {STATE_SECONDS:.0f} s"
    return outcome.message if isinstance(outcome, RailheadError) else str(outcome)


def _recorded() -> tuple[list[Inventory], list[str]]:
    """The clusters of clouds that are recorded here, and the records that are damaged."""
    clusters, damaged = [], []
    for name in local_state.clusters():
        try:
            cluster = local_state.load_cluster(name)
        except RailheadError as error:
            damaged.append(error.message)
            continue
        if cluster.kind.areas:
            clusters.append(cluster)
    return clusters, damaged


def _elsewhere() -> list[StackRecord]:
    """The records of stacks whose state was in another backend when it was read last."""
    here = pulumi_cli.backend()
    return [r for r in stack_records.every() if r.backend and r.backend != here]


def place_of(cluster: Inventory) -> Place:
    """Where a cluster is."""
    account = local_state.recorded_account(cluster.name)
    return Place(cluster.cloud, cluster.region, cluster.project, account)
