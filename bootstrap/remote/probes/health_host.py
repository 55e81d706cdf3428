"""Asked of one host by `fab health`: what its TensorFlow sees, and how fast each device multiplies.

Runs in the runtime of the host; prints one JSON line. With the word `count` nothing is multiplied.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import tensorflow as tf

WIDTH = {"CPU": 1024, "GPU": 8192}  # rows and columns: 2 and 1100 thousand million operations
ROUNDS, SECONDS = 10, 0.5  # for each device, at least


def main() -> None:
    """Look, and multiply unless told not to."""
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    names = [f"GPU:{index}" for index in range(len(gpus))] or ["CPU"]
    devices = [] if sys.argv[1:] == ["count"] else [multiply(name) for name in names]
    print(json.dumps({"gpus": len(gpus), "devices": devices}), flush=True)


def multiply(name: str) -> dict[str, Any]:
    """The best time of some products on a device, and whether the last one was right."""
    width = WIDTH[name[:3]]
    with tf.device(f"/{name}"):
        ones = tf.ones((width, width))
        product = tf.matmul(ones, ones)
        best = timed(lambda: tf.matmul(ones, ones))
        right = bool(tf.reduce_all(product == float(width)).numpy())
    return {"name": name, "width": width, "seconds": best, "right": right}


def timed(work: Any) -> float:
    """The shortest time of as many rounds as fit; reading one number waits for the device."""
    work()[0, 0].numpy()
    took: list[float] = []
    while len(took) < ROUNDS or sum(took) < SECONDS:
        start = time.perf_counter()
        work()[0, 0].numpy()
        took.append(time.perf_counter() - start)
    return min(took)


if __name__ == "__main__":
    main()
