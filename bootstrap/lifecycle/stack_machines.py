"""All machines of a stack: those of its document, of Pulumi's state, and with its id in the cloud.

An interrupted `pulumi up` leaves machines that are not in a document; if Pulumi itself was killed,
also machines that are not in its state. Every command that shows, stops or ends machines starts
here. RailheadError: a cloud does not answer, or refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from railhead.documents.lazy import dataclass

from ..clouds import base
from ..clouds import machines as machines_of_cloud
from ..clouds.machines import Listed, Machine, PartlyListed, Place, list_machines
from ..console.output import Reporter
from ..console.text import count
from ..errors import Command, Hint, RailheadError, UsageError
from ..inventory import local_state, pulumi_cli, pulumi_stack, stack_records
from ..inventory.files import atomic_write
from ..inventory.hosts import Host, Inventory
from ..inventory.stack_state import StackState, StateMachine
from .lost import Search

OTHERS_SHOWN = 20


class OtherAccount(UsageError):
    """The credentials belong to another account than the stack; there its machines seem not to
    exist."""


@dataclass(frozen=True)
class StackMachines:
    """The machines of one stack.

    Attributes:
        state: Pulumi's state.
        document: the hosts of the stack's output `cluster`; None if it has none.
        inventory: every machine of the stack; None if there is none.
        documented: the names of those that the output `cluster` of the stack has.
        strays: machines with the stack's id that are not in Pulumi's state.
        others: machines of other stacks, in the same account and region (or project).
        place: `account 1234, us-east-1`.
        unlisted: why the cloud did not list all its machines; empty if it did.
        searched: where machines were searched for by their tags; only for a state without an id.
    """

    state: StackState
    document: Inventory | None
    inventory: Inventory | None
    documented: frozenset[str] = frozenset()
    strays: tuple[Machine, ...] = ()
    others: tuple[Machine, ...] = ()
    place: str = ""
    unlisted: str = ""
    searched: Search | None = None

    @property
    def is_adopted(self) -> bool:
        """Whether `fab adopt` recorded them: Pulumi has no state of them."""
        return self.inventory is not None and self.inventory.is_adopted

    @property
    def stack(self) -> str:
        """The stack's name."""
        return self.state.stack

    @property
    def undocumented(self) -> list[str]:
        """The names of the machines that the stack's output does not have."""
        names = self.inventory.names if self.inventory else ()
        return [name for name in names if name not in self.documented]

    @property
    def in_document(self) -> Inventory | None:
        """The hosts of the inventory that are in the stack's output; None if there are none."""
        if self.inventory is None:
            return None
        hosts = tuple(h for h in self.inventory.hosts if h.name in self.documented)
        return replace(self.inventory, hosts=hosts) if hosts else None

    def refuse_undocumented(self) -> None:
        """UsageError if the last `pulumi up` broke off: some machines are not in the document."""
        if self.undocumented:
            raise UsageError(self._broke_off, hint=Hint(self._up, "   # continues"))

    @property
    def _broke_off(self) -> str:
        return (
            f"the last pulumi up of stack {self.stack} broke off: its output cluster does not have "
            f"{', '.join(self.undocumented)}"
        )

    @property
    def _up(self) -> Command:
        return Command("up", stack=self.stack)

    @property
    def _end(self) -> Command:
        return Command("teardown", destroy=True, stack=self.stack)

    def describe(self) -> list[str]:
        """Lines about an unfinished `pulumi up`, and about the machines of other stacks."""
        return [*self.unknown(), *self._unfinished(), *self._strays(), *self._others()]

    def unknown(self) -> Iterator[str]:
        """A line if there may be more machines than these."""
        if self.unlisted:
            yield f"machines in no state of Pulumi are not known: {self.unlisted}"

    def _unfinished(self) -> Iterator[str]:
        if self.undocumented:
            following = f"{self._up}   # continues; or, to end all of it: {self._end}"
            yield f"{self._broke_off}\n  next: {following}"

    def _strays(self) -> Iterator[str]:
        for machine in self.strays:
            yield f"in no state of Pulumi, with this stack's id: {machine}"
        if self.strays:
            end = f"or, to end the whole stack: {self._end}"
            yield f"  next: {self._up}   # terminates them first; {end}"

    def _others(self) -> Iterator[str]:
        if self.others:
            yield f"machines of other stacks in {self.place}, which no command of this stack ends:"
        yield from (f"  {machine}" for machine in self.others[:OTHERS_SHOWN])
        if more := len(self.others[OTHERS_SHOWN:]):
            yield f"  and {count(more, 'machine')} more"


class StackView:
    """A command's view of its stack: code that changes the stack refreshes it, all other code reads
    `machines`."""

    def __init__(self, stack: str) -> None:
        self.stack, self.machines = stack, find(stack)

    def refresh(self) -> StackMachines:
        """The machines as they are now; errors as in `find`."""
        self.machines = find(self.stack)
        return self.machines


