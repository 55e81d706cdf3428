"""A run that is followed, left, cancelled or interrupted, over two local SSH hosts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from e2e.local_hosts import Operator, is_followed, marked, ranks_of, read_until, run_id, wait_until
from e2e.scripts import JOIN, SLOW

LAST_WORDS = 60  # seconds in which a command that was interrupted ends


def interrupt(process: subprocess.Popen[str], number: int = signal.SIGINT) -> str:
    """Send a signal to a command; returns the rest of its output."""
    process.send_signal(number)
    return process.communicate(timeout=LAST_WORDS)[0]


def has_ranks(operator: Operator) -> bool:
    """Whether both ranks of SLOW and their children run."""
    return len(ranks_of(operator)) >= 6


def test_a_run_is_left_watched_fetched_and_cancelled(operator: Operator) -> None:
    operator.write("slow.py", SLOW)
    process = operator.start("train", "--script", "slow.py")
    out = read_until(process, "tick 3\n")
    out += interrupt(process, signal.SIGTERM)
    run = run_id(out)
    assert process.returncode == 130 and has_ranks(operator), out
    assert f"terminated; the run continues\n  next: fab attach --run {run}" in out
    operator.fab("train", "--preset", "smoke").ended(2, f"busy with run {run}")
    operator.fab("status").ended(0, "running (heartbeat")

    (operator.run_folder(run) / "attached").unlink(missing_ok=True)
    attached = operator.start("attach")
    wait_until((operator.run_folder(run) / "attached").exists, 60, "the run is watched")
    out = interrupt(attached)
    assert (attached.returncode, operator.state(run)) == (130, "running"), out

    no_log = f"run {run} has no log of rank 7; choices: 0 to 1, mpirun, supervisor"
    operator.fab("logs", "--rank", "7").ended(2, no_log)
    operator.fab("logs", "--rank", "1").ended(0, "tick 0\n")
    interrupted, followed = (operator.start("logs", "--follow", "--rank", "1") for _ in range(2))
    read_until(interrupted, "tick 9\n")
    assert f"next: fab attach --run {run}" in interrupt(interrupted)
    assert (interrupted.returncode, operator.state(run)) == (130, "running")

    results = operator.home / "there" / run
    log = results / "logs/rank-1.log"
    operator.fab("fetch", "--to", str(results.parent)).ended(0, f"results: {results}")
    assert "tick 0" in log.read_text()
    log.unlink()
    assert has_ranks(operator)
    hosts = ("[h1] no process of the run is left", "[h2] no process of the run is left")
    operator.fab("cancel", "--run", run).ended(0, *hosts)
    assert marked(operator.home) == []
    operator.fab("status").ended(0, "cancelled")
    operator.fab("fetch").ended(0, f"results: {results}", "state: cancelled")
    assert not (operator.folder / "results" / run).exists()
    out = followed.communicate(timeout=LAST_WORDS)[0].partition("\n")[2]  # without the hosts
    assert (followed.returncode, out) == (0, log.read_text())


def test_kill_9_of_one_rank_ends_all_at_once(operator: Operator) -> None:
    operator.write("slow.py", SLOW)
    attached = operator.start("train", "--script", "slow.py")
    log = operator.run_folder(run_id(read_until(attached, "tick 0\n"))) / "logs/rank-1.log"
    wait_until(lambda: has_ranks(operator) and is_followed(operator.home), 60, "it is followed")
    wait_until(lambda: log.exists() and "tick" in log.read_text(), 60, "its lines reach the chief")
    os.kill(_pid_of_rank(operator, 1), signal.SIGKILL)
    wait_until(lambda: not ranks_of(operator), 20, "all ranks of all hosts are gone")
    out, _ = attached.communicate(timeout=LAST_WORDS)
    assert attached.returncode == 1, out
    assert "rank 1 on h2 was killed by signal 9" in out and "| tick" in out
    wait_until(lambda: not marked(operator.home), 20, "no process of the run is left")


def _pid_of_rank(operator: Operator, rank: int) -> int:
    """The rank of this person's run: another test may have one on this machine, too."""
    home = f"\0RAILHEAD_HOME={operator.home}".encode()
    number = f"\0OMPI_COMM_WORLD_RANK={rank}\0".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            environment = b"\0" + (entry / "environ").read_bytes()
        except OSError:
            continue
        if b"rank.rank" in command and home in environment and number in environment:
            return int(entry.name)
    raise AssertionError(f"rank {rank} does not run")


def test_ctrl_c_cancels_and_waits_for_the_answer_of_each_host(operator: Operator) -> None:
    operator.write("slow.py", SLOW)
    process = operator.start("train", "--script", "slow.py")
    wait_until(lambda: has_ranks(operator) and is_followed(operator.home), 60, "it is followed")
    out = interrupt(process)
    assert process.returncode == 130, out
    assert "[h1] no process of the run is left" in out and "[h2] no process" in out
    assert marked(operator.home) == []


def test_a_second_ctrl_c_stops_only_the_waiting(operator: Operator) -> None:
    stays = ["sh", "-c", "trap '' TERM; sleep 3602"]  # until SIGKILL, 2 s after SIGTERM
    operator.write("slow.py", SLOW.replace('["sleep", "3600"]', repr(stays)))
    process = operator.start("train", "--script", "slow.py")
    wait_until(lambda: has_ranks(operator) and is_followed(operator.home), 60, "it is followed")
    process.send_signal(signal.SIGINT)
    out = read_until(process, "press Ctrl-C again to stop waiting")
    out += interrupt(process)
    assert process.returncode == 130, out
    assert "stopped waiting: the run may still have processes" in out
    hint = f"fab cancel --run {run_id(out)}"
    assert f"next: {hint}" in out
    operator.fab(*hint.split()[1:]).ended(0, "[h2] no process of the run is left")
    assert marked(operator.home) == []


def test_a_killed_controller_and_a_lost_connection_end_nothing(operator: Operator) -> None:
    go = operator.folder / "go"
    wait = f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.1)\n"
    script = f"{JOIN}print('begun', rank, flush=True)\n{wait}print('done', rank)\n"
    operator.write("short/train.py", script)
    controller = operator.start("train", "--script", "short/train.py")
    wait_until(lambda: len(ranks_of(operator)) >= 2, 60, "the ranks run")
    controller.kill()
    controller.communicate()
    run = max(operator.recorded())
    attached = operator.run_folder(run) / "attached"
    attached.unlink(missing_ok=True)
    process = operator.start("attach")
    out = read_until(process, "begun 0\n")
    attached.unlink(missing_ok=True)
    for pid in _session_daemons(operator):
        with contextlib.suppress(ProcessLookupError):  # it has ended since it was listed
            os.kill(pid, signal.SIGKILL)
    wait_until(attached.exists, 60, "the run is watched again")
    go.touch()
    out += process.communicate(timeout=120)[0]
    assert process.returncode == 0 and operator.result()["state"] == "succeeded", out
    assert (operator.last / "logs" / "rank-1.log").read_text() == "begun 1\ndone 1\n"
    assert (out.count("begun 0"), out.count("done 0")) == (1, 1), out


def _session_daemons(operator: Operator) -> list[int]:
    """The sshd that serve this person's connections (not the listening ones)."""
    pids = []
    listening = {p.read_text().strip() for p in operator.home.rglob("sshd.pid")}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        if parent in listening and (entry / "exe").resolve().name.startswith("sshd"):
            pids.append(int(entry.name))
    return pids
