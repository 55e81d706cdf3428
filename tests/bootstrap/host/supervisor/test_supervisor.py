"""The supervisor leaves a result whatever happens, with a command in place of mpirun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from standins import programs
from standins.runs.run_documents import run_document
from standins.runs.supervised_run import ENDS, PROGRAM, Run, is_alive, says
from standins.runs.supervisor_here import SupervisorHere
from standins.waiting import wait_until

from bootstrap.host.base.programs import HELD
from bootstrap.host.run import held
from bootstrap.host.run.lease import HOLD
from bootstrap.host.supervisor import supervisor
from bootstrap.ssh.session import START_AGENT
from railhead.documents.codec import encode
from railhead.documents.runs.result import Culprit, Result
from railhead.documents.runs.takeover import Term


def test_a_run_that_goes_well(home: Path) -> None:
    record = '@railhead {"kind": "evaluation", "accuracy": 0.5}'
    reported = [says(1, "  hello"), says(0, record), says(0, 'begun@railhead {"kind": "message"}')]
    run = Run(home, "; ".join([*reported, "cd work", "echo x >made", "echo more >>old"]))
    (run.folder / "work" / "old").write_text("old")
    (run.folder / "work" / "kept").write_text("kept")
    result = run.result()
    assert (result["state"], result["exit_code"], result["culprit"]) == ("succeeded", 0, None)
    assert result["evaluation"] == {"accuracy": 0.5}
    assert (run.log("rank-1"), run.log("rank-0"), run.log("mpirun")) == ("  hello\n", "begun\n", "")
    lines = (run.folder / "results" / "metrics.jsonl").read_text().splitlines()
    assert [(r["rank"], r["host"], r["kind"]) for r in map(json.loads, lines)] == [
        (0, "a", "evaluation"),
        (0, "a", "message"),
    ]
    assert run.read("results/outputs.json")["files"] == [["made", 2], ["old", 8]]
    assert result["swept"]["b"] == {"ended": 0, "left": []}


NO_RECORDS = ["5", "[1]", "{}", '{"kind"', "[" * 5000, '{"kind": "ended", "exit": "x"}', "null"]
NO_RECORDS += ['{"kind": "ended", "exit": 1e999}', '{"kind": "ended", "exit": NaN}', '"kind"']


@pytest.mark.parametrize("text", NO_RECORDS, ids=range(len(NO_RECORDS)))
def test_what_only_looks_like_a_record_is_a_line(supervised: SupervisorHere, text: str) -> None:
    supervised.rank_prints(0, f"@railhead {text}")
    assert supervised.log("rank-0") == f"@railhead {text}\n"
    assert supervised.result(0).state == "succeeded"


EVALUATIONS = [
    '{"kind": "evaluation"}',
    '{"kind": "evaluation", "accuracy": "0.5", "passed": null}',
]
EVALUATIONS += ['{"kind": "evaluation", "accuracy": [1], "passed": false, "loss": -Infinity}']


@pytest.mark.parametrize("record", EVALUATIONS, ids=range(len(EVALUATIONS)))
def test_an_evaluation_is_kept_as_a_script_reported_it(
    supervised: SupervisorHere, record: str
) -> None:
    supervised.rank_prints(0, f"@railhead {record}")
    supervised.supervisor.evaluation = supervised.supervisor.judged()
    written = json.loads((supervised.folder / "results/evaluation.json").read_text())
    reported = {key: value for key, value in json.loads(record).items() if key != "kind"}
    assert encode(supervised.result(0))["evaluation"] == written == reported


@pytest.mark.parametrize(("seconds", "ends"), [(HOLD / 2, False), (HOLD, True)])
def test_a_run_ends_without_its_lease_also_if_nobody_holds_it(
    supervised: SupervisorHere, seconds: float, ends: bool
) -> None:
    """The process that writes the beats, and would end the ranks too, may have been killed."""
    held.begin(str(supervised.folder), Term(1, "a", "mark-1"), held.now() - seconds)
    assert supervised.supervisor.must_end() is ends


@pytest.mark.parametrize("signal, code", [("KILL", 137), ("SEGV", 139)])
def test_the_exit_code_of_a_killed_mpirun_is_that_of_a_shell(
    home: Path, signal: str, code: int
) -> None:
    result = Run(home, f"kill -{signal} $$").result()
    assert (result["state"], result["exit_code"]) == ("failed", code)


SLOW_READERS = """
import os, time
def slowly(read):
    def later(self, process):
        while not os.path.exists(os.path.join(self.folder, "swept")):
            time.sleep(0.01)
        time.sleep(1)  # the supervisor would be done by now
        read(self, process)
    return later
