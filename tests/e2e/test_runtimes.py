"""The runtime without Horovod on two local hosts: our training, and a script with Keras 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_newest_tensorflow_trains_without_horovod(tmp_path: Path, shared_caches: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    for path in (home, folder):
        path.mkdir()
    operator = Operator(home, folder, shared_caches)
    newest = ("--runtime", "tf2.21", "--launcher", "tensorflow")
    with cluster(home, "newest", shared_caches):
        hosts = ("--preset", "smoke", *newest)
        done = operator.fab("train", *hosts, seconds=600).ended(0, "succeeded")
        done.ended(0, "runtime tf2.21-cpu on Python", "; --runtime tf2.21", "Keras 3")
        assert "] horovod:" not in done.out
        run = json.loads((operator.last / "run.json").read_text())
        assert (run["runtime"]["name"], run["strategy"]) == ("tf2.21-cpu", "multiworker")
        operator.write("fit.py", KERAS_2)
        again = operator.fab("train", "--script", "fit.py", *newest)
        again.ended(0, "[h1] nothing to do", "with 2.21.0 2.21.0 2")
