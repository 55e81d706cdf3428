"""Reads the facts of all hosts and derives the cluster from them. Writes nothing on the hosts."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from ..errors import HostsNotReady, UsageError
from ..facts import host as fact
from ..facts.egress import EgressCheck
from ..facts.host import HostFacts
from ..inventory.hosts import Host, Inventory
from ..plan import decide
from ..plan.cluster import Options, SurveyedCluster
from ..plan.hostfile import Peer
from ..plan.internet import Internet
from ..plan.runtimes import choose_runtime, gpus_of, preferring_installed, uses_horovod
from ..ssh.cluster import ConnectedCluster
from ..ssh.connect import Sessions, all_facts, everywhere
from ..ssh.session import Session
from . import wheel_store
from .wheel_store import wheel_folder

AnyCluster = TypeVar("AnyCluster", bound=SurveyedCluster)


def survey(sessions: Sessions, options: Options) -> ConnectedCluster:
    """Read the facts of all hosts and derive the cluster; writes nothing on the hosts."""
    facts, idle = without_idle_cards(sessions.inventory, all_facts(sessions))
    _refuse_one_machine_twice(facts, sessions)
    environment = choose_runtime(facts, options.launcher, options.runtime)
    environment = replace(environment, why="; ".join(filter(None, (environment.why, idle))))
    if options.requirements:
        from .requirements.resolve import with_packages
        from .uv import local_uv

        environment = with_packages(environment, options.requirements, local_uv())
    environment = preferring_installed(environment, facts, options.environment)
    peers = resolve_peers(sessions, facts, options.peer_addresses)
    cluster = ConnectedCluster(
        *(sessions.inventory, facts, environment, peers),
        archive=options.archive,
        internet=options.internet,
        takeover=options.takeover,
        sessions=sessions,
    )
    return with_wheel(cluster)


def with_egress(cluster: ConnectedCluster) -> ConnectedCluster:
    """The cluster with the outbound access of its hosts, if something has to be installed."""
    if not decide.installs(cluster):
        return cluster
    egress = everywhere(
        cluster.sessions,
        lambda session: session.egress(),
        what="testing the outbound access",
        error=HostsNotReady,
    )
    facts = {name: replace(host, egress=egress[name]) for name, host in cluster.facts.items()}
    return replace(cluster, facts=behind_proxy(facts, cluster.internet))


def behind_proxy(facts: Mapping[str, HostFacts], internet: Internet) -> Mapping[str, HostFacts]:
    """The facts; if hosts reach the index through a proxy, its test replaces their own."""
    if not internet.proxy:
        return facts
    index = EgressCheck(internet.proxy_address, None)
    return {n: replace(h, egress=replace(h.egress, index=index)) for n, h in facts.items()}


def without_idle_cards(
    inventory: Inventory, facts: Mapping[str, HostFacts]
) -> tuple[Mapping[str, HostFacts], str]:
    """The facts without GPUs that do not work, for local hosts; the text names such a GPU. A local
    host is the user's own machine, which gets no driver. Other hosts get one."""
    idle = {n: h for n, h in facts.items() if h.gpu.cards and not h.gpus}
    if not inventory.kind.this_machine or not idle:
        return facts, ""
    without = {n: replace(h, gpu=replace(h.gpu, cards=())) for n, h in idle.items()}
    card = next(iter(idle.values())).gpu.cards[0]
    return {**facts, **without}, f"this computer's {card} has no driver that works, and is not used"


def _refuse_one_machine_twice(
    facts: Mapping[str, HostFacts], sessions: Mapping[str, Session]
) -> None:
    """UsageError if two names mean one machine. Containers share a boot id, but not host keys."""
    seen: dict[tuple[str, str, str], str] = {}
    for name, host in facts.items():
        key = sessions[name].host_key.get_base64()
        first = seen.setdefault((host.boot_id, host.home, key), name)
        if first != name:
            raise UsageError(f"{first} and {name} are the same machine: name it once")


