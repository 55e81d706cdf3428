"""The machines of a stack whose state Pulumi has lost.

A state is lost with its folder, by `pulumi stack rm --force`, in another clone or with another
backend; the machines remain in the cloud. Before a command reports that a stack has no machines, it
searches for them by their tags, in the places of this computer's records and of the stack's config
file.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.documents.lazy import dataclass

from ..clouds.machines import Machine, Place, list_machines
from ..errors import Command, Hint, RailheadError, UsageError
from ..inventory import local_state, stack_config, stack_records
from ..inventory.clouds import CLOUDS
from ..inventory.stack_config import StackConfig
from ..inventory.stack_records import StackRecord


@dataclass(frozen=True)
class Search:
    """Where a stack's machines were searched for, and what was found. `machines` have the tags of
    the stack and of its owner, or an id that this computer recorded. `listed` are the places whose
    machines could be listed, `unlisted` the reasons why others could not; `hint` is the command
    that may correct that."""

    stack: str
    machines: tuple[Machine, ...] = ()
    listed: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    hint: str = ""

    @property
    def is_evidence(self) -> bool:
        """Whether it shows that nothing exists."""
        return bool(self.listed) and not self.unlisted and not self.machines

    @property
    def text(self) -> str:
        """Where it searched, and what it did not see."""
        seen = f"no machine has its tags in {'; '.join(self.listed)}" if self.listed else ""
        return "; ".join(filter(None, [seen, *self.unlisted])) or (
            "where its machines would be is not known: there is no "
            f"Pulumi.{self.stack}.yaml, and this computer no record of it"
        )

    def error(self) -> UsageError:
        """The error that names the machines."""
        lines = [f"  {machine}" for machine in self.machines]
        ids = sorted({machine.cluster_id or "" for machine in self.machines} - {""})
        hint = _following(ids[0]) if ids else ""
        summary = f"Pulumi has no state of stack {self.stack}, but machines of it exist:"
        return UsageError("\n".join([summary, *lines]), hint=hint)


def _following(cluster_id: str) -> Hint:
    if local_state.adopted(cluster_id):
        return Hint(Command("status", stack=cluster_id), "   # they are adopted")
    return Hint(Command("adopt", cluster_id), "   # then they can be stopped and terminated")


def search(stack: str) -> Search:
    """Search for a stack's machines that Pulumi's state does not have."""
    records = stack_records.of_stack(stack)
    config = stack_config.read(stack)
    ids = {record.cluster_id for record in records}
    places = [place_of(record) for record in records] + ([place_of(config)] if config else [])
    result = Search(stack)
    for place in dict.fromkeys(places):
        result = _search(result, place, ids, config)
    return result


def _search(before: Search, place: Place, ids: set[str], config: StackConfig | None) -> Search:
    if place.cloud not in CLOUDS or CLOUDS[place.cloud].machines is None:
        return replace(before, listed=(*before.listed, "the local cloud"))
    try:
        listed = list_machines(place)
    except RailheadError as error:
        why = f"the machines in {where(place)} are not known: {error.message}"
        return replace(before, unlisted=(*before.unlisted, why), hint=before.hint or error.hint)
    known = {machine.id for machine in before.machines}
    more = tuple(
        machine
        for machine in listed.machines
        if (machine.cluster_id in ids or (config and _has_tags(machine, config)))
        and machine.id not in known
    )
    seen = ", ".join(filter(None, [listed.account, place.region]))
    return replace(before, machines=(*before.machines, *more), listed=(*before.listed, seen))


def _has_tags(machine: Machine, config: StackConfig) -> bool:
    """Whether it has the tags of a stack. Google Cloud's labels do not name the stack."""
    is_same = (machine.cluster, machine.owner) == (config.cluster, config.owner)
    return is_same and machine.stack in (None, config.stack)


def where(place: Place) -> str:
    """The place as text: `aws, us-east-1`."""
    return ", ".join(filter(None, [place.cloud, place.project, place.region]))


def place_of(known: StackRecord | StackConfig) -> Place:
    """Where a stack is."""
    return Place(known.cloud, known.region, known.project)
