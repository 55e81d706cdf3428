"""`--keras`: what decides before the source, what is refused, and what the run document gets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from standins.options import program

from bootstrap.errors import UsageError
from bootstrap.plan.runtimes import ROWS, TENSORFLOW
from bootstrap.runs.keras.choice import KerasChoice, versions_of
from bootstrap.runs.request import read_request
from railhead.keras_patches.patch import KNOWN

OPS = "from keras import ops\n"
OLD = "import tf_keras\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a script, from where the command is typed."""
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


def choice(source: str, requirements: str | None = None, **texts: Any) -> KerasChoice:
    """The choice for a script with this source."""
    Path("train.py").write_text(source)
    if requirements is not None:
        Path("packages.txt").write_text(requirements)
        texts["requirements"] = "packages.txt"
    return read_request(program(script="train.py", **texts), {}).options.keras


def test_a_script_that_shows_neither_runs_with_keras_3(project: Path) -> None:
    assert choice("") == KerasChoice(3, "nothing in train.py needs Keras 2", auto=True)


@pytest.mark.parametrize("option", [None, "auto"])
def test_the_source_decides_and_the_place_is_the_reason(project: Path, option: str | None) -> None:
    shown = choice(OLD, keras=option)
    assert shown == KerasChoice(2, "train.py:1 imports tf_keras", auto=True)


@pytest.mark.parametrize("option, number", [("2", 2), ("3", 3)])
def test_a_number_is_final(project: Path, option: str, number: int) -> None:
    assert choice("model.save('export')\n", keras=option) == KerasChoice(number, "given by --keras")


# What --requirements has; the Keras, and the reason.
PINS = {
    "tf_keras": ("six\ntf_keras\n", 2, "packages.txt:2 requires tf_keras"),
    "tf-keras, by version": (
        "tf-keras>=2.18  # old\n",
        2,
        "packages.txt:1 requires tf-keras>=2.18",
    ),
    "keras 3": ("keras>=3\n", 3, "packages.txt:1 requires keras>=3"),
    "keras 3, with an extra": ("Keras[x] >=3.12 ; python_version > '3'\n", 3, "packages.txt:1"),
    "any keras": ("keras\n", 2, "train.py:1 calls save"),
    "keras from 2.4 on": ("keras>=2.4\n", 2, "train.py:1 calls save"),
    "both": ("keras>=3\ntf_keras\n", 2, "train.py:1 calls save"),
    "other packages": ("keras-tuner==1.4\nkeras_hub\n", 2, "train.py:1 calls save"),
    "in a comment": ("# tf_keras\n", 2, "train.py:1 calls save"),
    "something else": ("keras @ file:///x\n\0\n-r more.txt\n", 2, "train.py:1 calls save"),
}


@pytest.mark.parametrize("text, keras, why", PINS.values(), ids=PINS)
def test_a_version_among_the_packages_decides_first(
    project: Path, text: str, keras: int, why: str
) -> None:
    shown = choice("model.save('export')\n", text)
    assert shown.version == keras and shown.why.startswith(why)


def test_a_file_of_packages_that_is_missing_is_reported_with_the_packages(project: Path) -> None:
    Path("train.py").write_text(OLD)
    request = read_request(program(script="train.py", requirements="nowhere.txt"), {})
    assert request.options.keras.version == 2


def test_a_variable_of_the_command_decides_too(project: Path) -> None:
    shown = choice("", env=["TF_USE_LEGACY_KERAS=1"])
    assert (shown.version, shown.why) == (2, "--env sets TF_USE_LEGACY_KERAS")


