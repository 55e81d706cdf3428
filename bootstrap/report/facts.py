"""The facts about a run, from its record here and from its results. All are checked, because the
results were written on a host."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from railhead.documents.carbon.energy import Carbon
from railhead.documents.codec import decode
from railhead.documents.lazy import dataclass
from railhead.documents.runs.evaluation import NONE, Evaluation
from railhead.documents.runs.records import Record
from railhead.documents.runs.result import Attempt, Result
from railhead.documents.runs.run import BuiltIn, RunDocument, Script
from railhead.money import host
from railhead.money.amount import Amount
from railhead.money.host import Part

from ..console.text import clean, count
from ..errors import RailheadError
from ..inventory import local_state
from ..inventory.files import existing_path
from ..plan.runtimes import RUNTIMES
from ..untrusted.decode import decoded
from ..untrusted.records import records
from ..untrusted.run_files import read_result, read_run_document
from ..untrusted.unpack import Hostile

LIMIT = 50_000_000  # bytes of a file that is read
LONGEST = 10**7  # hours of a run whose cost is reckoned: a host may send any number
LOWER_PARTS = ("loss", "error", "mae", "mse", "mape")  # also in a word: logloss, rmse
LOWER_WORDS = {
    "perplexity", "ppl", "nll", "wer", "cer", "fid", "rmsle", "msle",
    "latency", "time", "runtime", "seconds", "ms", "duration",
}  # fmt: skip
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
EARLY = "ended early"
METRICS = ("accuracy", "loss", "mae", "precision", "recall", "f1")
T = TypeVar("T")


@dataclass(frozen=True)
class RunFacts:
    """One run. `document` is run.json, if it is known; `options` are those of its command;
    `evaluations` are those of `fab evaluate`, by id; `stops` are the times at which the cloud
    reported a host as stopped, by host; `ended_early`: a sweep has cancelled it; `parts` is
    what each of its hosts is billed for."""

    run_id: str
    folder: Path
    cluster: str
    document: RunDocument | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    result: Result | None = None
    evaluation: Evaluation = NONE
    evaluations: Mapping[str, Evaluation] = field(default_factory=dict)
    stops: Mapping[str, str] = field(default_factory=dict)
    ended_early: bool = False
    parts: tuple[Part, ...] = ()

    @cached_property
    def records(self) -> list[Record]:
        """The records of metrics.jsonl."""
        path = self.folder / "metrics.jsonl"
        return records(path) if _is_small(path) else []

    @cached_property
    def epochs(self) -> list[Record]:
        """The records of epochs. If an epoch was repeated after a resume: its last record."""
        epochs = [r for r in self.records if r.kind == "epoch" and r.epoch is not None]
        return [*{r.epoch: r for r in sorted(epochs, key=lambda r: r.epoch or 0.0)}.values()]

    @property
    def kind(self) -> str:
        """`training`, `evaluation` or `script`."""
        return self.document.program.kind if self.document else "unknown"

    @property
    def name(self) -> str:
        """The name that --name gave; "" without one."""
        return self.document.name if self.document else ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of its hosts."""
        return tuple(host.name for host in self.document.hosts) if self.document else ()

    @property
    def program(self) -> str:
        """The program in one word: the script, or the model and the data of the training."""
        if self.document and isinstance(self.document.program, Script):
            return clean(self.document.program.path)
        settings = self.program_settings
        return clean(f"{settings['model']}/{settings['data']}") if settings else self.kind

    @property
    def state(self) -> str:
        """The state of the result; `ended early` for a trial that its sweep cancelled; `not
        fetched` if there is no result here."""
        state = self.result.state if self.result else "not fetched"
        return EARLY if self.ended_early and state == "cancelled" else state

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts that failed, after which the run started again."""
        return self.result.attempts if self.result else ()

    @property
    def keras(self) -> str:
        """The Keras of the run; also that of an attempt that failed before."""
        attempts = [a for a in self.attempts if a.kind == "keras"]
        if attempts:
            return f"{attempts[-1].other_keras}, after {attempts[-1].keras} failed"
        return str(self.document.keras) if self.document else ""

    @property
    def seconds(self) -> float | None:
        """The duration."""
        return self.result.seconds if self.result else None

    @property
    def price(self) -> Amount | None:
        """Of its hosts per hour; None where they cost nothing, or no price is recorded."""
        return host.per_hour(self.parts, len(self.hosts)) if self.parts else None

    @property
    def cost(self) -> Amount | None:
        """The price of the machines for the duration of the run; None where that is not known."""
        return None if self.seconds is None else self.cost_of(self.seconds)

    def cost_of(self, seconds: float) -> Amount | None:
        """The price of the machines for a part of the run."""
        hours = Decimal(str(seconds)) / 3600
        return self.price * hours if self.price and hours < LONGEST else None

    @property
    def carbon(self) -> Carbon | None:
        """The energy and the carbon of the run; None where nothing was measured."""
        return self.result.carbon if self.result else None

    @cached_property
    def metrics(self) -> dict[str, float]:
        """The figures of the evaluation. Without an evaluation the last value of each --metric;
        without these, the held-out figures of the last epoch."""
        metrics = [(r.name, r.figure("value")) for r in self.records if r.kind == "metric"]
        held_out = [(name, r.figure(f"val_{name}")) for r in self.epochs[-1:] for name in METRICS]
        figures = dict([*self.evaluation.figures.items()] or metrics or held_out)
        return {clean(name)[:64]: value for name, value in figures.items() if value is not None}

    @property
    def description(self) -> str:
        """The program: `training of cnn on digits`, or `script train.py`."""
        if self.document and isinstance(self.document.program, Script):
            return clean(f"script {self.document.program.path}")
        settings = self.program_settings
        return clean(f"{self.kind} of {settings.get('model')} on {settings.get('data')}")

    @cached_property
    def speeds(self) -> list[float]:
        """Samples per second over all ranks: of each epoch, or what a script reported."""
        epochs = [r.figure("samples_per_s") for r in self.epochs]
        rates = [r.figure("value") for r in self.records if r.name == "samples_per_s"]
        values = epochs if any(epochs) else rates or [self.evaluation.figures.get("samples_per_s")]
        return [value for value in values if value is not None]

    @property
    def speed(self) -> float | None:
        """The median of `speeds`."""
        return median(self.speeds) if self.speeds else None

    @property
    def settings(self) -> dict[str, str]:
        """The values that may differ between runs: settings or arguments, and where it ran."""
        if self.document is None:
            return {}
        run = self.document
        values = {"ranks": str(run.size), "hosts": str(len(run.hosts))}
        values |= {"launcher": run.launcher, "strategy": run.strategy, "runtime": run.runtime.name}
        if isinstance(run.program, Script):
            values["script"] = clean(" ".join([run.program.path, *run.program.args]))
        return values | self.program_settings

    @property
    def chosen(self) -> dict[str, str]:
        """What the user chose: the preset, settings or arguments, with their values in the run."""
        settings, typed_settings = self.program_settings, self.options.get("settings")
        names = (
            [str(name) for name in typed_settings] if isinstance(typed_settings, Mapping) else []
        )
        chosen = {"preset": self.options.get("preset"), "arguments": self.options.get("args")}
        chosen |= {name: settings.get(name, "") for name in names}
        return {name: clean(str(value)) for name, value in chosen.items() if value}

    @property
    def framework(self) -> str:
        """The framework of the runtime and its version: TensorFlow 2.18.1."""
        runtime = RUNTIMES.get(self.document.runtime.name) if self.document else None
        return f"{runtime.framework.title} {runtime.version}" if runtime else ""

    @property
    def processors(self) -> str:
        """What the hosts compute with: `CPU`, or `2 hosts with 4 x Tesla T4`."""
        if self.document is None:
            return ""
        kinds = [Counter(host.gpus) for host in self.document.hosts if host.gpus]
        hosts = Counter(", ".join(f"{n} x {kind}" for kind, n in gpus.items()) for gpus in kinds)
        named = "; ".join(f"{count(n, 'host')} with {gpus}" for gpus, n in hosts.items())
        return clean(named) or ("GPU" if self.document.runtime.name.endswith("-gpu") else "CPU")

    @property
    def program_settings(self) -> dict[str, str]:
        """The settings of the built-in training; {} for a script."""
        program = self.document.program if self.document else None
        settings = program.settings if isinstance(program, BuiltIn) else {}
        return {name: "none" if value is None else str(value) for name, value in settings.items()}


def better(metric: str, value: float, other: float) -> bool:
    """Whether a value of a metric is better than another one."""
    return value < other if lower_is_better(metric) else value > other


def lower_is_better(metric: str) -> bool:
    """Whether a word of the metric's name names an error or a time; not `images_per_ms`."""
    words = [word.lower() for word in WORD.findall(metric)]
    return any(fragment in metric.lower() for fragment in LOWER_PARTS) or any(
        word in LOWER_WORDS and before != "per"
        for before, word in zip(["", *words], words, strict=False)
    )


