"""Runs over two local SSH hosts, as a person types them: results, scripts, and how they fail.

Scripts here do without TensorFlow where they can, so that each run takes a few seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path

from e2e.local_hosts import Operator, only_first_host, ranks_of, run_id, wait_until
from e2e.scripts import JOIN


def test_a_missed_threshold_is_exit_3_and_auto_uses_one_device_on_one_host(
    operator: Operator,
) -> None:
    words = ("--strategy", "auto", "--preset", "smoke", "--set", "min_accuracy=0.99")
    with only_first_host(operator):
        done = operator.fab("train", *words).ended(3, "below min_accuracy")
    assert "strategy auto: one-device, because" in done.out
    assert (operator.last / "model.keras").exists()
    assert operator.result()["size"] == 1


def test_a_second_bootstrap_changes_nothing_and_reports_so(operator: Operator) -> None:
    def files() -> set[tuple[str, int]]:
        folders = operator.home.glob(".railhead/clusters/ready/hosts/*/home/.railhead/*/*/*")
        return {(str(path), path.lstat().st_mtime_ns) for path in folders}

    before = files()
    operator.fab("bootstrap").ended(0, "nothing was changed", "[h1, h2] nothing to do")
    operator.fab("plan").ended(0, "[h1, h2] nothing to do")
    assert before and files() == before


NAMES = ("training/__init__.py", "bootstrap.py", "stacks/__init__.py", "tests/__init__.py")
ARGUMENTS = ["--epochs", "3", "", "a  b", "it's", "$HOME", "*", "--", "--hosts", "\\", ";reboot"]
ARGUMENTS += ["`id`"]
# Each rank writes what it sees; rank 0 also a tree of results, with what cannot be fetched.
SCRIPT = (
    JOIN
    + """
import training, bootstrap, stacks, tests
assert not pathlib.Path("ckpt").exists(), "from an earlier run"
assert pathlib.Path("data/names.txt").read_text() == "uploaded\\n"
os.makedirs("ckpt")
pathlib.Path(f"ckpt/rank-{rank}.h5").write_text("weights")
pathlib.Path("notes.txt").write_text("notes")
results = pathlib.Path(os.environ["RAILHEAD_RESULTS"])
if rank == 0:
    seen = dict(names=[m.WHO for m in (training, bootstrap, stacks, tests)],
        path=sys.path[0], cwd=os.getcwd(), file=__file__, name=__name__, argv=sys.argv,
        cores=sorted(os.sched_getaffinity(0)), token=os.environ["TOKEN"][::-1])
    (results / "seen.json").write_text(json.dumps(seen))
    (results / "saved/variables").mkdir(parents=True)
    (results / "saved/saved_model.pb").write_text("graph")
    (results / "saved/variables/v.data").write_text("weights")
    (results / "latest").symlink_to("saved")
    os.mkfifo(results / "pipe")
print("the token is", os.environ["TOKEN"], "and", os.environ["PLAIN"])
print(open("/proc/self/cmdline").read())
for i in range(30000):
    print("line", i)
"""
)
TOKEN = "hunter2\nsecond-line"


def write_project(operator: Operator) -> None:
    """A script beside modules with the names of the product's packages."""
    for name in NAMES:
        operator.write(name, f"WHO = {name!r}\n")
    operator.write("fabfile.py", "raise SystemExit('not a file of the product')\n")
    operator.write("train.py", SCRIPT)
    operator.write("data/names.txt", "uploaded\n")


def test_a_script_has_its_folder_arguments_and_secret_and_its_results_come_back(
    operator: Operator,
) -> None:
    write_project(operator)
    args = "--epochs 3 '' 'a  b' \"it's\" '$HOME' '*' -- '--hosts' '\\' ';reboot' '`id`'"
    options = ("--secret", "TOKEN", "--env", "PLAIN=seen", "--outputs", "*.h5")
    command = ("train", "--script", "train.py", f"--args={args}", *options)
    done = operator.fab(*command, env={"TOKEN": TOKEN}).ended(0, "saved/variables/v.data")
    results = operator.last

    seen = json.loads((results / "seen.json").read_text())
    assert seen["names"] == [*NAMES] and seen["argv"] == ["train.py", *ARGUMENTS]
    assert seen["path"] == seen["cwd"] == str(Path(seen["file"]).parent)
    assert seen["name"] == "__main__" and seen["token"] == TOKEN[::-1]
    assert seen["cores"] == sorted(os.sched_getaffinity(0)), "a rank was bound to some cores"

    outputs = results / "outputs"
    assert [p.relative_to(outputs).as_posix() for p in outputs.rglob("*.*")] == ["ckpt/rank-0.h5"]
    assert "results/latest (link), results/pipe (FIFO)" in done.out
    assert (results / "saved/variables/v.data").read_text() == "weights"
    assert (results / "saved/saved_model.pb").read_text() == "graph"

    assert_few_requests(operator)
    assert_status_reads_hosts_at_once(operator)
    assert_secret_is_hidden(operator, done.out)
    assert_output_is_complete(results, done.out)
    assert_next_run_is_fresh(operator)