HOROVOD = "import horovod.tensorflow.keras as hvd\n"
REFUSED = {
    "--keras 3, Keras 2 is imported": (
        {"source": OLD, "keras": "3"},
        "train.py:1 imports tf_keras",
    ),
    "--keras 2, Keras 3 is imported": (
        {"source": OPS, "keras": "2"},
        "train.py:1 imports keras.ops",
    ),
    "--keras 2, Keras 3 is used": (
        {"source": "import keras\nx = keras.ops.ones(1)\n", "keras": "2"},
        "train.py:2 uses keras.ops.ones",
    ),
    "--keras 3, an argument of Keras 2": (
        {"source": f"{HOROVOD}hvd.load_model('model.h5', legacy_opts=True)\n", "keras": "3"},
        "train.py:2 calls load_model with legacy_opts=True",
    ),
    "keras 2 as keras": ({"source": "", "requirements": "keras==2.15.0\n"}, "keras==2.15.0 is not"),
    "a newer keras": ({"source": "", "requirements": "keras>=4\n"}, "keras>=4 is not a version"),
    "another tf_keras": ({"source": "", "requirements": "tf_keras<2.10\n"}, "tf_keras<2.10 is not"),
}


@pytest.mark.parametrize("texts, message", REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused_before_a_host_is_contacted(
    project: Path, texts: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as refused:
        choice(**texts)
    assert "--keras" in str(refused.value.hint)


@pytest.mark.parametrize("keras", [None, "2", "3"])
def test_an_operation_that_horovod_has_for_no_keras_is_refused(
    project: Path, keras: str | None
) -> None:
    source = f"{HOROVOD}optimizer = hvd.DistributedOptimizer(optimizer, op=hvd.Adasum)\n"
    with pytest.raises(UsageError, match=r"train\.py:2 calls .*op=Adasum") as refused:
        choice(source, keras=keras)
    assert "op=hvd.Average" in str(refused.value.hint)


PERMITTED = {
    "an operation of loops": (
        "import horovod.tensorflow as hvd\nhvd.DistributedOptimizer(a, op=hvd.Adasum)\n",
        "3",
    ),
    "an operation on condition": (
        f"{HOROVOD}if x:\n    hvd.DistributedOptimizer(a, op=hvd.Adasum)\n",
        "3",
    ),
    "an operation of Keras": (f"{HOROVOD}hvd.DistributedOptimizer(a, op=hvd.Sum)\n", "3"),
    "an argument of Keras 2": (f"{HOROVOD}hvd.load_model('a', legacy_opts=True)\n", "2"),
    "one of two": ("try:\n    import tf_keras\nexcept ImportError:\n    import keras\n", "3"),
    "one of two, as an expression": (
        "import tensorflow as tf\nx = tf.keras.optimizers.legacy if old else tf.keras.optimizers\n",
        "3",
    ),
    "where it is there": ("import keras\nx = hasattr(keras, 'ops') and keras.ops.ones(1)\n", "2"),
    "both": (OLD + OPS, "3"),
    "both, with 2": (OLD + OPS, "2"),
    "in a function": ("def f():\n    import tf_keras\n", "3"),
    "a format": ("model.save('export')\n", "3"),
}


@pytest.mark.parametrize("source, option", PERMITTED.values(), ids=PERMITTED)
def test_what_may_work_is_not_refused(project: Path, source: str, option: str) -> None:
    assert choice(source, keras=option).version == int(option)


@pytest.mark.parametrize("texts", [{"keras": "2"}, {"keras_patches": True}])
def test_options_of_scripts_are_refused_for_the_built_in_training(texts: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is for --script"):
        read_request(program(**texts), {})


def test_the_built_in_training_runs_with_keras_3_and_never_again_with_2() -> None:
    chosen = read_request(program(preset="smoke"), {}).options.keras
    assert (chosen.version, chosen.auto) == (3, False)


def test_the_patches_are_tested_with_the_keras_of_each_runtime() -> None:
    first, last = KNOWN
    versions = [tuple(map(int, version.split(".")[:2])) for version in versions_of("keras")]
    assert versions and all(first <= version <= last for version in versions)
    rows = [row for row in ROWS.values() if row.framework is TENSORFLOW]
    assert len(versions_of("tf-keras")) == len(rows)
