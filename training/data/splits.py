"""Which samples train, validate and test; a seeded part is held out if no folder is given."""

from __future__ import annotations

import importlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from railhead.documents.names import MANIFEST

from ..config import ConfigError, TrainConfig
from ..registry import DATASETS, ONLY_FOLDER
from ..tasks import names_of, task_of
from . import DataError, Dataset
from .arrays import Arrays
from .cache import Report, download_all
from .formats.labels import check_classes, name_of
from .moments import moments_of
from .store import Item, open_store
from .uri import DataSource


def load(config: TrainConfig, data: Mapping[str, DataSource], report: Report = print) -> Dataset:
    """Read the data set that `config.data` names, from where it is given.

    `report` gets the progress of a download.

    Raises:
        DataError: data, a file or a label is wrong.
    """
    module = importlib.import_module(DATASETS[config.data])
    if "train" in data:
        splits = read(module, data["train"], config, report)
    elif config.data in ONLY_FOLDER:
        raise DataError(f"data={config.data} needs a folder: --data train=FOLDER")
    else:
        splits = dict(module.fetch(config))
    for name in ("validation", "test"):
        if name in data:
            splits[name] = split_of(read(module, data[name], config, report), name, data[name])
    if "train" not in splits:
        raise DataError(f"{data['train'].uri} has no train: it has {', '.join(splits)}")
    for text in check_classes(splits["train"], task_of(config.task), config.label):
        report(text)
    if "validation" not in splits:
        splits["train"].check(task_of(config.task))  # a message about all labels, not one part's
        splits["train"], splits["validation"] = hold_out(splits["train"], config)
    return checked(splits, config)


@dataclass(frozen=True)
class HeldOut:
    """The samples of an evaluation, from the split of this name; `names` of their classes."""

    split: str
    samples: Any
    names: tuple[str, ...]


def held_out(
    config: TrainConfig,
    data: Mapping[str, DataSource],
    names: tuple[str, ...],
    report: Report = print,
    columns: tuple[str, ...] = (),
    fill: tuple[float, ...] = (),
) -> HeldOut:
    """The test samples, or the validation samples if there are none, of these settings and data.

    Training data is read only if nothing else is given. `names` and `columns`: the classes of the
    model, and the inputs that it was trained on if they are a table's; `fill` stands for missing
    ones.

    Raises:
        DataError: data or a label is wrong, or classes or columns are not those of the model.
    """
    split = next((name for name in ("test", "validation") if name in data), "")
    if split:
        module = importlib.import_module(DATASETS[config.data])
        samples = split_of(read(module, data[split], config, report), split, data[split])
    else:
        split, samples = load(config, data, report).held_out
    samples = as_in(samples, columns, fill)
    samples.check(task_of(config.task))
    check_columns(samples, columns, split, "the model")
    if names and samples.classes:
        samples = with_classes(samples, names, split, "the model")
    return HeldOut(split, samples, names)


def read(
    module: ModuleType, data: DataSource, config: TrainConfig, report: Report
) -> dict[str, Any]:
    """The splits of one URI. Shards are recognised by their manifest, whatever they were written
    from.

    Other content at the URI is reported, in one message.

    Raises:
        DataError: the data cannot be read, has no samples, or a value that is not finite.
    """
    items = open_store(data.uri).items() if data.location else []
    if any(item.name == MANIFEST for item in items) or (data.path / MANIFEST).is_file():
        from .shards import shard_files

        splits: dict[str, Any] = shard_files.open_shards(data, config, report)
    elif data.mode == "stream":
        raise DataError(
            f"{data.uri} has no {MANIFEST}: mode stream reads shards, which the task data shard "
            "makes"
        )
    elif not hasattr(module, "read"):
        raise DataError(
            f"data={config.data} has no files: name what {data.uri} holds, such as data=images"
        )
    else:
        splits = module.read(local_path(data, items, report), config)
    for name, samples in splits.items():
        if len(samples) == 0:
            raise DataError(f"{data.uri} has no samples ({name})")
        if isinstance(samples, Arrays) and (fault := samples.find_fault()):  # in memory: cheap
            raise DataError(fault)
    if ignored := dict.fromkeys(text for samples in splits.values() for text in samples.ignored):
        report(f"{data.uri}: not used: {'; '.join(ignored)}")
    return splits


def split_of(splits: Mapping[str, Any], name: str, data: DataSource) -> Any:
    """The split of that name; data without one is what its files call `train`."""
    if name not in splits and "train" not in splits:
        raise DataError(f"{data.uri} has no {name}: it has {', '.join(splits)}")
    return splits[name] if name in splits else splits["train"]


def local_path(data: DataSource, items: Sequence[Item], report: Report) -> Path:
    """The folder of the data on this host; a bucket's data is downloaded."""
    if data.location:
        return download_all(open_store(data.uri), items, report)
    if not data.path.exists():
        raise DataError(f"there is no folder {data.path}")
    return data.path


def hold_out(samples: Any, config: TrainConfig) -> tuple[Any, Any]:
    """Cut off a seeded part for validation: at least one sample, at most all but one. With
    classes it has the same part of each one, and at least one sample of it if that is possible."""
    if len(samples) < 2:
        raise DataError("one sample cannot be both trained on and held out: give validation data")
    if hasattr(samples, "hold_out"):  # read from front to back: whole stretches are held out
        parts: tuple[Any, Any] = samples.hold_out(config.held_out, config.seed)
        return parts
    count = min(max(1, round(len(samples) * config.held_out)), len(samples) - 1)
    generator = random.Random(f"held-out/{config.seed}")
    if task_of(config.task).metric == "accuracy" and samples.labels.ndim == 1:
        chosen = stratified(samples.labels, count, generator)
    else:
        chosen = set(generator.sample(range(len(samples)), count))
    rest = [number for number in range(len(samples)) if number not in chosen]
    return samples.subset(rest), samples.subset(sorted(chosen))


