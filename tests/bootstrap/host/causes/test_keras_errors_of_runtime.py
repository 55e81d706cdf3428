"""Small scripts for one Keras, run with both by a runtime: with the right one they work, with the
other one they end with an error that is known. And the names that only one Keras has."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT

from bootstrap.host.causes import keras_names as names
from bootstrap.host.causes.keras_errors import ERRORS, needs_other

pytestmark = pytest.mark.slow

MODEL = """import tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.build((None, 2))
"""
COMPILED = MODEL + "model.compile('sgd', 'mse')\nx, y = tf.ones((2, 2)), tf.ones((2, 1))\n"
# By the Keras that a script is written for.
SCRIPTS = {
    2: {
        "a variable as a key": MODEL + "model.trainable_variables[0].ref()",
        "variables as a method": MODEL
        + "o = tf.keras.optimizers.SGD()\no.build(model.trainable_variables)\no.variables()",
        "an argument of compile": MODEL
        + "model.compile('sgd', 'mse', experimental_run_tf_function=False)",
        "workers": COMPILED + "model.fit(x, y, verbose=0, workers=1)",
        "workers of evaluate": COMPILED + "model.evaluate(x, y, verbose=0, workers=1)",
        "workers of predict": COMPILED + "model.predict(x, verbose=0, max_queue_size=1)",
        "steps that are no integer": COMPILED + "model.fit(x, y, verbose=0, steps_per_epoch=1.0)",
        "a generator": COMPILED
        + "model.fit_generator(iter([(x, y)]), steps_per_epoch=1, verbose=0)",
        "an optimizer": MODEL + "tf.keras.optimizers.legacy.SGD(0.1)",
        "a metric": MODEL + "tf.keras.metrics.Mean().reset_states()",
        "a learning rate": MODEL + "tf.keras.optimizers.Adam(0.1).lr",
        "minimize": MODEL + "v = tf.Variable(1.0)\n"
        + "tf.keras.optimizers.SGD(0.1).minimize(lambda: v * 2, [v])",
        "a scaled loss": MODEL + "o = tf.keras.optimizers.SGD(0.1)\n"
        + "tf.keras.mixed_precision.LossScaleOptimizer(o).get_scaled_loss(tf.constant(1.0))",
        "a rate by its old name": MODEL + "tf.keras.optimizers.Adam(lr=0.1)",
        "a period": MODEL + "tf.keras.callbacks.ModelCheckpoint('model.h5', period=5)",
        "an argument of a callback": MODEL
        + "tf.keras.callbacks.TensorBoard('board', write_grads=True)",
        "a private name of a callback": COMPILED
        + "t = tf.keras.callbacks.TensorBoard('board')\nt.set_model(model)\nt._train_step",
        "a mode of weights": MODEL + "model.compile('sgd', 'mse', sample_weight_mode='temporal')",
        "a shape of batches": MODEL + "tf.keras.layers.Dense(2, batch_input_shape=(2, 3))",
        "an argument of a layer": MODEL + "tf.keras.layers.LSTM(2, time_major=True)",
        "a weight of a layer": MODEL + "tf.keras.layers.Dense(1).add_weight('w', (1,))",
        "a variable of a layer": MODEL
        + "tf.keras.layers.Dense(1).add_variable(name='w', shape=(1,))",
        "a function of TensorFlow": MODEL + "x = tf.keras.Input((3,))\n"
        + "tf.keras.Model(x, tf.reduce_mean(x, axis=1))",
        "an input of a layer": MODEL + "model.layers[0](tf.keras.Input((2,)))\n"
        + "model.layers[0].get_input_at(0)",
        "a folder": MODEL + "model.save('folder')",
        "weights": MODEL + "model.save_weights('weights')",
        "weights in h5": MODEL + "model.save_weights('weights.h5')",
        "a checkpoint": MODEL + "tf.keras.callbacks.ModelCheckpoint('checkpoint.{epoch}')",
        "a checkpoint of weights": MODEL
        + "tf.keras.callbacks.ModelCheckpoint('c.h5', save_weights_only=True)",
        "a format": MODEL + "model.save('model', save_format='tf')",
        "a SavedModel": COMPILED
        + "(model.export if hasattr(tf.keras, 'ops') else model.save)('saved')\n"
        + "tf.keras.models.load_model('saved')",
        "a shape of a tensor": MODEL + "tf.keras.Input((3,)).get_shape()",
        "a shape as a list": MODEL + "tf.keras.Input((3,)).shape.as_list()",
        "a shape of a layer": MODEL + "model.layers[0].output_shape",
        "updates of a layer": MODEL + "model.layers[0].updates",
        "a metric of a layer": MODEL + "x = tf.keras.Input((3,))\n"
        + "y = tf.keras.layers.Dense(1)(x)\ntf.keras.Model(x, y).add_metric(y, name='y')",
        "an optimizer of tf_keras": "import tf_keras\n" + MODEL
        + "model.compile(tf_keras.optimizers.SGD(), 'mse')",
        "a layer of tf_keras": "import tf_keras\n" + MODEL
        + "tf.keras.Sequential([tf_keras.layers.Dense(1)])",
        "a tensor in a layer of tf_keras": "import tf_keras\n" + MODEL
        + "tf_keras.layers.Dense(1)(tf.keras.Input((3,)))",
        "a file of Keras 2": "import tf_keras as k\n" + MODEL
        + "m = k.Sequential([k.layers.Input((4,)), k.layers.Dense(2)])\n"
        + "m.compile('adam', 'mse')\nm.save('m.h5')\ntf.keras.models.load_model('m.h5')",
        "a layer in a file of Keras 2": "import tf_keras as k\n" + MODEL
        + "m = k.Sequential([k.layers.Input((8, 8, 3)), k.layers.DepthwiseConv2D(3)])\n"
        + "m.save('d.h5')\ntf.keras.models.load_model('d.h5')",
        "a rate by the backend": MODEL
        + "tf.keras.backend.set_value(tf.keras.optimizers.Adam().learning_rate, 0.1)",
        "a mean by the backend": MODEL + "tf.keras.backend.mean(tf.keras.Input((3,)))",
        "batches of a callback": MODEL + "tf.keras.callbacks.TensorBoard('b', batch_size=3)",
        "a layer of one library": MODEL + "tf.compat.v1.keras.layers.CuDNNLSTM(2)",
        "a normalization": MODEL + "tf.keras.layers.BatchNormalization(fused=True)",
        "a value of a variable": MODEL + "model.weights[0].read_value()",
        "a watched variable": MODEL + "with tf.GradientTape() as tape:\n"
        + "    tape.watch(model.trainable_variables)",
        "a reduction": MODEL + "tf.keras.losses.MeanSquaredError(reduction='auto')",
        "a loss": MODEL + "tf.keras.losses.mean_squared_error",
        "a weight of a metric": MODEL
        + "tf.keras.metrics.Mean().add_weight('t', initializer='zeros')",
        "a variable by its place": MODEL + "tf.keras.layers.Dense(1).add_variable('w', (1,))",
        "layers of TensorFlow 1": MODEL + "tf.compat.v1.layers.dense",
        "gradients that are summed": MODEL + "tf.keras.optimizers.SGD().apply_gradients(\n"
        + "    [(tf.ones((2, 1)), model.weights[0])], experimental_aggregate_gradients=False)",
        "a layer": "import keras\nkeras.layers.LocallyConnected1D",
        "a layer of tf.keras": MODEL + "tf.keras.layers.LocallyConnected1D",
        "a name": "from tensorflow.keras.layers import DenseFeatures",
        "a name of keras": "from keras.layers import DenseFeatures",
        "a module": "import keras.preprocessing.text",
        "a name of a module": "from keras.preprocessing.image import ImageDataGenerator",
        "a module of tf.keras": "import tensorflow.keras.layers.experimental",
        "the backend": "from keras import backend as K\nK.mean(K.constant([1.0]))",
    },
    3: {
        "operations": "import keras\nkeras.ops.ones(1)",
        "operations of tf.keras": MODEL + "tf.keras.ops.ones(1)",
        "a name": "from keras import ops",
        "a name of tf.keras": "from tensorflow.keras import ops",
        "a module": "import keras.random",
        "a variable": "import keras\nkeras.Variable(1.0)",
        "a value": MODEL + "v = model.trainable_variables[0]\nv.value.assign(tf.ones((2, 1)))",
        "a call without a state": MODEL + "model.stateless_call",
        "a layer": "from keras.layers import RandAugment",
        "a loss": MODEL + "tf.keras.losses.Dice()",
    },
}  # fmt: skip
# What only several processes cause, and our own patches: tests/keras_patches.
OF_SEVERAL = {
    r"Attempt to convert a value \(PerReplica:",
    r"run the script with (?:--keras|Keras) 2",
}
# Runs the scripts of its folder; prints the last lines of each as JSON.
RUNNER = """
import json, os, pathlib, sys, traceback
from types import SimpleNamespace
from bootstrap.host.rank import groups, keras_2
group = groups.Group(SimpleNamespace(size=2, independent=False, launcher="tensorflow"))
group.watch(steps=True)
group.joined = True  # until the last script
if os.environ.get("TF_USE_LEGACY_KERAS"):
    keras_2.install()
