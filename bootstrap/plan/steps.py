"""A plan: the steps with their reasons, in the order of execution. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from railhead.documents.lazy import dataclass

SECONDS, MINUTES = "seconds", "minutes"


@dataclass(frozen=True)
class Step:
    """One change on one host. `takes`: SECONDS or MINUTES; `fetches`: the MB that the host itself
    downloads; `sends`: the MB that this computer downloads once and sends over SSH; `reboots`:
    whether the host reboots."""

    host: str
    name: str
    why: str
    takes: str = SECONDS
    fetches: int = 0
    reboots: bool = False
    sends: int = 0

    def __str__(self) -> str:
        notes = [self.takes] if self.takes != SECONDS else []
        notes += [f"fetches about {self.fetches} MB"] if self.fetches else []
        notes += [f"about {self.sends} MB through this connection"] if self.sends else []
        notes += ["reboots"] if self.reboots else []
        return f"{self.name}: {self.why}" + (f" ({', '.join(notes)})" if notes else "")


@dataclass(frozen=True)
class Plan:
    """The steps of all hosts; `notes` explain choices and change nothing."""

    hosts: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def nothing_to_do(self) -> bool:
        """True if all hosts are ready already."""
        return not self.steps

    def of(self, host: str) -> tuple[Step, ...]:
        """The steps of one host, in order."""
        return tuple(step for step in self.steps if step.host == host)

    def needs(self, host: str, name: str) -> bool:
        """Whether `host` has a step called `name`."""
        return any(step.name == name for step in self.of(host))

    def describe(self) -> list[str]:
        """Lines for the user: the notes, then each step with the hosts that have it, in the order
        of each host, and the hosts that have 'nothing to do'."""
        lines: list[tuple[str, list[str]]] = []
        for host in self.hosts:
            place = len(lines)  # for its next step, taken from the last to the first
            for step in map(str, reversed(self.of(host))):
                same = [n for n, (text, _) in enumerate(lines[:place]) if text == step]
                if same:
                    place = same[-1]
                    lines[place][1].append(host)
                else:
                    lines.insert(place, (step, [host]))
        if idle := [host for host in self.hosts if not self.of(host)]:
            lines.append(("nothing to do", idle))
        return [*self.notes, *(f"[{', '.join(hosts)}] {text}" for text, hosts in lines)]

    def document(self) -> dict[str, Any]:
        """The plan as a JSON document: the hosts with their steps, and the notes."""
        steps = {
            host: [{k: v for k, v in asdict(step).items() if k != "host"} for step in self.of(host)]
            for host in self.hosts
        }
        return {"schema": 1, "hosts": steps, "notes": list(self.notes)}
