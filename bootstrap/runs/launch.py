"""The run document (run.json) and the argv of mpirun, from the options of `fab train`. Pure.

`RunOptions` validates every option of the run before anything is sent to a host.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timezone

from railhead.documents.carbon.energy import Grid
from railhead.documents.cluster import PricePart
from railhead.documents.lazy import dataclass
from railhead.documents.names import SHORT_NAME, is_short
from railhead.documents.runs.evaluation import Threshold
from railhead.documents.runs.run import (
    SCHEMA,
    STALL_AFTER,
    Metric,
    Program,
    RunBucket,
    RunData,
    RunDocument,
    RunHost,
    Runtime,
    Stop,
)

from ..errors import Command, UsageError
from ..host.base.programs import SHARED
from ..plan.hostfile import Link, Peer, is_loopback
from . import strategies
from .keras.choice import KerasChoice
from .metrics.options import MOST_METRICS
from .strategies import AUTO, DEFAULT_LAUNCHER, SCRIPTS_ONLY, Strategy

LEAST_HOURS, MOST_HOURS = 0.01, 168.0  # of --max-hours
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Retries:
    """How often a run starts again after a failure. `from_start`: also without a checkpoint;
    `hosts`: the smallest and the largest number of hosts of an elastic run; `takeover`: also after
    the loss of its chief; `spare`: each host keeps a process ready for the next attempt."""

    most: int = 0
    from_start: bool = False
    hosts: tuple[int, int] | None = None
    takeover: bool = False
    spare: bool = True


@dataclass(frozen=True)
class RunOptions:
    """The options of a run, validated. `strategy`: None: the default. `any_launcher`: `auto` may
    choose a strategy of a launcher other than `launcher`.

    `servers`: how many parameter servers; 0: one, if the strategy has any. `resumes`: the id of the
    run from whose checkpoints this one continues. `thresholds`: of the evaluation. `evaluates`: the
    id of the run whose model is evaluated. `name`: of the run, for people.
    """

    launcher: str = DEFAULT_LAUNCHER
    strategy: str | None = None
    any_launcher: bool = False
    servers: int = 0
    script: bool = False
    keras: KerasChoice = KerasChoice()
    keras_patches: bool = True
    independent: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("**",)
    metrics: tuple[Metric, ...] = ()
    resumes: str | None = None
    thresholds: tuple[Threshold, ...] = ()
    evaluates: str | None = None
    retries: Retries = Retries()
    name: str = ""

    def __post_init__(self) -> None:
        strategies.launcher_for(self.launcher, self.strategy)
        if not is_short(self.name):
            raise UsageError(
                f"--name {self.name!r} is not {SHORT_NAME[1]}",
                hint=Command("train", name="baseline"),
            )
        self._check_strategy()
        if self.keras.version == 2 and not self.script:
            raise UsageError(
                "keras 2 is for --script: the built-in training is written for Keras 3"
            )
        if not self.keras_patches and not self.script:
            raise UsageError("--no-keras-patches is for --script: the built-in training needs none")
        if self.independent and not self.script:
            raise UsageError(
                "--independent is for --script: the ranks of the built-in training join"
            )
        if self.independent and self.launcher == DEFAULT_LAUNCHER:
            raise UsageError(
                f"--independent: launcher {self.launcher} is for ranks that join each other by"
                " hvd.init()",
                hint="--independent --launcher tensorflow   # one rank for each host",
            )
        for name in [*self.env, *self.secrets]:
            if not _VARIABLE.fullmatch(name):
                raise UsageError(f"{name!r} is not the name of a variable: letters, digits and '_'")
            if name.startswith("RAILHEAD_"):
                raise UsageError(
                    f"{name}: the names of your variables must not begin with RAILHEAD_"
                )
        names = [metric.name for metric in self.metrics]
        if len({*names}) < len(names) or len(names) > MOST_METRICS:
            raise UsageError(f"--metric: at most {MOST_METRICS}, each name once: {names}")
        if both := sorted({*self.env} & {*self.secrets}):
            raise UsageError(
                f"{both[0]} is given twice: with --secret and with --env or --env-file"
            )

    def _check_strategy(self) -> None:
        if self.strategy == AUTO and self.script:
            raise UsageError(
                "--strategy auto is for the built-in training; a script has one strategy",
                hint="name that of your script, or leave out --strategy",
            )
        if self.launcher in SCRIPTS_ONLY and not self.script:
            raise UsageError(
                f"launcher {self.launcher} is for --script: the built-in training uses TensorFlow"
            )
        row = strategies.STRATEGIES.get(self.strategy or "")
        if self.servers and not (row and row.has_servers):
            raise UsageError("--ps is for --strategy parameter-server")

    def with_strategy(
        self, slots: Sequence[int], gpus: int, *, horovod: bool
    ) -> tuple[RunOptions, str]:
        """The options with the strategy that replaces `auto`, and why; unchanged without `auto`.

        `slots`: of each host; `gpus`: of the first host; `horovod`: Horovod need not be compiled.
        """
        if self.strategy != AUTO:
            return self, ""
        compiled = horovod or not self.any_launcher
        name, why = strategies.choose_for(self.launcher, slots, gpus, compiled=compiled)
        launcher = strategies.STRATEGIES[name].launcher
        return replace(self, launcher=launcher, strategy=name), why

    def resolved_strategy(self, hosts: int) -> Strategy:
        """The chosen strategy, or the launcher's default for this number of hosts."""
        name = None if self.strategy == AUTO else self.strategy
        return strategies.resolve(self.launcher, name, hosts)


