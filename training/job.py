"""One training to be done: from a run document on a cluster, or from the command line.

Standard library only, and nothing is read at import.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from railhead.documents.codec import decode
from railhead.documents.runs.run import BuiltIn, RunDocument

from . import presets
from .config import (
    STRATEGIES,
    ConfigError,
    TrainConfig,
    parse_assignments,
    require_choice,
    resolve,
)
from .data import SPLITS, DataError
from .data.uri import DataSource, from_environment, parse_source

MPI_LOCAL_RANK = "OMPI_COMM_WORLD_LOCAL_RANK"
MPI_LOCAL_SIZE = "OMPI_COMM_WORLD_LOCAL_SIZE"
CHECKPOINTS = "RAILHEAD_CHECKPOINT_DIR"
MODEL_DATA = "RAILHEAD_DATA_MODEL"  # of an evaluation: the folder of the model
KINDS = ("training", "evaluation")
RESUMES = ("auto", "required", "fresh", "refuse")


@dataclass(frozen=True)
class Job:
    """What to train, how, where results go, and this process's place on its machine.

    `resume` decides what happens with existing checkpoints: `auto` continues from them, `required`
    fails without one, `fresh` removes them, `refuse` fails if an unfinished training left some.
    """

    strategy: str
    config: TrainConfig
    results: Path
    local_rank: int = 0
    processes: int | None = None  # of the whole run; None: whatever the launcher started
    threads: int = 1  # CPU threads for this process
    data: Mapping[str, DataSource] = field(default_factory=dict)  # train, validation, test
    checkpoints: Path = Path("results/checkpoints")
    resume: str = "auto"
    alone: bool = False  # nobody collects our records
    model: Path | None = None  # evaluate this exported model, and train nothing


def from_command_line(
    preset: str | None,
    strategy: str | None,
    assignments: list[str],
    environ: Mapping[str, str],
    *,
    data: Iterable[str] = (),
    results: str = "results",
    resume: str = "refuse",
    model: str | None = None,
) -> Job:
    """The job of the command line; ConfigError for a wrong name or value."""
    changes = dict(presets.changes(preset or presets.DEFAULT))
    config = resolve({**changes, **parse_assignments(assignments)})
    strategy = strategy or "one-device"
    require_choice("strategy", strategy, STRATEGIES)
    sharing = int(environ.get(MPI_LOCAL_SIZE, "1"))
    return Job(
        strategy=strategy,
        config=config,
        results=Path(results),
        local_rank=int(environ.get(MPI_LOCAL_RANK, "0")),
        threads=config.threads or share_of_cores(sharing),
        data={**from_environment(environ), **parse_data(data)},
        checkpoints=checkpoints_of(environ, Path(results)),
        resume=resume,
        alone=True,
        model=Path(model) if model else None,
    )


def from_run(environ: Mapping[str, str]) -> Job:
    """The job of the run document that RAILHEAD_RUN_FILE names, for the rank in the environment."""
    document = json.loads(Path(environ["RAILHEAD_RUN_FILE"]).read_text(encoding="utf-8"))
    run = decode(RunDocument, document, what="the run document", error=ConfigError)
    require_choice("strategy", run.strategy, STRATEGIES)
    require_choice("program.kind", run.program.kind, KINDS)
    assert isinstance(run.program, BuiltIn)
    config = resolve(run.program.settings)
    sharing = ranks_on_this_machine(run, environ.get("RAILHEAD_HOST", ""))
    results = Path(environ["RAILHEAD_RESULTS"])
    resume = environ.get("RAILHEAD_RESUME", "auto")
    require_choice("RAILHEAD_RESUME", resume, RESUMES)
    return Job(
        strategy=run.strategy,
        config=config,
        results=results,
        local_rank=int(environ.get("RAILHEAD_LOCAL_RANK", "0")),
        processes=int(environ["RAILHEAD_SIZE"]) if "RAILHEAD_SIZE" in environ else None,
        threads=config.threads or share_of_cores(sharing),
        data=from_environment(environ),
        checkpoints=checkpoints_of(environ, results),
        resume=resume,
        model=Path(environ[MODEL_DATA]) if run.program.kind == "evaluation" else None,
    )


def parse_data(values: Iterable[str]) -> dict[str, DataSource]:
    """The data named by `--data NAME=URI[,file|stream]`."""
    data = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not text:
            raise ConfigError(f"data is given as NAME=URI[,file|stream], not {value!r}")
        require_choice("data name", name, SPLITS)
        try:
            data[name] = parse_source(text)
        except DataError as error:
            raise ConfigError(str(error)) from None
    return data


def checkpoints_of(environ: Mapping[str, str], results: Path) -> Path:
    """Where checkpoints go: RAILHEAD_CHECKPOINT_DIR, or a folder in the results."""
    return Path(environ.get(CHECKPOINTS) or results / "checkpoints")


def ranks_on_this_machine(run: RunDocument, host: str) -> int:
    """How many of the run's processes compute on the machine that `host` is on.

    Hosts with loopback addresses are all one machine, whatever their names: MPI takes them for
    several, and each rank would start as many threads as there are cores.
    """
    ranks = {item.name: item.slots for item in run.hosts}
    loopback = [item.name for item in run.hosts if _is_loopback(item.peer_address)]
    if host in loopback:
        return sum(ranks[name] for name in loopback)
    return ranks.get(host, 1)


def share_of_cores(processes: int) -> int:
    """This process's even share of the cores it may use, at least 1."""
    usable = getattr(os, "sched_getaffinity", None)  # Linux only
    cores = len(usable(0)) if usable else os.cpu_count() or 1
    return max(1, cores // max(1, processes))


def _is_loopback(address: str) -> bool:
    return address in ("localhost", "::1") or address.startswith("127.")
