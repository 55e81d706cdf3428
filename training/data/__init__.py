"""Data sets by name, and their common interface. Importing this needs the standard library only.

A data set is a module, a line in DATASETS of training/registry.py, its tests and two rows of docs
(docs/architecture.md, Recipes). Its module has:

    read(folder, config) -> {"train": Samples, ...}    the data of a folder; "test" where it has
                                                       one; not those of WITHOUT_FOLDER
    fetch(config) -> {"train": Samples, ...}           without a folder: built in, or downloaded;
                                                       not those of ONLY_FOLDER
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..registry import ONLY_FOLDER, WITHOUT_FOLDER

if TYPE_CHECKING:
    from .moments import Moments

SPLITS = ("train", "validation", "test")


class DataError(Exception):
    """Data is missing or wrong; the message names the file. Exit code 1."""


def _unmeasured() -> Moments:
    """The moments of inputs without training data."""
    from .moments import Moments

    return Moments()


@dataclass(frozen=True)
class Inputs:
    """What a model gets: float32 [*shape], or int64 word numbers below `vocabulary`. `moments`
    computes those of the training data."""

    shape: tuple[int, ...]
    vocabulary: int = 0
    moments: Callable[[], Moments] = field(default=_unmeasured, compare=False)


class Samples(Protocol):
    """Inputs and labels of one split."""

    inputs: Inputs
    classes: tuple[str, ...]  # names; empty if labels are plain numbers
    columns: tuple[str, ...]  # names of the inputs of a table; empty for all else
    ignored: tuple[str, ...]  # what the source has beside these samples, in words

    def __len__(self) -> int: ...

    def check(self, task: Any) -> int:
        """The number of classes; DataError if the labels do not fit the task."""

    def to_measure(self, most: int) -> tuple[Any, Any]:
        """Inputs and labels for their mean and variance, as arrays: all that are in memory, or
        the first `most` records; None as inputs if these are image files."""

    def subset(self, numbers: Any) -> Samples:
        """The samples of these ascending numbers."""

    def renumbered(self, numbers: Any, classes: tuple[str, ...]) -> Samples:
        """The samples with these classes; `numbers` has the new number of each old class."""

    def digest(self) -> str:
        """The sha256 of inputs and labels."""

    def find_fault(self) -> str:
        """Read everything and name the first broken file, record or value; empty if all is
        well."""


@dataclass(frozen=True)
class Dataset:
    """The samples that a model learns from and is evaluated on; no sample is in two splits."""

    train: Any
    validation: Any
    test: Any  # None: the validation data is also the test data
    inputs: Inputs
    classes: int
    names: tuple[str, ...]

    @property
    def held_out(self) -> tuple[str, Any]:
        """The name and the samples of the split on which the model is judged."""
        return ("validation", self.validation) if self.test is None else ("test", self.test)


def unreadable(samples: Samples, error: Exception) -> DataError:
    """The error for samples that a feed could not read: it names the file, record or value."""
    reason = str(error).partition("\n")[0] or type(error).__name__
    return DataError(samples.find_fault() or f"the data cannot be read: {reason}")


def data_folder(name: str) -> str:
    """Whether a data set is read from a folder: `required`, `optional`, or `none` but shards."""
    if name in WITHOUT_FOLDER:
        return "none"
    return "required" if name in ONLY_FOLDER else "optional"
