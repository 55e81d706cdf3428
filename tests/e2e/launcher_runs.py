"""Scripts of the launchers without TensorFlow, on two hosts and in one process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e import kept_environments
from e2e.local_hosts import Operator, cluster, json_lines, run_id

# Each rank trains on its half of each batch, and leaves its weights; rank 0 leaves a checkpoint.
# In a resumed run rank 1 dies before it joins the others: an error of theirs could be the first
# that is reported.
BEGIN = """
import json, os

checkpoints = os.environ.get("RAILHEAD_CHECKPOINT_DIR")
found = os.listdir(checkpoints) if checkpoints else []
print("found", [name for name in found if name[0] != "."], flush=True)
if os.environ.get("RAILHEAD_RESUME") == "required" and os.environ["RAILHEAD_RANK"] == "1":
    os.kill(os.getpid(), 9)
"""
END = """
print("loss:", history[-1])
folder = os.environ.get("RAILHEAD_RESULTS", ".")
with open(os.path.join(folder, f"weights-{rank}.json"), "w") as file:
    json.dump([size, history, sum(weights, [])], file)
if checkpoints and rank == 0:
    open(os.path.join(checkpoints, "step-24"), "w").close()
"""
JAX = f"""{BEGIN}
import jax, keras, numpy as np

if int(os.environ.get("RAILHEAD_SIZE", "1")) > 1:
    keras.distribution.initialize()
keras.utils.set_random_seed(1)
size, rank = jax.process_count(), jax.process_index()
devices = keras.distribution.list_devices()
keras.distribution.set_distribution(
    keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
)
random = np.random.RandomState(0)
x = random.rand(512, 20).astype("f4")
y = x[:, :4].argmax(1)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 8

    def __getitem__(self, number):
        start = number * 64 + rank * 64 // size
        return x[start : start + 64 // size], y[start : start + 64 // size]


model = keras.Sequential(
    [keras.Input((20,)), keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(4)]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.SGD(0.5, momentum=0.9), loss)
history = model.fit(Batches(), epochs=3, verbose=0, shuffle=False).history["loss"]
parts = [np.asarray(v.value.addressable_data(0)) for v in model.trainable_variables]
weights = [part.ravel().tolist() for part in parts]
{END}"""
TORCH = f"""{BEGIN}
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
torch.manual_seed(1)
x = torch.rand(512, 20, generator=torch.Generator().manual_seed(0))
y = x[:, :4].argmax(1)
model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 4))
if size > 1:
    torch.distributed.init_process_group("gloo")
    assert torch.distributed.get_rank() == rank
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)
for step in range(24):
    start = step % 8 * 64 + rank * 64 // size
    rows = slice(start, start + 64 // size)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
loss = loss.detach()
if size > 1:
    torch.distributed.all_reduce(loss)
history = [loss.item() / size]
weights = [p.detach().flatten().tolist() for p in model.parameters()]
{END}
if rank > 0:
    import time

    time.sleep(3)  # rank 0 has ended, and keeps the store of all groups
    torch.distributed.distributed_c10d._get_default_store().set("late", "")
    torch.distributed.destroy_process_group()
"""

# `fit` of Keras on the backend of the launcher, in one process.
KERAS = f"""{BEGIN}
import keras, numpy as np

keras.utils.set_random_seed(1)
size, rank = 1, 0
x = np.random.RandomState(0).rand(256, 20).astype("f4")
model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(4)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.SGD(0.5, momentum=0.9), loss)
history = model.fit(x, x[:, :4].argmax(1), epochs=3, verbose=0, shuffle=False).history["loss"]
weights = [np.ravel(weight).tolist() for weight in model.get_weights()]
print("on", keras.backend.backend(), flush=True)
{END}"""


@contextlib.contextmanager
def operator_of(folder: Path, caches: Path, row: str, hosts: int = 2) -> Iterator[Operator]:
    """Somebody with local hosts, which get a kept environment of this row of the runtimes."""
    home, work = folder / "home", folder / "work"
    for path in (home, work):
        path.mkdir()
    operator = Operator(home, work, caches)
    with cluster(home, "ready", caches, hosts):
        with kept_environments.alone(caches) as kept:
            kept_environments.give_to_hosts(kept, home, row)
        yield operator
        with kept_environments.alone(caches) as kept:
            kept_environments.keep(kept, home)


def check_launcher(folder: Path, caches: Path, row: str, launcher: str, source: str) -> None:
    """Two ranks train what one process does, over the user's own ssh, with a curve of their output;
    a resumed run has the checkpoint on every host, and names the rank that dies."""
    with operator_of(folder, caches, row) as operator:
        script = operator.write("code/train.py", source)
        train = ("train", "--launcher", launcher, "--script", "code/train.py")
        metric = ("--metric", "loss=loss: ([0-9.]+)")
        done = operator.fab(*train, *metric, "--ssh", seconds=1500)
        done.ended(0, f"{launcher} over 2 ranks on 2 hosts", "succeeded")
        assert all(f"{host}: by your ssh: --ssh" in done.out for host in ("h1", "h2"))
        one = alone(operator, row, script, launcher)
        two = values_in(operator.last / "weights-0.json", 2)
        assert two == pytest.approx(one, abs=1e-5)
        _, history, _ = json.loads((operator.last / "weights-0.json").read_text())
        records = json_lines(operator.last / "metrics.jsonl")
        losses = [record["value"] for record in records if record["kind"] == "metric"]
        assert losses == pytest.approx(history[-1:], abs=1e-5)
        resumed = operator.fab("train", "--resume", run_id(done.out))
        resumed.ended(1, "rank 1 on h2")
        culprit = operator.result()["culprit"]
        assert (culprit["rank"], culprit["host"], culprit["signal"]) == (1, "h2", 9)
        for rank in (0, 1):
            log = (operator.last / f"logs/rank-{rank}.log").read_text()
            assert "found ['step-24']" in log
        operator.fab("train", "--launcher", launcher).ended(2, "is for --script")


def check_keras(folder: Path, caches: Path, row: str, launcher: str) -> None:
    """On one host, `fit` of Keras trains on the backend of the launcher, as without it."""
    with operator_of(folder, caches, row, hosts=1) as operator:
        script = operator.write("code/train.py", KERAS)
        train = ("train", "--launcher", launcher, "--script", "code/train.py")
        operator.fab(*train, seconds=1500).ended(0, "succeeded")
        assert f"on {launcher}\n" in (operator.last / "logs/rank-0.log").read_text()
        one = alone(operator, row, script, launcher)
        assert values_in(operator.last / "weights-0.json", 1) == pytest.approx(one, abs=1e-5)
        assert one[2] < one[0], "it learns"


def alone(operator: Operator, row: str, script: Path, backend: str) -> list[float]:
    """The losses and weights of the same script in one process, with the runtime of the hosts."""
    python = kept_environments.python_of(operator.home, row)
    variables = {**os.environ, "KERAS_BACKEND": backend, "RAILHEAD_RESULTS": str(operator.folder)}
    subprocess.run([python, str(script)], env=variables, check=True, capture_output=True)
    return values_in(operator.folder / "weights-0.json", size=1)


def values_in(path: Path, size: int) -> list[float]:
    """The losses and weights that a script wrote, and that it was one of `size` processes."""
    processes, history, weights = json.loads(path.read_text())
    assert processes == size
    return [*history, *weights]