@dataclass(frozen=True)
class StopPolicy:
    """The limits of a run, and what happens to the machines after it, validated. `max_hours`: None:
    the user set no limit. `on_stall`, `stall_after`: as in the run document. `spent_at`: when the
    `budget` is spent, seconds since 1970."""

    keep_minutes: int = 20
    stop: bool = True
    max_hours: float | None = None
    on_stall: str = "restart"
    stall_after: float = STALL_AFTER
    budget: float | None = None
    spent_at: float | None = None

    def from_now(self, now: float) -> StopPolicy:
        """The policy with the hours that its budget leaves, less those for which machines are kept
        after a failure."""
        if self.spent_at is None:
            return self
        hours = max(LEAST_HOURS, (self.spent_at - now) / 3600 - self.keep_hours)
        return replace(self, max_hours=min(hours, self.max_hours or MOST_HOURS))

    @property
    def keep_hours(self) -> float:
        """The hours for which machines are kept after a failure."""
        return self.keep_minutes / 60 if self.stop else 0.0


def placement_of(options: RunOptions, peers: Sequence[Peer]) -> list[list[str]]:
    """The role of each process of each host, in the order of the ranks."""
    strategy = options.resolved_strategy(len(peers))
    return strategy.place([peer.slots for peer in peers], options.servers)


_given: set[str] = set()  # ids that this process has created


def new_run_id(now: datetime | None = None) -> str:
    """A new id that sorts by time: 20261121-101500-3f2a (UTC)."""
    moment = now or datetime.now(timezone.utc)
    while (run_id := f"{moment:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}") in _given:
        pass  # trials of a sweep may start in the same second
    _given.add(run_id)
    return run_id


def run_document(
    *,
    run_id: str,
    cluster: str,
    created: str,
    options: RunOptions,
    program: Program,
    data: Sequence[RunData] = (),
    runtime: Runtime,
    bundle: str,
    peers: Sequence[Peer],
    links: Sequence[Link],
    ports: Sequence[int],
    stop_policy: StopPolicy,
    stops: Sequence[tuple[str, ...] | None],
    bucket: RunBucket | None,
    gpus: Mapping[str, tuple[str, ...]] | None = None,
    commit: str | None = None,
    grid: Grid | None = None,
    prices: tuple[PricePart, ...] = (),
) -> RunDocument:
    """run.json, read by supervisor, ranks and training; without values of secrets.

    Args:
        ports: a free port for each rank.
        stops: the stop command of each host, in order; empty for hosts without a stack.
        gpus: the names of the GPUs by host.
    """
    strategy = options.resolved_strategy(len(peers))
    placement = placement_of(options, peers)
    roles = [role for host in placement for role in host]
    addresses = [p.address for p, host in zip(peers, placement, strict=True) for _ in host]
    tf_cluster = None
    if strategy.roles:
        tf_cluster = strategies.tf_cluster(list(zip(roles, addresses, ports, strict=True)))
    coordinator = strategies.endpoint(addresses[0], ports[0]) if strategy.coordinator else None
    return RunDocument(
        schema=SCHEMA,
        run_id=run_id,
        cluster=cluster,
        created=created,
        launcher=options.launcher,
        strategy=strategy.name,
        keras=options.keras.version,
        runtime=runtime,
        program=program,
        data=tuple(data),
        bundle=bundle,
        hosts=tuple(
            RunHost(
                peer.name, peer.address, link.device, len(host), (gpus or {}).get(peer.name, ())
            )
            for peer, link, host in zip(peers, links, placement, strict=True)
        ),
        size=len(roles),
        roles=strategies.tasks(roles) if strategy.roles else None,
        tf_cluster=tf_cluster,
        env=options.env,
        secrets=options.secrets,
        outputs=options.outputs,
        metrics=options.metrics,
        thresholds=options.thresholds,
        resumes=options.resumes,
        evaluates=options.evaluates,
        max_hours=stop_policy.max_hours,
        budget=stop_policy.budget,
        stop=Stop(tuple(stops), stop_policy.keep_minutes) if stop_policy.stop and stops else None,
        bucket=bucket,
        keras_auto=options.keras.auto,
        keras_patches=options.keras_patches,
        independent=options.independent,
        name=options.name,
        coordinator=coordinator,
        retries=options.retries.most,
        retries_from_start=options.retries.from_start,
        commit=commit,
        grid=grid,
        prices=prices,
        elastic=options.retries.hosts[0] if options.retries.hosts else 0,
        takeover=options.retries.takeover,
        spare=options.retries.spare,
        on_stall=stop_policy.on_stall,
        stall_after=stop_policy.stall_after,
    )


