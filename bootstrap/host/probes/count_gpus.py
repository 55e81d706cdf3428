"""Counts the GPUs that a framework sees on one machine: one line of JSON, as health_host.py has it.

PYTHON count_gpus.py jax|torch
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

COUNT: dict[str, Callable[[Any], int]] = {
    "jax": lambda jax: sum(device.platform == "gpu" for device in jax.local_devices()),
    "torch": lambda torch: int(torch.cuda.device_count()),
}


def main(name: str) -> None:
    """Print the number of GPUs; the import fails if the framework does not work."""
    framework: Any = importlib.import_module(name)
    print(json.dumps({"gpus": COUNT[name](framework), "devices": []}))


if __name__ == "__main__":
    main(sys.argv[1])
