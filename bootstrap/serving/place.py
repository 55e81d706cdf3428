"""A host, or this computer, on which endpoints are created: its session, its agent, its facts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial

from railhead.documents.lazy import dataclass

from ..clouds.base import Deadline
from ..errors import Command
from ..facts.host import HostFacts
from ..inventory.hosts import Inventory
from ..lifecycle import reach, timer
from ..ssh import connect
from ..ssh.connect import STARTING, start_agent
from ..ssh.local_session import local_session
from ..ssh.session import Session
from ..untrusted.unpack import Hostile
from . import records


@dataclass(frozen=True)
class EndpointPlace:
    """An open session with its agent, and what was read of the host before the agent started.

    `python` runs the supervisor of an endpoint; `stop` stops the machine, and `deadline` is when it
    powers itself off. `target` names the hosts in commands.
    """

    session: Session
    python: str
    facts: HostFacts
    stop: Sequence[str] | None = None
    deadline: Deadline | None = None
    target: Mapping[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        """The name of the host."""
        return self.session.host.name

    @property
    def home(self) -> str:
        """The home folder of the host's user; Hostile if it is not a path."""
        if not self.facts.home.startswith("/"):
            raise Hostile("a home folder that is not a path")
        return self.facts.home

    def undeploy(self, endpoint: str) -> Command:
        """The command that ends an endpoint; without hosts if a record names them."""
        return Command("undeploy", endpoint, **({} if records.find(endpoint) else self.target))

    def keras_home(self) -> dict[str, str]:
        """KERAS_HOME in our folder, where importing TensorFlow creates it. Empty if the user has
        one, as for a rank (`rank.py`)."""
        has_one = ["sh", "-c", 'test -d ~/.keras || test "$KERAS_HOME"']
        if self.session.run(has_one).rc == 0:
            return {}
        from ..provision.host_step import KERAS  # imported late: `fab status` starts no endpoint

        return {name: self.absolute(path) for name, path in KERAS.items()}

    def absolute(self, path: str) -> str:
        """A path of the host with its home in place of a `~` at the start."""
        return self.home + path[1:] if path == "~" or path.startswith("~/") else path


@contextlib.contextmanager
def chief_place(inventory: Inventory) -> Iterator[EndpointPlace]:
    """The chief of these hosts, to create an endpoint there."""
    chief = inventory.chief
    with reach.sessions(inventory.only([chief.name])) as sessions:
        open_place = partial(_machine, inventory=inventory)
        yield connect.everywhere(sessions, open_place, what=STARTING)[chief.name]


@contextlib.contextmanager
def places(inventory: Inventory) -> Iterator[dict[str, EndpointPlace]]:
    """All these hosts by name, to find the endpoints that are there."""
    with reach.sessions(inventory) as sessions:
        yield connect.everywhere(sessions, partial(_place, target=inventory.target), what=STARTING)


@contextlib.contextmanager
def place_here() -> Iterator[EndpointPlace]:
    """This machine."""
    with local_session() as session:
        yield _place(session)


def _place(session: Session, target: Mapping[str, str] | None = None) -> EndpointPlace:
    facts = session.facts()
    return EndpointPlace(session, start_agent(session, facts), facts, target=target or {})


def _machine(session: Session, inventory: Inventory) -> EndpointPlace:
    """A host with its timer, which is read before the agent has the channel."""
    deadline = timer.read(session) if inventory.kind.in_cloud else None
    facts = session.facts()
    return EndpointPlace(
        session,
        start_agent(session, facts),
        facts,
        session.host.stop if inventory.is_managed else None,
        deadline,
        inventory.target,
    )
