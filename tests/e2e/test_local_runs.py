"""Runs over two local SSH hosts, as a person types them: what works, what fails, what is left.

Scripts here do without TensorFlow where they can, so that each run takes a few seconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from e2e.local_hosts import Operator, is_followed, marked, wait_until

# Joins the ranks as Horovod would, without a second of TensorFlow's import.
JOIN = """
import ctypes, os, sys, time, json, pathlib
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
import atexit
atexit.register(mpi.MPI_Finalize)
rank = int(os.environ["RAILHEAD_RANK"])
"""
SLOW = (
    JOIN
    + """
import subprocess
subprocess.Popen(["sleep", "3600"])
subprocess.Popen(["sleep", "3601"], start_new_session=True)
for tick in range(1200):
    print("tick", tick)
    time.sleep(0.1)
"""
)


def run_id(out: str) -> str:
    """The id in `run ID started`."""
    return next(line.split()[1] for line in out.splitlines() if line.endswith("breaks"))


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """What a command has printed up to the line that has `text`."""
    assert process.stdout
    out = ""
    for line in process.stdout:
        out += line
        if text in line:
            return out
    raise AssertionError(f"it ended without {text!r}:\n{out}")


def start_slow(operator: Operator) -> str:
    """A long run, started and left; its id."""
    operator.write("slow.py", SLOW)
    started = operator.fab("train", "--script", "slow.py", "--detach").ended(0, "fab attach")
    wait_until(lambda: len(marked(operator.home)) >= 6, 20, "the ranks run")
    return run_id(started.out)


def test_our_training_comes_back_with_all_its_results(operator: Operator) -> None:
    done = operator.fab("train", "--preset", "smoke").ended(0, "nothing was changed", "succeeded")
    assert "Keras 3" in done.out
    here = {
        p.relative_to(operator.last).as_posix() for p in operator.last.rglob("*") if p.is_file()
    }
    wanted = "run.json metrics.jsonl result.json evaluation.json model.keras curves.svg"
    assert {*wanted.split(), "logs/rank-0.log", "logs/rank-1.log"} <= here
    records = [json.loads(x) for x in (operator.last / "metrics.jsonl").read_text().splitlines()]
    assert {r["host"] for r in records} == {"h1", "h2"}
    assert operator.result()["size"] == 2
    assert json.loads((operator.last / "run.json").read_text())["launcher"] == "horovod"


@pytest.mark.parametrize("text", [(), ("--strategy", "multiworker")])
def test_tensorflow_launches_over_both_hosts(operator: Operator, text: tuple[str, ...]) -> None:
    operator.fab("train", "--launcher", "tensorflow", "--preset", "smoke", *text).ended(0)
    run = json.loads((operator.last / "run.json").read_text())
    assert run["strategy"] == "multiworker" and len(set(run["tf_cluster"]["worker"])) == 2


def test_a_second_bootstrap_changes_nothing_and_reports_so(operator: Operator) -> None:
    def files() -> set[tuple[str, int]]:
        folders = operator.home.glob(".railhead/clusters/ready/hosts/*/home/.railhead/*/*/*")
        return {(str(path), path.lstat().st_mtime_ns) for path in folders}

    before = files()
    operator.fab("bootstrap").ended(0, "nothing was changed", "[h1] nothing to do")
    operator.fab("plan").ended(0, "[h2] nothing to do")
    assert before and files() == before


def test_a_threshold_that_is_missed_is_exit_3(operator: Operator) -> None:
    args = ("--preset", "smoke", "--set", "min_accuracy=0.99")
    operator.fab("train", *args).ended(3, "below min_accuracy")
    assert (operator.last / "model.keras").exists()


def test_a_script_finds_its_own_folder_and_nothing_of_ours(operator: Operator) -> None:
    for name in ("training/__init__.py", "bootstrap.py", "stacks/__init__.py", "tests/__init__.py"):
        operator.write(name, f"WHO = {name!r}\n")
    operator.write("fabfile.py", "raise SystemExit('this is not ours to run')\n")
    operator.write(
        "train.py",
        JOIN + "import training, bootstrap, stacks, tests\n"
        "if rank == 0:\n"
        "    found = dict(names=[m.WHO for m in (training, bootstrap, stacks, tests)],\n"
        "        path=sys.path[0], cwd=os.getcwd(), file=__file__, name=__name__, argv=sys.argv,\n"
        "        cores=sorted(os.sched_getaffinity(0)))\n"
        "    pathlib.Path('found.json').write_text(json.dumps(found))\n",
    )
    args = "--epochs 3 '' 'a  b' \"it's\" '$HOME' '*' -- '--hosts' '\\' ';reboot' '`id`'"
    operator.fab("train", "--script", "train.py", f"--args={args}").ended(0)
    found = json.loads((operator.last / "outputs" / "found.json").read_text())
    assert found["names"] == [
        "training/__init__.py",
        "bootstrap.py",
        "stacks/__init__.py",
        "tests/__init__.py",
    ]
    argv = [
        "--epochs",
        "3",
        "",
        "a  b",
        "it's",
        "$HOME",
        "*",
        "--",
        "--hosts",
        "\\",
        ";reboot",
        "`id`",
    ]
    assert found["argv"] == ["train.py", *argv]
    assert found["path"] == found["cwd"] == str(Path(found["file"]).parent)
    assert found["name"] == "__main__"
    assert found["cores"] == sorted(os.sched_getaffinity(0)), "a rank was bound to some cores"


def test_what_rank_0_wrote_comes_back_and_each_run_begins_fresh(operator: Operator) -> None:
    operator.write("data/names.txt", "shipped\n")
    operator.write(
        "train.py",
        JOIN + "assert pathlib.Path('data/names.txt').read_text() == 'shipped\\n'\n"
        "assert not pathlib.Path('ckpt').exists(), 'left by an earlier run'\n"
        "os.makedirs('ckpt')\n"
        "pathlib.Path(f'ckpt/rank-{rank}.h5').write_text('weights')\n"
        "pathlib.Path('notes.txt').write_text('notes')\n",
    )
    for _ in range(2):
        operator.fab("train", "--script", "train.py", "--outputs", "*.h5").ended(0)
        found = [
            p.relative_to(operator.last / "outputs").as_posix()
            for p in (operator.last / "outputs").rglob("*.*")
        ]
        assert found == ["ckpt/rank-0.h5"]


def test_whole_trees_of_results_come_back(operator: Operator) -> None:
    operator.write(
        "train.py",
        JOIN + "if rank == 0:\n"
        "    results = pathlib.Path(os.environ['RAILHEAD_RESULTS'])\n"
        "    (results / 'saved/variables').mkdir(parents=True)\n"
        "    (results / 'saved/saved_model.pb').write_text('graph')\n"
        "    (results / 'saved/variables/v.data').write_text('weights')\n"
        "    (results / 'latest').symlink_to('saved')\n"
        "    os.mkfifo(results / 'pipe')\n",
    )
    done = operator.fab("train", "--script", "train.py").ended(0, "saved/variables/v.data")
    assert "not brought: results/latest (link), results/pipe (FIFO)" in done.out
    assert (operator.last / "saved/variables/v.data").read_text() == "weights"
    assert (operator.last / "saved/saved_model.pb").read_text() == "graph"


WRITER = (
    JOIN
    + """
