"""Names of machines: those that a stack needs, and machines of other stacks that have them.

On Google Cloud a second machine with the same name is refused in the middle of an `up`; on AWS two
stacks with the same name look alike in the console. The id shows who owns a machine, its name does
not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from railhead.installation import PROGRAM

from .config.settings import ClusterConfig
from .next_command import set_
from .rules.validators import ConfigError

LONGEST = 30  # characters of a cluster's name
NUMBERS = 9  # that are tried at the end of a free name


@dataclass(frozen=True)
class Machine:
    """A machine of another stack, by its tags; None: it has no such tag."""

    name: str
    id: str
    owner: str | None = None
    stack: str | None = None
    cluster_id: str | None = None

    def __str__(self) -> str:
        tags = {"owner": self.owner, "stack": self.stack, "id": self.cluster_id}
        listed = [f"{key} {value}" for key, value in tags.items() if value]
        return f"{self.name} ({', '.join([self.id, *listed])})"


def needed(config: ClusterConfig) -> set[str]:
    """The names of the stack's machines."""
    return {f"{config.name}-{number}" for number in range(1, config.count + 1)}


def refuse(
    config: ClusterConfig, others: Sequence[Machine], is_taken: Callable[[str], bool]
) -> None:
    """Refuse the names of machines of other stacks, if there are any.

    Args:
        others: machines with a name that this stack needs.
        is_taken: whether machines of a cluster of this name exist.

    Raises:
        ConfigError: it names the machines, their owner and a name that is free.
    """
    if not others:
        return
    free = next((name for name in _names(config) if not is_taken(name)), None)
    change = set_("name", free or "NAME")
    ids = [m.cluster_id for m in others if m.owner == config.owner and m.cluster_id]
    adopt = [f"{PROGRAM} adopt {ids[0]}   # if its state is lost; otherwise:"] if ids else []
    raise ConfigError(
        f"name: machines of another stack have names that this stack needs: "
        f"{', '.join(map(str, others))}",
        *adopt,
        change,
    )


def _names(config: ClusterConfig) -> Iterator[str]:
    ends = [config.owner.replace("_", "-"), *map(str, range(2, NUMBERS + 1))]
    for end in ends:
        yield f"{config.name[: LONGEST - 1 - len(end)]}-{end}".rstrip("-")[:LONGEST]
