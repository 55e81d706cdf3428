"""Files that cannot be read do not hold up the end of a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from standins.programs import append, change, command
from standins.runs.supervised_run import Run, hashed
from standins.waiting import wait_until

from bootstrap.host.base import bounded

SOCKET = "import socket; socket.socket(socket.AF_UNIX).bind('odd')"
SPECIAL = {
    "a FIFO": "mkfifo odd",
    "a socket": f'{sys.executable} -c "{SOCKET}"',
    "a link to a FIFO": "mkfifo fifo; ln -s $PWD/fifo odd",
    "a link to a device that never ends": "ln -s /dev/zero odd",
    "folders in a circle": "mkdir odd; ln -s . odd/circle",
    "a link to itself": "ln -s odd odd",
}


def test_what_is_not_a_file_does_not_hold_the_end(home: Path) -> None:
    made = [
        f"mkdir {folder}/{number}; cd {folder}/{number}; {make}; test -L odd -o -e odd || exit 1;"
        f" cd $run"
        for folder in ("work", "results", "logs")
        for number, make in enumerate(SPECIAL.values())
    ]
    run = Run(home, "; ".join(["run=$PWD", *made, "echo x >work/made"]))
    result = run.result()
    assert (result["state"], result["trouble"]) == ("succeeded", None)
    assert ["made", 2] in run.read("results/outputs.json")["files"]
    files = hashed(run)
    assert "work/made" in files
    assert not [path for path in files if "odd" in path]
    odd = {entry["path"] for entry in run.read("results/manifest.json")["skipped"]}
    assert {f"results/{number}/odd" for number in (0, 1, 2, 3, 5)} <= odd


@pytest.mark.root
def test_a_device_does_not_hold_the_end(home: Path) -> None:
    run = Run(home, "mknod work/zero c 1 5 && mknod results/zero c 1 5; echo x >work/made")
    assert run.result()["state"] == "succeeded"
    assert "work/made" in hashed(run) and not {"work/zero", "results/zero"} & hashed(run)


@pytest.mark.parametrize("name", ["results/result.json", "results/manifest.json", "state.json"])
def test_a_fifo_in_the_place_of_our_own_files_does_not_hold_the_end(home: Path, name: str) -> None:
    # By a rename, because the supervisor writes the same names each second.
    run = Run(home, "; ".join(f"mkfifo odd && mv -f odd {name}{end}" for end in (".part", "")))
    assert run.result()["state"] == "succeeded"
    assert "results/result.json" in hashed(run)


def test_a_result_of_the_program_s_own_gives_way_to_ours(home: Path) -> None:
    run = Run(home, "echo mine >results/result.json")
    assert run.result()["state"] == "succeeded" and "results/result.json" in hashed(run)


# As of a file on a network mount that has died: who reads it waits for ever.
DEAD = """
import time
def dead(path, real=size_and_sha256):
    while path.endswith("dead"):
        time.sleep(1)
    return real(path)
