"""Reads the facts of all hosts and derives the cluster from them. Writes nothing on the hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bootstrap.errors import UsageError
from bootstrap.facts import host as fact
from bootstrap.facts.host import HostFacts
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory
from bootstrap.plan.cluster import Cluster, Options
from bootstrap.plan.hostfile import Peer
from bootstrap.plan.runtimes import Environment, choose_runtime, gpus_of
from bootstrap.provision import wheel_store
from bootstrap.provision.uv import local_uv, resolve_extra
from bootstrap.ssh.connect import all_facts
from bootstrap.ssh.session import Session


def survey(inventory: Inventory, opened: Mapping[str, Session], options: Options) -> Cluster:
    """Read the facts of all hosts and derive the cluster; writes nothing on the hosts."""
    facts, idle = without_idle_cards(inventory, all_facts(opened))
    _refuse_one_machine_twice(facts, opened)
    environment = choose_runtime(facts, options.launcher, options.runtime)
    environment = replace(environment, why="; ".join(filter(None, (environment.why, idle))))
    if options.requirements:
        extra = resolve_extra(environment, options.requirements, local_uv())
        environment = replace(environment, extra=extra)
    peers = resolve_peers(inventory, facts, opened, options.peer_addresses)
    return with_wheel(Cluster(inventory, facts, environment, peers, None, None, options.archive))


def without_idle_cards(
    inventory: Inventory, facts: Mapping[str, HostFacts]
) -> tuple[Mapping[str, HostFacts], str]:
    """The facts without GPUs that do not work, for local hosts; the text names such a GPU.

    A local host is the user's own machine, which gets no driver. Other hosts get one.
    """
    idle = {n: h for n, h in facts.items() if h.gpu.cards and not h.gpus}
    if not inventory.kind.this_machine or not idle:
        return facts, ""
    without = {n: replace(h, gpu=replace(h.gpu, cards=())) for n, h in idle.items()}
    card = next(iter(idle.values())).gpu.cards[0]
    return {**facts, **without}, f"this machine's {card} has no driver that works, and is not used"


def _refuse_one_machine_twice(
    facts: Mapping[str, HostFacts], opened: Mapping[str, Session]
) -> None:
    """UsageError if two names mean one machine. Containers share a boot id, but not host keys."""
    seen: dict[tuple[str, str, str], str] = {}
    for name, host in facts.items():
        key = opened[name].host_key.get_base64()
        first = seen.setdefault((host.boot_id, host.home, key), name)
        if first != name:
            raise UsageError(f"{first} and {name} are one and the same machine; name it once")


def resolve_peers(
    inventory: Inventory,
    facts: Mapping[str, HostFacts],
    opened: Mapping[str, Session],
    overrides: tuple[str, ...],
) -> tuple[Peer, ...]:
    """Each host's address inside the cluster: the given one, else that on the route to a peer."""
    if overrides and len(overrides) != len(inventory.hosts):
        raise UsageError(
            f"--peer-address has {len(overrides)} addresses for {len(inventory.hosts)} hosts: "
            "one for each, in the hosts' order"
        )
    names = [h.name for h in inventory.hosts]
    peers = []
    for index, host in enumerate(inventory.hosts):
        other = names[1 if index == 0 else 0] if len(names) > 1 else None
        given = overrides[index] if overrides else host.peer_address
        address = given or _routed(
            facts[host.name], facts[other] if other else None, opened[host.name]
        )
        peers.append(_peer(host.name, address, host.slots, facts[host.name], opened[host.name]))
    return tuple(peers)


def _routed(own: HostFacts, other: HostFacts | None, session: Session) -> str:
    """The source address on the route to a peer; otherwise the address that we connected to."""
    routed = None
    if other and other.inside[0]:
        routed = fact.parse_route(session.sh(fact.route_script(other.inside[0])))
    return routed or own.inside[0]


def _peer(name: str, address: str, slots: int | None, facts: HostFacts, session: Session) -> Peer:
    key = session.host_key
    return Peer(
        name=name,
        address=address,
        port=facts.inside[1],
        user=facts.user,
        slots=_slots(slots, facts),
        host_key=f"{key.get_name()} {key.get_base64()}",
    )


def _slots(given: int | None, facts: HostFacts) -> int:
    return given or len(gpus_of(facts)) or 1


def with_new_facts(cluster: Cluster, facts: Mapping[str, HostFacts]) -> Cluster:
    """The cluster with new facts: there may be more GPUs, and another wheel may fit."""
    slots = {h.name: _slots(h.slots, facts[h.name]) for h in cluster.inventory.hosts}
    peers = tuple(replace(peer, slots=slots[peer.name]) for peer in cluster.peers)
    updated = replace(cluster, facts=facts, peers=peers)
    return updated if wheel_folder(updated) == wheel_folder(cluster) else with_wheel(updated)


def with_wheel(cluster: Cluster) -> Cluster:
    """The cluster with the wheel in this machine's cache. If hosts need a wheel, the stack's
    bucket is checked too; its wheel is downloaded if the cache has none."""
    needed = cluster.environment.runtime.horovod and cluster.incomplete
    folder = wheel_folder(cluster)
    kept = wheel_store.find_cached_wheel(cluster.inventory, folder) if needed else None
    return replace(cluster, wheel=wheel_store.local_wheel(folder), kept=kept)


def wheel_folder(cluster: Cluster) -> Path:
    """The folder in this machine's cache with the wheel for these hosts."""
    return wheels_of(cluster.environment, cluster.facts[cluster.builder])


def wheels_of(environment: Environment, builder: HostFacts) -> Path:
    """The folder in this machine's cache with the wheel that a host like `builder` builds."""
    return local_state.cache("wheels") / environment.wheel_key(builder)
