"""How fast `training/serving` is, against itself without batches, a bare handler and Keras.

    PYTHONPATH=.:PACKAGES PYTHON -m benchmarks.serving [--seconds 10] [--clients 32]

PYTHON is a runtime's, PACKAGES a folder with those of locks/serving.txt. The model is a dense
network whose single call must take 10 ms at least. Exit code 1: batches give less than 3 times the
throughput, or a request was refused while the version changed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

from benchmarks.serving.load import Outcome, body_of, load, wait_for  # noqa: E402

LAYERS, WIDTH, INPUTS = 5, 4096, 64
PATH = "/v1/models/m:predict"
LEAST_GAIN, LEAST_CALL = 3.0, 0.010


def make_model(folder: Path, seed: int) -> None:
    """A SavedModel of dense layers, about 270 MB."""
    import keras

    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(LAYERS)]
    model = keras.Sequential([keras.Input((INPUTS,), name="x"), *layers, keras.layers.Dense(10)])
    model.export(str(folder), verbose=False)


def seconds_of_a_call(folder: Path, rows: int) -> float:
    """The median time of one call with so many samples."""
    import numpy as np

    from training.serving.model import load as load_model

    predict = load_model(folder).functions["serving_default"]
    values = {"x": np.zeros((rows, INPUTS), dtype=np.float32)}
    times = []
    for _ in range(12):
        began = time.perf_counter()
        predict(values)
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]


def keras_throughput(folder: Path, seconds: float) -> float:
    """Samples per second of Keras' `predict` in a loop, one sample at a time, without HTTP."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(LAYERS)]
    model = keras.Sequential([keras.Input((INPUTS,)), *layers, keras.layers.Dense(10)])
    row = np.zeros((1, INPUTS), dtype=np.float32)
    model.predict(row, verbose=0)
    count, began = 0, time.monotonic()
    while time.monotonic() < began + seconds:
        model.predict(row, verbose=0)
        count += 1
    return count / (time.monotonic() - began)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def server(module: str, *args: str, port: int) -> Iterator[None]:
    """A server in a separate process, ready to answer."""
    process = subprocess.Popen([sys.executable, "-m", module, *args])
    try:
        wait_for(port, PATH, body_of([0.0] * INPUTS))
        yield
    finally:
        process.terminate()
        process.wait()


def measure(folder: Path, max_batch: int, options: argparse.Namespace) -> Outcome:
    """Our server under load."""
    port = free_port()
    args = ["--model", str(folder), "--name", "m", "--port", str(port)]
    with server("training.serving", *args, "--max-batch", str(max_batch), port=port):
        return under_load(port, options)


def measure_bare(folder: Path, options: argparse.Namespace) -> Outcome:
    """The bare handler under load."""
    port = free_port()
    with server("benchmarks.serving.bare", str(folder / "1"), str(port), port=port):
        return under_load(port, options)


def under_load(port: int, options: argparse.Namespace) -> Outcome:
    body = body_of([0.1] * INPUTS)
    return load(port, PATH, body, clients=options.clients, seconds=options.seconds)


def version_change(folder: Path, options: argparse.Namespace) -> Outcome:
    """Our server under load while a new version takes over."""
    port, outcomes = free_port(), []
    args = ["--model", str(folder), "--name", "m", "--port", str(port)]
    with server("training.serving", *args, port=port):
        clients = threading.Thread(target=lambda: outcomes.append(under_load(port, options)))
        clients.start()
        shutil.copytree(folder / "1", folder / ".2")
        (folder / ".2").rename(folder / "2")
        clients.join()
        wait_for(port, "/v1/models/m/versions/2:predict", body_of([0.0] * INPUTS))
    shutil.rmtree(folder / "2")
    return outcomes[0]


def show(name: str, outcome: Outcome) -> None:
    """One line of the result."""
    p50, p99 = (outcome.percentile(share) * 1000 for share in (0.5, 0.99))
    print(
        f"{name:<24} {outcome.throughput:8.1f} requests/s   p50 {p50:7.1f} ms   p99 {p99:7.1f} ms"
        f"   {len(outcome.refused)} refused",
        flush=True,
    )


def main() -> int:
    """Measure and print; returns 0 if the limits are kept."""
    parser = argparse.ArgumentParser(prog="benchmarks.serving")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=32)
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} at the start; {options.clients} clients", flush=True)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        make_model(folder / "1", seed=1)
        single = seconds_of_a_call(folder / "1", 1)
        print(f"a call: {single * 1000:.1f} ms with 1 sample, "
              f"{seconds_of_a_call(folder / '1', 32) * 1000:.1f} ms with 32")  # fmt: skip
        print(f"Keras predict in a loop  {keras_throughput(folder, 5):8.1f} samples/s", flush=True)
        bare = measure_bare(folder, options)
        show("bare handler", bare)
        alone = measure(folder, 1, options)
        show("ours without batches", alone)
        batched = measure(folder, 32, options)
        show("ours", batched)
        changed = version_change(folder, argparse.Namespace(clients=8, seconds=options.seconds * 2))
        show("ours, new version", changed)
    gain = batched.throughput / alone.throughput
    kept = gain >= LEAST_GAIN and single >= LEAST_CALL
    kept = kept and not (batched.refused or changed.refused)
    print(f"batches: {gain:.1f} times the throughput; {'kept' if kept else 'LIMIT NOT KEPT'}")
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
