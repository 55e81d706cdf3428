"""Recovers output of the chief's ranks that was in no log and no record when their supervisor died.

output.unread FOLDER   of a run without a supervisor and without processes
"""

from __future__ import annotations

import os

from railhead.documents.runs.run import RunDocument

from ..base import json_file
from ..base.locks import try_lock
from . import kept_output
from .rank_output import RunOutput, WriteErrors
from .recorded import metric_numbers

FOR_EVER = float("inf")


def main(folder: str) -> None:
    """Add it to the logs and records, once; not for a run with secrets, whose values were lost with
    the supervisor, so they cannot be redacted."""
    run = json_file.read(os.path.join(folder, "run.json"), RunDocument)
    with try_lock(folder, is_folder=True) as mine:
        here = [rank for rank in range(run.size) if not run.host_of(rank)]
        texts = kept_output.unread(folder, here)
        if not mine or run.secrets or not texts:
            return
        output = RunOutput(folder, run, (), WriteErrors(), metric_numbers(folder, FOR_EVER))
        output.first_step = 0.0  # it was recorded
        output.latest = FOR_EVER
        for rank, text in texts.items():
            output.add_lines(output.splitter.of_rank(rank, text))
        output.add_lines(output.splitter.close())
        output.close_metrics()
        output.close()
