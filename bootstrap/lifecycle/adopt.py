"""`fab adopt ID`: records the machines of a stack whose state is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from railhead.documents.clouds import COMMON_FACTS, POWER_OFF
from railhead.documents.cluster import DocumentDeadline
from railhead.documents.lazy import dataclass

from ..clouds.machines import Machine, Place, list_machines
from ..console.output import Reporter
from ..console.text import count
from ..errors import Command, Hint, RailheadError, UsageError
from ..inventory import local_state, stack_config, stack_records
from ..inventory.clouds import CLOUDS
from ..inventory.hosts import Inventory
from ..inventory.stack_config import StackConfig
from ..inventory.stack_records import KnownMachine, StackRecord
from . import lost, stack_machines

DEFAULT_SECONDS = 8 * 3600  # of a deadline: the config that set its length is not known any more


@dataclass(frozen=True)
class Found:
    """The machines with one id, their place, and its account: `account 1234`."""

    machines: tuple[Machine, ...]
    place: Place
    account: str


def adopt(cluster_id: str, *, place: Place | None, owner: str | None, report: Reporter) -> None:
    """Record the machines with an id.

    Args:
        cluster_id: the value of their tag `railhead:id`.
        place: where they are; None: where this computer's records and this clone's stacks are.
        owner: whose machines may be adopted; None: those of the owner of this clone's stack, or of
            whoever runs the command.

    Raises:
        UsageError: there are none, or they belong to another owner.
    """
    cluster = _find(cluster_id, [place] if place else list(_known_places(cluster_id)))
    first = cluster.machines[0]
    config = stack_config.read(first.stack or first.cluster)
    _check_owner(
        cluster_id, cluster, owner or (config.owner if config else stack_config.own_name())
    )
    inventory = _inventory(cluster_id, cluster, config)
    local_state.save_cluster(inventory)
    stack_records.save(_record(inventory, cluster))
    machines = count(len(inventory.hosts), "machine")
    report(f"adopted: {machines} of cluster {first.cluster}: {', '.join(inventory.names)}")
    report(f"next: {Command('status', stack=cluster_id)}")
    report(f"to terminate them: {Command('teardown', destroy=True, stack=cluster_id)}")


def _known_places(cluster_id: str) -> Iterable[Place]:
    records = sorted(stack_records.every(), key=lambda record: record.cluster_id != cluster_id)
    known = [lost.place_of(record) for record in records]
    known += [lost.place_of(config) for config in stack_config.every()]
    return dict.fromkeys(
        place for place in known if place.cloud in CLOUDS and CLOUDS[place.cloud].machines
    )


def _find(cluster_id: str, searched: Sequence[Place]) -> Found:
    looked: list[str] = []
    hints: list[str] = []
    for place in searched:
        try:
            listed = list_machines(place)
        except RailheadError as error:
            looked.append(f"{lost.where(place)}: {error.message}")
            hints.append(error.hint)
            continue
        looked.append(lost.where(place))
        if machines := tuple(m for m in listed.machines if m.cluster_id == cluster_id):
            return Found(machines, place, listed.account)
    raise UsageError(
        f"no machine has the id {cluster_id}; searched: {'; '.join(looked) or 'nowhere'}",
        hint=next(filter(None, hints), "")
        or Hint(
            Command("adopt", cluster_id, region="REGION"),
            "   # on AWS; on Google Cloud: --project PROJECT",
        ),
    )


def _check_owner(cluster_id: str, cluster: Found, owner: str) -> None:
    others = sorted({m.owner for m in cluster.machines if m.owner} - {owner})
    if others:
        names = ", ".join(machine.name for machine in cluster.machines)
        raise UsageError(
            f"{names}: the owner is {', '.join(others)}, not {owner}",
            hint=Hint(Command("adopt", cluster_id, owner=others[0]), f"   # if {others[0]} agrees"),
        )


def _inventory(cluster_id: str, cluster: Found, config: StackConfig | None) -> Inventory:
    """The inventory of the machines. Its stack is the id, so that `--stack ID` names them."""
    first, cloud = cluster.machines[0], cluster.place.cloud
    kind, record = CLOUDS[cloud], stack_records.find(cluster_id)
    user = config.ssh_user if config else COMMON_FACTS[cloud].ssh_user
    hosts = tuple(
        replace(host, user=user, stop=POWER_OFF, host_key_source=kind.host_key_source)
        for host in stack_machines.hosts_of(cluster.machines)
    )
    deadlines = {machine.id: machine.deadline for machine in cluster.machines}
    return Inventory(
        name=_free_name(first.cluster, cluster_id),
        hosts=hosts,
        cloud=cloud,
        region=first.region,
        bucket=record.bucket if record else None,
        key_file=config.key_file if config else None,
        deadlines=tuple(
            DocumentDeadline(kind.deadline, deadlines[str(h.id)], h.name, DEFAULT_SECONDS)
            for h in hosts
        ),
        stack=cluster_id,
        cluster_id=cluster_id,
    )


def _free_name(cluster: str, cluster_id: str) -> str:
    """The name under which the cluster is recorded: another stack may have its name here."""
    if cluster not in local_state.clusters():
        return cluster
    is_own = local_state.load_cluster(cluster).cluster_id == cluster_id
    return cluster if is_own else f"{cluster}-{cluster_id}"


def _record(inventory: Inventory, cluster: Found) -> StackRecord:
    return StackRecord(
        cluster_id=str(inventory.cluster_id),
        cluster=inventory.name,
        stack=cluster.machines[0].stack or cluster.machines[0].cluster,
        cloud=inventory.cloud,
        region=inventory.region,
        project=cluster.place.project,
        account=cluster.account.rpartition(" ")[2] if not cluster.place.project else None,
        bucket=inventory.bucket,
        machines=dict(_known(cluster)),
    )


def _known(cluster: Found) -> Iterator[tuple[str, KnownMachine]]:
    record = stack_records.find(str(cluster.machines[0].cluster_id))
    for machine in cluster.machines:
        known = record.machines.get(machine.id) if record else None
        yield machine.id, known or KnownMachine(machine.name)