def find(stack: str) -> StackMachines:
    """All machines of a stack. UsageError: Pulumi does not answer, there is no such stack, its
    document is not one that this Railhead reads, or the credentials are of another account."""
    return of_state(pulumi_stack.state(stack))


def of_state(state: StackState) -> StackMachines:
    """As `find`, for a state that was read already."""
    document = pulumi_stack.inventory_of(state)
    stack_records.save_state(state, pulumi_cli.backend())
    if state.account:
        cluster = document.name if document else state.cluster or state.stack
        # EC2 does not show machines of other accounts.
        account = local_state.cluster_folder(cluster) / "account"
        atomic_write(account, f"account {state.account}\n")
    return _find(state, document)


def of_record(inventory: Inventory) -> StackMachines:
    """The machines of a stack that this computer has recorded, without a query of Pulumi."""
    hosts = inventory.hosts if inventory.kind.machines else ()
    machines = tuple(
        StateMachine(str(h.id), h.name, h.zone, h.address, h.peer_address) for h in hosts
    )
    record = stack_records.find(inventory.cluster_id) if inventory.cluster_id else None
    state = StackState(
        stack=inventory.stack or inventory.name,
        document=None,
        cluster=inventory.name.removesuffix(f"-{inventory.cluster_id}"),
        cluster_id=inventory.cluster_id,
        account=record.account if record else None,
        cloud=inventory.cloud if hosts else None,
        region=inventory.region,
        project=inventory.project,
        bucket=inventory.bucket,
        price=None,
        machines=machines,
        kinds=(),
    )
    return _find(state, inventory)


def _find(state: StackState, document: Inventory | None) -> StackMachines:
    if state.cloud is None:
        names = frozenset(document.names if document else ())
        return StackMachines(state, document, document, names)
    try:
        listed, unlisted = _list(state), ""
    except OtherAccount:
        raise
    except PartlyListed as error:
        listed, unlisted = error.listed, error.message
    except RailheadError as error:
        return merge(state, document, None, error.message)
    _refuse_machine_of_others(state, listed)
    return merge(state, document, listed, unlisted)


def _refuse_machine_of_others(state: StackState, listed: Listed) -> None:
    """UsageError if an id in this stack's state is now a machine of another stack: on Google Cloud
    the id is a name, which can be reused when its machine is gone. Railhead and Pulumi would stop
    and delete that machine."""
    recorded = {machine.id: machine for machine in state.machines}
    known = [m for m in listed.machines if m.id in recorded and m.cluster_id and state.cluster_id]
    taken = [machine for machine in known if machine.cluster_id != state.cluster_id]
    if not taken:
        return
    names = ", ".join(recorded[machine.id].name for machine in taken)
    urns = [recorded[machine.id].urn for machine in taken]
    forget = [pulumi_stack.forget_resource(state.stack, urn) for urn in urns if urn]
    raise UsageError(
        f"{names} of stack {state.stack} is gone, and a machine of another stack has its name: "
        f"{'; '.join(map(str, taken))}",
        hint=" && ".join(forget) or Command("adopt", state.cluster_id),
    )


def of_id(machines: StackMachines) -> Inventory | None:
    """The machines with the stack's id that its cloud lists now; None if it lists none."""
    state = machines.state
    if state.cloud is None or state.cluster_id is None:
        return None
    with_id = (m for m in _list(state).machines if m.cluster_id == state.cluster_id)
    hosts = hosts_of(with_id)
    return _inventory(state, machines.document, hosts) if hosts else None


def remove_leftovers(machines: StackMachines) -> list[str]:
    """Remove what a killed `up` left, except machines, by the stack's id; the removed ids."""
    state = machines.state
    if state.cloud is None or state.cluster_id is None:
        return []
    _list(state)  # refuses credentials of another account
    return machines_of_cloud.remove_leftovers(_place(state), state.cluster_id)


def remove_bucket(machines: StackMachines, name: str) -> bool:
    """Remove the bucket of this name if a killed `up` of the stack left it without objects;
    whether it is gone."""
    state = machines.state
    if state.cloud is None or state.cluster_id is None:
        return False
    return machines_of_cloud.remove_bucket(_place(state), name, state.cluster_id)


def remove_unrecorded_deadlines(machines: StackMachines, ids: Iterable[str]) -> list[str]:
    """Remove deadlines of the cloud that a killed `up` created for these machines and that are not
    in Pulumi's state; returns their names. An `up` cannot create them while they exist."""
    state = machines.state
    name = state.first_name or state.cluster
    if state.cloud is None or name is None:
        return []
    without = [
        machine_id
        for machine_id in ids
        if not any(name.endswith(machine_id) for name in state.schedules)
    ]
    return machines_of_cloud.remove_deadlines(_place(state), name, without)


