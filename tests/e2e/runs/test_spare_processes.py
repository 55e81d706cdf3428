"""A run whose hosts keep a spare: what its second attempt computes, and that nothing is left."""

from __future__ import annotations

import numpy as np
import pytest
from draws import drawn
from e2e import faults
from e2e.local_hosts import Operator, marked, run_id, wait_for_spares, wait_until

# The second attempt begins again. Each writes what it has learned, and the first one's rank 1 dies.
BEGIN = """
import os, signal, sys, time
forked = "tensorflow" in sys.modules
import keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(1)
x = np.random.RandomState(0).rand(512, 20).astype("f4")
y = x[:, :4].argmax(1)
def model_of_this_rank():
    dense = keras.layers.Dense
    layers = [keras.Input((20,)), dense(32, "relu"), keras.layers.Dropout(0.5), dense(4)]
    return keras.Sequential(layers), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
rank = int(os.environ["RAILHEAD_RANK"])
"""
HOROVOD = """
import horovod.tensorflow as hvd
hvd.init()
model, loss = model_of_this_rank()
for step in range(16):
    part = slice(step * 32 + rank * 16, step * 32 + rank * 16 + 16)
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        value = loss(y[part], model(x[part], training=True))
    grads = tape.gradient(value, model.trainable_variables)
    for variable, grad in zip(model.trainable_variables, grads):
        variable.assign_sub(0.1 * grad)
"""
MULTIWORKER = """
with tf.distribute.MultiWorkerMirroredStrategy().scope():
    model, loss = model_of_this_rank()
    model.compile("adam", loss)
model.fit(x, y, batch_size=32, epochs=2, verbose=0)
"""
END = """
if rank == 0:
    file = f"{os.environ['RAILHEAD_RESULTS']}/weights-{forked}.npy"
    np.save(file, np.concatenate([np.ravel(w) for w in model.get_weights()]))
while not os.path.exists(GO):
    time.sleep(0.05)
if rank == 1 and not forked:
    os.kill(os.getpid(), signal.SIGKILL)
print("forked", forked, flush=True)
"""
STAYS = """
import time, tensorflow, railhead_ticks
railhead_ticks.tick()
time.sleep(3600)
"""


def begun(operator: Operator, *words: str) -> str:
    """Start a run that may start again once; its id, when both hosts have a spare."""
    out = operator.fab("train", *words, "--retries", "1", "--detach").ended(0).out
    wait_for_spares(operator, run := run_id(out))
    return run


@pytest.mark.timeout(1200)
def test_forks_of_the_spare_train_as_fresh_ranks_do(operator: Operator) -> None:
    launcher, go = drawn(("horovod", "tensorflow")), operator.folder / "go"
    training = HOROVOD if launcher == "horovod" else MULTIWORKER
    operator.write("train.py", f"GO = {str(go)!r}\n{BEGIN}{training}{END}")
    run = begun(operator, "--script", "train.py", "--launcher", launcher)
    go.touch()
    operator.fab("attach", "--run", run, seconds=600).ended(0)
    (attempt,) = operator.result()["attempts"]
    assert attempt["cause"]["evidence"].startswith("killed by signal 9")
    assert (attempt["culprit"]["rank"], attempt["culprit"]["signal"]) == (1, 9)
    for rank in range(2):
        lines = (operator.run_folder(run) / f"logs/rank-{rank}.log").read_text().splitlines()
        assert [x for x in lines if x.startswith("forked")][-1] == "forked True"
    results = operator.run_folder(run) / "results"
    fresh, forked = (np.load(results / f"weights-{way}.npy") for way in (False, True))
    assert fresh.tobytes() == forked.tobytes() and np.ptp(fresh) > 0.1
    wait_until(lambda: not marked(operator.home), 60, "no process of the run is left")


def test_nothing_of_a_spare_is_left(operator: Operator) -> None:
    """After a cancel, and after the death of the supervisor."""
    package = operator.folder / "lib/tensorflow/__init__.py"
    package.parent.mkdir(parents=True)
    package.write_text("")
    operator.write("stays/train.py", STAYS)
    words = ["--script", "stays/train.py", "--launcher", "tensorflow", "--independent"]
    words += ["--env", f"PYTHONPATH={package.parents[1]}"]
    run = begun(operator, *words)
    assert len(faults.processes_of(operator, "rank.spare")) == 2
    operator.fab("cancel", "--run", run).ended(0, "[h2] no process of the run is left")
    assert marked(operator.home) == []
    begun(operator, *words)
    assert faults.happen(operator, "supervisor")
    wait_until(lambda: not marked(operator.home), 120, "no process of the run is left")