if rank == 0:
    os.makedirs("ckpt")
    pathlib.Path("ckpt/step-1.h5").write_text("weights")
time.sleep(120)
"""
)


def test_checkpoints_come_back_while_a_run_goes_on_and_when_its_supervisor_died(
    operator: Operator,
) -> None:
    operator.write("train.py", WRITER)
    train = ("train", "--script", "train.py", "--detach", "--secret", "TOKEN")
    started = run_id(operator.fab(*train, env={"TOKEN": "s3cret"}).ended(0).out)
    folder = operator.home / f".railhead/clusters/ready/hosts/h1/home/.railhead/runs/{started}"
    wait_until((folder / "work/ckpt/step-1.h5").exists, 30, "there is a checkpoint")
    made = [*operator.home.glob(f".railhead/clusters/ready/hosts/*/home/.railhead/runs/{started}")]
    made = [(each / name).readlink() for each in made for name in ("memory", "tmp")]
    assert [*made[0].parent.glob("railhead-*/secrets*")] == [], "each rank removes its own"
    assert [len([*each.glob("ompi.*")]) for each in made] == [0, 1] * 2, "sessions of Open MPI"
    operator.fab("fetch").ended(0, "outputs/ckpt/step-1.h5", "state: running")
    here = operator.last / "outputs/ckpt/step-1.h5"
    assert here.read_text() == "weights"
    assert not (operator.last / "outputs/train.py").exists(), "it was shipped, not made"
    here.unlink()
    os.kill(json.loads((folder / "state.json").read_text())["pid"], signal.SIGKILL)
    wait_until(lambda: not _ranks(operator), 10, "the ranks have ended with it")
    operator.fab("fetch").ended(0, "outputs/ckpt/step-1.h5", "LOST: its supervisor died")
    assert here.read_text() == "weights"
    operator.fab("cancel")
    assert not [each for each in made if each.exists()]


def test_workdir_is_shipped_and_is_where_the_script_runs(operator: Operator) -> None:
    operator.write("lib/own.py", "X = 1\n")
    operator.write(
        "src/train.py", JOIN + "assert os.path.isdir('lib') and os.path.isfile('src/train.py')\n"
    )
    operator.fab("train", "--script", "src/train.py", "--workdir", ".").ended(0)
    operator.fab("train", "--script", "src/train.py", "--workdir", "lib").ended(2, "src/train.py")


def test_a_secret_reaches_the_program_and_nothing_else(operator: Operator) -> None:
    operator.write(
        "train.py",
        JOIN + "print('the token is', os.environ['TOKEN'], 'and', os.environ['PLAIN'])\n"
        "print(open('/proc/self/cmdline').read())\n"
        "pathlib.Path('proof.txt').write_text(os.environ['TOKEN'][::-1])\n",
    )
    args = ("--secret", "TOKEN", "--env", "PLAIN=seen", "--script", "train.py")
    done = operator.fab("train", *args, env={"TOKEN": "hunter2\nsecond-line"}).ended(0)
    everything = done.out + "".join(
        p.read_text(errors="replace") for p in operator.last.rglob("*") if p.is_file()
    )
    assert "hunter2" not in everything and "second-line" not in everything
    assert "the token is [secret]" in everything and "and seen" in everything
    assert (operator.last / "outputs" / "proof.txt").read_text() == "hunter2\nsecond-line"[::-1]
    left = [p for p in (operator.home / ".railhead").rglob("secrets*.json")]
    left += Path("/dev/shm").glob("railhead-*/secrets*")
    assert left == [], "the secret outlived its run on a host"


def test_a_script_that_exits_3_on_one_rank_is_reported_with_its_last_lines(
    operator: Operator,
) -> None:
    operator.write(
        "bad.py",
        JOIN + "if rank == 1:\n    print('about to fail')\n    os._exit(3)\ntime.sleep(60)\n",
    )
    done = operator.fab("train", "--script", "bad.py").ended(1, "rank 1 on h2 exited with 3")
    assert "| about to fail" in done.out
    assert operator.result()["culprit"]["exit"] == 3


def test_an_exception_is_reported_with_the_scripts_own_frames_only(operator: Operator) -> None:
    operator.write("bad.py", "def inner():\n    raise ValueError('wrong shape')\n\ninner()\n")
    done = operator.fab("train", "--script", "bad.py").ended(
        1, "ValueError: wrong shape", "in inner"
    )
    assert "railhead.pyz" not in done.out
    culprit = operator.result()["culprit"]
    assert culprit["exit"] == 1 and culprit["lines"][-1] == "ValueError: wrong shape"


def test_a_script_that_never_joins_is_reported_that_it_ran_as_separate_worlds(
    operator: Operator,
) -> None:
    operator.write("alone.py", "print('I train by myself')\n")
    operator.fab("train", "--script", "alone.py").ended(
        1, "never called hvd.init()", "2 separate worlds"
    )
    assert (operator.result()["state"], operator.result()["size"]) == ("failed", 2)


def test_ten_thousand_lines_a_second_are_kept_and_those_of_rank_0_shown(operator: Operator) -> None:
    operator.write("loud.py", JOIN + "for i in range(30000):\n    print('line', i)\n")
    done = operator.fab("train", "--script", "loud.py").ended(0)
    lines = [line for line in done.out.splitlines() if line.startswith("[h1] line ")]
    assert lines == [f"[h1] line {i}" for i in range(30000)], "without a terminal it is a log"
    assert sum(line.startswith("[h2] ") for line in done.out.splitlines()) < 100
    log = (operator.last / "logs" / "rank-1.log").read_text().splitlines()
    assert log[0] == "line 0" and log[-1] == "line 29999" and len(log) == 30000


def test_kill_9_of_one_rank_ends_all_within_five_seconds(operator: Operator) -> None:
    start_slow(operator)
    victim = _pid_of_rank(operator, 1)
    attached = operator.start("attach")
    wait_until(lambda: is_followed(operator.home), 30, "it is followed")
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not _ranks(operator), 5, "all ranks of all hosts are gone")
    out, _ = attached.communicate(timeout=30)
    assert attached.returncode == 1, out
    assert "rank 1 on h2 was killed by signal 9" in out and "| tick" in out
    wait_until(lambda: not marked(operator.home), 10, "no process of the run is left")


def _ranks(operator: Operator) -> list[str]:
    return [line for line in marked(operator.home) if "rank.rank" in line or "sleep 360" in line]


def _pid_of_rank(operator: Operator, rank: int) -> int:
    """The rank of this person's run: another test may have one on this machine, too."""
    whose = f"\0RAILHEAD_HOME={operator.home}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "cmdline").read_bytes()
                around = b"\0" + (entry / "environ").read_bytes()
            except OSError:
                continue
            this = f"\0OMPI_COMM_WORLD_RANK={rank}\0".encode()
            if b"rank.rank" in text and whose in around and this in around:
                return int(entry.name)
    raise AssertionError(f"rank {rank} does not run")


