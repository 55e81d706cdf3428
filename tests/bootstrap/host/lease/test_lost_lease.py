"""A chief that stands still or is cut off from the bucket for longer than its lease, as processes:
the supervisor and what it starts, before a real S3 server. Another host has the next term."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest
from standins import programs
from standins.relay import Relay
from standins.runs.leased_chief import Chief, send
from standins.runs.supervised_run import is_alive
from standins.waiting import wait_until

from bootstrap.host.lease.terms import claim_of
from bootstrap.host.run import held
from bootstrap.host.run.lease import HOLD
from railhead.documents.runs.result import Attempt, Culprit
from railhead.documents.runs.takeover import Claim, Term


def test_a_chief_that_stood_still_publishes_nothing_when_it_wakes_up(chief: Chief) -> None:
    chief.train()
    frozen = chief.processes()
    send(frozen, signal.SIGSTOP)
    chief.checkpoint(2)
    assert chief.seconds_pass(held.LEASE)
    chief.is_taken_over()
    before = chief.objects()
    send(frozen, signal.SIGCONT)
    chief.ended()
    assert chief.objects() == before
    assert json.loads(before["runs/r1/checkpoints/manifest.json"])["term"] == 2


def test_a_chief_that_is_cut_off_from_the_bucket_ends_its_ranks(chief: Chief) -> None:
    with Relay(chief.store.endpoint) as relay:
        chief.run.environ["AWS_ENDPOINT_URL"] = relay.endpoint
        chief.train()
        relay.cut_after, relay.cuts = 0, 10**6
        chief.checkpoint(2)
        wait_until(lambda: not chief.seconds_pass(held.LEASE))
        chief.is_taken_over()
        before = chief.objects()
        chief.ended()
        assert chief.objects() == before


def test_ranks_whose_supervisor_stands_still_alone_end_too(chief: Chief) -> None:
    supervisor = chief.train()
    send([supervisor], signal.SIGSTOP)
    assert chief.seconds_pass(held.ALIVE)
    wait_until(lambda: not chief.seconds_pass(held.LEASE))
    wait_until(lambda: not is_alive(chief.rank()))
    chief.is_taken_over()
    send([supervisor], signal.SIGCONT)
    chief.ended()
    assert not chief.has_results


def test_ranks_end_though_their_supervisor_stands_still_only_after_the_lease(chief: Chief) -> None:
    """Its last sign of life is a recent one when the lease is lost."""
    supervisor = chief.train()
    send([supervisor], signal.SIGSTOP)
    chief.is_taken_over()
    wait_until(lambda: not (chief.folder / held.LEASE).exists())
    assert is_alive(chief.rank())
    assert chief.seconds_pass(held.ALIVE)
    wait_until(lambda: not is_alive(chief.rank()))


def test_a_run_that_ends_by_itself_is_published_and_is_not_taken_over(chief: Chief) -> None:
    supervisor = chief.train()
    os.kill(chief.rank(), signal.SIGTERM)
    wait_until(lambda: not is_alive(supervisor))
    assert chief.has_results and (chief.folder / held.RELEASED).exists()
    of_first = chief.terms.chief(1)
    assert of_first and chief.terms.chief(2) == of_first
    assert not chief.terms.claim(2, Claim("b", "mark-2"))
    stops = (chief.run.home / "commands").read_text().splitlines()
    assert stops[-1] == "chief stops" and any(line.endswith("; off") for line in stops)


def test_the_time_and_the_attempts_of_a_run_continue_in_a_later_term(chief: Chief) -> None:
    attempts = (Attempt(3, Culprit(None, "b", ()), 900.0, kind="retry"),)
    term = Term(2, "a", "mark-2", 1000.0, "2026-11-26T05:00:00Z", attempts)
    assert chief.terms.claim(1, Claim("b", "mark-1")) and chief.terms.claim(2, claim_of(term))
    held.begin(str(chief.folder), term, held.now())
    supervisor = chief.train(2)
    assert not chief.terms.exists(3) and not (chief.folder / "lease.log").exists()
    os.kill(chief.rank(), signal.SIGTERM)
    wait_until(lambda: not is_alive(supervisor))
    result = chief.run.read("results/result.json")
    assert 1000 <= result["seconds"] < 1600 and result["started"] == term.started
    assert len(result["attempts"]) == 1 and chief.has_results


def test_a_run_that_is_not_restored_is_published_as_failed_and_its_machines_stop(
    chief: Chief,
) -> None:
    term = Term(2, "a", "mark-2", 1000.0)
    assert chief.terms.claim(1, Claim("b", "mark-1")) and chief.terms.claim(2, claim_of(term))
    held.begin(str(chief.folder), term, held.now())
    chief.checkpoint(1)
    chief.run.write("takeover.json", {"lost": "b", "why": "it was not restored: the disk is full"})
    result = chief.run.result()
    assert (result["state"], result["no_restart"]) == (
        "failed",
        "it was not restored: the disk is full",
    )
    stops = (chief.run.home / "commands").read_text().splitlines()
    assert stops[-1] == "chief stops" and any(line.endswith("; off") for line in stops)
    assert chief.has_results and not (chief.folder / "ranks").exists()
    assert not [name for name in chief.objects() if "/checkpoints/" in name]


def stopper_of_a_lost_lease(chief: Chief) -> subprocess.Popen[bytes]:
    """The program that stops the machines, on a chief whose beats did not arrive."""
    held.begin(str(chief.folder), Term(1, "a", "mark-1"), held.now() - HOLD - 10)
    chief.run.write("state.json", {"state": "failed", "pid": 7, "heartbeat": 1})
    (chief.folder / "results").mkdir(exist_ok=True)
    chief.run.write("results/manifest.json", {"files": []})
    (chief.run.home / ".railhead/supervisor.lock").write_text("r1")
    home = chief.run.home
    environ = {"HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}"}
    argv = programs.command(chief.folder, "supervisor.stop_machines")
    return subprocess.Popen(argv, cwd=chief.folder, env=environ | chief.store.environ)


def test_a_host_that_its_successor_trains_on_is_not_stopped(chief: Chief) -> None:
    programs.change(chief.folder, "supervisor/stop_machines.py", "UNUSED = 0.0", "UNUSED = 5.0")
    programs.change(chief.folder, "supervisor/stop_machines.py", "LOOK = 10.0", "LOOK = 0.5")
    chief.is_taken_over()
    environ = {"HOME": str(chief.run.home), "PATH": os.environ["PATH"]}
    marks = {"RAILHEAD_RUN": "r1", "RAILHEAD_HOME": str(chief.run.home)}
    with subprocess.Popen(["sleep", "600"], env={**environ, **marks}) as rank:
        stopper = stopper_of_a_lost_lease(chief)
        wait_until(lambda: "took the run over" in (chief.folder / "state.json").read_text())
        time.sleep(6)  # more than UNUSED
        assert stopper.poll() is None
        rank.kill()
    assert stopper.wait(60) == 0
    assert (chief.run.home / "commands").read_text() == "chief stops\n"


@pytest.mark.parametrize("has_results", [False, True])
def test_a_chief_that_nobody_has_taken_over_from_stops_all_machines(
    chief: Chief, has_results: bool
) -> None:
    """Its standby has left, or was lost too. It may have published before it lost the lease."""
    if has_results:
        chief.store.put(chief.bucket, "runs/r1/manifest.json", b'{"files": []}')
    stopper = stopper_of_a_lost_lease(chief)
    assert stopper.wait(60) == 0
    stops = (chief.run.home / "commands").read_text().splitlines()
    assert stops[-1] == "chief stops" and any(line.endswith("; off") for line in stops)
    assert chief.has_results and chief.terms.chief(2) == Claim("a", "mark-1")
    assert not chief.terms.claim(2, Claim("b", "mark-2")), "a standby that comes too late"
