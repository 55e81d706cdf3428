"""The line that a rank has not ended: a progress bar."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from standins.runs.run_documents import run_document

from bootstrap.console.wait import wait_until
from bootstrap.remote.run.rank_output import RunOutput, WriteErrors


@pytest.fixture
def output(tmp_path: Path) -> RunOutput:
    for name in ("results", "logs"):
        (tmp_path / name).mkdir()
    return RunOutput(str(tmp_path), run_document(), (), WriteErrors())


def test_the_last_state_of_a_progress_bar_is_known_while_nothing_follows(output: RunOutput) -> None:
    """Also if it comes just after another line: states are not computed for each piece."""
    source, sink = os.pipe()
    with os.fdopen(source, "rb") as stdout, os.fdopen(sink, "wb", buffering=0) as mpirun:
        process: Any = SimpleNamespace(stdout=stdout)
        reader = Thread(target=output.read, args=(process,))
        reader.start()
        mpirun.write(b"[1,0]<stdout>:begins\x1e")
        assert wait_until(lambda: output.logs[0].lines() == ["begins"], seconds=60, every=0.001)
        mpirun.write(b"[1,0]<stdout>:10 %\r90 %")
        assert wait_until(lambda: output.unfinished == {"0": "90 %"}, seconds=60, every=0.01)
        mpirun.close()
        reader.join(60)
    assert not reader.is_alive() and output.broken is None