def _list(state: StackState) -> Listed:
    """The machines of the recorded place. OtherAccount: the credentials cannot see them."""
    listed = list_machines(_place(state))
    if state.account and listed.account != f"account {state.account}":
        raise OtherAccount(
            f"these credentials are of {listed.account}, and stack {state.stack} is in account "
            f"{state.account}: they do not see its machines",
            hint=Hint(
                f"log in to account {state.account}, then: ",
                Command("status", stack=state.stack),
                *_without_account(state),
            ),
        )
    return listed


def _without_account(state: StackState) -> Iterator[str | Command]:
    """The command for a stack in a closed account; none for an adopted stack, which has no
    state."""
    if state.stack != state.cluster_id:
        yield f"   # if that account is closed: {pulumi_stack.forget(state.stack)} && "
        yield Command("up", stack=state.stack)


def _place(state: StackState) -> Place:
    return Place(state.cloud or "", state.region, state.project)


def merge(
    state: StackState, document: Inventory | None, listed: Listed | None, unlisted: str = ""
) -> StackMachines:
    """The machines of a stack from its state, its document and the cloud's list (None: unknown).
    `unlisted`: why the list is not whole."""
    is_whole = listed is not None and not unlisted
    machines = listed.machines if listed else ()
    with_id = [m for m in machines if state.cluster_id and m.cluster_id == state.cluster_id]
    in_state = {m.id for m in state.machines}
    exist = in_state | {m.id for m in with_id}
    documented = [h for h in document.hosts if h.id in exist or not is_whole] if document else []
    known = {h.id for h in documented}
    added = [_host(m) for m in state.machines if m.id not in known]
    strays = tuple(m for m in with_id if m.id not in in_state | known)
    added += [_host(m) for m in strays]
    hosts = (*documented, *_distinct(added, documented))
    where = [listed.account if listed else "", state.region or ""]
    return StackMachines(
        state,
        document,
        _inventory(state, document, hosts) if hosts else None,
        documented=frozenset(h.name for h in documented),
        strays=strays,
        others=tuple(m for m in machines if m.id not in exist),
        place=", ".join(filter(None, where)),
        unlisted=unlisted,
    )


def _inventory(state: StackState, document: Inventory | None, hosts: tuple[Host, ...]) -> Inventory:
    """The document's inventory with these hosts; without a document, what the state says."""
    if document and hosts == document.hosts:
        return document
    price = state.price
    if price is not None:
        from railhead.money.host import scaled  # imported late: most hosts cost nothing

        price = scaled(price, 1, len(hosts))
    base = document or Inventory(
        state.cluster or state.stack,
        hosts,
        cloud=state.cloud or "",
        region=state.region,
        bucket=state.bucket,
        stack=state.stack,
        cluster_id=state.cluster_id,
    )
    return replace(base, hosts=hosts, price=price or base.price)


def hosts_of(machines: Iterable[Machine]) -> tuple[Host, ...]:
    """The hosts of machines that are not in the document, in the order of their names."""
    return tuple(_distinct(map(_host, sorted(machines, key=lambda m: (len(m.name), m.name))), []))


def _host(machine: Machine | StateMachine) -> Host:
    """The host of a machine that is not in the document; without an address, its id is the
    address."""
    return Host(
        machine.name,
        machine.address or machine.id.rpartition("/")[2],
        id=machine.id,
        zone=machine.zone,
        peer_address=machine.peer_address,
    )


def _distinct(hosts: Iterable[Host], taken: Sequence[Host]) -> Iterator[Host]:
    """The hosts, made unique: a name that is taken gets the id appended, and an address that is
    taken is replaced by the id. A recorded address may be another machine's by now."""
    names, addresses = {h.name for h in taken}, {h.address for h in taken}
    for host in hosts:
        last_part = str(host.id).rpartition("/")[2]
        name = host.name if host.name not in names else f"{host.name}.{last_part[-17:]}"
        address = host.address if host.address not in addresses else last_part
        names.add(name)
        addresses.add(address)
        yield replace(host, name=name, address=address)


def of_now(inventory: Inventory, report: Reporter) -> Inventory:
    """The hosts of a stack with their current ids. If one is gone, `fab up --replace` may have
    recreated it, so the stack is read again. Returns the same inventory if no id has changed, or if
    the stack cannot be read."""
    if not inventory.stack or inventory.is_adopted:
        return inventory
    states = base.cloud_of(inventory).instance_states()
    gone = [name for name, state in states.items() if state.state == "gone"]
    if not gone:
        return inventory
    try:
        now = pulumi_stack.cluster_of(inventory.stack).only(inventory.names)
    except RailheadError as error:
        report(f"whether {', '.join(gone)} was created again is not known: {error.message}")
        return inventory
    ids = {host.name: host.id for host in inventory.hosts}
    is_same = ids == {host.name: host.id for host in now.hosts}
    return inventory if is_same or now.names != inventory.names else now
