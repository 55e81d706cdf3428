"""Which way each part takes to a host: from where it is published, or fetched here, once, and
through this connection. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bootstrap.changes import Changes
from bootstrap.errors import UsageError
from bootstrap.facts import HostFacts
from bootstrap.plan import Step


def cut_off(facts: HostFacts) -> bool:
    """Whether the host was seen not to get wheels by itself."""
    return facts.outside.index.open is False


def routed(step: Step, facts: HostFacts) -> Step:
    """The step, with what it would fetch going through this connection where it must.

    Raises:
        UsageError: it is Horovod's build for GPUs on a host without a toolkit of its own.
    """
    if not step.fetches or not cut_off(facts):
        return step
    if step.name == "horovod":
        raise UsageError(
            f"{step.host} does not get out, and has no CUDA 12 toolkit to build Horovod with",
            hint="make gpu-wheel   # here, where this machine has the hosts' system and Python",
        )
    return replace(step, fetches=0, sends=step.fetches)


def notes(facts: Mapping[str, HostFacts]) -> list[str]:
    """A line for each host that does not get out."""
    return [
        f"[{name}] does not get out (no answer from {host.outside.index.to}): wheels are fetched "
        "here, once, checked by hash, and go through this connection"
        for name, host in facts.items()
        if cut_off(host)
    ]


def refuse(facts: Mapping[str, HostFacts], todo: Mapping[str, Changes]) -> None:
    """UsageError where a host needs packages of its system and its mirror does not answer."""
    needs = {name: _packages(changes) for name, changes in todo.items()}
    closed = {
        name: packages
        for name, packages in needs.items()
        if packages and facts[name].outside.apt.open is False
    }
    if closed:
        told = "\n".join(
            f"  [{name}] needs {' '.join(packages)}; no answer from {facts[name].outside.apt.to}"
            for name, packages in closed.items()
        )
        first = next(iter(closed))
        raise UsageError(
            f"packages are needed on hosts whose apt does not reach its mirror:\n{told}",
            hint=f"ssh {first}, then as root, once a mirror or a proxy is set that it reaches: "
            f"apt-get update && apt-get install -y {' '.join(closed[first])}",
        )


def _packages(changes: Changes) -> tuple[str, ...]:
    return changes.packages + (changes.driver.packages if changes.driver else ())
