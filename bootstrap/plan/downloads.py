"""Which way each part takes to a host: from where it is published, or fetched here, once, and
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
    """Whether the host was seen not to get wheels by itself."""
    return facts.egress.index.open is False


def mirrors(facts: HostFacts, changes: Changes) -> tuple[str, ...]:
    """The mirrors that a host's apt needs for these changes and reaches only
    through this connection; none where it gets out, or nothing of apt's is to be done."""
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
    way = facts.egress.apt if step.name in OF_APT else facts.egress.index
    if not step.fetches or way.open is not False:
        return step
    return replace(step, fetches=0, sends=step.fetches)


def notes(cluster: Cluster, todo: Mapping[str, Changes], steps: Sequence[Step]) -> list[str]:
    """A line for each host that does not get out, and kind of what it then gets from here."""
    told = []
    for name, host in cluster.facts.items():
        if cut_off(host):
            told.append(
                f"[{name}] does not get out ({_silent(host.egress.index)}): wheels are fetched "
                "here, once, checked by hash, and go through this connection"
            )
        nvcc = any(s.sends for s in steps if (s.host, s.name) == (name, "horovod"))
        places = mirrors(host, todo[name]) + (archives(host, cluster.archive) if nvcc else ())
        if asked := list(dict.fromkeys(places)):
            told.append(
                f"[{name}] its apt does not get out ({_silent(host.egress.apt)}): what it asks "
                f"of {', '.join(asked)} goes through this connection"
            )
    return told


def _silent(way: EgressCheck) -> str:
    return f"no answer from {way.to}"


def refuse(facts: Mapping[str, HostFacts], todo: Mapping[str, Changes]) -> None:
    """UsageError where a driver would be fetched by a program that is not ours to lead."""
    for name, changes in todo.items():
        installer = changes.driver and changes.driver.installer
        if installer and facts[name].egress.apt.open is False:
            raise UsageError(
                f"{name} does not get out, and its driver comes by the image's own installer, "
                f"which fetches by itself: {installer}",
                hint="let it out for this (a NAT), or take an image that has a driver",
            )
