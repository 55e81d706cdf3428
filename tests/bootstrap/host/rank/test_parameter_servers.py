"""Parameter servers wait for ever; they end when their chief has ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from standins.runs.supervised_run import HEAD, Run, needs_mpirun, says, with_script
from standins.runs.supervisor_here import SupervisorHere

from bootstrap.host.supervisor import supervisor

REPORT = '@railhead {"kind": "ended", "exit": %d}'
ROLES = [{"type": "chief", "index": 0}, {"type": "ps", "index": 0}]
GONE = '@railhead {"kind": "gone"}'
# The rank that reports, its record, mpirun's exit code, whether the supervisor ends the servers
# after a while, and the state of the run.
SERVERS = {
    "the chief ended well": (0, REPORT % 0, -15, True, "succeeded"),
    "a server failed after that": (0, REPORT % 0, 1, True, "succeeded"),
    "the chief failed": (0, REPORT % 3, 3, False, "failed"),
    "only a server ended": (1, REPORT % 0, 4, False, "failed"),
    "the chief is gone because it was killed": (0, GONE, 137, True, "failed"),
    "only a server is gone": (1, GONE, 4, False, "failed"),
}


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SupervisorHere:
    """A run of a chief and a parameter server."""
    return SupervisorHere(tmp_path / "r1", monkeypatch, roles=ROLES)


@pytest.mark.parametrize(
    ("rank", "report", "code", "servers_end", "state"), SERVERS.values(), ids=SERVERS
)
def test_parameter_servers_are_ended_when_the_chief_has_ended(
    servers: SupervisorHere,
    monkeypatch: pytest.MonkeyPatch,
    rank: int,
    report: str,
    code: int,
    servers_end: bool,
    state: str,
) -> None:
    servers.rank_prints(rank, report)
    assert not servers.supervisor.only_servers_are_left(), "mpirun may still end them itself"
    result = servers.result(code)
    assert (result.state, result.exit_code == 0) == (state, state == "succeeded")
    monkeypatch.setattr(supervisor, "GRACE", -1.0)  # it is over
    assert servers.supervisor.must_end() is servers_end


def test_servers_that_were_ended_after_their_chief_was_gone_are_not_a_failure(
    servers: SupervisorHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.rank_prints(0, GONE)
    monkeypatch.setattr(supervisor, "GRACE", -1.0)
    assert servers.supervisor.must_end()
    assert (servers.result(-15).state, servers.result(-15).exit_code) == ("succeeded", 0)


def test_the_supervisor_ends_servers_that_wait_for_ever(home: Path) -> None:
    result = Run(home, f"{says(0, REPORT % 0)}; exec sleep 600", roles=ROLES).result()
    assert (result["state"], result["exit_code"]) == ("succeeded", 0)


def test_without_a_chief_a_rank_that_ends_well_ends_nobody(
    supervised: SupervisorHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "GRACE", -1.0)
    for report in (REPORT % 0, GONE):
        supervised.rank_prints(0, report)
        assert not supervised.supervisor.must_end()
    result = supervised.result(4)
    assert (result.state, result.exit_code) == ("failed", 4)


CHIEFS = {"os._exit": "os._exit(0)", "its output closed": "os.closerange(1, 3)", "an end": ""}


@needs_mpirun
@pytest.mark.parametrize("end", CHIEFS.values(), ids=CHIEFS)
def test_servers_that_wait_for_ever_end_with_their_chief(home: Path, end: str) -> None:
    script = f"{HEAD}if rank:\n    time.sleep(600)\nprint('trained', flush=True)\n{end}"
    run = with_script(Run(home, "", roles=ROLES, tf_cluster={}), script)
    result = run.result()
    assert (result["state"], result["exit_code"], result["culprit"]) == ("succeeded", 0, None)
    assert run.log("rank-0") == "trained\n"