RunOutput.read = slowly(RunOutput.read)
RunOutput.read_mpirun = slowly(RunOutput.read_mpirun)
"""
NOTED_SWEEP = """
def noted(end):
    def ended(run, folder):
        open(os.path.join(folder, "swept"), "w").close()
        return end(run, folder)
    return ended
end_on_all_hosts = noted(end_on_all_hosts)
"""


def test_the_last_lines_are_read_before_the_result_is_written(home: Path) -> None:
    run = Run(home, f"{says(1, 'my last words')}; echo its own >&2; exit 3")
    programs.append(run.folder, "output/rank_output.py", SLOW_READERS)
    programs.append(run.folder, "run/end_processes.py", NOTED_SWEEP)
    assert run.result()["culprit"]["lines"] == ["its own"]
    assert run.log("rank-1") == "my last words\n"


def test_a_controller_that_follows_the_run_is_seen_all_the_time(home: Path) -> None:
    """Its agent's file is renewed during the run: the machines wait for a controller at its end."""
    run = Run(home, "read line <go")
    os.mkfifo(run.folder / "go")
    argv = [sys.executable, "-I", "-S", "-c", START_AGENT]
    controller = subprocess.Popen(argv, stdin=subprocess.PIPE)
    attached = run.folder / "attached"
    attached.write_text(f"{controller.pid}\n")
    os.utime(attached, (1, 1))
    process = run.start()
    wait_until(lambda: attached.stat().st_mtime > 1)
    (run.folder / "go").write_text("go\n")
    controller.communicate()
    assert process.wait(60) == 0


UNTIL_OVER = "while [ ! -e over ]; do sleep 0.05; done"


def test_another_run_keeps_its_chief(home: Path) -> None:
    first = Run(home, UNTIL_OVER, "r1")
    process = first.start()
    first.running()
    second = Run(home, "touch never", "r2")
    for run in (first, second):
        of_run = home / f"memory of {run.folder.name}"
        of_run.mkdir()
        (of_run / "rank-1.json").write_text("a secret")
        (run.folder / "memory").symlink_to(of_run)
    result = second.result()
    assert (result["state"], result["run_id"]) == ("failed", "r2")
    assert [path.name for path in home.glob("memory of *")] == ["memory of r1"]
    assert "run r1 is running on this chief" in result["culprit"]["lines"][0]
    assert "run r1 is running on this chief" in second.read("state.json")["reason"]
    assert not (second.folder / "never").exists()
    (first.folder / "over").touch()
    assert process.wait(60) == 0
    assert first.read("results/result.json")["state"] == "succeeded"


