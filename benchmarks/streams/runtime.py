"""A measurement in the Python of a runtime."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]


def probe(python: str, environ: dict[str, str], *arguments: str) -> Any:
    """What a measurement in the runtime prints last, as JSON."""
    command = [python, str(Path(__file__).with_name("probe.py")), *arguments]
    more = {"PYTHONPATH": str(REPO), "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        command,
        env={**os.environ, **more, **environ},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])
