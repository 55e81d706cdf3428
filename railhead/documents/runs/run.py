"""run.json: what a run is and where its ranks are, the same file on every host.

Written before the run; it contains no value of a secret. docs/architecture.md describes each key.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Literal

from railhead.documents.carbon.energy import Grid
from railhead.documents.cluster import PricePart
from railhead.documents.codec import Malformed, key
from railhead.documents.lazy import dataclass
from railhead.documents.names import NAME, SHORT_NAME
from railhead.documents.runs.evaluation import Threshold
from railhead.documents.sagemaker import SDKS, TOOLKIT

SCHEMA = 2
LONGEST_KEEP = 10**6  # minutes
DISTRIBUTIONS = ("replicate", "shard")
MOST_RETRIES = 100
MODES = ("file", "stream")
ROLES = ("chief", "ps", "worker")
ON_STALL = ("stop", "restart", "wait")
STALL_AFTER = 60.0  # seconds
LONGEST_STALL = 86_400
EXPONENT = re.compile(r"[eE][+-]?\d+(?![\w.])")  # of the number of a metric


@dataclass(frozen=True)
class Runtime:
    """The environment of the ranks: its name, the digest of what is installed, and the version of
    its Python such as 3.11; "" in older documents."""

    name: str = key(check=NAME)
    digest: str = key(check=NAME)
    python: str = key("", omit=True)


@dataclass(frozen=True)
class BuiltIn:
    """The built-in training or evaluation, with its resolved settings."""

    kind: Literal["training", "evaluation"]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Script:
    """A user's script: its path in the bundle, and its arguments. `module`: the name under which
    `python -m` runs it; "" for a script. With `sagemaker`: the version of the SDK that it is for,
    and its hyperparameters as a JSON object, if they were given as one."""

    kind: Literal["script"]
    path: str
    args: tuple[str, ...] = ()
    sagemaker: bool = False
    module: str = key("", omit=True)
    sagemaker_sdk: int = key(TOOLKIT, choices=SDKS, omit=True)
    hyperparameters: str = key("", omit=True)


Program = BuiltIn | Script


@dataclass(frozen=True)
class RunData:
    """One `--data`. `paths`: the path on each host; None: the hosts read a bucket."""

    name: str = key(check=NAME)
    uri: str = key()
    distribution: str | None = key(choices=DISTRIBUTIONS)
    mode: str | None = key(choices=MODES)
    paths: tuple[str, ...] | None = key()


@dataclass(frozen=True)
class RunHost:
    """A host of a run. `interface`: that of its peer address; `slots`: its number of ranks, 0 for a
    host that an elastic run continues without; `gpus`: their names, for people."""

    name: str = key(check=NAME)
    peer_address: str = key()
    interface: str | None = key()
    slots: int = key(at_least=0)
    gpus: tuple[str, ...] = key((), omit=True)


@dataclass(frozen=True)
class Role:
    """The `task` of TF_CONFIG of one rank."""

    type: str = key(choices=ROLES)
    index: int = key(at_least=0)


@dataclass(frozen=True)
class Metric:
    """One `--metric`: a regular expression with one group, around the number."""

    name: str
    pattern: str


def metric_number(match: re.Match[str]) -> float | None:
    """The number in the group of a --metric, which may be NaN; None without one. If a pattern such
    as `[0-9.]+` ends inside of 1.2e-05, the rest belongs to it."""
    if match[1] is None:
        return None
    exponent = EXPONENT.match(match.string, match.end(1))
    try:
        return float(match[1].replace(",", "") + (exponent[0] if exponent else ""))
    except ValueError:
        return None


@dataclass(frozen=True)
class Stop:
    """How the machines stop after the run: the command of each host, and the minutes that they
    are kept after a failure."""

    argv: tuple[tuple[str, ...] | None, ...]
    keep_minutes: float = key(at_least=0, at_most=LONGEST_KEEP)


@dataclass(frozen=True)
class RunBucket:
    """The stack's bucket, and the digest of the chief's environment that uploads to it."""

    url: str
    client: str = key(check=NAME)

    def place_of(self, run_id: str) -> str:
        """The URL of the results of a run."""
        return f"{self.url}/runs/{run_id}"


@dataclass(frozen=True)
class NamedHost:
    """A host, by its name alone."""

    name: str


@dataclass(frozen=True)
class AfterRun:
    """The part of run.json that stops the machines after a run: faults in other parts must not keep
    them running."""

    run_id: str
    hosts: tuple[NamedHost, ...]
    stop: Stop | None = None
    bucket: RunBucket | None = None


@dataclass(frozen=True)
class OnGrid:
    """The part of run.json that the carbon of a run needs."""

    grid: Grid | None = None


@dataclass(frozen=True)
class Priced:
    """The part of run.json that the cost of a run needs."""

    hosts: tuple[RunHost, ...] = ()
    prices: tuple[PricePart, ...] = ()


@dataclass(frozen=True)
class RunDocument:
    """A run. `hosts`: the chief first. `roles` and `tf_cluster`: None without TF_CONFIG.
    `keras_auto`: `keras` was chosen by `--keras auto`, so the other one may be tried once.
    `keras_patches`: a script with Keras 3 is patched if its strategy needs it. `coordinator`:
    address:port on the chief at which the ranks of a launcher find each other. `retries`: how often
    the run starts again after a failure; `retries_from_start`: also if it has no checkpoint;
    `spare`: each host keeps a process ready for that; `elastic`: the least number of hosts with
    which it continues, 0 for all; `takeover`: its chief holds a lease in the bucket, and another
    host may take the run over. `commit`: the git commit of the program, with `-dirty` after
    changes; None outside git. `on_stall`: what happens when the run makes no progress for
    `stall_after` seconds or longer. `independent`: the ranks of a script do not join each other.
    `grid`: the electricity of the hosts; None if it is not known. `prices`: what each host is
    billed for."""

    schema: int = key(choices=(SCHEMA,), doc="2")
    run_id: str = key(
        check=NAME, doc="`20261121-112656-c507`: the time in UTC and four random hexadecimal digits"
    )
    cluster: str = key(check=NAME, doc="the cluster's name")
    created: str = key(pattern=r"[0-9TZ:-]+", doc="the time, UTC")
    launcher: str = key(check=NAME, doc="`horovod`, `tensorflow`, `jax` or `torch`")
    strategy: str = key(check=NAME, doc="one of [Strategies](training.md#strategies); never `auto`")
    keras: int = key(choices=(2, 3), doc="2 or 3")
    runtime: Runtime = key(
        doc="`name` of the runtime, `digest` of its environment and, unless an older version "
        "wrote it, the version of its `python`"
    )
    program: Program = key(
        doc="`kind` `training` or `evaluation` with the resolved `settings`; or `kind` "
        "`script` with `path`, `args`, `sagemaker` (whether `--sagemaker` was given) and, with"
        " `--module`, `module`\nwith `--sagemaker 3` its `sagemaker_sdk`; `hyperparameters`: the"
        " JSON object that `--args` was"
    )
    data: tuple[RunData, ...] = key(
        doc="for each `--data`: `name`, `uri`, `distribution` (`shard`, `replicate`) and `mode`"
        " (`file`, `stream`); null: the built-in training chooses\n`paths`: the path on each"
        " host, in their order; null for data that the hosts read from a bucket"
    )
    bundle: str = key(check=NAME, doc="the digest of the files that were uploaded")
    hosts: tuple[RunHost, ...] = key(
        doc="the chief first: `name`, `peer_address`, `interface` (the network interface with"
        " this address, or null)\n`slots` (the number of its ranks) and, where there are any,"
        " the names of its `gpus`"
    )
    size: int = key(at_least=1, doc="the number of ranks")
    roles: tuple[Role, ...] | None = key(
        doc="for each rank the `task` of `TF_CONFIG`: `type` (`chief`, `ps` or `worker`) and"
        " `index`; null without `TF_CONFIG`"
    )
    tf_cluster: Mapping[str, tuple[str, ...]] | None = key(
        doc="the `cluster` of `TF_CONFIG`, an address and a port for each rank by role; null "
        "without `TF_CONFIG`"
    )
    env: Mapping[str, str] = key(doc="the variables of `--env` and `--env-file`")
    secrets: tuple[str, ...] = key(doc="the names given by `--secret`")
    outputs: tuple[str, ...] = key(doc="the patterns of `--outputs`")
    metrics: tuple[Metric, ...] = key(doc="for each `--metric` its `name` and `pattern`")
    thresholds: tuple[Threshold, ...] = key(
        doc="for each `--min` and `--max` its `metric`, its `bound` (`min` or `max`) and its "
        "`value`"
    )
    resumes: str | None = key(
        check=NAME, doc="the run whose checkpoints this one continues from, or null"
    )
    evaluates: str | None = key(check=NAME, doc="the run whose model this one evaluates, or null")
    max_hours: float | None = key(doc="the value of `--max-hours`, or null")
    stop: Stop | None = key(
        doc="null if the machines keep running; otherwise `argv`, the stop command of each host"
        " or null, and `keep_minutes`, for a failure"
    )
    bucket: RunBucket | None = key(
        doc="null, or the `url` of the stack's bucket and `client`, the digest of the Python "
        "environment on the chief that is used for uploads"
    )
    keras_auto: bool = key(
        False,
        doc="whether `--keras auto` chose `keras`; then the run may start again with the "
        "other one, which the supervisor writes here",
    )
    keras_patches: bool = key(True, doc="false with `--no-keras-patches`")
    coordinator: str | None = key(
        None,
        doc="`address:port` of the chief at which the ranks of JAX and PyTorch find each "
        "other; null for other launchers",
    )
    retries: int = key(
        0,
        at_least=0,
        at_most=MOST_RETRIES,
        omit=True,
        doc="optional: how often the run starts again after a failure:"
        " [Runs that survive](training.md#runs-that-survive)",
    )
    retries_from_start: bool = key(
        False, omit=True, doc="optional: true: also without a checkpoint"
    )
    spare: bool = key(True, omit=True, doc="optional: false with `--no-spare`")
    commit: str | None = key(
        None,
        omit=True,
        doc="the git commit of the program, with `-dirty` if tracked files differ from it;"
        " missing outside a repository",
    )
    elastic: int = key(
        0,
        at_least=0,
        omit=True,
        doc="optional: the least number of hosts with which the run continues after a failure"
        " (`--elastic`); 0: all. Hosts that were left out have 0 `slots`",
    )
    takeover: bool = key(
        False,
        omit=True,
        doc="optional: true: another host may take the run over when its chief is lost",
    )
    on_stall: str = key("stop", choices=ON_STALL, doc="`stop`, `wait` or `restart`: `--on-stall`")
    stall_after: float = key(
        STALL_AFTER, at_least=1, at_most=LONGEST_STALL, doc="seconds: `--stall-after`"
    )
    name: str = key(
        "", check=SHORT_NAME, omit=True, doc="optional: the name of the run for people: `--name`"
    )
    independent: bool = key(
        False,
        omit=True,
        doc="optional: true: the ranks of the script do not join each other (`--independent`)",
    )
    budget: float | None = key(
        None, omit=True, doc="optional: the value of `--budget`, which has set `max_hours`"
    )
    prices: tuple[PricePart, ...] = key(
        (),
        omit=True,
        doc="optional: what each host is billed for: `what`, `name`, `quantity`, `unit`, `usd`,"
        " `high`, `day`, `source`",
    )
    grid: Grid | None = key(
        None,
        omit=True,
        doc="optional: the electricity of a cloud's region: `g_per_kwh`, `pue`, `place`, `year`,"
        " `source`",
    )

    def __post_init__(self) -> None:
        if not self.hosts:
            raise Malformed("hosts must be a list that begins with the chief")
        if not self.hosts[0].slots or not (self.elastic or all(h.slots for h in self.hosts)):
            raise Malformed("hosts[].slots must be at least 1, except in a run that is elastic")

    @property
    def present(self) -> dict[int, RunHost]:
        """The hosts that take part in the attempt, by index. An elastic run keeps the others in
        `hosts`, with 0 slots."""
        return {index: host for index, host in enumerate(self.hosts) if host.slots}

    @property
    def first_ranks(self) -> tuple[int, ...]:
        """The first rank of each host: ranks fill the hosts' slots in order."""
        return tuple(accumulate((host.slots for host in self.hosts[:-1]), initial=0))

    def ranks_of(self, host: int) -> range:
        """The ranks of the host with this index."""
        first = self.first_ranks[host]
        return range(first, first + self.hosts[host].slots)

    def secret_files(self, host: int) -> list[str]:
        """The names of the files with secrets on a host: one for each rank, on the chief also that
        of the supervisor."""
        of_supervisor = ["secrets.json"] if host == 0 else []
        return of_supervisor + [f"secrets-{rank}.json" for rank in self.ranks_of(host)]

    def host_of(self, rank: int) -> int:
        """The index of the host that runs `rank`."""
        return bisect(self.first_ranks, rank) - 1

    def role_of(self, rank: int) -> str:
        """The role of a rank; `worker` without TF_CONFIG."""
        return self.roles[rank].type if self.roles else "worker"
