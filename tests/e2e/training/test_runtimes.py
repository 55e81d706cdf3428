"""The newest TensorFlow on two local hosts: the built-in training, a script with Keras 2 or 3,
and one with Horovod; and its Horovod wheel, as `fab wheel` hands it out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from draws import drawn
from e2e import kept_environments
from e2e.local_hosts import Operator, cluster
from e2e.scripts import COORDINATOR

FIT = """
import keras
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(4,))])
    model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensors((tf.ones([8, 4]), tf.ones([8, 1]))).repeat()
model.fit(data, steps_per_epoch=2, verbose=0)
print("with", tf.__version__, keras.__version__, strategy.num_replicas_in_sync)
"""
HOROVOD = """
import horovod.tensorflow.keras as hvd
import keras
import tensorflow as tf

hvd.init()
if keras.__version__.startswith("2"):
    SGD = tf.keras.optimizers.legacy.SGD
else:
    SGD = tf.keras.optimizers.SGD
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
model.compile(hvd.DistributedOptimizer(SGD(0.1 * hvd.size())), "mse")
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
inputs, labels = tf.ones([8, 4]) * (hvd.rank() + 1.0), tf.ones([8, 1])
model.fit(inputs, labels, epochs=2, verbose=0, callbacks=callbacks)
first, second = hvd.allgather(tf.reshape(model.weights[0], [1, -1]))
equal = bool(tf.reduce_all(first == second))
print("with", tf.__version__, keras.__version__, hvd.size(), equal)
"""


# Each run of the tests takes one: arguments, the strategy of the run, and what is printed.
PROGRAMS = (
    (("--preset", "smoke"), "horovod", "Keras 3"),
    (("--preset", "smoke", "--strategy", "multiworker"), "multiworker", "Keras 3"),
    (("--preset", "smoke", "--strategy", "parameter-server"), "parameter-server", "Keras 3"),
    (("--script", "code/horovod_fit.py", "--keras", "2"), None, "with 2.21.0 2.21.0 2 True"),
    (("--script", "code/horovod_fit.py", "--keras", "3"), None, "2 True"),
    (
        ("--script", "code/loop.py", "--keras", "3", "--strategy", "parameter-server"),
        "parameter-server",
        "on 2 workers",
    ),
    (
        ("--script", "code/fit.py", "--keras", "2", "--launcher", "tensorflow"),
        "multiworker",
        "with 2.21.0 2.21.0 2",
    ),
    (
        ("--script", "code/fit.py", "--keras", "3", "--launcher", "tensorflow"),
        "multiworker",
        "with 2.21.0 3.",
    ),
)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_newest_tensorflow_trains_with_each_launcher(
    tmp_path: Path, shared_caches: Path
) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    for path in (home, folder):
        path.mkdir()
    operator = Operator(home, folder, shared_caches)
    operator.write("code/fit.py", FIT)
    operator.write("code/horovod_fit.py", HOROVOD)
    operator.write("code/loop.py", COORDINATOR)
    newest = ("--runtime", kept_environments.NEWEST)
    program, strategy, printed = drawn(PROGRAMS)
    with cluster(home, "newest", shared_caches):
        with kept_environments.alone(shared_caches) as kept:
            kept_environments.give_to_hosts(kept, home, kept_environments.NEWEST)
        train = operator.fab("train", *program, *newest, seconds=1500)
        train.ended(0, "succeeded", printed)
        train.ended(0, "runtime tf2.21-cpu on Python", "; --runtime tf2.21")
        run = json.loads((operator.last / "run.json").read_text())
        assert run["runtime"]["name"] == "tf2.21-cpu" and strategy in (None, run["strategy"])
        operator.fab("plan", *newest).ended(0, "[h1, h2] nothing to do")
        with kept_environments.alone(shared_caches) as kept:
            kept_environments.keep(kept, home)
    operator.fab("wheel", *newest, "--out", "wheels", seconds=600).ended(
        0, "TensorFlow 2.21.0", "built with mpi; 2 ranks summed over MPI"
    )
    (wheel,) = (folder / "wheels").glob("horovod-*.whl")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert wheel.with_name(f"{wheel.name}.sha256").read_text() == f"{digest}  {wheel.name}\n"
