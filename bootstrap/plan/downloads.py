"""How each download reaches a host: directly from its publisher, or downloaded once on this
machine and sent over SSH. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..errors import UsageError
from ..facts.egress import origin
from ..facts.host import HostFacts
from .cluster import SurveyedCluster
from .drivers import REPOSITORY
from .runtimes import Source
from .steps import Step
from .system_changes import Changes

OF_APT = ("mend", "system", "driver")  # the steps that install system packages
DEBIAN = "http://deb.debian.org/debian"  # has an nvcc for any system; cuda.sh has this address too


def cut_off(facts: HostFacts) -> bool:
    """Whether the host has no outbound access to a package index."""
    return facts.egress.index.open is False


def mirrors(facts: HostFacts, changes: Changes) -> tuple[str, ...]:
    """The mirrors that a host's apt needs for these changes and can reach only over SSH; none if
    the host has outbound access or apt has nothing to do."""
    needs = changes.mend_dpkg or changes.packages or (changes.driver and changes.driver.packages)
    if facts.egress.apt.open is not False or not needs:
        return ()
    nvidia = changes.driver is not None and changes.driver.repository
    return facts.egress.mirrors + ((origin(REPOSITORY),) if nvidia else ())


def archives(facts: HostFacts, named: str) -> tuple[str, ...]:
    """As `mirrors`, for a download of nvcc; `named` is the archive URL that the user gave."""
    return (*facts.egress.mirrors, origin(named or DEBIAN))


def routed(step: Step, facts: HostFacts) -> Step:
    """The step; its download goes over SSH if the host has no outbound access for it."""
    access = facts.egress.apt if step.name in OF_APT else facts.egress.index
    if not step.fetches or access.open is not False:
        return step
    return replace(step, fetches=0, sends=step.fetches)


def notes(
    cluster: SurveyedCluster, todo: Mapping[str, Changes], steps: Sequence[Step]
) -> list[str]:
    """A line for each host without outbound access and each kind of download that it needs."""
    lines = []
    for name, host in cluster.facts.items():
        if cut_off(host):
            lines.append(
                f"[{name}] has no outbound access (no answer from {host.egress.index.to}): wheels"
                " are downloaded here once, checked by hash, and sent through this connection"
            )
        nvcc = any(s.sends for s in steps if (s.host, s.name) == (name, "horovod"))
        origins = mirrors(host, todo[name]) + (archives(host, cluster.archive) if nvcc else ())
        if needed := list(dict.fromkeys(origins)):
            lines.append(
                f"[{name}] its apt has no outbound access (no answer from {host.egress.apt.to}):"
                f" its requests to {', '.join(needed)} go through this connection"
            )
    return lines


def refuse(facts: Mapping[str, HostFacts], todo: Mapping[str, Changes]) -> None:
    """UsageError if an image's driver installer lacks outbound access: it ignores our proxy."""
    for name, changes in todo.items():
        installer = changes.driver and changes.driver.installer
        if installer and facts[name].egress.apt.open is False:
            raise UsageError(
                f"{name} has no outbound access, and its driver is installed by the image's "
                f"own installer, which downloads directly: {installer}",
                hint="give it outbound access for this (a NAT), or use an image with a driver",
            )


def refuse_sources(sources: Sequence[Source], steps: Sequence[Step]) -> None:
    """UsageError if a host without outbound access has a package to build: the build's requirements
    come from the index."""
    hosts = [step.host for step in steps if step.name == "runtime" and step.sends]
    if sources and hosts:
        raise UsageError(
            f"{', '.join(hosts)}: no outbound access, which the build of {sources[0].text} needs",
            hint="build its wheel elsewhere, and name the https:// address of the wheel",
        )
