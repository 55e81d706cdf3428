"""Trainings in one process, run by a runtime's python: test_in_runtime.py starts it.

The CPU is cut into two devices, so that `mirrored` has two replicas.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cases_data as shared  # type: ignore[import-not-found]  # it lies beside this file
import keras
import numpy as np
import tensorflow as tf

from training import checkpoint, evaluation, job, train
from training.config import ConfigError, resolve
from training.data import splits
from training.data.__main__ import main as data_command
from training.data.uri import Given
from training.results import Records
from training.strategies import distributed

Case = Callable[[Path], None]
case: Callable[[Case], Case] = shared.case
refused: Callable[..., contextlib.AbstractContextManager[None]] = shared.refused
replaced: Callable[..., contextlib.AbstractContextManager[None]] = shared.replaced
image_folder: Callable[..., Path] = shared.image_folder
shared.CASES.clear()
(CPU,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(CPU, [tf.config.LogicalDeviceConfiguration()] * 2)
DEFAULTS: dict[str, Any] = dict(
    data="synthetic", model="linear", synthetic_samples=200, shift=0, epochs=2, batch_size=16,
    learning_rate=0.01, checkpoint_minutes=0.0, export="off",
)  # fmt: skip
# One of each: a second MirroredStrategy of a process uses the keys of the first one's collectives.
MIRRORED = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
ALONE = tf.distribute.OneDeviceStrategy("cpu:0")


class Killed(Exception):
    """Stands for a kill right after a checkpoint."""


def run(folder: Path, *, kill_at: int = 0, mirrored: bool = False, **settings: Any) -> Any:
    """One training; `kill_at` ends it right after the checkpoint of that step."""
    extra = {name: settings.pop(name) for name in ("data_folders", "resume") if name in settings}
    folder.mkdir(exist_ok=True)
    chosen = job.Job(
        strategy="mirrored" if mirrored else "one-device",
        config=resolve({**DEFAULTS, **settings}),
        results=folder,
        data={name: Given(str(path)) for name, path in extra.get("data_folders", {}).items()},
        checkpoints=folder / "checkpoints",
        resume=extra.get("resume", "auto"),
    )
    keras.utils.clear_session()
    keras.mixed_precision.set_global_policy(chosen.config.precision)
    strategy = distributed.Distributed(MIRRORED if mirrored else ALONE)
    out = io.StringIO()
    training = train.Training(strategy, chosen, Records(local_rank=0, out=out))
    save = training._save

    def save_and_die() -> None:
        save()
        if kill_at and training.position.step == kill_at:
            raise Killed

    training.__dict__["_save"] = save_and_die
    line = training.announcement(chosen.strategy)
    try:
        training.run()
    except Killed:
        pass
    finally:
        keras.mixed_precision.set_global_policy("float32")
    records = [json.loads(x.partition(" ")[2]) for x in out.getvalue().splitlines()]
    return SimpleNamespace(
        line=line,
        epochs=[record for record in records if record["kind"] == "epoch"],
        messages=[record["text"] for record in records if record["kind"] == "message"],
        evaluation=json.loads((folder / "evaluation.json").read_text()) if not kill_at else {},
        weights=[np.array(variable) for variable in training.model.weights],
        training=training,
        folder=folder,
    )


def same(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    """The same weights, to float tolerance."""
    for one, other in zip(found.weights, wanted.weights, strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance)


def losses(outcome: Any) -> list[list[float]]:
    return [[record["loss"], record["val_loss"]] for record in outcome.epochs]


@contextlib.contextmanager
def folder_with(folder: Path, **arrays: Any) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    np.savez(folder / "d.npz", **arrays)
    yield folder


# --- Checkpoints ---------------------------------------------------------------------------

DROPOUT: dict[str, Any] = dict(
    model="mnist-cnn", synthetic_samples=100, shift=1, epochs=3, checkpoint_steps=2
)


@case
def an_interrupted_training_ends_as_the_uninterrupted_one(folder: Path) -> None:
    whole = run(folder / "whole", **DROPOUT)
    run(folder / "cut", kill_at=10, **DROPOUT)  # 7 steps per epoch: the fourth of the second
    rest = run(folder / "cut", **DROPOUT)
    assert "from step 10" in rest.line
    np.testing.assert_allclose(losses(rest), losses(whole)[1:], rtol=1e-5)
    same(rest, whole)


@case
def a_training_goes_on_with_another_number_of_replicas(folder: Path) -> None:
    settings: dict[str, Any] = dict(checkpoint_steps=3, warmup_epochs=0.0, optimizer="sgd")
    whole = run(folder / "whole", **settings, global_batch=32)
    run(folder / "cut", kill_at=3, **settings, global_batch=32)
    rest = run(folder / "cut", mirrored=True, **settings)
    assert "global batch 32" in rest.line, "the batch of the checkpoint counts"
    np.testing.assert_allclose(losses(rest), losses(whole), rtol=1e-5)
    same(rest, whole)


@case
def a_torn_checkpoint_is_named_and_the_one_before_is_used(folder: Path) -> None:
    run(folder, kill_at=6, checkpoint_steps=2)
    torn = folder / "checkpoints/step-00000006/state.npz"
    torn.write_bytes(torn.read_bytes()[:-1])
    rest = run(folder, checkpoint_steps=2)
    assert "from step 4" in rest.line
    assert any("step-00000006 is not whole: state.npz has another size" in m for m in rest.messages)


@case
def a_checkpoint_of_another_training_is_refused(folder: Path) -> None:
    run(folder, kill_at=2, checkpoint_steps=2)
    for changes, message in (
        ({"model": "cnn"}, "model was linear, and is cnn"),
        ({"seed": 1}, "seed was 0, and is 1"),
        ({"synthetic_samples": 300}, "samples was 200, and is 300"),
    ):
        with refused("is of another training", message):
            run(folder, **changes)
    manifest = folder / "checkpoints/step-00000002/manifest.json"
    document = json.loads(manifest.read_text())
    document["shapes"] = [[1, 2], *document["shapes"][1:]]
    manifest.write_text(json.dumps(document))
    with refused("is of another model"):
        run(folder)


@case
def a_resume_without_a_checkpoint_and_an_unfinished_training_are_refused(folder: Path) -> None:
    with refused("there is no checkpoint in", "to go on with"):
        run(folder, resume="required")
    run(folder, kill_at=2, checkpoint_steps=2)
    try:
        run(folder, resume="refuse")
    except ConfigError as error:
        assert "unfinished training (step 2)" in str(error) and "--resume" in str(error)
    else:
        raise AssertionError("an unfinished training was overwritten")
    assert "from step" not in run(folder, resume="fresh", checkpoint_steps=2).line
    assert "from step" not in run(folder, resume="refuse").line, "a finished one is done again"


@case
def no_space_for_checkpoints_is_known_before_the_training(folder: Path) -> None:
    nearly_full = SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=1000))
    with (
        replaced(checkpoint, shutil=nearly_full),
        refused("no space for checkpoints in", "0 MB are free"),
    ):
        run(folder, checkpoint_steps=2)


# --- Evaluation of an exported model ---------------------------------------------------------


def evaluated(folder: Path, model: Path, **changes: Any) -> dict[str, Any]:
    """evaluation.json of an exported model."""
    data = {name: Given(str(path)) for name, path in changes.pop("data_folders", {}).items()}
    chosen = job.Job(
        strategy="one-device", config=resolve({**DEFAULTS, **changes}), results=folder, data=data,
        model=model,
    )  # fmt: skip
    with replaced(evaluation, prepare=lambda job: None):  # TensorFlow runs already
        evaluation.evaluate_exported(chosen, Records(local_rank=0, out=io.StringIO()))
    found: dict[str, Any] = json.loads((folder / "evaluation.json").read_text())
    return found


@case
def an_exported_model_has_the_evaluation_of_its_training(folder: Path) -> None:
    trained = run(folder / "run", data="digits").evaluation
    found = evaluated(folder / "again", folder / "run/model.keras", data="digits")
    for name in ("confusion", "per_class", "model", "data", "split", "samples"):
        assert found[name] == trained[name], name
    assert abs(found["loss"] - trained["loss"]) < 1e-5
    assert sum(map(sum, found["confusion"])) == found["samples"] == 360
    wrong = 360 - sum(row[i] for i, row in enumerate(found["confusion"]))
    assert len(found["worst"]) == min(wrong, 12) and found["worst_of"] == 360
    losses = [item["loss"] for item in found["worst"]]
    assert losses == sorted(losses, reverse=True)
    picture = folder / "again" / found["worst"][0]["picture"]
    assert picture.read_bytes()[1:4] == b"PNG"


@case
def new_data_needs_no_training_data(folder: Path) -> None:
    run(folder / "run")
    model, shape = folder / "run/model.keras", (12, 8, 8, 1)
    labels = np.arange(12) % 10
    with folder_with(folder / "new", x=np.zeros(shape, np.float32), y=labels) as new:
        found = evaluated(
            folder / "e", model, data="numpy", data_folders={"test": new, "train": folder / "none"}
        )
    assert (found["samples"], found["split"]) == (12, "test")
    others = {
        "the model takes inputs": (np.zeros((12, 8, 9, 1), np.float32), labels),
        "the model has 10 outputs": (np.zeros(shape, np.float32), labels + 9),
    }
    for number, (message, (x, y)) in enumerate(others.items()):
        with folder_with(folder / f"other-{number}", x=x, y=y) as other, refused(message):
            evaluated(folder / "e", model, data="numpy", data_folders={"test": other})


@case
def a_model_that_does_not_load_is_named(folder: Path) -> None:
    (folder / "torn.keras").write_bytes(b"PK nothing")
    for name, message in (("torn.keras", "does not load"), ("none.keras", "there is no model")):
        with refused(message, name):
            evaluated(folder / "e", folder / name, data="digits")


# --- Steps -----------------------------------------------------------------------------------


@case
def the_first_line_says_batch_steps_and_rate(folder: Path) -> None:
    settings: dict[str, Any] = dict(
        synthetic_samples=5656, batch_size=64, learning_rate=0.1, steps=1
    )
    alone = run(folder / "1", **settings)
    assert "5656 samples, global batch 64, 89 steps per epoch, learning rate 0.1" in alone.line
    two = run(folder / "2", mirrored=True, **settings)
    assert "5656 samples, global batch 128, 45 steps per epoch, learning rate 0.2" in two.line


@case
def two_replicas_with_padding_make_the_model_of_one(folder: Path) -> None:
    settings: dict[str, Any] = dict(
        synthetic_samples=37, global_batch=8, warmup_epochs=0.0, optimizer="sgd"
    )
    alone, two = run(folder / "1", **settings), run(folder / "2", mirrored=True, **settings)
    same(two, alone)
    np.testing.assert_allclose(losses(two), losses(alone), rtol=1e-5)
    assert two.evaluation["samples"] == alone.evaluation["samples"] == 7
    assert two.evaluation["accuracy"] == alone.evaluation["accuracy"]
    assert np.sum(two.evaluation["confusion"]) == 7


@case
def the_accuracy_counts_no_padding(folder: Path) -> None:
    x = np.eye(9)
    with folder_with(folder / "d", x=x, y=np.arange(9) // 2) as source:
        given = {"train": source, "validation": source}
        settings: dict[str, Any] = dict(data="numpy", data_folders=given, epochs=8)
        outcome = run(folder / "r", mirrored=True, **settings)
    right = outcome.training.model.predict(x, verbose=0).argmax(axis=1) == np.arange(9) // 2
    assert right.any() and outcome.evaluation["samples"] == 9
    np.testing.assert_allclose(outcome.evaluation["accuracy"], right.mean())
    confusion = np.array(outcome.evaluation["confusion"])
    assert confusion.trace() == right.sum() and confusion.sum() == 9


@case
def accumulation_and_xla_make_the_same_model(folder: Path) -> None:
    wanted = run(folder / "plain")
    same(run(folder / "parts", accumulation=3), wanted)
    same(run(folder / "xla", xla="on"), wanted)
    same(run(folder / "both", accumulation=5, xla="on", mirrored=True, global_batch=16), wanted)


@case
def clipping_limits_the_whole_gradient(folder: Path) -> None:
    settings: dict[str, Any] = dict(
        steps=1, optimizer="sgd", learning_rate=1.0, warmup_epochs=0.0, decay="none"
    )
    moved = []
    for clip in (0.0, 1e-3):
        start = run(folder / f"{clip}-0", **{**settings, "learning_rate": 1e-30}).weights
        end = run(folder / f"{clip}-1", clip_norm=clip, mirrored=True, global_batch=16, **settings)
        changes = [b - a for a, b in zip(start, end.weights, strict=True)]
        moved.append(float(np.sqrt(sum((change**2).sum() for change in changes))))
    assert moved[0] > 0.01
    np.testing.assert_allclose(moved[1], 1e-3, rtol=1e-2)


@case
def every_precision_learns(folder: Path) -> None:
    for precision in ("mixed_bfloat16", "mixed_float16"):
        for mirrored in (False, True):
            place = folder / f"{precision}-{mirrored}"
            found = run(place, precision=precision, mirrored=mirrored, epochs=3, clip_norm=5.0)
            assert losses(found)[-1][0] < losses(found)[0][0], precision


@case
def seeds_reach_the_shuffle(folder: Path) -> None:
    from training import input_pipeline

    first = []
    for seed in (0, 0, 1):
        config = resolve({**DEFAULTS, "seed": seed})
        dataset = splits.load(config, {})
        plan = input_pipeline.plan_for(
            dataset.train, config, replicas=1, global_batch=16, training=True
        )
        batches = iter(input_pipeline.batches(dataset.train, plan, config, [0]))
        first.append(next(batches)[1].numpy().tolist())
    assert first[0] == first[1] != first[2]


@case
def epochs_and_trainings_end_when_the_settings_say(folder: Path) -> None:
    found = run(folder / "a", steps_per_epoch=5, epochs=3)
    assert found.training.position.step == 15 and len(found.epochs) == 3
    found = run(folder / "b", steps=20)
    assert found.training.position.step == 20 and len(found.epochs) == 2
    found = run(folder / "c", epochs=9, learning_rate=1e-30, early_stopping=2)
    assert len(found.epochs) == 3, "the first is the best; two more are waited for"


@case
def a_loss_that_is_no_number_names_its_step_and_rank(folder: Path) -> None:
    values = np.ones((64, 3), np.float32)
    values[40] = np.nan
    with folder_with(folder / "d", x=values, y=np.arange(64) % 2) as source:
        settings: dict[str, Any] = dict(
            data="numpy", data_folders={"train": source, "validation": source}
        )
        with refused("the loss of step", "is not a number on rank 0"):
            run(folder / "r", epochs=1, **settings)
    with refused("the loss of step", "lower learning_rate (1e+38, here 1e+38)"):
        run(folder / "s", learning_rate=1e38, warmup_epochs=0.0, epochs=20)


@case
def a_broken_image_is_named(folder: Path) -> None:
    image_folder(folder / "images", count=12)
    (folder / "images/bee/3.png").write_bytes(b"no image")
    with refused("images/bee/3.png is not an image"):
        settings: dict[str, Any] = dict(data="images", model="linear", image_size=8, epochs=3)
        run(folder / "r", data_folders={"train": folder / "images"}, **settings)


@case
def a_broken_record_is_named(folder: Path) -> None:
    image_folder(folder / "images", count=12)
    arguments = ["shard", str(folder / "images"), str(folder / "shards"), "--shards", "2"]
    assert data_command([*arguments, "--data", "images", "--set", "image_size=8"]) == 0
    shard = max((folder / "shards").glob("*.tfrecord"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 255
    shard.write_bytes(content)
    with refused(shard.name):
        settings: dict[str, Any] = dict(data="images", model="linear", image_size=8, epochs=3)
        run(folder / "r", data_folders={"train": folder / "shards"}, **settings)


@case
def fewer_samples_than_replicas_train_all_the_same(folder: Path) -> None:
    with folder_with(folder / "d", x=np.eye(2), y=np.arange(2)) as source:
        given: dict[str, Any] = dict(data="numpy", data_folders={"train": source})
        found = run(folder / "r", mirrored=True, **given)  # one is trained, one is held out
    assert found.training.position.step == 2 and found.evaluation["samples"] == 1
    assert np.isfinite(losses(found)).all()


@case
def a_pretrained_network_learns_a_folder_of_images(folder: Path) -> None:
    image_folder(folder / "images", count=12)
    base = keras.applications.MobileNetV2(
        include_top=False, weights=None, input_shape=(32, 32, 3), pooling="avg"
    )
    base.save_weights(folder / "base.weights.h5")
    given: dict[str, Any] = dict(data="images", image_size=32, batch_size=4)
    given |= {"data_folders": {"train": folder / "images"}, "epochs": 1}
    weights = str(folder / "base.weights.h5")
    transfer = run(folder / "1", model="transfer", weights=weights, learning_rate=0.1, **given)
    kept = zip(transfer.weights[:-2], base.get_weights(), strict=True)
    assert all((np.asarray(one) == other).all() for one, other in kept), "the base has moved"
    assert np.abs(transfer.weights[-1]).max() > 0, "the new layer has not learned"
    resnet = run(folder / "2", model="resnet50", **given)
    moved = [np.abs(variable).max() for variable in resnet.weights]
    assert resnet.training.position.step == 6 and np.isfinite(moved).all()
    assert (folder / "2/model.keras").exists()


# --- Results ---------------------------------------------------------------------------------


@case
def exports_give_the_same_outputs_and_hold_the_settings(folder: Path) -> None:
    found = run(folder, export="on", model="cnn", epochs=1)
    inputs = found.training.data.validation.values[:3]
    wanted = found.training.model(inputs).numpy()
    loaded = keras.models.load_model(folder / "model.keras")
    np.testing.assert_allclose(loaded(inputs).numpy(), wanted, atol=1e-5)
    served = tf.saved_model.load(str(folder / "saved_model"))
    np.testing.assert_allclose(served.serve(inputs).numpy(), wanted, atol=1e-5)
    texts = [
        zipfile.ZipFile(folder / "model.keras").read("training.json"),
        (folder / "saved_model/assets.extra/training.json").read_bytes(),
    ]
    for text in texts:
        assert json.loads(text)["settings"]["model"] == "cnn"
        assert json.loads(text)["classes"][9] == "9"


@case
def tables_are_for_regression_and_binary_too(folder: Path) -> None:
    generator = np.random.RandomState(0)
    x = generator.normal(size=(200, 4)) * [1, 100, 0.01, 5]
    with folder_with(folder / "r", x=x, y=x[:, 0] * 2 + 1) as source:
        settings: dict[str, Any] = dict(
            data="numpy", model="mlp", data_folders={"train": source}, epochs=15
        )
        found = run(folder / "1", task="regression", **settings)
        assert found.evaluation["mae"] < 1 and found.evaluation["accuracy"] is None
        assert found.epochs[-1]["val_mae"] == float(f"{found.evaluation['mae']:.6g}")
    with folder_with(folder / "b", x=x, y=(x[:, 0] > 0).astype(int)) as source:
        settings["data_folders"] = {"train": source, "test": source}
        found = run(folder / "2", task="binary", **settings)
        assert found.evaluation["accuracy"] > 0.9 and found.evaluation["split"] == "test"
        assert np.shape(found.evaluation["confusion"]) == (2, 2)
        assert found.evaluation["samples"] == 200


@case
def texts_are_learned(folder: Path) -> None:
    for name, word in (("neg", "bad"), ("pos", "good")):
        (folder / "t" / name).mkdir(parents=True)
        for number in range(40):
            (folder / "t" / name / f"{number}.txt").write_text(f"it was {word} and long {number}")
    settings: dict[str, Any] = dict(
        data="imdb", task="binary", model="text", text_length=16, vocabulary=500
    )
    found = run(
        folder / "r", data_folders={"train": folder / "t"}, epochs=15, mirrored=True, **settings
    )
    assert found.evaluation["accuracy"] == 1


@case
def curves_are_written_for_tensorboard(folder: Path) -> None:
    run(folder, profile_from=3, profile_steps=2)
    events = list((folder / "tensorboard").glob("events.*"))
    found = [
        value.tag
        for event in tf.compat.v1.train.summary_iterator(str(events[0]))
        for value in event.summary.value
    ]
    assert {"loss", "accuracy", "val_loss", "learning_rate"} <= set(found)
    assert list((folder / "tensorboard/plugins/profile").glob("*/*.xplane.pb"))


if __name__ == "__main__":
    shared.report(sys.argv[1:])