OPERATION = re.compile(r"Z (h1|h2): (?:agent )?(\w+).* received \([\d.]+ s\)$", re.MULTILINE)


def assert_few_requests(operator: Operator) -> None:
    """The requests to each host until the supervisor has started: each is a round trip."""
    log = max((operator.home / ".railhead/logs").glob("*-train-*")).read_text()
    requests: dict[str, list[str]] = {"h1": [], "h2": []}
    for name, operation in OPERATION.findall(log.partition(": started on ")[0]):
        requests[name].append(operation)
    assert requests["h2"] == ["sh", "start", "ports", "write", "tree", "make_temporary"]
    assert requests["h1"] == ["sh", "start", "ports", "write", "tree", "run", "release"]


def assert_status_reads_hosts_at_once(operator: Operator) -> None:
    """The facts, the lists of runs and endpoints, and of the chief the files of the run."""
    operator.fab("status").ended(0)
    log = max((operator.home / ".railhead/logs").glob("*-status-*")).read_text()
    assert sorted(OPERATION.findall(log)) == [*[("h1", "sh")] * 3, *[("h2", "sh")] * 2], log


def assert_secret_is_hidden(operator: Operator, out: str) -> None:
    """Only the script has the secret: no output, file or host keeps it."""
    files = (p for p in operator.last.rglob("*") if p.is_file() and p.name != "seen.json")
    everything = out + "".join(p.read_text(errors="replace") for p in files)
    assert "hunter2" not in everything and "second-line" not in everything
    assert "the token is [secret]" in everything and "and seen" in everything
    files_with_secrets = [*(operator.home / ".railhead").rglob("secrets*.json")]
    for path in Path("/dev/shm").glob("railhead-*/secrets*"):
        with contextlib.suppress(FileNotFoundError):  # of another worker's run, which ends
            files_with_secrets += [path] if "hunter2" in path.read_text() else []
    assert files_with_secrets == [], "the secret outlived its run on a host"


def assert_output_is_complete(results: Path, out: str) -> None:
    """All lines of rank 0 are printed and those of other ranks are in their logs."""
    lines = [line for line in out.splitlines() if line.startswith("[h1] line ")]
    assert lines == [f"[h1] line {i}" for i in range(30000)], "without a terminal it is a log"
    assert sum(line.startswith("[h2] ") for line in out.splitlines()) < 100
    log = (results / "logs" / "rank-1.log").read_text().splitlines()
    assert [line for line in log if line.startswith("line ")] == [f"line {i}" for i in range(30000)]


def assert_next_run_is_fresh(operator: Operator) -> None:
    """The next run has the files of its workdir and none of an earlier run."""
    operator.write("lib/own.py", "X = 1\n")
    script = JOIN + "assert os.path.isdir('lib') and os.path.isfile('src/train.py')\n"
    script += "assert not os.path.exists('ckpt'), 'from an earlier run'\n"
    operator.write("src/train.py", script)
    ended = operator.document("train", "src/train.py", "--workdir", ".")
    assert (ended["state"], ended["exit_code"], ended["size"]) == ("succeeded", 0, 2)
    status = operator.document("status")
    assert [(host["name"], host["reached"]) for host in status["hosts"]] == [
        ("h1", True),
        ("h2", True),
    ]
    assert status["run"] == {
        "run_id": ended["run_id"],
        "state": "succeeded",
        "results": ended["results"],
    }
    assert ended["run_id"] in {run["run_id"] for run in operator.document("runs")}
    quiet = operator.fab("--quiet", "train", "src/train.py", "--workdir", ".").ended(0)
    lines = quiet.out.splitlines()
    assert [line.split()[0] for line in lines] == ["results:", "run"], "only the result"
    operator.fab("train", "--script", "src/train.py", "--workdir", "lib").ended(2, "src/train.py")


WRITER = (
    JOIN
    + """
if rank == 0:
    os.makedirs("ckpt")
    pathlib.Path("ckpt/step-1.h5").write_text("weights")
time.sleep(120)
"""
)


