"""A host from which nothing comes any more ends the run; one that only computes does not."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hosts.ranks import beating_rank, lay_out, script, text_of
from standins import programs
from standins.runs.supervised_run import Run, says
from standins.waiting import wait_until

from bootstrap.host.output.mpirun_output import ALIVE, ENDED, FRAME, framed


def started_rank(folder: Path, text: str, **more: Any) -> subprocess.Popen[bytes]:
    """A rank that runs a script, with heartbeats."""
    lay_out(folder, script(folder, text))
    return beating_rank(folder, **more)


def read_beats(rank: subprocess.Popen[bytes], count: int) -> None:
    """Read until so many heartbeats have come; ends when the rank's output does."""
    assert rank.stdout
    while count and (frame := os.read(rank.stdout.fileno(), FRAME)):
        count -= set(frame[1:-1]) == {*ALIVE}
    assert not count


SILENT = {
    "it computes": "import time\nwhile True: time.sleep(1)\n",
    "it closed its output": "import os, time\nos.close(1); os.close(2)\ntime.sleep(600)\n",
}


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_a_rank_sends_heartbeats_whatever_it_does(tmp_path: Path, text: str) -> None:
    rank = started_rank(tmp_path, text)
    read_beats(rank, 5)
    os.kill(rank.pid, signal.SIGSTOP)  # as a debugger does
    read_beats(rank, 5)
    rank.kill()
    assert rank.stdout
    assert rank.stdout.read()[-FRAME:] == framed(ENDED)
    rank.wait(60)


def test_a_program_cannot_send_a_heartbeat(tmp_path: Path) -> None:
    rank = started_rank(tmp_path, "print('\\x1c\\x1d\\x1e\\x1f')")
    out, _ = rank.communicate(timeout=60)
    assert text_of(out.decode()) == "????\n" and out.count(ENDED) == 1


def test_a_rank_that_its_launcher_left_is_ended_with_its_children(tmp_path: Path) -> None:
    """Open MPI 5 leaves ranks when it is killed, or has lost a host: nobody reads their output."""
    text = "import os, time\nif not os.fork(): os.system('sleep 600')\ntime.sleep(600)\n"
    rank = started_rank(tmp_path, text, start_new_session=True)
    read_beats(rank, 2)
    assert rank.stdout
    rank.stdout.close()
    assert rank.wait(60) == -signal.SIGTERM
    group = ["pgrep", "-g", str(rank.pid)]
    wait_until(lambda: subprocess.run(group, capture_output=True).returncode == 1, 60)


def silent_run(home: Path, script: str, **changes: Any) -> Run:
    """A run whose hosts may be silent for three seconds."""
    run = Run(home, script, **changes)
    programs.change(run.folder, "output/mpirun_output.py", "SILENCE = 60.0", "SILENCE = 3.0")
    return run


BEATS = r"while sleep 0.1; do printf '[1,0]<stdout>:\035'; done"


def test_a_run_ends_when_a_host_is_silent(home: Path) -> None:
    result = silent_run(home, f"{says(0, 'a')}; {says(1, 'b')}; {BEATS}").result()
    assert result["state"] == "failed" and result["exit_code"] != 0
    assert (result["culprit"]["rank"], result["culprit"]["host"]) == (None, "b")
    assert "no heartbeat of its ranks for 3 s" in result["culprit"]["lines"][0]


def test_a_failure_that_was_reported_before_stays_the_cause(home: Path) -> None:
    end = '@railhead {"kind": "ended", "exit": 3}'
    result = silent_run(home, f"{says(0, end)}; {says(1, 'b')}; sleep 600").result()
    assert (result["culprit"]["rank"], result["culprit"].get("exit")) == (0, 3)


def test_a_slow_start_is_waited_for(home: Path) -> None:
    assert silent_run(home, f"sleep 5; {says(0, 'a')}").result()["state"] == "succeeded"
