"""The settings of a training: one frozen dataclass that declares and checks its rules.

Standard library only: `fab` runs `python -S -m training --check` before it sends a run to hosts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, get_args, get_type_hints

from railhead.documents.lazy import replace
from railhead.documents.rule import Rule, Unfit, nearest

from .registry import DATASETS, MODELS
from .tasks import TASKS

# Name -> "module:factory" in training/strategies; `auto` chooses one of the others.
STRATEGIES = {
    "horovod": "horovod:create",
    "multiworker": "distributed:multiworker",
    "mirrored": "distributed:mirrored",
    "one-device": "distributed:one_device",
    "parameter-server": "parameter_server:create",
    "auto": "",
}
OPTIMIZERS = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD"}  # name -> in keras.optimizers
DECAYS = ("cosine", "linear", "none")
PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16")
SWITCH = ("off", "on")
PLACE = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*", re.ASCII)  # module:name
NAMED = re.compile(rf"{PLACE.pattern}|[A-Za-z_]\w*", re.ASCII)  # or a name of Keras
TOP = re.compile(r"top_([1-9]\d*)")
# What a record or evaluation.json contains beside the further metrics.
OWN_FIGURES = (
    "loss", "accuracy", "mae", "precision", "recall", "f1", "samples", "epoch", "epochs", "split",
    "classes", "missing_classes", "confusion", "per_class", "worst", "worst_of", "model", "data",
    "threshold", "passed", "kind", "rank", "time", "host",
)  # fmt: skip


class ConfigError(ValueError):
    """A setting breaks its rule; the message gives the rule, the value and the choices."""


def setting(default: Any, doc: str, **rules: Any) -> Any:
    """A field with its one-line doc and its rules, as in Rule."""
    return field(default=default, metadata={"doc": doc, "rule": Rule(**rules)})


@dataclass(frozen=True)
class TrainConfig:
    """Which model is trained, on which data, and for how long."""

    # Data
    data: str = setting("digits", "data set", choices=tuple(DATASETS))
    label: str = setting("label", "column of the labels in CSV files")
    sample_weights: str = setting(
        "", "factors of the loss, one per sample: a column of CSV files, or an array of NumPy files"
    )
    missing: str = setting(
        "error",
        "missing values in CSV files: refused, the mean of the column, or the row is left out",
        choices=("error", "mean", "drop"),
    )
    categories: str = setting(
        "error",
        "columns of texts in CSV files: refused, an input for each text, or one with its number",
        choices=("error", "onehot", "index"),
    )
    unused: str = setting("", "columns of CSV files that are not inputs, separated by commas")
    input_feature: str = setting("image/encoded", "feature of the inputs in TFRecord files")
    label_feature: str = setting("image/class/label", "feature of the labels in TFRecord files")
    input_shape: str = setting(
        "", "shape of inputs in TFRecord files that are lists, or bytes of pixels: 28,28,1"
    )
    image_size: int = setting(64, "pixels per side of image files after decoding", at_least=8)
    exif: str = setting("on", "turn photos as their EXIF orientation says", choices=SWITCH)
    vocabulary: int = setting(20000, "size of the vocabulary of texts", at_least=2)
    text_length: int = setting(256, "words per text; longer texts are cut", at_least=1)
    held_out: float = setting(
        0.1,
        "part of the training data held out where no validation data is given",
        above=0,
        below=1,
    )
    synthetic_samples: int = setting(2048, "size of the synthetic training set", at_least=1)
    shift: int = setting(1, "pixels by which training images move at random", at_least=0, at_most=8)
    flip: str = setting("off", "mirror training images left to right at random", choices=SWITCH)
    augment: str = setting(
        "", "module:name of a function that returns Keras layers, for training samples only"
    )
    shuffle_window: int = setting(
        512, "records of shards that are shuffled together, per lane", at_least=1
    )
    # Model
    task: str = setting("classification", "what is learned", choices=tuple(TASKS))
    model: str = setting("cnn", "network", choices=tuple(MODELS))
    weights: str = setting("", "weights of a pre-trained network: a file, or imagenet")
    label_smoothing: float = setting(
        0.0, "part of each label that is shared evenly by all classes", at_least=0, below=1
    )
    class_weights: str = setting(
        "", "factors of the training loss, one for each class: 1,2.5,1; empty: all 1"
    )
    unfreeze_epochs: int = setting(
        0, "train the frozen layers, too, after this many epochs; 0 = never", at_least=0
    )
    unfreeze_rate: float = setting(
        0.1, "factor of the learning rate from unfreeze_epochs on", above=0
    )
    # Length and batches
    epochs: int = setting(20, "passes over the training set", at_least=1)
    steps: int = setting(0, "end the training after this many steps; 0 = by epochs", at_least=0)
    steps_per_epoch: int = setting(0, "end each epoch after this many steps; 0 = never", at_least=0)
    batch_size: int = setting(32, "samples per replica and step", at_least=1)
    global_batch: int = setting(
        0, "samples per step of all replicas; 0 = batch_size times replicas", at_least=0
    )
    accumulation: int = setting(
        1, "parts in which a replica computes its batch, to save memory", at_least=1
    )
    early_stopping: int = setting(
        0, "stop after this many epochs without a lower held-out loss; 0 = never", at_least=0
    )
    restore_best: str = setting(
        "auto",
        "export the epoch with the lowest held-out loss, not the last; auto: with early_stopping",
        choices=("auto", *SWITCH),
    )
    # Optimizer
    optimizer: str = setting("adam", "update rule", choices=tuple(OPTIMIZERS))
    learning_rate: float = setting(
        0.001, "for a batch of batch_size; grows with the global batch", above=0
    )
    warmup_epochs: float = setting(1.0, "epochs until the full rate is reached", at_least=0)
    decay: str = setting("cosine", "how the rate falls after the warm-up", choices=DECAYS)
    plateau_epochs: int = setting(
        0,
        "reduce the rate after this many epochs without a held-out loss lower by 0.0001; 0 = never",
        at_least=0,
    )
    plateau_factor: float = setting(
        0.1, "by which plateau_epochs reduces the rate", above=0, below=1
    )
    ema: float = setting(
        0.0,
        "momentum of the averages of the weights that are evaluated and exported; 0 = none",
        at_least=0,
        below=1,
    )
    weight_decay: float | None = setting(
        None,
        "part of each weight, times the rate, that a step removes; none: adamw 0.004, others 0",
        at_least=0,
    )
    clip_norm: float = setting(0.0, "largest global norm of the gradients; 0 = any", at_least=0)
    callbacks: str = setting(
        "",
        "names of keras.callbacks, and module:name of functions that return one or more callbacks",
    )
    # Evaluation
    validation_steps: int = setting(
        0, "evaluate after this many steps, too, not only after epochs; 0 = never", at_least=0
    )
    metrics: str = setting(
        "", "further metrics of the held-out data: top_5, auc, names of keras.metrics, module:name"
    )
    # Speed
    precision: str = setting("float32", "number format of the computation", choices=PRECISIONS)
    xla: str = setting("off", "compile forward and backward pass with XLA", choices=SWITCH)
    compression: str = setting(
        "none", "number format of gradients on the network, Horovod only", choices=("none", "fp16")
    )
    fusion_mb: int = setting(0, "Horovod's fusion buffer in MB; 0 = its default", at_least=0)
    cycle_ms: float = setting(0.0, "Horovod's cycle time in ms; 0 = its default", at_least=0)
    threads: int = setting(0, "CPU threads per rank; 0 = this machine's, shared evenly", at_least=0)
    # Repeatability and checkpoints
    seed: int = setting(0, "of weights, shuffles and augmentation", at_least=0)
    deterministic: str = setting("off", "only operations that repeat bit by bit", choices=SWITCH)
    checkpoint_steps: int = setting(0, "checkpoint after this many steps; 0 = never", at_least=0)
    checkpoint_minutes: float = setting(
        10.0, "checkpoint after this many minutes; 0 = never", at_least=0
    )
    checkpoint_keep: int = setting(
        2, "newest checkpoints that are kept, in addition to the best", at_least=1
    )
    # Results
    export: str = setting("on", "write a SavedModel next to model.keras", choices=SWITCH)
    timeline: str = setting("off", "write Horovod's timeline into the results", choices=SWITCH)
    profile_from: int = setting(0, "first step of the profiler's window; 0 = none", at_least=0)
    profile_steps: int = setting(10, "steps in the profiler's window", at_least=1)
    min_accuracy: float | None = setting(
        None, "held-out accuracy below which the run has not passed", at_least=0, at_most=1
    )

    def __post_init__(self) -> None:
        for name, rule in rules().items():
            object.__setattr__(self, name, _fit(name, rule.reader(), getattr(self, name)))
        _check_task(self)
        if not self.steps and 0 < self.epochs <= self.unfreeze_epochs:
            raise ConfigError(f"unfreeze_epochs must be less than epochs, {self.epochs}")
        if self.class_weights and not sum(self.factors_of_classes):
            raise ConfigError("class_weights needs a number above 0")
        if self.augment and not PLACE.fullmatch(self.augment):
            raise ConfigError(f"augment is module:name, not {self.augment!r}")
        for text in self.own_callbacks:
            if not NAMED.fullmatch(text):
                raise ConfigError(
                    f"callbacks are names of keras.callbacks or module:name, not {text!r}"
                )
        _check_metrics(self.more_metrics)
        if any(not size.isdecimal() or int(size) < 1 for size in _words(self.input_shape)):
            raise ConfigError(f"input_shape is numbers such as 28,28,1, not {self.input_shape!r}")

    @property
    def unused_columns(self) -> tuple[str, ...]:
        """The columns in `unused`."""
        return tuple(name.strip() for name in self.unused.split(",") if name.strip())

    @property
    def shape_of_input(self) -> tuple[int, ...]:
        """`input_shape` as numbers; () if it is that of the records."""
        return tuple(map(int, _words(self.input_shape)))

    @property
    def own_callbacks(self) -> list[str]:
        """The callbacks in `callbacks`."""
        return _words(self.callbacks)

    @property
    def more_metrics(self) -> list[str]:
        """The metrics in `metrics`."""
        return _words(self.metrics)

    @property
    def factors_of_classes(self) -> tuple[float, ...]:
        """`class_weights` as numbers; () if all classes have the same weight."""
        return tuple(_factor(text) for text in _words(self.class_weights))

    @property
    def exports_best(self) -> bool:
        """Whether the best epoch's model is exported, and not the last one's."""
        return self.restore_best == "on" or (
            self.restore_best == "auto" and self.early_stopping > 0
        )


def resolve(changes: Mapping[str, Any]) -> TrainConfig:
    """The default settings with `changes`; ConfigError for a name or a value that is wrong."""
    for name in changes:
        require_choice("setting", name, rules())
    return TrainConfig(**changes)


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Turn `name=value` texts into values of each field's type; the last one for a name wins."""
    values = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigError(f"a setting is written name=value, not {assignment!r}")
        require_choice("setting", name, rules())
        values[name] = _fit(name, rules()[name].parsed, text.strip())
    return values