SSH = "mpirun-ssh.sh"
# mpirun writes its command for sh, but ssh gives it to the login shell of the account: fish, for
# example, refuses it. Any shell starts sh, which reads the command. Where each login has a /tmp of
# its own (pam_namespace), the TMPDIR that the agent made is missing: Open MPI would wait for ever.
# Where logind ends what a login has started, the daemon stays in its login. Elsewhere busctl is not
# called: without logind, D-Bus may try to start it for seconds.
KILLS = (
    "timeout 5 busctl get-property org.freedesktop.login1 /org/freedesktop/login1"
    " org.freedesktop.login1.Manager KillUserProcesses"
)
SSH_FOR_ANY_SHELL = f"""\
# mpirun starts this instead of ssh, as: HOST COMMAND...
host=$1 run=${{0%/*}} attached=
shift
for word; do test "$word" = --daemonize || attached="$attached $word"; done
exec ssh -x -F "$run/ssh_config" {" ".join(SHARED)} "$host" exec /bin/sh <<END
tmp=\\$HOME/.railhead/runs/${{run##*/}}/tmp
test -d "\\$tmp/" || ! test -h "\\$tmp" || mkdir -m 700 "\\$(readlink "\\$tmp")"
kills=
case "\\$(cat /proc/self/cgroup 2>/dev/null)" in
*/session-*) kills=\\$({KILLS} </dev/null 2>/dev/null) ;;
esac
case \\$kills in
*true) $attached ;;
*) $* ;;
esac
END
"""
NETWORKS = ("oob_tcp_if_include", "btl_tcp_if_include")  # precede the networks in mpirun's command


def network_options(networks: str, series: str) -> list[str]:
    """The options with which mpirun uses these networks; none if `networks` is empty. The daemons
    of Open MPI 5 refuse the loopback interface, so on local hosts they use another one."""
    named = NETWORKS[1:] if series == "5.0" and is_loopback(networks) else NETWORKS
    return [word for name in named for word in ("--mca", name, networks) if networks]


def mpirun_argv(
    run_id: str, *, size: int, run_folder: str, networks: str, series: str
) -> list[str]:
    """The argv of mpirun, started on the chief in `run_folder` (an absolute path there), for a
    series of Open MPI: "4.1" or "5.0".

    Ranks are not bound to cores: by default OpenMPI pins each host's first rank to core 0. A rank
    that waits for others yields its core at each poll: another rank, or the threads that prepare
    its batches, may need it. By default ranks yield only if the host has fewer slots than ranks.
    TCP keepalive detects a dead link within half a minute; OpenMPI's default is 5 minutes. By its
    default `regx`, Open MPI 4.1 refuses a host's name with an underscore.

    Open MPI 5 silently drops parameters after `-mca` (one dash). On stdout it does not tag each
    piece of output, and 5.0.7 and 5.0.8 mix the ranks. On stderr, a pipe, each frame (rank.py)
    arrives in one piece; therefore ranks write to stderr. What the shell and Python of a rank say
    before rank.py runs, such as that a library is missing, goes the same way as its output.
    """
    five = series == "5.0"
    tmp = f"TMPDIR=$HOME/.railhead/runs/{run_id}/tmp"
    marks = f"env RAILHEAD_RUN={run_id} RAILHEAD_HOME=$HOME {tmp}"
    agent = ("prte_launch_agent", "prted") if five else ("orte_launch_agent", "orted")
    mca = {
        "plm_rsh_agent": f"sh {run_folder}/{SSH}",
        "plm_rsh_no_tree_spawn": "1",
        agent[0]: f"{marks} {agent[1]}",
        "oob_tcp_keepalive_time": "10",
        "oob_tcp_keepalive_intvl": "5",
        "oob_tcp_keepalive_probes": "3",
        "mpi_yield_when_idle": "1",
        "btl": "self,vader,tcp",
        "pml": "ob1",
        "regx": "naive",
    }
    argv = ["mpirun", "--hostfile", f"{run_folder}/hostfile", "-np", str(size)]
    argv += ["--bind-to", "none", "--map-by", "slot", "--tag-output"]
    argv += network_options(networks, series)
    for name, value in mca.items():
        argv += ["--mca", name, value]
    argv += ["--merge-stderr-to-stdout"] if five else []
    output = " >&2" if five else " 2>&1"
    return [*argv, "sh", "-c", f'exec sh "$HOME/.railhead/runs/{run_id}/rank.sh"{output}']
