"""Start the agent on a host, with the Python that the host has."""

from __future__ import annotations

from bootstrap.errors import UsageError
from bootstrap.facts.host import HostFacts
from bootstrap.ssh.session import Session

STARTING = "starting the agent"


def start_agent(session: Session, facts: HostFacts | None = None) -> str:
    """Start the agent of one host; returns the path of the host's Python. `facts` of the host are
    read unless they are given.

    Raises:
        UsageError: the host has no Python that can run it.
    """
    facts = facts or session.facts()
    if not facts.python:
        raise UsageError("no Python 3.10 to 3.13 there", hint="fab bootstrap")
    session.start_agent(facts.python)
    return facts.python
