"""`fab train --strategy ...`: parameter servers and `auto`, over local SSH hosts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from e2e import local_hosts
from e2e.local_hosts import Operator

pytestmark = pytest.mark.slow

# The custom loop of TensorFlow's tutorial on parameter servers, with less data.
COORDINATOR = """
import os
import tensorflow as tf

os.environ["GRPC_FAIL_FAST"] = "use_caller"
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        start=True,
    )
    print("serving as", resolver.task_type, resolver.task_id, flush=True)
    server.join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    optimizer = tf.keras.optimizers.SGD(0.1)


def dataset_fn(context):
    x = tf.random.stateless_normal([512, 2], [1, 2])
    y = tf.reduce_sum(x, axis=1, keepdims=True)
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(512).repeat().batch(32)


@tf.function
def step_fn(iterator):
    def replica_fn(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return strategy.run(replica_fn, args=(next(iterator),))


@tf.function
def per_worker_dataset_fn():
    return strategy.distribute_datasets_from_function(dataset_fn)


coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
per_worker = iter(coordinator.create_per_worker_dataset(per_worker_dataset_fn))
for _ in range(100):
    result = coordinator.schedule(step_fn, args=(per_worker,))
coordinator.join()
loss = result.fetch()
assert loss < 0.01, loss
model.save("trained.keras")
print("the loss is", float(loss), "on", len(resolver.cluster_spec().job_tasks("worker")), "workers")
"""


def test_parameter_servers_train_the_digits(operator: Operator) -> None:
    args = ("--strategy", "parameter-server", "--set", "min_accuracy=0.95")
    done = operator.fab("train", *args, seconds=240).ended(0, "succeeded")
    plan = "parameter-server over 4 ranks on 2 hosts (h1: chief, worker; h2: ps, worker); Keras 3"
    assert plan in done.out
    run = json.loads((operator.last / "run.json").read_text())
    assert (run["schema"], run["launcher"], run["size"]) == (2, "tensorflow", 4)
    assert [len(run["tf_cluster"][role]) for role in ("chief", "ps", "worker")] == [1, 1, 2]
    evaluation = json.loads((operator.last / "evaluation.json").read_text())
    assert evaluation["accuracy"] >= 0.95 and evaluation["samples"] == 360
    swept = operator.result()["swept"]
    assert [swept[host]["ended"] for host in ("h1", "h2")] == [0, 0], "they ended by themselves"


def test_a_program_with_servers_that_wait_for_ever_ends_with_its_chief(operator: Operator) -> None:
    operator.write("train.py", COORDINATOR)
    args = ("--script", "train.py", "--strategy", "parameter-server", "--ps", "2")
    done = operator.fab("train", *args, seconds=180).ended(0, "succeeded", "5 ranks", "Keras 2")
    assert "(h1: chief, ps, worker; h2: ps, worker)" in done.out
    result = operator.result()
    assert (result["exit_code"], result["culprit"], result["trouble"]) == (0, None, None)
    logs = {path.stem: path.read_text() for path in (operator.last / "logs").glob("rank-*.log")}
    assert "on 2 workers" in logs["rank-0"]
    serving = sorted(re.findall(r"serving as (.*)", "\n".join(logs.values())))
    assert serving == ["ps 0", "ps 1", "worker 0", "worker 1"]
    assert (operator.last / "outputs/trained.keras").exists()


def test_a_server_that_dies_is_named(operator: Operator) -> None:
    operator.write("train.py", "import os, time\n" + DIES)
    args = ("--script", "train.py", "--strategy", "parameter-server", "--detach")
    operator.fab("train", *args).ended(0)
    operator.fab("attach").ended(1, "rank 2 on h2 exited with 7")
    culprit = operator.result()["culprit"]
    assert (culprit["rank"], culprit["host"], culprit["exit"]) == (2, "h2", 7)


DIES = """
if '"ps"' in os.environ["TF_CONFIG"].partition("task")[2]:
    os._exit(7)
time.sleep(600)
"""


def test_auto_takes_horovod_on_two_hosts(operator: Operator) -> None:
    done = operator.fab("train", "--strategy", "auto", "--preset", "smoke").ended(0, "succeeded")
    assert "strategy auto: horovod, because there is 2 hosts" in done.out
    assert json.loads((operator.last / "run.json").read_text())["strategy"] == "horovod"


def test_auto_takes_one_device_on_one_host(tmp_path: Path, shared_caches: Path) -> None:
    with local_hosts.cluster(tmp_path, "one", shared_caches, hosts=1):
        somebody = Operator(tmp_path, tmp_path, shared_caches)
        args = ("--strategy", "auto", "--preset", "smoke")
        done = somebody.fab("train", *args, seconds=600).ended(0, "succeeded in")
    assert "strategy auto: one-device, because there is one host with no GPU" in done.out
    assert somebody.result()["size"] == 1
