"""`python -m training`: short on purpose, so that all that matters can be imported and tested.

Standard library only up to the moment when there is something to train.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from training import configs, job
from training.config import STRATEGIES, ConfigError, describe_fields
from training.results import Records, TrainingError


def main(argv: Sequence[str] | None = None) -> int:
    """Check settings or train; the exit code is 0 done, 1 failed, 2 a wrong name or value."""
    options = parser().parse_args(argv)
    in_run = "RAILHEAD_RUN_FILE" in os.environ and not options.check
    try:
        asked = (
            job.from_run(os.environ)
            if in_run
            else job.from_words(options.preset, options.strategy, options.set, os.environ)
        )
        if options.check:
            print_check(asked, as_json=options.json)
        else:
            train(asked)
    except (ConfigError, TrainingError) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


def train(asked: job.Job) -> None:
    """Import TensorFlow, quietly, and train."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read once, when TensorFlow is imported
    os.environ["KERAS_BACKEND"] = "tensorflow"  # a ~/.keras/keras.json may name another
    records = Records(local_rank=asked.local_rank)
    records.emit("message", text="loading TensorFlow")
    from training.loop import train_and_evaluate

    train_and_evaluate(asked, records)


def print_check(asked: job.Job, *, as_json: bool) -> None:
    """Print the resolved settings, with all presets, strategies and fields when as JSON."""
    settings = asdict(asked.config)
    if not as_json:
        for name, value in {"strategy": asked.strategy, **settings}.items():
            print(f"{name}={value}")
        return
    document: dict[str, Any] = {
        "settings": settings,
        "presets": configs.summaries(),
        "strategies": list(STRATEGIES),
        "fields": describe_fields(),
    }
    print(json.dumps(document))


def parser() -> argparse.ArgumentParser:
    """Words are checked by the settings themselves, whose messages suggest the nearest."""
    words = argparse.ArgumentParser(prog="python -m training", allow_abbrev=False)
    words.add_argument("--preset", help=f"one of {', '.join(configs.PRESETS)}")
    words.add_argument("--strategy", help=f"one of {', '.join(STRATEGIES)}")
    words.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    words.add_argument("--check", action="store_true", help="resolve the settings, train nothing")
    words.add_argument("--json", action="store_true", help="with --check: one JSON object")
    return words


if __name__ == "__main__":
    sys.exit(main())
