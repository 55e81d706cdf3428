"""`python -m training`: kept short, so that all important code can be imported and tested.

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

from . import job, presets
from .config import STRATEGIES, ConfigError, describe_fields, metric_name
from .data import DataError, data_folder
from .results import METRICS, Records, TrainingError
from .tasks import metrics_of


def main(argv: Sequence[str] | None = None) -> int:
    """Check settings or train; the exit code is 0 done, 1 failed, 2 a wrong name or value."""
    options = parser().parse_args(argv)
    try:
        chosen = job_of(options)
        if options.check:
            print_check(chosen, as_json=options.json)
        else:
            train(chosen)
    except (ConfigError, TrainingError, DataError) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


def job_of(options: argparse.Namespace) -> job.Job:
    """The job that the run document describes if there is one, otherwise the command line's."""
    if "RAILHEAD_RUN_FILE" in os.environ and not options.check:
        return job.from_run(os.environ)
    return job.from_command_line(
        options.preset,
        options.strategy,
        options.set,
        os.environ,
        data=options.data,
        results=options.results,
        resume="required" if options.resume else "fresh" if options.fresh else "refuse",
        model=options.evaluate,
    )


def train(chosen: job.Job) -> None:
    """Import TensorFlow, quietly, and train or evaluate."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read once, when TensorFlow is imported
    os.environ["KERAS_BACKEND"] = "tensorflow"  # a ~/.keras/keras.json may name another
    file = chosen.results / METRICS if chosen.alone else None
    records = Records(local_rank=chosen.local_rank, file=file)
    records.emit("message", text="loading TensorFlow")
    if chosen.model:
        from .evaluation.exported import evaluate_exported

        evaluate_exported(chosen, records)
        return
    from .train import train_and_evaluate

    train_and_evaluate(chosen, records)


def print_check(chosen: job.Job, *, as_json: bool) -> None:
    """Print the resolved settings, with all presets, strategies and fields when as JSON."""
    settings = asdict(chosen.config)
    if not as_json:
        for name, value in {"strategy": chosen.strategy, **settings}.items():
            print(f"{name}={value}")
        return
    document: dict[str, Any] = {
        "settings": settings,
        "folder": data_folder(chosen.config.data),
        "presets": presets.summaries(),
        "strategies": list(STRATEGIES),
        "fields": describe_fields(),
        "metrics": [
            *metrics_of(chosen.config.task),
            *map(metric_name, chosen.config.more_metrics),
        ],
    }
    print(json.dumps(document))


def parser() -> argparse.ArgumentParser:
    """Values are checked by the settings themselves, whose messages suggest the nearest."""
    options = argparse.ArgumentParser(prog="python -m training", allow_abbrev=False)
    options.add_argument("--preset", help=f"one of {', '.join(presets.PRESETS)}")
    options.add_argument("--strategy", help=f"one of {', '.join(STRATEGIES)}")
    options.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="NAME=URI[,file|stream]",
        help="train, validation, test: a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX",
    )
    options.add_argument("--results", default="results", metavar="FOLDER")
    options.add_argument("--resume", action="store_true", help="continue from the last checkpoint")
    options.add_argument("--fresh", action="store_true", help="remove checkpoints, start over")
    options.add_argument(
        "--evaluate", metavar="MODEL", help="evaluate this .keras file, train nothing"
    )
    options.add_argument("--check", action="store_true", help="resolve the settings, train nothing")
    options.add_argument("--json", action="store_true", help="with --check: one JSON object")
    return options


if __name__ == "__main__":
    sys.exit(main())