def _fit(name: str, read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except Unfit as wrong:
        raise ConfigError(wrong.of(name)) from None


@cache
def rules() -> Mapping[str, Rule]:
    """The rule of each setting, with its type: `float | None` is a number or none."""
    hints = {name: (*get_args(kind), kind) for name, kind in get_type_hints(TrainConfig).items()}
    return {
        item.name: replace(
            item.metadata["rule"],
            kind=hints[item.name][0],
            empty="none" if type(None) in hints[item.name] else "",
            largest=math.inf,
        )
        for item in fields(TrainConfig)
    }


# Names of settings in other programs.
HABITS = {
    "bs": "batch_size",
    "lr": "learning_rate",
    "lr_schedule": "decay",
    "num_epochs": "epochs",
    "wd": "weight_decay",
}


def require_choice(kind: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse a value that is none of the choices, and suggest the nearest."""
    known = list(choices)
    if value in known:
        return
    meant = HABITS.get(value, "")
    near = meant if meant in known else nearest(value, known)
    guess = f" Did you mean {near}?" if near else ""
    raise ConfigError(f"unknown {kind} {value!r}.{guess} Choices: {', '.join(known)}")


def describe_fields() -> dict[str, dict[str, Any]]:
    """Per setting its type, default, doc and what fits, as JSON carries them."""
    return {
        item.name: {
            "type": rule.kind.__name__ + f" or {rule.empty}" * bool(rule.empty),
            "default": item.default,
            "doc": item.metadata["doc"],
            "choices": rule.choices,
            "bounds": rule.bounds,
        }
        for item, rule in zip(fields(TrainConfig), rules().values(), strict=True)
    }


def _check_task(config: TrainConfig) -> None:
    if config.label_smoothing and config.task == "regression":
        raise ConfigError("label_smoothing needs a task with classes, not regression")
    if config.task not in ("multi-label", "regression"):
        return
    if config.min_accuracy is not None:
        raise ConfigError(f"min_accuracy needs a task with an accuracy, not {config.task}")
    if config.class_weights:
        text = f"class_weights needs a task with one class per sample, not {config.task}"
        raise ConfigError(text)


def _words(text: str) -> list[str]:
    """The parts of a list that is separated by commas or spaces; a sweep splits at commas."""
    return text.replace(",", " ").split()


def metric_name(text: str) -> str:
    """The name of a metric in records: that of `module:name` is `name`."""
    return text.rpartition(":")[2]


def _check_metrics(metrics: Sequence[str]) -> None:
    names = [metric_name(text) for text in metrics]
    for name, text in zip(names, metrics, strict=True):
        if not NAMED.fullmatch(text) or text in ("top_0", *OWN_FIGURES) or name in OWN_FIGURES:
            raise ConfigError(
                f"metrics has {text!r}, which is not top_K, auc, a name of keras.metrics or "
                f"module:name, or is the name of another figure: {', '.join(OWN_FIGURES)}"
            )
        if names.count(name) > 1:
            raise ConfigError(f"metrics has {name} twice")


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 0 <= factor < math.inf:
        raise ConfigError(f"class_weights are numbers from 0, such as 1,2.5,1, not {text!r}")
    return factor
