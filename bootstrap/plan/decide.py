"""Decides from facts which steps prepare the hosts; no steps if they are ready. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ..console.text import size
from ..errors import Command, HostsNotReady, UsageError
from ..facts.host import HostFacts
from . import downloads, drivers, hostfile, open_mpi, runtimes
from . import system_changes as system
from .cluster import Options, SurveyedCluster
from .hostfile import Peer
from .runtimes import uv_digest
from .steps import MINUTES, Plan, Step
from .system_changes import Changes

LOST = "every step waits for the slowest, and each batch fits the smallest memory"
NO_BUILD = ("debian-13",)  # systems where every build of Horovod has failed


def decide(cluster: SurveyedCluster, options: Options) -> Plan:
    """The plan for these hosts.

    Raises:
        UsageError: a host needs a system change that is not allowed or not possible, has too
            little disk space, or an Open MPI that starts no run; or the hosts have GPUs of several
            types without --allow-mixed.
    """
    _refuse_mixed(cluster, options)
    open_mpi.refuse(cluster.facts)
    todo = _changes(cluster)
    downloads.refuse(cluster.facts, todo)
    _refuse_system_changes(cluster, todo, options)
    steps_of = {name: [*todo[name].steps(name), *_steps(cluster, name)] for name in todo}
    steps = [downloads.routed(s, cluster.facts[name]) for name in steps_of for s in steps_of[name]]
    notes = (*_notes(cluster), *downloads.notes(cluster, todo, steps))
    downloads.refuse_sources(cluster.environment.sources, steps)
    plan = Plan(tuple(todo), tuple(steps), notes)
    _refuse_little_room(cluster, todo, plan)
    return plan


def installs(cluster: SurveyedCluster) -> bool:
    """Whether something must be installed on any host, and may have to be downloaded."""
    client, leaders = cluster.bucket_client, {peer.name for peer in cluster.leaders}
    has_client = client is None or all(client.digest in cluster.facts[n].envs for n in leaders)
    try:
        return bool(cluster.incomplete or not has_client or any(_changes(cluster).values()))
    except HostsNotReady:
        return False  # `decide` raises the error


def _changes(cluster: SurveyedCluster) -> dict[str, Changes]:
    """Each host's system changes; UsageError names every host on which they are not possible."""
    possible, refused = {}, {}
    for peer in cluster.peers:
        try:
            possible[peer.name] = system.changes(cluster, peer.name)
        except UsageError as error:
            refused[peer.name] = str(error)
    if refused:
        outcomes = {peer.name: refused.get(peer.name, "ok") for peer in cluster.peers}
        raise HostsNotReady(f"{len(refused)} of {len(outcomes)} hosts cannot be prepared", outcomes)
    return possible


def _notes(cluster: SurveyedCluster) -> list[str]:
    environment = cluster.environment
    notes = [
        f"runtime {environment.runtime.name} on Python {environment.python}: {environment.why}",
        "inside the cluster: " + ", ".join(f"{p.name} = {p.address}" for p in cluster.peers),
    ]
    notes += [source.note for source in cluster.environment.sources]
    if cards := system.mixed(cluster.facts):
        notes.append(f"GPUs of several types: {cards}; {LOST}")
    for name, host in cluster.facts.items():
        if not host.gpus and not drivers.usable(host) and host.gpu.cards:
            notes.append(f"[{name}] a CPU host: {host.gpu.cards[0]} is too old to be used")
        if host.system.cloud_init == "error":
            notes.append(f"[{name}] its first boot failed: cloud-init status --long")
    if cluster.cached_wheel and cluster.cached_wheel.note:
        notes.append(cluster.cached_wheel.note)
    return notes


def _steps(cluster: SurveyedCluster, name: str) -> list[Step]:
    facts, environment = cluster.facts[name], cluster.environment
    runtime_missing = environment.digest not in facts.envs
    steps = []
    leads = any(name == peer.name for peer in cluster.leaders)
    client = cluster.bucket_client if leads else None
    client_missing = client is not None and client.digest not in facts.envs
    if (runtime_missing or client_missing) and uv_digest() not in facts.uvs:
        steps.append(Step(name, "uv", "copy uv, which installs Python packages, over SSH"))
    if runtime_missing:
        why = (
            f"install the packages of {environment.runtime.name}, environment {environment.digest}"
        )
        steps.append(Step(name, "runtime", why, MINUTES, environment.megabytes))
        if environment.horovod:
            steps.append(_horovod_step(cluster, name))
    if client is not None and client_missing:
        why = f"install what writes to {cluster.inventory.bucket}"
        steps.append(Step(name, "bucket", why, fetches=client.megabytes))
    if refused := not_let_in(cluster, name):
        who = "the chief" if refused == cluster.peers[0] else refused.name
        steps.append(Step(name, "key", f"let {who} log in here, to start ranks"))
    return steps


def _horovod_step(cluster: SurveyedCluster, name: str) -> Step:
    if cluster.wheel:
        cached = cluster.cached_wheel
        origin = f"kept in {cached.url}" if cached and cached.downloaded else "built before"
        why = f"install the wheel {origin} ({cluster.wheel.name})"
        return Step(name, "horovod", why + _keeps(cluster, name))
    if name == cluster.builder:
        _refuse_no_build(cluster, name)
        why, fetches = "no wheel for this system yet: built here, once", 0
        if cluster.environment.runtime.gpu:
            toolkit = cluster.facts[name].gpu.toolkit
            _refuse_no_nvcc(cluster, name)
            why += f", for GPUs, with {toolkit or 'an nvcc 12.4 that is fetched'}"
            fetches = 0 if toolkit else runtimes.CUDA_MEGABYTES
        why += _keeps(cluster, name) + _for_all_clusters(cluster)
        return Step(name, "horovod", why, MINUTES, fetches)
    return Step(name, "horovod", f"install the wheel that {cluster.builder} builds")