def test_a_cancel_leaves_no_process_on_any_host(operator: Operator) -> None:
    started = start_slow(operator)
    operator.fab("train", "--preset", "smoke").ended(2, f"busy with run {started}")
    operator.fab("status").ended(0, "running (heartbeat")
    operator.fab("cancel").ended(
        0, "[h1] no process of the run is left", "[h2] no process of the run is left"
    )
    assert marked(operator.home) == []
    operator.fab("status").ended(0, "cancelled")
    operator.fab("fetch").ended(0, "state: cancelled")


def test_ctrl_c_cancels_and_waits_for_each_hosts_word(operator: Operator) -> None:
    operator.write("slow.py", SLOW)
    process = operator.start("train", "--script", "slow.py")
    wait_until(lambda: len(_ranks(operator)) >= 6, 30, "the ranks run")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 1, out
    assert "[h1] no process of the run is left" in out and "[h2] no process" in out
    assert marked(operator.home) == []


def test_ctrl_c_in_attach_only_detaches(operator: Operator) -> None:
    started = start_slow(operator)
    watched = f".railhead/clusters/ready/hosts/h1/home/.railhead/runs/{started}/attached"
    process = operator.start("attach")
    wait_until((operator.home / watched).exists, 60, "the run is watched")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, operator.state(started)) == (1, "running"), out
    assert len(_ranks(operator)) >= 2
    operator.fab("cancel").ended(0)


