"""`fab health` on one host: which GPUs TensorFlow sees, and how fast each device multiplies.

Runs in the host's runtime; prints one JSON line. With the argument `count` it only counts GPUs.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import tensorflow as tf

WIDTH = {"CPU": 1024, "GPU": 8192}  # rows and columns: 2 and 1,100 GFLOP
ROUNDS, SECONDS = 10, 0.5  # minimum for each device


def main() -> None:
    """Count the GPUs and, without `count`, measure each device."""
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    names = [f"GPU:{index}" for index in range(len(gpus))] or ["CPU"]
    devices = [] if sys.argv[1:] == ["count"] else [multiply(name) for name in names]
    print(json.dumps({"gpus": len(gpus), "devices": devices}), flush=True)


def multiply(name: str) -> dict[str, Any]:
    """The best time of a matrix product on a device, and whether the result is correct."""
    width = WIDTH[name[:3]]
    with tf.device(f"/{name}"):
        ones = tf.ones((width, width))
        product = tf.matmul(ones, ones)
        best = timed(lambda: tf.matmul(ones, ones))
        right = bool(tf.reduce_all(product == float(width)).numpy())
    return {"name": name, "width": width, "seconds": best, "right": right}


def timed(work: Any) -> float:
    """The shortest time of all rounds, in seconds; reading one number waits for the device."""
    work()[0, 0].numpy()
    times: list[float] = []
    while len(times) < ROUNDS or sum(times) < SECONDS:
        start = time.perf_counter()
        work()[0, 0].numpy()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