def resolve_peers(
    sessions: Sessions, facts: Mapping[str, HostFacts], overrides: tuple[str, ...]
) -> tuple[Peer, ...]:
    """Each host's address inside the cluster: from the option, otherwise from its route."""
    hosts = sessions.inventory.hosts
    if overrides and len(overrides) != len(hosts):
        raise UsageError(
            f"--peer-address has {len(overrides)} addresses for {len(hosts)} hosts: "
            "one for each, in the hosts' order"
        )
    named = {host.name: host.peer_address for host in hosts}
    named |= dict(zip(named, overrides, strict=False))
    chief, *others = [facts[host.name].inside[0] for host in hosts]

    def routed(session: Session) -> str | None:
        is_chief = session.host.name == hosts[0].name
        return _routed(session, next(iter(others), "") if is_chief else chief)

    unnamed = {name: sessions[name] for name, address in named.items() if not address}
    routes = everywhere(unnamed, routed, what="reading the routes", error=HostsNotReady)
    return tuple(
        _peer(sessions[name], facts[name], address or routes[name])
        for name, address in named.items()
    )


def _routed(session: Session, target: str) -> str | None:
    """The source address of a host on the route to `target`; None if either is unknown."""
    return fact.parse_route(session.sh(fact.route_script(target))) if target else None


def _peer(session: Session, facts: HostFacts, address: str | None) -> Peer:
    """A host with the address that its peers use; without one, that of our own connection."""
    host, key = session.host, session.host_key
    address = address or facts.inside[0]
    again = "the same command with --peer-address FIRST,SECOND   # one for each host"
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise UsageError(
            f"{host.name} has not reported its address: {address[:80]!a}", hint=again
        ) from None
    if parsed.version == 6 and parsed.is_link_local:
        others = [x.address for x in facts.addresses if not _is_of_one_link(x.address)]
        raise UsageError(
            f"{host.name} is reached at {address}, an address of one link, which Open MPI cannot"
            f" use; its other addresses: {', '.join(others) or 'none'}",
            hint=again,
        )
    return Peer(
        name=host.name,
        address=address,
        port=facts.inside[1],
        user=facts.user,
        slots=_slots(host, facts),
        host_key=f"{key.get_name()} {key.get_base64()}",
    )


def _is_of_one_link(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    return parsed.is_link_local or parsed.is_loopback


def _slots(host: Host, facts: HostFacts) -> int:
    return host.slots or len(gpus_of(facts)) or 1


def with_new_facts(cluster: AnyCluster, facts: Mapping[str, HostFacts]) -> AnyCluster:
    """The cluster with new facts: there may be more GPUs, and another wheel may fit."""
    slots = {h.name: _slots(h, facts[h.name]) for h in cluster.inventory.hosts}
    peers = tuple(replace(peer, slots=slots[peer.name]) for peer in cluster.peers)
    updated = replace(cluster, facts=facts, peers=peers)
    return updated if wheel_folder(updated) == wheel_folder(cluster) else with_wheel(updated)


def for_launcher(cluster: AnyCluster, launcher: str) -> AnyCluster:
    """A cluster that was surveyed for Horovod; without Horovod if the launcher, chosen later, does
    not use it."""
    if uses_horovod(launcher) or not cluster.environment.horovod:
        return cluster
    plain = replace(cluster.environment, plain=True)
    environment = preferring_installed(plain, cluster.facts)
    return with_wheel(replace(cluster, environment=environment))


def with_wheel(cluster: AnyCluster) -> AnyCluster:
    """The cluster with its wheel in this computer's cache. If hosts need a wheel, the stack's
    bucket is checked too; its wheel is downloaded if the cache has none."""
    if not cluster.environment.horovod:
        return replace(cluster, wheel=None, cached_wheel=None)
    needed = cluster.incomplete
    folder = wheel_folder(cluster)
    cached = wheel_store.find_cached_wheel(cluster.inventory, folder) if needed else None
    return replace(cluster, wheel=wheel_store.find_wheel(cluster), cached_wheel=cached)