def test_a_second_ctrl_c_stops_only_the_waiting(operator: Operator) -> None:
    stays = ["sh", "-c", "trap '' TERM; sleep 3602"]  # until SIGKILL, 2 s after SIGTERM
    operator.write("slow.py", SLOW.replace('["sleep", "3600"]', repr(stays)))
    process = operator.start("train", "--script", "slow.py")
    wait_until(lambda: len(_ranks(operator)) >= 6, 60, "the ranks run")
    process.send_signal(signal.SIGINT)
    out = read_until(process, "press Ctrl-C again to stop waiting")
    process.send_signal(signal.SIGINT)
    out += process.communicate(timeout=30)[0]
    assert process.returncode == 1, out
    assert "stopped waiting: the run may still have processes" in out
    hint = f"fab cancel --run {run_id(out)}"
    assert f"next: {hint}" in out
    operator.fab(*hint.split()[1:]).ended(0, "[h2] no process of the run is left")
    assert marked(operator.home) == []


def test_sigterm_to_fab_train_leaves_the_run_and_says_so(operator: Operator) -> None:
    operator.write("slow.py", SLOW)
    process = operator.start("train", "--script", "slow.py")
    out = read_until(process, "tick 3\n")
    process.send_signal(signal.SIGTERM)
    out += process.communicate(timeout=30)[0]
    assert process.returncode == 1, out
    assert f"terminated; the run continues\n  next: fab attach --run {run_id(out)}" in out
    assert len(_ranks(operator)) >= 6
    operator.fab("cancel").ended(0)


