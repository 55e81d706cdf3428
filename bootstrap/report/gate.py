"""The end of `fab evaluate`: how good the model is, and what its training cost. Pure."""

from __future__ import annotations

from railhead.documents.runs.evaluation import Evaluation

from ..console.text import clean
from .facts import METRICS, RunFacts
from .page import figure


def gate_lines(trained: RunFacts, evaluation: Evaluation) -> list[str]:
    """A table of the figures of an evaluation, and of the cost and the carbon of the training."""
    figures = evaluation.figures
    rows = {name: figure(name, figures[name]) for name in METRICS if name in figures}
    rows["cost of the training"] = str(trained.cost or "no price is recorded")
    carbon = trained.carbon
    rows["carbon of the training"] = carbon.text if carbon else "not measured"
    width = max(map(len, rows))
    return [f"{name:<{width}}  {clean(text)}" for name, text in rows.items()]
