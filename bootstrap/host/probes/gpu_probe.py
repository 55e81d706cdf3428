"""Tests one machine's GPUs with one rank per GPU; `make gpu-check` runs this program.

mpirun -np N PYTHON gpu_probe.py gpu|cpu   -> one line `@check {...}` for each check, from rank 0

It ends after the first failed check: the other ranks would wait for the failed one.

With `cpu` it does the same without GPUs, for the tests of this program.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import horovod.tensorflow as hvd
import tensorflow as tf

MEGABYTES = {"gpu": 256, "cpu": 4}  # size of the tensor that is summed
SIDE = {"gpu": 8192, "cpu": 256}  # rows and columns of the matrices
TIMES = 10


def main(kind: str) -> int:
    """Run all checks on every rank until one fails; returns 0 if none did."""
    hvd.init()
    seen = tf.config.list_physical_devices("GPU")
    if kind == "gpu":
        mine = seen[hvd.local_rank() : hvd.local_rank() + 1]
        tf.config.set_visible_devices(mine, "GPU")
        for gpu in mine:  # leave memory for NCCL
            tf.config.experimental.set_memory_growth(gpu, True)
    checks: dict[str, Callable[[str], str]] = {
        "TensorFlow": lambda kind: sees(kind, len(seen)),
        "matmul": multiply,
        "all-reduce": reduce,
        "fused tensors": fuse,
        "scaled tensors": scale,
        "training step": step,
    }
    with tf.device(f"/{kind.upper()}:0"):
        for name, check in checks.items():
            if not attempt(name, check, kind):
                return 1
    hvd.shutdown()
    return 0


def attempt(name: str, check: Callable[[str], str], kind: str) -> bool:
    """Run one check. Rank 0 prints its outcome; any other rank prints a failure."""
    try:
        passed, figure = True, check(kind)
    except Exception as error:  # drivers raise errors of many types
        passed, figure = False, f"{type(error).__name__}: {error}"[:500]
    if hvd.rank() == 0 or not passed:
        outcome = {"name": name, "passed": passed, "figure": figure}
        print("@check " + json.dumps(outcome), flush=True)
    return passed


def sees(kind: str, count: int) -> str:
    """Check that TensorFlow sees as many GPUs as there are ranks."""
    must(kind == "cpu" or count == hvd.local_size(), f"{count} GPUs for {hvd.local_size()} ranks")
    build = tf.sysconfig.get_build_info()
    cuda, cudnn = build.get("cuda_version", "none"), build.get("cudnn_version", "none")
    return f"{count} GPUs; TensorFlow {tf.__version__}, CUDA {cuda}, cuDNN {cudnn}"


def multiply(kind: str) -> str:
    """Multiply matrices with a known product, in TensorFlow's default precision."""
    side = SIDE[kind]
    ones = tf.ones([side, side])
    must(on(ones, kind), f"the matrix lies on {ones.device}")
    seconds, product = timed(lambda: tf.matmul(ones, ones))
    must(close(product, float(side)), "the product is wrong")
    return f"{2 * side**3 / seconds / 1e12:.2f} TFLOP/s in float32 of {side} x {side}"


def reduce(kind: str) -> str:
    """All-reduce one large tensor over all ranks; returns GB/s (size over time)."""
    size = MEGABYTES[kind] * 1_000_000
    mine = tf.fill([size // 4], float(hvd.rank() + 1))
    seconds, total = timed(lambda: hvd.allreduce(mine, op=hvd.Sum, name="large"))
    must(on(total, kind), f"the sum lies on {total.device}")
    must(close(total, whole()), f"the sum is {float(total[0])}, not {whole()}")
    return f"{size / seconds / 1e9:.2f} GB/s, {size // 1_000_000} MB over {hvd.size()} ranks"


def fuse(kind: str) -> str:
    """Reduce many tensors of odd sizes in one operation, which uses one fusion buffer."""
    mine = [tf.fill([n], float(hvd.rank() + 1)) for n in range(1, 2000, 37)]
    totals = hvd.grouped_allreduce(mine, op=hvd.Sum)
    must(all(close(total, whole()) for total in totals), "a sum is wrong")
    return f"{len(mine)} tensors in one operation"


def scale(kind: str) -> str:
    """Scale tensors before and after the sum, alone and fused."""
    factors = {"prescale_factor": 0.5, "postscale_factor": 4.0, "op": hvd.Sum}
    kinds = (tf.float32, tf.float64, tf.float16)
    mine = [tf.cast(tf.fill([1001], float(hvd.rank() + 1)), kind) for kind in kinds]
    alone = [hvd.allreduce(x, name=f"scaled.{x.dtype.name}", **factors) for x in mine]
    fused = hvd.grouped_allreduce(mine[:1] * 3, **factors)
    must(all(close(x, 2 * whole()) for x in [*alone, *fused]), "a scaled sum is wrong")
    return "float32, float64, float16, and three fused"


def step(kind: str) -> str:
    """Train a small Keras model for three steps, each rank on its own data; weights must match."""
    import keras

    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.layers.Input([28, 28, 1]), keras.layers.Conv2D(8, 3)])
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(10))
    optimizer = keras.optimizers.SGD(0.01)
    variables = [variable.value for variable in model.trainable_variables]
    hvd.broadcast_variables(variables, root_rank=0)
    for _ in range(3):
        loss = one_step(model, optimizer, variables)
    sums = hvd.allgather(tf.stack([tf.reduce_sum(tf.abs(v)) for v in variables])[None])
    must(bool(tf.math.is_finite(loss)), f"the loss is {float(loss)}")
    must(close(sums - sums[:1], 0.0), "the ranks' weights differ")
    return f"loss {float(loss):.3f} after 3 steps, the same weights on {hvd.size()} ranks"


def one_step(model: Any, optimizer: Any, variables: list[Any]) -> Any:
    """Train one step on a batch of random images; returns the loss."""
    images = tf.random.stateless_normal([32, 28, 28, 1], seed=[hvd.rank(), 1])
    labels = tf.range(32) % 10
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        logits = model(images)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """The average seconds of a call after one warm-up call; and the last result."""
    float(tf.reshape(work(), [-1])[0])  # reading a number waits for the device
    started = time.monotonic()
    for _ in range(TIMES):
        result = work()
    float(tf.reshape(result, [-1])[0])
    return (time.monotonic() - started) / TIMES, result


def whole() -> float:
    """The expected sum: 1 + 2 + ... + the number of ranks."""
    return float(hvd.size() * (hvd.size() + 1) / 2)


def close(tensor: Any, value: float) -> bool:
    """Whether every number equals `value`, within 0.1 %."""
    wide = tf.cast(tensor, tf.float64)
    return bool(tf.reduce_all(tf.abs(wide - value) <= 1e-3 * max(1.0, abs(value))))


def on(tensor: Any, kind: str) -> bool:
    """Whether a tensor is on a device of this kind."""
    return f"device:{kind.upper()}:" in tensor.device


def must(passed: bool, reason: str) -> None:
    """RuntimeError with the reason if a check did not pass."""
    if not passed:
        raise RuntimeError(reason)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
