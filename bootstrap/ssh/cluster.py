"""A cluster with its open connections."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from railhead.documents.lazy import dataclass

from ..plan.cluster import SurveyedCluster
from .connect import STARTING, Sessions, everywhere


@dataclass(frozen=True)
class ConnectedCluster(SurveyedCluster):
    """A cluster and an open session with each of its hosts.

    `sessions` is shared by all copies of the cluster that `replace` makes: after a reboot it has
    the new session of the host.
    """

    sessions: Sessions = field(kw_only=True, compare=False, repr=False)

    def start_agents(self, names: Collection[str] | None = None) -> None:
        """Start the agents of these hosts (None: of all), with the Python of the runtime."""
        sessions = {n: s for n, s in self.sessions.items() if names is None or n in names}
        pythons = {name: self.python_of(name) for name in sessions}
        everywhere(sessions, lambda s: s.start_agent(pythons[s.host.name]), what=STARTING)

    def python_of(self, name: str) -> str:
        """The path of the Python on a host with which its runtime is created."""
        return self.facts[name].pythons[self.environment.python]
