"""How each download reaches a host: from its publisher, or fetched on this machine once and sent
through this connection. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bootstrap.errors import UsageError
from bootstrap.facts.egress import EgressCheck, origin
from bootstrap.facts.host import HostFacts
from bootstrap.plan.cluster import Cluster
from bootstrap.plan.drivers import REPOSITORY
from bootstrap.plan.steps import Step
from bootstrap.plan.system_changes import Changes

OF_APT = ("mend", "system", "driver")  # the steps whose parts are packages of the system


def cut_off(facts: HostFacts) -> bool:
    """Whether the host has no outbound access to an index of wheels."""
    return facts.egress.index.open is False


def mirrors(facts: HostFacts, changes: Changes) -> tuple[str, ...]:
    """The mirrors that a host's apt needs for these changes and reaches only
    through this connection; none where it has outbound access, or apt has nothing to do."""
    asks = changes.mend_dpkg or changes.packages or (changes.driver and changes.driver.packages)
    if facts.egress.apt.open is not False or not asks:
        return ()
    nvidia = changes.driver is not None and changes.driver.repository
    return facts.egress.mirrors + ((origin(REPOSITORY),) if nvidia else ())


def archives(facts: HostFacts, named: str) -> tuple[str, ...]:
    """As `mirrors`, for an nvcc that is fetched; `named` is the archive that a person named."""
    return facts.egress.mirrors + ((origin(named),) if named else ())


def routed(step: Step, facts: HostFacts) -> Step:
    """The step, with what it would fetch going through this connection where it must."""
    access = facts.egress.apt if step.name in OF_APT else facts.egress.index
    if not step.fetches or access.open is not False:
        return step
    return replace(step, fetches=0, sends=step.fetches)


def notes(cluster: Cluster, todo: Mapping[str, Changes], steps: Sequence[Step]) -> list[str]:
    """A line for each host without outbound access, and for each kind of download it needs."""
    lines = []
    for name, host in cluster.facts.items():
        if cut_off(host):
            lines.append(
                f"[{name}] does not get out ({_no_answer(host.egress.index)}): wheels are fetched "
                "here, once, checked by hash, and go through this connection"
            )
        nvcc = any(s.sends for s in steps if (s.host, s.name) == (name, "horovod"))
        places = mirrors(host, todo[name]) + (archives(host, cluster.archive) if nvcc else ())
        if needed := list(dict.fromkeys(places)):
            lines.append(
                f"[{name}] its apt does not get out ({_no_answer(host.egress.apt)}): what it asks "
                f"of {', '.join(needed)} goes through this connection"
            )
    return lines


def _no_answer(check: EgressCheck) -> str:
    return f"no answer from {check.to}"


def refuse(facts: Mapping[str, HostFacts], todo: Mapping[str, Changes]) -> None:
    """UsageError where a driver would be fetched by a program that takes no proxy of ours."""
    for name, changes in todo.items():
        installer = changes.driver and changes.driver.installer
        if installer and facts[name].egress.apt.open is False:
            raise UsageError(
                f"{name} does not get out, and its driver comes by the image's own installer, "
                f"which fetches by itself: {installer}",
                hint="let it out for this (a NAT), or take an image that has a driver",
            )