def _for_all_clusters(cluster: SurveyedCluster) -> str:
    """A note on how one wheel can serve all clusters; empty for hosts on this computer, whose wheel
    already does."""
    if cluster.inventory.kind.this_machine:
        return ""
    runtime, python = cluster.environment.runtime, cluster.environment.python
    is_default = runtime.row is next(iter(runtimes.ROWS.values()))
    row = None if is_default else runtime.row.name
    command = Command("wheel", runtime=row, python=python, gpu=runtime.gpu)
    return f"; {command} on such a computer serves all clusters"


def _refuse_no_build(cluster: SurveyedCluster, name: str) -> None:
    """UsageError on a system where Horovod does not compile."""
    if cluster.facts[name].os in NO_BUILD:
        raise UsageError(
            f"{name} is {cluster.facts[name].os}, where Horovod 0.28.1 does not compile (g++ 14)",
            hint="--launcher tensorflow   # or hosts with Debian 12 or Ubuntu 22.04 or 24.04",
        )


def _refuse_no_nvcc(cluster: SurveyedCluster, name: str) -> None:
    """UsageError if there is no nvcc and apt cannot download the package that has one."""
    facts = cluster.facts[name]
    if not (facts.gpu.toolkit or facts.apt):
        raise UsageError(
            f"{name} builds Horovod for GPUs, has no CUDA 12 toolkit, and no apt to get one with",
            hint="install NVIDIA's cuda-nvcc-12-9 and cuda-cudart-dev-12-9 on it, or use "
            "--launcher tensorflow",
        )


def _keeps(cluster: SurveyedCluster, name: str) -> str:
    """A note that the wheel is stored in the stack's bucket; empty if this host does not store
    it."""
    cached = cluster.cached_wheel
    stores = cached is not None and cached.in_bucket is False and name == cluster.builder
    return f", then kept in {cached.url}" if cached and stores else ""


def not_let_in(cluster: SurveyedCluster, name: str) -> Peer | None:
    """The first leader that may not start ranks on a host; None if all may."""
    authorized = cluster.facts[name].authorized

    def is_let_in(leader: Peer) -> bool:
        public = cluster.facts[leader.name].cluster_key
        return public is not None and leader_line(cluster, leader, public) in authorized

    return next((leader for leader in cluster.leaders if not is_let_in(leader)), None)


def leader_line(cluster: SurveyedCluster, leader: Peer, public: str) -> str:
    """The line of authorized_keys that authorizes a leader of this cluster."""
    return hostfile.authorized_line(public, leader.address, cluster.inventory.name)


def _refuse_mixed(cluster: SurveyedCluster, options: Options) -> None:
    if options.allow_mixed or cluster.inventory.kind.this_machine:
        return
    if cards := system.mixed(cluster.facts):
        raise UsageError(
            f"GPUs of several types: {cards}", hint=f"name one kind only, or --allow-mixed: {LOST}"
        )


def _refuse_system_changes(
    cluster: SurveyedCluster, todo: Mapping[str, Changes], options: Options
) -> None:
    privileged = [s for name, ch in todo.items() for s in ch.steps(name) if s.name in ch.as_root]
    if not privileged:
        return
    listed = "\n".join(f"  [{step.host}] {step.why}" for step in privileged)
    if not options.system and not cluster.inventory.kind.in_cloud:
        raise UsageError(
            f"system changes are needed, and these are ad-hoc hosts:\n{listed}",
            hint="add --system to allow them, or make them on the hosts yourself",
        )
    for name in dict.fromkeys(step.host for step in privileged):
        facts, packages = cluster.facts[name], todo[name].packages
        if not facts.sudo or not facts.apt:
            lack = "sudo without a password" if facts.apt else "apt-get"
            install = shlex.join(["apt-get", "install", *packages])  # facts have some of the names
            command = install if packages else "the changes above"
            raise UsageError(
                f"system changes are needed and {name} has no {lack}:\n{listed}",
                hint=f"ssh {name}, then as root: {command}",
            )


def _refuse_little_room(cluster: SurveyedCluster, todo: Mapping[str, Changes], plan: Plan) -> None:
    short = []
    for name, change in todo.items():
        facts = cluster.facts[name]
        for place, steps in _needs(facts, change, plan.of(name)).items():
            at_home = place == facts.system.home_on
            free = facts.disk_free if at_home else facts.system.disks.get(place)
            need = sum(steps.values())
            if free is not None and free < need:
                needs = f"needs {size(need)} on {place}, {size(free)} are free"
                short.append(f"  [{name}] {', '.join(steps)} {needs}")
    if short:
        raise UsageError("disk full: not enough space on the hosts\n" + "\n".join(short))


def _needs(facts: HostFacts, change: Changes, steps: Sequence[Step]) -> dict[str, dict[str, int]]:
    """The bytes that each step needs, by mount point. A runtime needs five times its download on
    disk: wheels, files, the cache. Files sent over SSH temporarily need twice their size more."""
    others = [step for step in steps if step.name not in change.names]
    sizes = {s.name: (s.fetches * 5 + s.sends * 7) * 1_000_000 for s in others}
    needs = {facts.system.home_on: {name: need for name, need in sizes.items() if need}}
    place = "/usr" if "/usr" in facts.system.disks else "/"
    return needs | {place: change.disk | needs.get(place, {})}