def test_logs_are_printed_and_followed_and_a_rank_without_one_is_a_usage_error(
    operator: Operator,
) -> None:
    started = start_slow(operator)
    no_log = f"run {started} has no log of rank 7; choices: 0 to 1, mpirun, supervisor"
    operator.fab("logs", "--rank", "7").ended(2, no_log)
    operator.fab("logs", "--rank", "1").ended(0, "tick 0\n")
    interrupted, process = (operator.start("logs", "--follow", "--rank", "1") for _ in range(2))
    read_until(interrupted, "tick 9\n")
    interrupted.send_signal(signal.SIGINT)
    out, _ = interrupted.communicate(timeout=30)
    assert f"next: fab attach --run {started}" in out
    assert (interrupted.returncode, operator.state(started)) == (1, "running"), out
    operator.fab("cancel").ended(0)
    out, _ = process.communicate(timeout=30)
    operator.fab("fetch").ended(0)
    followed = out.partition("\n")[2]  # the first line names the hosts
    assert (process.returncode, followed) == (0, (operator.last / "logs/rank-1.log").read_text())


def test_fetch_to_another_folder_moves_the_results_of_a_run(operator: Operator) -> None:
    started = start_slow(operator)
    there = operator.home / "there" / started
    operator.fab("fetch", "--to", str(there.parent)).ended(0, f"results: {there}")
    assert "tick 0" in (there / "logs/rank-1.log").read_text()
    (there / "logs/rank-1.log").unlink()
    operator.fab("cancel", "--run", started).ended(0)
    operator.fab("fetch").ended(0, f"results: {there}", "state: cancelled")
    assert (there / "logs/rank-1.log").exists()
    assert not (operator.folder / "results" / started).exists()


def test_a_killed_controller_ends_nothing(operator: Operator) -> None:
    operator.write("short.py", JOIN + "time.sleep(8)\nprint('done', rank)\n")
    process = operator.start("train", "--script", "short.py")
    wait_until(lambda: _ranks(operator), 30, "the ranks run")
    process.kill()
    process.communicate()
    operator.fab("attach").ended(0, "succeeded")
    assert (operator.last / "logs" / "rank-1.log").read_text() == "done 1\n"


def test_a_lost_connection_is_taken_up_again(operator: Operator) -> None:
    operator.write("short.py", JOIN + "time.sleep(8)\nprint('done', rank)\n")
    process = operator.start("train", "--script", "short.py")
    wait_until(lambda: _ranks(operator), 30, "the ranks run")
    wait_until(lambda: is_followed(operator.home), 30, "it is followed")
    for pid in _session_daemons(operator):
        os.kill(pid, signal.SIGKILL)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and operator.result()["state"] == "succeeded", out
    assert (operator.last / "logs" / "rank-1.log").read_text() == "done 1\n"
    assert out.count("done 0") == 1, out