def stratified(labels: Any, count: int, generator: random.Random) -> set[int]:
    """About `count` numbers of samples, of each class its share; a class with one sample is not
    held out. If there are at most `count` classes, at least one sample of each remaining class is
    held out."""
    members: dict[Any, list[int]] = {}
    for number, label in enumerate(labels.tolist()):
        members.setdefault(label, []).append(number)
    of_class = sorted(members.items())
    least = 1 if len(of_class) <= count else 0
    exact = [len(numbers) * count / len(labels) for _, numbers in of_class]
    sizes = [
        min(max(int(share), least), len(numbers) - 1)
        for share, (_, numbers) in zip(exact, of_class, strict=True)
    ]
    in_turn = sorted(range(len(exact)), key=lambda k: (sizes[k] - exact[k], generator.random()))
    for k in in_turn[: max(0, count - sum(sizes))]:
        sizes[k] += sizes[k] < len(of_class[k][1]) - 1
    if not any(sizes):  # each class has one sample
        return {of_class[0][1][0]}  # the training data keeps the class with the highest number
    return {
        number
        for size, (_, numbers) in zip(sizes, of_class, strict=True)
        for number in generator.sample(numbers, size)
    }


def checked(unchecked: Mapping[str, Any], config: TrainConfig) -> Dataset:
    """Check that labels fit the task and that all splits have the same inputs and classes.

    Raises:
        DataError: they do not.
        ConfigError: `class_weights` has another number of classes.
    """
    task, train = task_of(config.task), unchecked["train"]
    classes = train.check(task)
    if task.metric == "accuracy" and classes < 2:
        names = ", ".join(names_of(train.classes, classes))
        raise DataError(f"train has one class, {names}: {config.task} needs at least 2")
    if config.sample_weights and getattr(train, "factors", None) is None:
        raise DataError(
            f"train has no {config.sample_weights}, as sample_weights needs it: a column of CSV "
            "files, or an array beside x and y in NumPy files"
        )
    if config.sample_weights and not train.factors.any():
        raise DataError(f"{train.source}: sample_weights must be above 0 for some samples")
    factors = config.factors_of_classes
    if factors and len(factors) != classes:
        raise ConfigError(f"class_weights has {len(factors)} numbers, and train {classes} classes")
    splits = {name: fitted(samples, train, name) for name, samples in unchecked.items()}
    for name, samples in splits.items():
        count = samples.check(task)
        if task.label_rank == 2 and count != classes:
            raise DataError(f"{name} has labels of {count} classes, but train of {classes}")
        if task.metric == "accuracy" and count > classes:
            raise DataError(f"{name} has labels that train does not have")
    return Dataset(
        train=train,
        validation=splits["validation"],
        test=splits.get("test"),
        inputs=replace(train.inputs, moments=cache(partial(moments_of, train))),
        classes=classes,
        names=names_of(train.classes, classes) if task.metric == "accuracy" else (),
    )


def fitted(samples: Any, train: Any, name: str) -> Any:
    """Samples with the inputs and class numbers of the training data; DataError if they do not
    fit it."""
    samples = as_in(samples, train.columns, getattr(train, "fill", ()))
    if samples.inputs != train.inputs:
        raise DataError(
            f"{name} has inputs {samples.inputs.shape}, but train has {train.inputs.shape}"
        )
    check_columns(samples, train.columns, name, "train")
    return with_classes(samples, train.classes, name, "train")


def as_in(samples: Any, columns: tuple[str, ...], fill: tuple[float, ...]) -> Any:
    """A table with the inputs of other data: it is read again if they differ."""
    read_again = getattr(samples, "as_in", None)
    if read_again is None:
        return samples
    if columns and (samples.columns, samples.fill) != (columns, fill):
        samples = read_again(columns, fill)
        if fault := samples.find_fault():
            raise DataError(fault)
    return replace(samples, as_in=None)  # `as_in` keeps all texts in memory


def check_columns(samples: Any, columns: tuple[str, ...], name: str, other: str) -> None:
    """DataError for a table with other inputs than `other`, or in another order."""
    used = samples.columns
    if used and columns and used != columns:
        raise DataError(
            f"{name} has the columns {', '.join(used)}, but {other} has {', '.join(columns)}"
        )


def with_classes(samples: Any, classes: tuple[str, ...], name: str, other: str) -> Any:
    """The same samples with the numbers that `other` gives to its classes. Classes match by name,
    otherwise by number.

    Raises:
        DataError: a class is not one of them.
    """
    if samples.classes == classes:
        return samples
    numbers = {name_of(text): number for number, text in enumerate(classes)}
    numbers |= {text: number for number, text in enumerate(classes)}
    own_numbers = [numbers.get(text, numbers.get(name_of(text))) for text in samples.classes]
    unknown = [
        text for text, number in zip(samples.classes, own_numbers, strict=True) if number is None
    ]
    if unknown or not samples.classes:
        classes_text = f"class{'es' if len(unknown) > 1 else ''} {', '.join(unknown)}"
        ours = f"the {classes_text}" if unknown else "no names of classes"
        theirs = ", ".join(classes) or "no names of classes"
        raise DataError(f"{name} has {ours}, but {other} has {theirs}")
    return samples.renumbered(own_numbers, classes)