size_and_sha256 = dead
"""


def test_a_file_that_cannot_be_read_in_time_is_named_and_the_rest_is_kept(home: Path) -> None:
    stop = {"argv": [["true"], None], "keep_minutes": 0}
    run = Run(home, "cd work; echo x >alive; echo x >dead; echo x >later", stop=stop)
    change(run.folder, "run/closing.py", "HASHING = 1800.0", "HASHING = 15.0")
    append(run.folder, "run/manifest.py", DEAD)
    trouble = run.result()["trouble"]
    assert trouble == "2 results were not read, first work/dead: not finished within 15 s"
    state = run.read("state.json")
    assert state["trouble"] == trouble
    assert state["machines"]["phase"] == "stopping", "the machines stop all the same"
    assert {"run.json", "results/result.json", "work/alive"} <= hashed(run)
    skipped = run.read("results/manifest.json")["skipped"]
    assert [entry["path"] for entry in skipped] == ["work/dead", "work/later"]
    assert not left_over(run)


def test_the_result_is_there_while_the_rest_is_hashed_and_nothing_outlives_a_kill(
    home: Path,
) -> None:
    run = Run(home, "echo x >work/dead")
    append(run.folder, "run/manifest.py", DEAD)
    process = run.start()
    wait_until(lambda: bool(left_over(run)) and (run.folder / "results/result.json").exists())
    assert run.read("results/result.json")["state"] == "succeeded"
    assert run.read("state.json")["state"] == "running"
    process.kill()
    process.wait()
    wait_until(lambda: not left_over(run))


# As of results so large that reading them takes longer than a cancel waits.
SLOW = DEAD.replace("while path.endswith", "if path.endswith").replace("sleep(1)", "sleep(6)")


def test_cancel_while_results_are_hashed_leaves_the_supervisor_to_stop_the_machines(
    home: Path,
) -> None:
    stopped = home / "stopped"
    stop = {"argv": [["touch", str(stopped)], None], "keep_minutes": 0}
    run = Run(home, "echo x >work/dead", stop=stop)
    append(run.folder, "run/manifest.py", SLOW)
    process = run.start()
    wait_until(lambda: (run.folder / "results/result.json").exists())
    process.terminate()  # `fab cancel` sends SIGTERM, and ends what is left after some seconds
    argv = command(run.folder, "run.end_processes", run.run_id)
    done = subprocess.run(argv, env={"HOME": str(home)}, capture_output=True)
    assert json.loads(done.stdout) == {"ended": 0, "left": []}
    process.wait(60)
    assert stopped.exists()
    assert run.read("state.json")["machines"]["phase"] == "stopping"
    assert {"results/result.json", "work/dead"} <= hashed(run)


def test_cancel_while_a_slow_host_ends_its_processes_leaves_the_supervisor_its_result(
    home: Path,
) -> None:
    run = Run(home, "exec sleep 60")
    slow = f'#!/bin/sh\ntouch {home}/called\nsleep 4\necho \'{{"ended": 1, "left": []}}\'\n'
    (home / "bin" / "ssh").write_text(slow)
    process = run.start()
    run.running()
    process.terminate()
    wait_until(lambda: (home / "called").exists())
    argv = command(run.folder, "run.end_processes", run.run_id)  # as `fab cancel` on each host
    done = subprocess.run(argv, env={"HOME": str(home)}, capture_output=True)
    assert json.loads(done.stdout)["left"] == []
    process.wait(60)
    result = run.read("results/result.json")
    assert (result["state"], result["swept"]["b"]) == ("cancelled", {"ended": 1, "left": []})


def test_a_folder_that_cannot_be_listed_in_time_is_reported(home: Path) -> None:
    run = Run(home, "echo x >work/made", stop={"argv": [["true"], None], "keep_minutes": 0})
    change(run.folder, "run/closing.py", "LISTING = 120.0", "LISTING = 1.0")
    listing = "def main(task: str, folder: str) -> None:\n"
    change(
        run.folder,
        "run/closing.py",
        listing,
        f"{listing}    import time\n    time.sleep(task[0] == 'o' and 60)\n",
    )
    assert run.result()["trouble"] == "work/ was not listed: not finished within 1 s"
    assert run.read("state.json")["machines"]["phase"] == "stopping"
    assert "results/result.json" in hashed(run) and not left_over(run)


def left_over(run: Run) -> list[str]:
    """Processes that still look through a run's folder."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        if b"run.closing" in text and str(run.folder).encode() in text:
            pids.append(path.parent.name)
    return pids


def test_a_fault_at_the_very_end_does_not_keep_the_machines(home: Path) -> None:
    run = Run(home, "true", stop={"argv": [["true"], None], "keep_minutes": 0})
    append(run.folder, "run/closing.py", "whole_manifest = None\n")
    run.start().wait(60)
    assert run.read("state.json")["machines"]["phase"] == "stopping"
    assert "TypeError" in run.log("supervisor")


def test_what_a_killed_command_left_does_not_hold_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps the pipes open; what came through them before counts."""
    monkeypatch.setattr(bounded, "GRACE", 0.2)
    script = f"sleep 600 & echo $! >{tmp_path}/pid; echo hashed; exec sleep 600"
    ended = bounded.run(["sh", "-c", script], 3.0)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert (ended.code, ended.out) == (None, "hashed\n")