def read_run(run: str) -> RunFacts:
    """The facts of a run, by its id or by the folder of its results.

    Raises:
        UsageError: no such run is recorded here.
    """
    folder = existing_path(run)
    if folder and (folder / "run.json").is_file():
        document = _read(folder / "run.json", read_run_document)
        return _facts(document.run_id if document else folder.name, folder.resolve(), document)
    record = local_state.recorded_run(run)
    return replace(
        _facts(run, Path(record.results), record.run),
        options=record.options,
        stops=record.stops,
        ended_early=record.ended_early,
    )


def _facts(run_id: str, folder: Path, document: RunDocument | None) -> RunFacts:
    cluster = document.cluster if document else ""
    evaluation_files = sorted((folder / "evaluations").glob("*/evaluation.json"))
    return RunFacts(
        run_id,
        folder,
        cluster,
        document=document,
        result=_read(folder / "result.json", read_result),
        evaluation=read_evaluation(folder),
        evaluations={path.parent.name: read_evaluation(path.parent) for path in evaluation_files},
        parts=_parts(document) if document else (),
    )


def _parts(run: RunDocument) -> tuple[Part, ...]:
    """What each host was billed for; of a run of an older version, as its cluster is now."""
    if run.prices:
        return tuple(map(host.read_part, run.prices))
    with contextlib.suppress(RailheadError):
        inventory = local_state.load_cluster(run.cluster)
        return host.read(inventory.price, len(inventory.hosts))
    return ()


def _read(path: Path, parse: Callable[[str], T]) -> T | None:
    """A document of the results; None if it is missing or not valid."""
    with contextlib.suppress(Hostile):
        return parse(path.read_text(errors="replace")) if _is_small(path) else None
    return None


def object_in(path: Path) -> dict[str, Any]:
    """The JSON object in a file of the results; {} if there is none."""
    try:
        value = decoded(path.read_text(errors="replace")) if _is_small(path) else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _is_small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= LIMIT


def read_evaluation(results: Path) -> Evaluation:
    """evaluation.json of a run; NONE if there is none."""
    return decode(Evaluation, object_in(results / "evaluation.json"))


def ranks(facts: RunFacts) -> dict[str, list[Record]]:
    """The progress records by rank, such as "rank 1 on h2"."""
    by_rank: dict[str, list[Record]] = {}
    for record in facts.records:
        if record.kind == "progress":
            rank = f"rank {record.rank} on {record.host}"
            by_rank.setdefault(clean(rank)[:80], []).append(record)
    return by_rank
