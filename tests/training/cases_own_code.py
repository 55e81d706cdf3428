"""Code of a user in a training: callbacks, layers, metrics; and figures inside an epoch."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
from samples import own_code
from samples.fits import HELD_OUT, LEVEL, assert_weights, fitted, linear, trained
from samples.trainings import cut, evaluated, same
from standins.case_runner import case, refused

from training.callbacks import Callbacks
from training.config import ConfigError, resolve
from training.data import splits
from training.data.uri import DataSource


@case
def callbacks_are_called_as_in_fit_and_may_end_the_training(folder: Path) -> None:
    """A resumed training continues with what they have counted."""
    settings: dict[str, Any] = dict(
        optimizer="sgd", epochs=9, callbacks="TerminateOnNaN,samples.own_code:recorder",
        checkpoint_steps=5, checkpoint_keep=99,
    )  # fmt: skip
    own_code.CALLS.clear()
    whole = trained(folder / "whole", **settings)
    calls = own_code.CALLS.copy()
    assert len(whole.epochs) == 3 and whole.training.position.stopped
    own_code.CALLS.clear()
    model = linear(whole.start)
    fitted(
        model, keras.optimizers.SGD(0.05, momentum=0.9), epochs=9, callbacks=[own_code.Recorder()]
    )
    assert calls == own_code.CALLS and calls.count("batch 4 end ['accuracy', 'loss']") == 3
    assert_weights(whole, model)
    own_code.CALLS.clear()
    cut(folder / "whole", folder / "cut", 10)
    rest = trained(folder / "cut", **settings)
    assert own_code.CALLS[-2:] == ["epoch 2 end, 3 in all", "train end"]
    same(rest, whole, 1e-7)
    assert len(trained(folder / "cut", **settings).epochs) == 0, "it has ended"


@case
def only_rank_0_has_callbacks(folder: Path) -> None:
    """So that one process writes files."""
    config = resolve({"callbacks": "TerminateOnNaN,samples.own_code:recorder"})
    for rank, count in ((0, 2), (1, 0)):
        strategy: Any = SimpleNamespace(rank=rank)
        callbacks = Callbacks(config, strategy, None, epochs=1, steps=1)
        assert len(callbacks.list.callbacks) == count


@case
def a_callback_may_set_the_rate_of_an_epoch(folder: Path) -> None:
    outcome = trained(folder / "r", optimizer="sgd", epochs=3, callbacks="samples.own_code:halving")
    model = linear(outcome.start)
    fitted(model, keras.optimizers.SGD(0.05, momentum=0.9), epochs=3, callbacks=own_code.halving())
    assert_weights(outcome, model)


@case
def a_column_of_a_table_may_be_the_factors_of_its_samples(folder: Path) -> None:
    (folder / "t.csv").write_text("a,w,label\n1,2,x\n3,0,y\n5,1,x\n7,4,y\n")
    config = resolve({"data": "csv", "sample_weights": "w", "held_out": 0.25})
    data = splits.load(config, {"train": DataSource(str(folder))})
    assert data.train.columns == ("a",) and data.inputs.shape == (1,)
    rows = np.concatenate(
        [np.c_[samples.values, samples.factors] for samples in (data.train, data.validation)]
    )
    assert sorted(map(tuple, rows.tolist())) == [(1, 2), (3, 0), (5, 1), (7, 4)]
    (folder / "t.csv").write_text("a,w,label\n1,2,x\n3,-1,y\n")
    with refused("sample_weights must be finite and at least 0"):
        splits.load(config, {"train": DataSource(str(folder))})


@case
def held_out_data_may_be_evaluated_inside_an_epoch(folder: Path) -> None:
    settings: dict[str, Any] = dict(optimizer="sgd", metrics="top_2")
    outcome = trained(folder / "r", validation_steps=2, epochs=2, **settings)
    plain = trained(folder / "plain", epochs=2, **settings)
    same(outcome, plain, 1e-7)
    assert [(record["epoch"], record["step"]) for record in outcome.validations] == [
        (1, 2), (1, 4), (2, 6), (2, 8)
    ]  # fmt: skip
    short = trained(folder / "short", steps=6, epochs=2, **settings).epochs[-1]
    for name in ("val_loss", "val_accuracy", "val_top_2"):
        np.testing.assert_allclose(outcome.validations[2][name], short[name], rtol=1e-5)


@case
def own_layers_change_samples_in_training_alone(folder: Path) -> None:
    settings: dict[str, Any] = dict(
        optimizer="sgd", epochs=2, augment="samples.own_code:noise", checkpoint_steps=3,
        checkpoint_keep=99,
    )  # fmt: skip
    whole = trained(folder / "whole", **settings)
    cut(folder / "whole", folder / "cut", 6)
    same(trained(folder / "cut", **settings), whole, 1e-7)
    plain = trained(folder / "plain", optimizer="sgd", epochs=2)
    (kernel, bias), (other, _) = whole.weights[-2:], plain.weights
    assert 1e-3 < np.abs(kernel - other).max() < 0.5
    x, y = HELD_OUT
    right = (x @ kernel + bias).argmax(axis=1) == y
    np.testing.assert_allclose(whole.evaluation["accuracy"], right.mean(), rtol=1e-6)
    again = evaluated(
        folder / "again", folder / "whole/model.keras",
        data_folders={"test": folder / "validation"}, **{**LEVEL, **settings},
    )  # fmt: skip
    assert again["accuracy"] == whole.evaluation["accuracy"]


@case
def what_cannot_be_used_is_refused_before_the_training(folder: Path) -> None:
    for settings, message in (
        ({"class_weights": "1,2"}, "class_weights has 2 numbers, and train 3 classes"),
        ({"metrics": "samples.own_code:Largest"}, "the state of Largest is not a sum"),
        ({"metrics": "samples.own_code:wrong_shape"}, "wrong_shape cannot be computed: ValueError"),
        ({"metrics": "Precison"}, "Precison is not top_K, auc"),
        ({"metrics": "samples.own_code:nothing"}, "nothing cannot be imported: AttributeError"),
        ({"callbacks": "samples.nothing:at_all"}, "cannot be imported: ModuleNotFoundError"),
        ({"callbacks": "samples.own_code:tensorboard"}, "TensorBoard is not supported"),
        ({"callbacks": "TerminateOnNaN SwapEMAWeights"}, "SwapEMAWeights is not supported"),
        ({"callbacks": "CSVLogger"}, "keras.callbacks:CSVLogger() fails: TypeError"),
        ({"callbacks": "samples.own_code:no_callback"}, "returned 1, not Keras callbacks"),
        ({"unfreeze_epochs": 1}, "needs a model with frozen layers"),
    ):
        try:
            outcome = trained(folder / "r", **settings, epochs=2)
        except ConfigError as error:
            assert message in str(error), error
        else:
            raise AssertionError(f"{settings} was not refused: {outcome.epochs}")
