"""Start the agent on hosts, with the Python that each host has."""

from __future__ import annotations

from collections.abc import Mapping

from bootstrap.errors import UsageError
from bootstrap.plan.cluster import Cluster
from bootstrap.ssh.connect import everywhere
from bootstrap.ssh.session import Session

STARTING = "starting the agent"


def start_agent(session: Session) -> str:
    """Start the agent of one host; returns the path of the host's Python.

    Raises:
        UsageError: the host has no Python that can run it.
    """
    facts = session.facts()
    if not facts.python:
        raise UsageError("no Python 3.10 to 3.13 there", hint="fab bootstrap")
    session.start_agent(facts.python)
    return facts.python


def start_agents(cluster: Cluster, opened: Mapping[str, Session]) -> None:
    """Start the agent of each of these hosts, with the Python version that its runtime needs."""
    python = {name: cluster.facts[name].pythons[cluster.environment.python] for name in opened}
    everywhere(opened, lambda s: s.start_agent(python[s.host.name]), what=STARTING)