def _session_daemons(operator: Operator) -> list[int]:
    """The sshd that serve this person's connections (not the listening ones)."""
    found = []
    listening = {p.read_text().strip() for p in operator.home.rglob("sshd.pid")}
    for entry in Path("/proc").iterdir():
        try:
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        if parent in listening and (entry / "exe").resolve().name.startswith("sshd"):
            found.append(int(entry.name))
    return found


BAD = {
    "preset misspelt": (("--preset", "digit"), "Did you mean"),
    "setting misspelt": (("--set", "epoch=3"), "epochs"),
    "setting of a wrong type": (("--set", "epochs=many"), "epochs"),
    "strategy misspelt": (("--launcher", "tensorflow", "--strategy", "mirored"), "mirrored"),
    "strategy of the other launcher": (
        ("--strategy", "mirrored", "--launcher", "horovod"),
        "strategy mirrored is for launcher tensorflow",
    ),
    "one-host strategy on two hosts": (
        ("--launcher", "tensorflow", "--strategy", "mirrored"),
        "runs on one host",
    ),
    "launcher misspelt": (("--launcher", "horvod"), "Did you mean horovod?"),
    "no such script": (("--script", "nowhere.py"), "nowhere.py"),
    "slots of 0": (("--slots", "0"), "--slots"),
    "slots no number": (("--slots", "two"), "--slots"),
    "host twice": (("--hosts", "a,a"), "the same host twice"),
    "no hosts": (("--hosts", ","), "no hosts"),
    "a shell in a host's name": (("--hosts", ";reboot"), "is not a host"),
    "a substitution": (("--hosts", "$(reboot)"), "is not a host"),
    "an option as a host": (("--hosts", "-oProxyCommand=x"), "is not a host"),
    "a path as a run": (("--hosts", "../.."), "is not a host"),
    "a name that does not resolve": (("--hosts", "no-such-host.invalid"), "does not resolve"),
    "nobody answers": (("--hosts", "127.1.2.3:1"), "refused"),
    "secret not set": (("--secret", "NOT_SET_ANYWHERE"), "not set"),
    "keras 4": (("--keras", "4"), "2 or 3"),
    "unknown option": (("--nonsense",), "fab --help train"),
    "arguments after --": (("--", "--epochs", "3"), "--args"),
}


@pytest.mark.parametrize("text, output", BAD.values(), ids=BAD)
def test_bad_input_is_reported_and_starts_nothing(
    operator: Operator, text: tuple[str, ...], output: str
) -> None:
    runs = sorted((operator.home / ".railhead").rglob("run.json"))
    operator.fab("train", *text).ended(2, output)
    assert sorted((operator.home / ".railhead").rglob("run.json")) == runs
    assert not (operator.folder / "results").exists()


@pytest.mark.parametrize("task", ["status", "logs", "fetch", "cancel", "attach"])
def test_a_run_that_is_no_run_is_reported(operator: Operator, task: str) -> None:
    operator.fab(task, "--run", "20200101-000000-ffff").ended(2, "20200101-000000-ffff")
    operator.fab(task, "--run", "../../etc").ended(2, "is not a run's id")


def test_a_shell_opens_on_a_host_and_files_can_be_copied(operator: Operator) -> None:
    operator.fab("exec", "--cmd", "echo $HOME").ended(0, "[h1] ", "hosts/h2/home")
    operator.fab("exec", "--cmd", "exit 4").ended(1, "exit 4")
    operator.fab("exec", "--cmd", "echo @end; echo @go").ended(0, "@end", "@go")
    shown = operator.fab("ssh-config").ended(0, "Include ")
    config = shown.out.strip().rpartition("Include ")[2]
    copied = subprocess.run(
        ["scp", "-F", config, "h2:.railhead/envs/*/.ok", str(operator.folder)], capture_output=True
    )
    assert copied.returncode == 0, copied.stderr
    operator.fab("ssh", "nobody").ended(2, "one of h1, h2")