def test_checkpoints_are_fetched_during_a_run_and_after_its_supervisor_died(
    operator: Operator,
) -> None:
    operator.write("train.py", WRITER)
    train = ("train", "--script", "train.py", "--detach", "--secret", "TOKEN")
    run = run_id(operator.fab(*train, env={"TOKEN": "s3cret"}).ended(0).out)
    folder = operator.run_folder(run)
    wait_until((folder / "work/ckpt/step-1.h5").exists, 60, "there is a checkpoint")
    folders = [*operator.home.glob(f".railhead/clusters/ready/hosts/*/home/.railhead/runs/{run}")]
    temporary = [(path / name).readlink() for path in folders for name in ("memory", "tmp")]
    left = [file for path in temporary for file in path.glob("secrets*")]
    assert left == [], "each rank removes its own"
    sessions = [len([*path.glob("ompi.*")]) for path in temporary]
    assert sessions == [0, 1] * 2, "sessions of Open MPI"
    operator.fab("fetch").ended(0, "outputs/ckpt/step-1.h5", "state: running")
    checkpoint = operator.last / "outputs/ckpt/step-1.h5"
    assert checkpoint.read_text() == "weights"
    assert not (operator.last / "outputs/train.py").exists(), "it was uploaded, not an output"
    checkpoint.unlink()
    os.kill(json.loads((folder / "state.json").read_text())["pid"], signal.SIGKILL)
    wait_until(lambda: not ranks_of(operator), 30, "the ranks have ended with it")
    operator.fab("fetch").ended(0, "outputs/ckpt/step-1.h5", "LOST: its supervisor died")
    assert checkpoint.read_text() == "weights"
    operator.fab("cancel")
    assert not [path for path in temporary if path.exists()]


# Without TensorFlow: the error is that of an optimizer of Keras 2 with Keras 3.
OTHER_KERAS = (
    JOIN
    + """
os.mkdir("made")
print("Keras 2 is", os.environ.get("TF_USE_LEGACY_KERAS"), os.environ["TOKEN"][::-1])
if "TF_USE_LEGACY_KERAS" not in os.environ:
    sys.exit("ImportError: `keras.optimizers.legacy` is not supported in Keras 3. When using")
pathlib.Path(f"rank-{rank}.txt").write_text("trained")
"""
)


def test_a_script_that_needs_the_other_keras_starts_again_on_all_hosts(operator: Operator) -> None:
    operator.write("train.py", OTHER_KERAS)
    train = ("train", "--script", "train.py", "--secret", "TOKEN")
    done = operator.fab(*train, env={"TOKEN": "s3cret"}).ended(
        0, "Keras 3: nothing in train.py needs Keras 2", "started again with Keras 2", "succeeded"
    )
    results, result = operator.last, operator.result()
    assert [attempt["keras"] for attempt in result["attempts"]] == [3]
    assert json.loads((results / "run.json").read_text())["keras"] == 2
    for rank in (0, 1):
        lines = (results / f"logs/rank-{rank}.log").read_text().splitlines()
        shown = [line for line in lines if line.startswith("Keras 2 is")]
        assert shown[0].startswith("Keras 2 is None") and shown[-1] == "Keras 2 is 1 terc3s"
    assert (results / "outputs/rank-0.txt").read_text() == "trained"
    assert "s3cret" not in done.out
    run = run_id(done.out)
    operator.fab("report", run).ended(0)
    assert "2, after 3 failed" in (results / "report.html").read_text()
    operator.fab("train", "--resume", run, "--keras", "3").ended(2, "which has 2")


def test_an_exception_is_reported_with_the_scripts_own_frames_only(operator: Operator) -> None:
    operator.write("bad.py", "def inner():\n    raise ValueError('wrong shape')\n\ninner()\n")
    done = operator.fab("train", "--script", "bad.py").ended(
        1, "ValueError: wrong shape", "in inner"
    )
    assert "railhead.pyz" not in done.out
    culprit = operator.result()["culprit"]
    assert culprit["exit"] == 1 and culprit["lines"][-1] == "ValueError: wrong shape"


def test_ranks_that_never_joined_each_other_are_a_failure(operator: Operator) -> None:
    operator.write("alone.py", "print('I train by myself')\n")
    operator.fab("train", "--script", "alone.py").ended(
        1, "the 2 ranks of this script never joined each other", "--independent"
    )
    assert (operator.result()["state"], operator.result()["size"]) == ("failed", 2)


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
