"""evaluation.json: how good a model is on held-out data, and whether that is enough.

That of a script has the values that the script reported, so it is read leniently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from railhead.documents.codec import decode, encode, key
from railhead.documents.lazy import dataclass
from railhead.documents.lenient import Flag, Number, Rows, Shown, Text, Texts, each, finite


@dataclass(frozen=True)
class Threshold:
    """A metric must be at least (`min`) or at most (`max`) a value."""

    metric: str
    bound: str = key(choices=("min", "max"))
    value: float = key()

    @property
    def option(self) -> str:
        """The threshold as an option of a command."""
        return f"--{self.bound} {self.metric}={self.value:g}"


@dataclass(frozen=True)
class ClassFigures:
    """The figures of one class; None if a divisor is zero."""

    class_: Text = ""
    samples: Number = None
    precision: Number = None
    recall: Number = None
    f1: Number = None


@dataclass(frozen=True)
class Mistake:
    """A wrong prediction: `picture` is the path of a PNG file among the results."""

    picture: Text
    label: Shown = ""
    prediction: Shown = ""
    loss: Number = None


@dataclass(frozen=True)
class Evaluation:
    """`metrics` are what the program reported under its own names, as it wrote it. `confusion`
    has a row for each label and a column for each prediction. `model` and `data` are sha256."""

    samples: Number = key(None, doc="how many samples were evaluated")
    split: Text = key("", doc="`test` or `validation`")
    classes: Texts = key((), doc="the names of the classes")
    confusion: Rows = key(
        (), doc="counts by label (row) and prediction (column), up to 100 classes"
    )
    per_class: Annotated[tuple[ClassFigures, ...], each(ClassFigures)] = key(
        (), doc="for each class `samples`, `precision`, `recall`, `f1`"
    )
    missing_classes: Texts = key(
        (), doc="classes without a sample: thresholds on `f1` and other means of classes are missed"
    )
    worst: Annotated[tuple[Mistake, ...], each(Mistake)] = key(
        (), doc="for images: the wrong predictions with the highest loss, in `worst/`"
    )
    worst_of: Number = key(None, doc="the number of samples from which `worst` was chosen")
    model: Text = key("", doc="the sha256 of `model.keras`")
    data: Text = key("", doc="the sha256 of inputs and labels")
    threshold: Number = key(None, doc="the setting `min_accuracy`")
    thresholds: Annotated[tuple[Threshold, ...], each(Threshold)] = key(
        (), doc="all thresholds: `metric`, `bound`, `value`"
    )
    failed: Texts = key((), doc="the thresholds that were missed")
    passed: Flag = key(None, doc="whether all thresholds were reached; null without thresholds")
    metrics: Mapping[str, Any] = key(
        {},
        rest=True,
        doc="as separate keys: `loss`, `accuracy` and others that the task has; `epoch`, whose"
        " model was evaluated, from 1",
    )

    @property
    def figures(self) -> Mapping[str, float]:
        """Its metrics that are finite numbers."""
        numbers = {name: finite(value) for name, value in self.metrics.items()}
        return {name: value for name, value in numbers.items() if value is not None}


NONE = Evaluation()  # of a run that was not evaluated


@dataclass(frozen=True)
class Reported:
    """An evaluation as a program wrote it."""

    values: Mapping[str, Any] = key({}, rest=True)

    def after(self, others: Mapping[str, Any]) -> Reported:
        """The evaluation with additional values; the program's own take precedence."""
        return Reported({**others, **self.values})

    def judged(self, judgement: Judgement) -> Reported:
        """With the judgement, in place of the program's own."""
        return Reported({**self.values, **encode(judgement)})

    def read(self) -> Evaluation:
        """The evaluation, read leniently."""
        return decode(Evaluation, dict(self.values))


@dataclass(frozen=True)
class Judgement:
    """Whether the thresholds are reached, None without any; `failed` has a sentence for each one
    that is not."""

    thresholds: tuple[Threshold, ...]
    failed: tuple[str, ...]
    passed: bool | None
