"""Makes a program of the list short, on the hosts of the campaign: random data in place of the data
sets that Keras downloads, and a few steps. It is imported when Python starts (__main__.py); the
files of the program, of Keras and of Horovod stay as they are.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

EPOCHS, STEPS = 2, 4
SAMPLES = "SHORT_SAMPLES"  # a variable: the samples of a data set for training and tests
IMAGES = {"mnist": (28, 28), "fashion_mnist": (28, 28), "cifar10": (32, 32, 3)}
KERAS = ("keras.src", "tf_keras.src")
WORDS, LENGTH = 1000, 60  # of imdb


def samples() -> list[int]:
    """The number of samples for training and for tests."""
    return [int(number) for number in os.environ[SAMPLES].split()]


def images(shape: tuple[int, ...], labels: tuple[int, ...]) -> Callable[..., Any]:
    """A function such as `keras.datasets.mnist.load_data`."""

    def load_data(*_: Any, **__: Any) -> Any:
        import numpy as np

        random = np.random.RandomState(0)

        def split(number: int) -> Any:
            x = random.randint(0, 255, (number, *shape)).astype("uint8")
            return x, random.randint(0, 10, (number, *labels)).astype("uint8")

        train, test = samples()
        return split(train), split(test)

    return load_data


def texts(*_: Any, num_words: int | None = None, **__: Any) -> Any:
    """`keras.datasets.imdb.load_data`: lists of the numbers of words."""
    import numpy as np

    random, words = np.random.RandomState(0), min(num_words or WORDS, WORDS)

    def split(number: int) -> Any:
        x = np.empty(number, dtype=object)
        x[:] = [random.randint(1, words, random.randint(5, LENGTH)).tolist() for _ in range(number)]
        return x, random.randint(0, 2, number)

    train, test = samples()
    return split(train), split(test)


def with_data(load: Callable[..., Any]) -> Callable[[ModuleType], None]:
    """A change of a module of a data set."""

    def change(module: ModuleType) -> None:
        vars(module)["load_data"] = load

    return change


def with_short_fit(owner: str) -> Callable[[ModuleType], None]:
    """A change of a module whose class has `fit`."""

    def change(module: ModuleType) -> None:
        cls = getattr(module, owner)
        fit = cls.fit

        @functools.wraps(fit)
        def short(self: Any, *args: Any, **options: Any) -> Any:
            options["epochs"] = min(options.get("epochs", 1), EPOCHS)
            for name in ("steps_per_epoch", "validation_steps"):
                if options.get(name):
                    options[name] = min(options[name], STEPS)
            for name in ("x", "validation_data"):
                if name in options:
                    options[name] = few_batches(options[name])
            return fit(self, *map(few_batches, args), **options)

        cls.fit = short

    return change


def few_batches(data: Any) -> Any:
    """The first batches of a `tf.data.Dataset` that ends; anything else as it is."""
    if "DatasetV2" not in [kind.__name__ for kind in type(data).__mro__]:
        return data
    return data.take(STEPS) if int(data.cardinality()) > STEPS else data  # unknown: below 0


def with_short_loops(module: ModuleType) -> None:
    """Loops of the program itself: over `dataset.take(steps)`, the usual form, and over all of a
    dataset, which has one batch after a few passes."""
    cls = module.DatasetV2
    take, start = cls.take, cls.__iter__

    @functools.wraps(take)
    def short(self: Any, count: Any, *args: Any, **options: Any) -> Any:
        return take(self, min(count, STEPS * EPOCHS), *args, **options)

    @functools.wraps(start)
    def passes(self: Any) -> Any:
        if "site-packages" in sys._getframe(1).f_code.co_filename:  # such as `fit`
            return start(self)
        done = vars(self).get("railhead_passes", 0)
        vars(self)["railhead_passes"] = done + 1
        return start(self if done < EPOCHS else self.take(1))

    cls.take, cls.__iter__ = short, passes


CHANGES: dict[str, Callable[[ModuleType], None]] = {
    "keras.src.backend.tensorflow.trainer": with_short_fit("TensorFlowTrainer"),
    "tf_keras.src.engine.training": with_short_fit("Model"),
    "tensorflow.python.data.ops.dataset_ops": with_short_loops,
}
for keras in KERAS:
    for name, shape in IMAGES.items():
        load = images(shape, (1,) if name == "cifar10" else ())
        CHANGES[f"{keras}.datasets.{name}"] = with_data(load)
    CHANGES[f"{keras}.datasets.imdb"] = with_data(texts)

if __name__ in sys.modules and __name__.startswith("railhead_short"):
    importlib.import_module("railhead_short.patch").after_import(CHANGES)