lines = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    try:
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": "__main__"})
        lines[path.stem] = []
    except Exception:
        lines[path.stem] = traceback.format_exc().splitlines()[-20:]
group.joined = False
try:
    exec(sys.argv[2])
except SystemExit as end:
    lines["alone"] = str(end).splitlines()
print("RESULT", json.dumps(lines))
"""


@pytest.fixture(scope="module")
def ends(
    runtime_python: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[int, dict[str, list[str]]]]:
    """The last lines of each script with each Keras; empty if it worked."""
    processes = {}
    for keras in (2, 3):
        folder = tmp_path_factory.mktemp(f"keras-{keras}")
        for written_for, scripts in SCRIPTS.items():
            for name, text in scripts.items():
                (folder / f"{written_for} {name}.py").write_text(text + "\n")
        legacy = {"TF_USE_LEGACY_KERAS": "1"} if keras == 2 else {}
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        processes[keras] = subprocess.Popen(
            [runtime_python, "-c", RUNNER, str(folder), COMPILED + "model.fit(x, y, verbose=0)"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **quiet, **legacy},
            stdout=subprocess.PIPE,
            text=True,
        )
    texts = {keras: process.communicate(timeout=300)[0] for keras, process in processes.items()}
    yield {k: json.loads(text.partition("RESULT ")[2]) for k, text in texts.items()}


CASES = [(keras, name) for keras, scripts in SCRIPTS.items() for name in scripts]


@pytest.mark.parametrize("keras, name", CASES)
def test_a_script_for_one_keras_fails_with_the_other_by_a_known_error(
    ends: dict[int, dict[str, list[str]]], keras: int, name: str
) -> None:
    right, wrong = ends[keras][f"{keras} {name}"], ends[5 - keras][f"{keras} {name}"]
    assert right == []
    assert wrong and needs_other(5 - keras, wrong), "\n".join(wrong)


def test_each_known_error_has_a_script(ends: dict[int, dict[str, list[str]]]) -> None:
    for keras, patterns in ERRORS.items():
        texts = ["\n".join(lines) for lines in ends[keras].values()]
        unseen = {p for p in patterns if not any(re.search(p, text) for text in texts)}
        assert unseen <= OF_SEVERAL


@pytest.mark.parametrize("keras", [2, 3])
def test_a_script_that_trains_alone_on_one_of_two_ranks_ends_at_its_first_step(
    ends: dict[int, dict[str, list[str]]], keras: int
) -> None:
    assert "the 2 ranks of this script never joined each other" in ends[keras]["alone"][0]


def api(package: Path, without: tuple[str, ...]) -> set[str]:
    """The public names of a package, by its __init__ files; nothing is imported."""
    public = set()
    for file in package.rglob("__init__.py"):
        parts = file.parent.relative_to(package).parts
        if parts[:1] and parts[0] in without:
            continue
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                public |= {".".join([*parts, alias.asname or alias.name]) for alias in node.names}
        public.add(".".join(parts))
    return public


def test_the_names_of_one_keras_are_those_of_its_package(runtime_python: str) -> None:
    packages = next((Path(runtime_python).parents[1] / "lib").glob("python*/site-packages"))
    keras_2 = api(packages / "tf_keras", ("src", "api", "protobuf"))
    of_tensorflow = api(packages / "keras/_tf_keras/keras", ("src",))
    keras_3 = api(packages / "keras", ("src", "_tf_keras", "api"))
    only_2, only_3 = {*names.paths(names.ONLY_2)}, {*names.paths(names.ONLY_3)}
    standalone = {*names.paths(names.NOT_IN_KERAS_3)}
    stubs = {"optimizers.legacy"}  # its classes raise an error
    assert only_2 <= keras_2 and not only_2 & (keras_3 | of_tensorflow) - stubs
    assert only_3 <= keras_3 | of_tensorflow and not only_3 & keras_2
    assert standalone <= keras_2 & of_tensorflow and not standalone & keras_3
