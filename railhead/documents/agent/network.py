"""Operations of the agent that use ports and connections between hosts."""

from __future__ import annotations

from typing import NoReturn

from railhead.documents.agent.request import Request
from railhead.documents.codec import key
from railhead.documents.lazy import dataclass

LAST_PORT = 65535
SMALL_ONLY = "only small packets arrive: an MTU is larger than the network's"  # in `Dialed.wrong`


@dataclass(frozen=True)
class Port:
    """A port that is listened on."""

    port: int = key(at_least=1, at_most=LAST_PORT)


@dataclass(frozen=True)
class Listen(Request[Port, NoReturn], op="listen"):
    """Listen for test connections of peers until the agent ends."""

    address: str


@dataclass(frozen=True)
class Dialed:
    """For each peer None, or why it was not reached."""

    wrong: tuple[str | None, ...]


@dataclass(frozen=True)
class Dial(Request[Dialed, NoReturn], op="dial"):
    """Connect to peers, (address, port) each, within this number of seconds."""

    peers: tuple[tuple[str, int], ...]
    timeout: float

    def is_answered_by(self, reply: Dialed) -> bool:
        """Whether the reply has one outcome for each peer."""
        return len(reply.wrong) == len(self.peers)


@dataclass(frozen=True)
class FreePorts:
    """Different ports that are free now."""

    ports: tuple[int, ...] = key(at_least=1, at_most=LAST_PORT)


@dataclass(frozen=True)
class Ports(Request[FreePorts, NoReturn], op="ports"):
    """Find free ports."""

    count: int

    def is_answered_by(self, reply: FreePorts) -> bool:
        """Whether the reply has as many ports as were requested."""
        return len({*reply.ports}) == len(reply.ports) == self.count


@dataclass(frozen=True)
class FoundPort:
    """A port that is free now; None if none is."""

    port: int | None = key(at_least=1, at_most=LAST_PORT)


@dataclass(frozen=True)
class FindPort(Request[FoundPort, NoReturn], op="free_port"):
    """Find the first port of 127.0.0.1 from `first` to `last` that nothing listens on."""

    first: int
    last: int

    def is_answered_by(self, reply: FoundPort) -> bool:
        """Whether the reply is one of these ports, or none."""
        return reply.port is None or self.first <= reply.port <= self.last
