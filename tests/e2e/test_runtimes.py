"""The runtime without Horovod on two local hosts: the built-in training, a script with Keras 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from draws import drawn
from e2e import kept_environments
from e2e.local_hosts import Operator, cluster

KERAS_2 = """
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


# Each run of the tests takes one: arguments, and what is printed.
PROGRAMS = {
    ("--preset", "smoke"): "Keras 3",
    ("--script", "code/fit.py"): "with 2.21.0 2.21.0 2",
}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_newest_tensorflow_trains_without_horovod(tmp_path: Path, shared_caches: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    for path in (home, folder):
        path.mkdir()
    operator = Operator(home, folder, shared_caches)
    operator.write("code/fit.py", KERAS_2)
    newest = ("--runtime", "tf2.21", "--launcher", "tensorflow")
    program, printed = drawn([*PROGRAMS.items()])
    with cluster(home, "newest", shared_caches):
        with kept_environments.alone(shared_caches) as kept:
            kept_environments.give_to_hosts(kept, home, "tensorflow")
        done = operator.fab("train", *program, *newest, seconds=800).ended(0, "succeeded", printed)
        done.ended(0, "runtime tf2.21-cpu on Python", "; --runtime tf2.21")
        assert "] horovod:" not in done.out
        run = json.loads((operator.last / "run.json").read_text())
        assert (run["runtime"]["name"], run["strategy"]) == ("tf2.21-cpu", "multiworker")
        operator.fab("plan", *newest[:2]).ended(0, "[h1] nothing to do")
        with kept_environments.alone(shared_caches) as kept:
            kept_environments.keep(kept, home)
