"""Parameter servers wait for ever; they end when their chief has ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from standins.supervised_run import HEAD, Run, needs_mpirun, says, with_script

REPORT = '@railhead {"kind": "ended", "exit": %d}'
ROLES = [{"type": "chief", "index": 0}, {"type": "ps", "index": 0}]
GONE = '@railhead {"kind": "gone"}'
SERVERS = {
    "the chief ended well": (0, REPORT % 0, "sleep 600", "succeeded"),
    "a server failed after that": (0, REPORT % 0, "exit 1", "succeeded"),
    "the chief failed": (0, REPORT % 3, "exit 3", "failed"),
    "only a server ended": (1, REPORT % 0, "sleep 1; exit 4", "failed"),
    "the chief is gone without a report": (0, GONE, "sleep 600", "succeeded"),
    "the chief is gone because it was killed": (0, GONE, "sleep 1; exit 137", "failed"),
    "only a server is gone": (1, GONE, "sleep 7; exit 4", "failed"),
}


@pytest.mark.parametrize(("rank", "report", "rest", "state"), SERVERS.values(), ids=SERVERS)
def test_parameter_servers_are_ended_when_the_chief_has_ended(
    home: Path, rank: int, report: str, rest: str, state: str
) -> None:
    result = Run(home, f"{says(rank, report)}; {rest}", roles=ROLES).result()
    assert result["state"] == state
    assert (result["exit_code"] == 0) == (state == "succeeded") and result["seconds"] < 60


def test_without_a_chief_a_rank_that_ends_well_ends_nobody(home: Path) -> None:
    result = Run(home, f"{says(0, REPORT % 0)}; sleep 7; exit 4").result()
    assert (result["state"], result["exit_code"]) == ("failed", 4)


CHIEFS = {
    "os._exit": "os._exit(0)",
    "its output closed": "os.closerange(1, 3)",
    "an end": "",
}


@needs_mpirun
@pytest.mark.parametrize("end", CHIEFS.values(), ids=CHIEFS)
def test_servers_that_wait_for_ever_end_with_their_chief(home: Path, end: str) -> None:
    script = f"{HEAD}if rank:\n    time.sleep(600)\nprint('trained', flush=True)\n{end}"
    run = with_script(Run(home, "", roles=ROLES, tf_cluster={}), script)
    result = run.result()
    assert (result["state"], result["exit_code"], result["culprit"]) == ("succeeded", 0, None)
    assert run.log("rank-0") == "trained\n"