@pytest.mark.parametrize("begins", [True, False])
def test_a_held_supervisor_begins_when_it_is_let_go(home: Path, begins: bool) -> None:
    """Where the command that started it fails or ends first, there was no run."""
    run = Run(home, "true")
    (home / "in memory").mkdir()
    (run.folder / "memory").symlink_to(home / "in memory")
    with run.start(os.environ["PATH"], HELD, stdin=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.write(b"\n" if begins else b"")
        process.stdin.close()
        assert process.wait(60) == (0 if begins else 1)
    written = [path.name for path in run.folder.iterdir() if "json" in path.name]
    assert ("state.json" in written) is begins
    assert (home / ".railhead/supervisor.lock").exists() is begins
    assert not (home / "in memory").exists(), "nothing of a run is left there"


def test_a_second_supervisor_of_the_same_run_writes_nothing(home: Path) -> None:
    run = Run(home, UNTIL_OVER)
    process = run.start()
    pid = run.running()["pid"]
    assert run.start().wait(60) == 1
    assert run.read("state.json")["pid"] == pid
    assert not (run.folder / "results" / "result.json").exists()
    (run.folder / "over").touch()
    process.wait(60)


def test_no_mpirun(home: Path) -> None:
    run = Run(home, "")
    run.write("mpirun.json", ["mpirun", "-np", "2"])
    result = run.result(path="/nowhere")
    assert (result["state"], result["exit_code"]) == ("failed", 127)
    assert "mpirun cannot be started" in result["culprit"]["lines"][0]


BROKEN = {
    "no run.json": ("rm run.json", "FileNotFoundError"),
    "half a run.json": ("printf '{' >run.json", "JSONDecodeError"),
    "no mpirun.json": ("rm mpirun.json", "FileNotFoundError"),
    "no secrets": ("""sed -i 's/"secrets": ../"secrets": ["A"]/' run.json""", "secrets.json"),
    "a fault of the reader": (
        "echo 'RunOutput.add_line = None' >>railhead.pyz/host/output/rank_output.py",
        "TypeError",
    ),
    "a fault at the end": (
        "echo 'verdict = None' >>railhead.pyz/host/output/mpirun_output.py",
        "TypeError",
    ),
    "no way to sweep": (
        "echo 'end_on_all_hosts = None' >>railhead.pyz/host/run/end_processes.py",
        "TypeError",
    ),
}


@pytest.mark.parametrize("breaking, reason", BROKEN.values(), ids=BROKEN)
def test_a_fault_of_the_supervisor_is_reported(home: Path, breaking: str, reason: str) -> None:
    run = Run(home, f"{says(0, 'x')}; sleep 1; exit 1")
    programs.own(run.folder)
    subprocess.run(["sh", "-c", breaking], cwd=run.folder, check=True)
    result = run.result()
    assert (result["state"], result["exit_code"]) == ("failed", 1)
    assert reason in "\n".join(result["culprit"]["lines"])
    assert reason in run.read("state.json")["reason"]


def test_a_fault_of_the_supervisor_ends_mpirun(home: Path) -> None:
    run = Run(home, f"echo $$ >pid; {says(0, 'x')}; exec sleep 600")
    programs.append(run.folder, "output/rank_output.py", "RunOutput.add_line = None\n")
    assert run.result()["state"] == "failed"
    assert not is_alive(int((run.folder / "pid").read_text()))


def test_mpirun_ends_with_a_killed_supervisor(home: Path) -> None:
    run = Run(home, "exec sleep 600")
    process = run.start()
    pid = run.running()["mpirun"]
    process.kill()
    process.wait()
    wait_until(lambda: not is_alive(pid))


CANCELS = {
    "one that obeys": "exec sleep 600",
    "one that does not": "trap '' TERM; while :; do sleep 1; done",
}


@pytest.mark.parametrize("script", CANCELS.values(), ids=CANCELS)
def test_cancelled(home: Path, script: str) -> None:
    run = Run(home, script)
    process = run.start()
    run.running()
    process.terminate()
    process.wait(60)
    result = run.read("results/result.json")
    assert (result["state"], result["culprit"]) == ("cancelled", None)


def test_what_holds_the_pipe_does_not_hold_the_run(home: Path) -> None:
    run = Run(home, f"sleep 600 & {says(0, 'printed')}; exit 0")
    result = run.result()
    assert (result["state"], run.log("rank-0")) == ("succeeded", "printed\n")
    assert result["swept"]["a"]["ended"] == 1


def test_a_progress_bar_is_seen_before_its_line_ends(home: Path) -> None:
    bar = r"printf '[1,0]<stdout>:10%%\r[1,0]<stdout>:20%%'"
    run = Run(home, f"{bar}; while [ ! -e {home}/over ]; do sleep 0.1; done")
    process = run.start()
    run.running()
    wait_until(lambda: run.read("state.json").get("begun") == {"0": "20%"})
    (home / "over").touch()
    process.wait(60)
    assert run.read("state.json")["begun"] == {}
    assert run.log("rank-0") == "10%\r20%\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB: the programs of a run have a third of it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
    if os.geteuid() or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.root
@pytest.mark.parametrize("code", [0, 3])
def test_a_full_disk_does_not_lose_the_end(small_disk: Path, code: int) -> None:
    many = [says(0, f"{n} " + "x" * 300) for n in range(200)]
    records = [says(0, f'@railhead {{"kind": "message", "text": "{n:0300}"}}') for n in range(200)]
    fill = "head -c 100000000 /dev/zero >work/big 2>/dev/null; rm -f work/gap"
    script = "; ".join(
        ["head -c 30000 /dev/zero >work/gap", fill, *many, *records, ENDS, f"exit {code}"]
    )
    run = Run(small_disk, "")
    (small_disk / "do.sh").write_text(script)
    run.write("mpirun.json", ["sh", str(small_disk / "do.sh")])
    result = run.result()
    assert (result["state"], result["exit_code"]) == ("failed" if code else "succeeded", code)
    assert "No space left on device" in result["trouble"]
    assert "No space left on device" in run.read("state.json")["trouble"]
    texts = (run.folder / "results" / "metrics.jsonl").read_text().splitlines()
    assert all(json.loads(text)["kind"] == "message" for text in texts)
    assert {len(line.split(" ")[1]) for line in run.log("rank-0").splitlines()} == {300}


@pytest.mark.root
def test_a_disk_without_inodes_does_not_lose_the_end(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,nr_inodes=200", str(small_disk)], check=True)
    fill = "n=0; while : 2>/dev/null >work/$n; do n=$((n+1)); done"
    run = Run(small_disk, "")
    (small_disk / "do.sh").write_text("; ".join([fill, says(0, "x"), ENDS, "exit 0"]))
    run.write("mpirun.json", ["bash", str(small_disk / "do.sh")])
    result = run.result()
    assert (result["state"], result["exit_code"]) == ("succeeded", 0)


def printed(text: str) -> str:
    """sh of a rank that prints a record and a line."""
    record = json.dumps({"kind": "message", "text": text})
    return f"{says(0, f'@railhead {record}')}; {says(0, text)}"


@pytest.mark.root
@pytest.mark.parametrize("folder", ["results", "logs", "checkpoints", "work"])
@pytest.mark.parametrize("by", ["bytes", "inodes"])
def test_a_folder_on_a_disk_that_is_full_for_a_while_ends_no_run(
    home: Path, folder: str, by: str
) -> None:
    """Each folder that a run writes is its own disk. What came meanwhile is written after that."""
    run = Run(home, "", program=PROGRAM)
    place = run.folder / folder
    place.mkdir(exist_ok=True)
    options = "size=64k" if by == "bytes" else "size=1m,nr_inodes=8"
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
    if os.geteuid() or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        fill = "for n in $(seq 99); do : >FILL$n || break; done"
        if by == "bytes":
            fill = "head -c 1000000 /dev/zero >FILL1"
        full, after = (printed(text) for text in ("full", "after"))
        script = f"({fill}) 2>/dev/null; {full}; sleep 1.5; rm FILL*; {after}; sleep 0.5"
        run.mpirun(script.replace("FILL", f"{place}/fill"))
        result = run.result()
        log, metrics = run.log("rank-0"), (run.folder / "results/metrics.jsonl").read_text()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
    assert result["state"] == "succeeded"
    assert log.endswith("full\nafter\n") and '"full"' in metrics and '"after"' in metrics


def test_what_mpirun_has_not_passed_on_is_in_log_and_metrics(home: Path) -> None:
    """It reads nothing in the second after the death of a rank. Of another host's rank nothing is
    known, and who failed is known from mpirun alone."""
    metrics = [{"name": "loss", "pattern": r"loss: (\d+)"}]
    run = Run(home, "", program=PROGRAM, metrics=metrics)
    all_of_it = r"loss: 1\036loss: 2\036@railhead {\"kind\": \"ended\", \"exit\": 7}\036"
    keeps = "; ".join(
        f"printf '%019d\\n{all_of_it}' 0 >{run.folder}/output-{rank}" for rank in (0, 1)
    )
    dies = "echo 'mpirun noticed that process rank 1 with PID 9 on node b exited on signal 9' >&2"
    run.mpirun(f"{keeps}; {says(0, 'loss: 1')}; {says(1, 'loss: 1')}; {dies}; exit 137")
    result = run.result()
    assert run.log("rank-0").splitlines()[:2] == ["loss: 1", "loss: 2"]
    assert run.log("rank-1").splitlines()[:1] == ["loss: 1"] and "loss: 2" not in run.log("rank-1")
    records = map(json.loads, (run.folder / "results/metrics.jsonl").read_text().splitlines())
    assert [record["value"] for record in records if record["kind"] == "metric"] == [1, 2]
    assert (result["culprit"]["rank"], result["culprit"]["signal"]) == (1, 9)


@pytest.mark.parametrize(
    ("ended", "state"), [((), "failed"), ((0,), "failed"), ((0, 1), "succeeded")]
)
def test_a_run_succeeds_only_if_every_rank_was_seen_to_end(
    home: Path, ended: tuple[int, ...], state: str
) -> None:
    """Open MPI 5 ends with 0 when it has lost a host, and leaves the ranks."""
    ends = "".join(rf"[1,{rank}]<stdout>:a\034" for rank in ended)
    run = Run(home, "")
    run.write("mpirun.json", ["sh", "-c", f"printf '{ends}'; exit 0"])
    result = run.result()
    assert (result["state"], bool(result["exit_code"])) == (state, state == "failed")
    if state == "failed":
        assert result["culprit"]["lines"] and result["cause"]


def test_a_run_is_cancelled_when_its_hours_are_over(home: Path) -> None:
    result = Run(home, "exec sleep 600", max_hours=1 / 3600).result()
    assert result["state"] == "cancelled"
    assert "--max-hours" in result["why"] and "budget" not in result["why"]


def test_a_run_is_cancelled_when_its_budget_is_spent(home: Path) -> None:
    result = Run(home, "exec sleep 600", max_hours=1 / 3600, budget=0.5).result()
    assert result["state"] == "cancelled" and "its budget of 0.5 USD" in result["why"]


def test_results_go_to_the_bucket_also_where_no_machine_is_to_stop(home: Path) -> None:
    run = Run(home, "exit 0", bucket={"url": "s3://b", "client": "none"})
    programs.change(run.folder, "supervisor/stop_machines.py", "PAUSE = 5.0", "PAUSE = 0.1")
    run.start().wait(60)
    machines = run.read("state.json")["machines"]
    assert machines["phase"] == "left to you" and "No such file" in machines["upload"]


def test_machines_are_kept_by_a_process_without_the_runs_mark(home: Path) -> None:
    run = Run(home, "exit 3", stop={"argv": [["true"], None], "keep_minutes": 5})
    process = run.start()
    run.running()
    wait_until(lambda: "machines" in run.read("state.json"))
    assert run.read("state.json")["state"] == "failed"
    assert run.read("state.json")["machines"]["phase"] == "keeping"
    marks = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    assert f"HOME={home}".encode() in marks
    assert not any(mark.startswith(b"RAILHEAD_") for mark in marks)
    assert run.read("state.json")["pid"] == process.pid
    again = Run(home, says(0, "x"), "r2")  # the chief is free for the next run, which takes over
    assert again.result()["state"] == "succeeded"
    process.wait(60)
    assert run.read("state.json")["machines"]["phase"] == "left to r2"


@pytest.mark.parametrize(
    ("hours", "why"), [(0.9, None), (1.1, "its 1 hours (--max-hours) were over")]
)
def test_a_cancel_between_two_attempts_says_why(
    monkeypatch: pytest.MonkeyPatch, hours: float, why: str | None
) -> None:
    """Nobody else says that the time of the run was over; a user knows that he cancelled it."""
    monkeypatch.setattr(supervisor, "CANCELLED", True)
    between = supervisor.Supervisor.__new__(supervisor.Supervisor)
    state = SimpleNamespace(run_seconds=hours * 3600)
    vars(between).update(run=run_document(retries=3, max_hours=1.0), state=state)
    failed = Result(state="failed", culprit=Culprit(1, "b", ()))
    result = between.unless_cancelled(failed)
    assert (result.state, result.culprit, result.why) == ("cancelled", None, why)
