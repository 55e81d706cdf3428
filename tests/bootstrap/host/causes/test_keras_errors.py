"""After which failures a run starts again with the other Keras."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from standins.runs.supervisor_here import SupervisorHere

from bootstrap.host.causes.keras_errors import ERRORS, LONGEST, is_of_keras, needs_other
from bootstrap.host.output.progress import STEP
from bootstrap.runs.keras import evidence, horovod_calls
from railhead.documents.runs.result import Culprit
from railhead.keras_patches.horovod import optimizer

ERROR = "ImportError: `keras.optimizers.legacy` is not supported in Keras 3. When using"
CULPRIT = Culprit(1, "h2", ("Traceback (most recent call last):", ERROR), exit=1)

# By why not: the Keras of the run, the failure, the seconds of the attempt, and its progress.
NOT_AGAIN: dict[str, tuple[int, Culprit, float, dict[str, Any]]] = {
    "a step is complete": (3, CULPRIT, 20, {"stepped": True}),
    "there is a checkpoint": (3, CULPRIT, 20, {"files": 1}),
    "it took long": (3, CULPRIT, LONGEST + 1, {}),
    "an error of the other Keras": (2, CULPRIT, 20, {}),
    "another error": (3, replace(CULPRIT, lines=("ValueError: no data",)), 20, {}),
    "a lost host": (3, replace(CULPRIT, rank=None), 20, {}),
}


def test_an_error_of_the_wrong_keras_before_the_first_step_is_one() -> None:
    assert is_of_keras(3, CULPRIT, 20)


@pytest.mark.parametrize("keras, culprit, seconds, progress", NOT_AGAIN.values(), ids=NOT_AGAIN)
def test_all_other_failures_are_not(
    keras: int, culprit: Culprit, seconds: float, progress: dict[str, Any]
) -> None:
    assert not is_of_keras(keras, culprit, seconds, **progress)


# The last line; the Keras of the run. Real errors: test_errors_of_runtime.py.
NEITHER = {
    "a misspelt layer": ("AttributeError: module 'keras.layers' has no attribute 'Dens'", 3),
    "a misspelt layer of Keras 2": ("module 'tf_keras.layers' has no attribute 'Dens'", 2),
    "a missing package": ("ModuleNotFoundError: No module named 'keras_tuner'", 3),
    "a list of the user": ("TypeError: 'list' object is not callable", 3),
    "an argument of the user": ("AttributeError: 'Namespace' object has no attribute 'lr'", 3),
    "a function of the user": ("TypeError: f() got an unexpected keyword argument 'workers'", 3),
    "a name of Keras 3 in Keras 3": ("ImportError: cannot import name 'ops' from 'keras'", 3),
    "a name of Keras 2 in Keras 2": (ERROR, 2),
    "far to the right": (" " * 5000 + ERROR, 3),
}


@pytest.mark.parametrize("line, keras", NEITHER.values(), ids=NEITHER)
def test_errors_of_the_script_itself_need_no_other_keras(line: str, keras: int) -> None:
    assert not needs_other(keras, [line])


OF_HOROVOD = {"legacy_opts": optimizer.LEGACY, "use_locking": optimizer.LOCKING}


def test_what_horovod_has_for_keras_2_alone_is_refused_by_an_error_that_needs_keras_2() -> None:
    assert {*OF_HOROVOD} == {*horovod_calls.ONLY_2.values()}
    for argument, text in OF_HOROVOD.items():
        line = " ".join(f"ValueError: {text}".split())
        assert argument in line and needs_other(3, [line]) and not needs_other(2, [line])


def test_a_method_that_shows_one_keras_is_a_known_error_of_the_other() -> None:
    for method, keras in evidence.METHODS.items():
        line = f"AttributeError: 'Sequential' object has no attribute '{method}'"
        assert needs_other(5 - keras, [line]), method


def test_an_argument_that_shows_keras_2_is_a_known_error_of_keras_3() -> None:
    """Not of each function that may get it: test_keras_errors_of_runtime.py calls them."""
    for argument in evidence.KEYWORDS:
        assert any(argument in pattern for pattern in ERRORS[3]), argument


STEPS = {
    "  1/100 [..............................] - ETA: 5s": True,
    "12/12 [==============================] - 1s 3ms/step - loss: 0.5": True,
    "\x1b[1m1/12\x1b[0m \x1b[32m\u2501\u2501\x1b[0m\x1b[37m\u2501\x1b[0m 2s 100ms/step": True,
    "12/12 - 1s - 100ms/step - accuracy: 0.5": True,
    "Step #10\tLoss: 0.693147": True,
    "epoch 1 loss=1.5": True,
    "Epoch 1/5": False,
    "loss: not yet": False,
    "Compiling with loss mse 2": False,
    "2026/11/23 begins": False,
}


@pytest.mark.parametrize("line", STEPS)
def test_progress_bars_and_losses_show_a_step(line: str) -> None:
    assert bool(STEP.search(line.encode())) == STEPS[line]


@pytest.mark.parametrize("record", ["progress", "epoch", "checkpoint", "evaluation"])
def test_records_show_a_step(supervised: SupervisorHere, record: str) -> None:
    supervised.output.stepped = False
    supervised.rank_prints(0, '@railhead {"kind": "message", "text": "begins"}')
    assert not supervised.output.stepped
    supervised.rank_prints(0, f'@railhead {{"kind": "{record}"}}')
    assert supervised.output.stepped
