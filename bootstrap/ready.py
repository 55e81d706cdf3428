"""Decides, from facts, what makes hosts ready; the second time that is nothing. Pure."""

from __future__ import annotations

from bootstrap import hostfile, runtimes
from bootstrap.errors import UsageError
from bootstrap.plan import MINUTES, Plan, Step
from bootstrap.show import size
from bootstrap.survey import Cluster, Options
from bootstrap.uv import uv_digest


def decide(cluster: Cluster, options: Options) -> Plan:
    """The plan for these hosts.

    Raises:
        UsageError: a host needs a system change that was not allowed, or has too little room.
    """
    steps = [step for peer in cluster.peers for step in _steps(cluster, peer.name)]
    plan = Plan(tuple(p.name for p in cluster.peers), tuple(steps), _notes(cluster))
    _refuse_system_changes(cluster, plan, options)
    _refuse_little_room(cluster, plan)
    return plan


def _notes(cluster: Cluster) -> tuple[str, ...]:
    environment = cluster.environment
    return (
        f"runtime {environment.runtime.name} on Python {environment.python}: {environment.why}",
        "inside the cluster: " + ", ".join(f"{p.name} = {p.address}" for p in cluster.peers),
    )


def _steps(cluster: Cluster, name: str) -> list[Step]:
    facts, environment = cluster.facts[name], cluster.environment
    runtime_missing = environment.digest not in facts.envs
    steps = []
    if parts := missing(cluster, name):
        packages = " ".join(sorted(set(parts.values())))
        steps.append(Step(name, "system", f"{', '.join(parts)} missing: apt {packages}", MINUTES))
    client = cluster.bucket_client if name == cluster.chief else None
    client_missing = client is not None and client.digest not in facts.envs
    if (runtime_missing or client_missing) and uv_digest() not in facts.uvs:
        steps.append(Step(name, "uv", "the installer is not there; goes through this channel"))
    if runtime_missing:
        why = f"environment {environment.digest} is not there"
        steps.append(Step(name, "runtime", why, MINUTES, environment.megabytes))
        if environment.runtime.horovod:
            steps.append(_horovod_step(cluster, name))
    if client is not None and client_missing:
        why = f"what writes to {cluster.inventory.bucket} is not there"
        steps.append(Step(name, "bucket", why, fetches=client.megabytes))
    if not _let_in(cluster, name):
        steps.append(Step(name, "key", "the chief cannot start ranks here yet"))
    return steps


def _horovod_step(cluster: Cluster, name: str) -> Step:
    if cluster.wheel:
        return Step(name, "horovod", f"install the wheel built before ({cluster.wheel.name})")
    if name == cluster.builder:
        return Step(name, "horovod", "no wheel for this system yet: built here, once", MINUTES)
    return Step(name, "horovod", f"install the wheel that {cluster.builder} builds")


def missing(cluster: Cluster, name: str) -> dict[str, str]:
    """System parts that a host lacks for its part in the cluster, and the package of each."""
    environment = cluster.environment
    incomplete = any(environment.digest not in f.envs for f in cluster.facts.values())
    needs_wheel = environment.runtime.horovod and incomplete
    builds = needs_wheel and not cluster.wheel and name == cluster.builder
    facts = cluster.facts[name]
    return runtimes.missing_parts(facts, chief=name == cluster.chief, builds=builds)


def _let_in(cluster: Cluster, name: str) -> bool:
    public = cluster.facts[cluster.chief].cluster_key
    return public is not None and cluster_line(cluster, public) in cluster.facts[name].authorized


def cluster_line(cluster: Cluster, public: str) -> str:
    """The line of authorized_keys that lets this cluster's chief in."""
    return hostfile.authorized_line(public, cluster.peers[0].address, cluster.inventory.name)


def _refuse_system_changes(cluster: Cluster, plan: Plan, options: Options) -> None:
    steps = [step for step in plan.steps if step.name == "system"]
    if not steps:
        return
    told = "\n".join(f"  [{step.host}] {step.why}" for step in steps)
    if not options.system and cluster.inventory.cloud in ("hosts", "local"):
        raise UsageError(
            f"system changes are needed, and these machines were only named:\n{told}",
            hint="add --system to allow them, or install the packages on the hosts yourself",
        )
    for step in steps:
        facts = cluster.facts[step.host]
        if not facts.sudo or not facts.apt:
            lack = "sudo without a password" if facts.apt else "apt-get"
            raise UsageError(
                f"system changes are needed and {step.host} has no {lack}:\n{told}",
                hint=f"ssh {step.host}, then as root: apt-get install {step.why.split('apt ')[-1]}",
            )


def _refuse_little_room(cluster: Cluster, plan: Plan) -> None:
    """A runtime takes on disk five times what it fetches: wheels, files, the cache."""
    short = []
    for step in plan.steps:
        need, free = step.fetches * 5 * 1_000_000, cluster.facts[step.host].disk_free
        if free < need:
            short.append(f"  [{step.host}] {step.name} needs {size(need)}, {size(free)} are free")
    if short:
        raise UsageError("disk full: too little room on the hosts' home\n" + "\n".join(short))
