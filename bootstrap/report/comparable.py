"""Which runs may be compared: those whose figures were computed on the same data. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from railhead.documents.lazy import dataclass
from railhead.documents.runs.evaluation import NONE

from ..console.text import clean
from .facts import EARLY, RunFacts

FORM = ("image_size", "vocabulary", "text_length")  # settings that change the form of a sample
CHOOSE = ("data", "held_out", "seed", "synthetic_samples")  # settings that choose the samples
ENDED = ("succeeded", "cancelled", "not fetched")


@dataclass(frozen=True)
class Comparison:
    """The runs that may be compared, and why the others may not, by their ids."""

    runs: tuple[RunFacts, ...]
    left_out: dict[str, str] = field(default_factory=dict)


def comparison(runs: Sequence[RunFacts], metric: str) -> Comparison:
    """Choose the runs that have the metric, on the data set that most of them were evaluated on. If
    several data sets are equally frequent, that of the first run in the list."""
    left_out = {run.run_id: why for run in runs if (why := _unfit(run, metric))}
    comparable = [run for run in runs if run.run_id not in left_out]
    looks = {tuple(run.program_settings.get(name) for name in FORM) for run in comparable}
    data = {run.run_id: _data(run, by_digest=len(looks) < 2) for run in comparable}
    if not comparable:
        return Comparison((), left_out)
    [(most, times)] = Counter(data.values()).most_common(1)
    for run in comparable:
        if times < 2 <= len(comparable) or data[run.run_id] != most:
            left_out[run.run_id] = f"figures on other data: {data[run.run_id]}"
    return Comparison(tuple(run for run in comparable if run.run_id not in left_out), left_out)


def _unfit(run: RunFacts, metric: str) -> str:
    """Why a run cannot be the best one on any data; "" if it can."""
    if run.state == EARLY:
        return "ended early by its sweep"
    if run.state not in ENDED:
        return run.state
    if not run.metrics:
        return "no metric: --metric, or an evaluation that the script prints"
    return "" if metric in run.metrics else f"no {metric}"


def _data(run: RunFacts, *, by_digest: bool) -> str:
    """The data of the figures as text; equal texts mean equal data. It is the digest of the
    held-out samples; without one, or if the form of samples differs, where they come from."""
    split = clean(run.evaluation.split)
    split = split or ("training" if run.evaluation == NONE else "evaluation")
    digest = clean(run.evaluation.data)
    if digest and by_digest:
        return f"{split} data {digest[:16]}"
    inputs = [
        f"{item.name}={clean(' '.join([item.uri, *(item.paths or ())[:1]]))}"
        for item in (run.document.data if run.document else ())
    ]
    settings = run.program_settings
    chosen = [f"{name}={settings[name]}" for name in CHOOSE if settings.get(name)]
    return ", ".join([f"{split} data", *inputs, *chosen])
