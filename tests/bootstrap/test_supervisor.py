"""The supervisor leaves a result whatever happens: with a pretended mpirun, and with the real one.

tests/cases/mpirun holds what OpenMPI 4.1.4 wrote to stderr at each kind of failure.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from standins.manifests import manifest as remote_manifest

REMOTE = Path(__file__).parents[2] / "bootstrap" / "remote" / "run"
CASES = Path(__file__).parents[1] / "cases" / "mpirun"
PARTS = [*REMOTE.glob("*.py"), *REMOTE.with_name("rank").glob("*.py")]
END = r"\036"
needs_mpirun = pytest.mark.skipif(not shutil.which("mpirun"), reason="there is no mpirun here")


class Run:
    """A run's folder, and the supervisor that is started in it."""

    def __init__(self, home: Path, script: str, run_id: str = "r1", **changes: Any) -> None:
        self.home, self.run_id = home, run_id
        self.folder = home / ".railhead" / "runs" / run_id
        for name in ("work", "results", "logs"):
            (self.folder / name).mkdir(parents=True)
        for path in PARTS:
            shutil.copy(path, self.folder)
        hosts = [{"name": "a", "slots": 1}, {"name": "b", "slots": 1}]
        run = {"run_id": run_id, "hosts": hosts, "size": 2, "secrets": [], "outputs": ["**"]}
        rest = {"runtime": {"digest": "d"}, "env": {}, "launcher": "tensorflow", "keras": 3}
        self.write(
            "run.json", {**run, **rest, "tf_cluster": None, "roles": None, "data": [], **changes}
        )
        self.write("mpirun.json", ["sh", "-c", script])
        (home / "bin").mkdir(exist_ok=True)
        (home / "bin" / "ssh").write_text('#!/bin/sh\necho \'{"ended": 0, "left": []}\'\n')
        (home / "bin" / "ssh").chmod(0o755)

    def write(self, name: str, document: Any) -> None:
        (self.folder / name).write_text(json.dumps(document))

    def read(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    def log(self, name: str) -> str:
        return (self.folder / "logs" / f"{name}.log").read_bytes().decode()

    def start(self, path: str = os.environ["PATH"]) -> subprocess.Popen[bytes]:
        environment = {"HOME": str(self.home), "PATH": f"{self.home}/bin:{path}"}
        environment |= {"RAILHEAD_RUN": self.run_id, "RAILHEAD_HOME": str(self.home)}
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        argv = [sys.executable, "-I", "-S", str(self.folder / "supervisor.py")]
        log = (self.folder / "logs" / "supervisor.log").open("wb")
        return subprocess.Popen(argv, env=environment, stdout=log, stderr=log)

    def result(self, path: str = os.environ["PATH"]) -> Any:
        """result.json, once the run has ended; state.json says the same."""
        self.start(path).wait(60)
        result = self.read("results/result.json")
        assert self.read("state.json")["state"] == result["state"]
        assert not list(self.folder.glob("**/*.part")) and not (self.folder / "reserve").exists()
        return result

    def running(self) -> Any:
        """state.json, once mpirun runs."""
        for _ in range(500):
            if (self.folder / "state.json").exists() and self.read("state.json").get("mpirun"):
                break
            time.sleep(0.02)
        return self.read("state.json")


def says(rank: int, text: str) -> str:
    """sh that prints a line as mpirun --tag-output passes it on from a rank."""
    quoted = text.replace("\\", "\\\\").replace("%", "%%").replace("'", "'\\''")
    return f"printf '[1,{rank}]<stdout>:{quoted}{END}'"


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
def test_what_only_looks_like_a_record_is_a_line(home: Path, text: str) -> None:
    run = Run(home, says(0, f"@railhead {text}"))
    assert run.result()["state"] == "succeeded"
    assert run.log("rank-0") == f"@railhead {text}\n"


EVALUATIONS = [
    '{"kind": "evaluation"}',
    '{"kind": "evaluation", "accuracy": "0.5", "passed": null}',
]
EVALUATIONS += ['{"kind": "evaluation", "accuracy": [1], "passed": false, "loss": -Infinity}']


@pytest.mark.parametrize("record", EVALUATIONS, ids=range(len(EVALUATIONS)))
def test_an_evaluation_is_kept_as_a_script_reported_it(home: Path, record: str) -> None:
    run = Run(home, says(0, f"@railhead {record}"))
    output = json.loads(record)
    assert run.result()["evaluation"] == {key: output[key] for key in output if key != "kind"}


BLAMED: dict[str, dict[str, Any]] = {
    "signal": {"rank": 1, "host": "b", "signal": 9},
    "segfault": {"rank": 1, "host": "b", "signal": 11},
    "exit": {"rank": 1, "host": "b", "exit": 3},
    "exit-after-init": {"rank": 1, "host": "b", "exit": 5},
    "abort": {"rank": 1, "host": "b", "exit": 7},
    "improper": {"rank": 1, "host": "b", "exit": 0},
    "lost": {"rank": None, "host": "b"},
    "unnamed": {"rank": None, "host": None},
    "unreachable": {"rank": None, "host": None},
    "no-program": {"rank": None, "host": None},
}


def test_every_recorded_failure_is_a_case() -> None:
    assert {path.stem for path in CASES.iterdir()} == set(BLAMED)


@pytest.mark.parametrize("name", BLAMED)
def test_who_failed_first(home: Path, name: str) -> None:
    run = Run(home, f"{says(1, 'my last words')}; cat {CASES / name}.txt >&2; exit 77")
    result = run.result()
    lines = result["culprit"].pop("lines")
    assert (result["state"], result["exit_code"]) == ("failed", 77)
    assert result["culprit"] == BLAMED[name]
    text = (CASES / f"{name}.txt").read_text()
    assert run.log("mpirun") == text
    first = [line for line in text.splitlines() if line][:12]
    assert lines == (["my last words"] if BLAMED[name]["rank"] else first)


def test_of_two_failures_the_first_counts(home: Path) -> None:
    both = f"cat {CASES / 'segfault.txt'} {CASES / 'lost.txt'} >&2; exit 1"
    assert Run(home, both).result()["culprit"]["signal"] == 11


ENDED = says(0, '@railhead {"kind": "ended", "exit": 4}')
CULPRITS = {
    "where mpirun names nobody": ("unnamed", {"rank": 0, "host": "a", "exit": 4}),
    "before mpirun's opinion of exits": ("exit", {"rank": 0, "host": "a", "exit": 4}),
    "after one that was killed": ("signal", BLAMED["signal"]),
    "after a host that was lost": ("lost", BLAMED["lost"]),
}


@pytest.mark.parametrize("name, blamed", CULPRITS.values(), ids=CULPRITS)
def test_a_rank_that_reports_its_end_counts(home: Path, name: str, blamed: dict[str, Any]) -> None:
    later = says(1, '@railhead {"kind": "ended", "exit": 5}')
    result = Run(home, f"{ENDED}; {later}; cat {CASES / name}.txt >&2; exit 4").result()
    assert {k: v for k, v in result["culprit"].items() if k != "lines"} == blamed


# --- what goes wrong with the supervisor itself


def test_another_run_keeps_its_chief(home: Path) -> None:
    first = Run(home, "sleep 2", "r1")
    process = first.start()
    first.running()
    second = Run(home, "touch never", "r2")
    result = second.result()
    assert (result["state"], result["run_id"]) == ("failed", "r2")
    assert "run r1 is going on" in result["culprit"]["lines"][0]
    assert "run r1 is going on" in second.read("state.json")["reason"]
    assert not (second.folder / "never").exists()
    assert process.wait(20) == 0
    assert first.read("results/result.json")["state"] == "succeeded"


def test_a_second_supervisor_of_the_same_run_writes_nothing(home: Path) -> None:
    run = Run(home, "sleep 2")
    process = run.start()
    pid = run.running()["pid"]
    assert run.start().wait(20) == 1
    assert run.read("state.json")["pid"] == pid
    assert not (run.folder / "results" / "result.json").exists()
    process.wait(20)


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
    "a fault of the reader": ("echo 'RunOutput.add_line = None' >>rank_output.py", "TypeError"),
    "a fault at the end": ("echo 'verdict = None' >>mpirun_output.py", "TypeError"),
    "no way to sweep": ("echo 'end_on_all_hosts = None' >>end_processes.py", "TypeError"),
}


@pytest.mark.parametrize("breaking, reason", BROKEN.values(), ids=BROKEN)
def test_a_fault_of_the_supervisor_is_reported(home: Path, breaking: str, reason: str) -> None:
    run = Run(home, f"{says(0, 'x')}; sleep 1; exit 1")
    subprocess.run(["sh", "-c", breaking], cwd=run.folder, check=True)
    result = run.result()
    assert (result["state"], result["exit_code"]) == ("failed", 1)
    assert reason in "\n".join(result["culprit"]["lines"])
    assert reason in run.read("state.json")["reason"]


def test_a_fault_of_the_supervisor_ends_mpirun(home: Path) -> None:
    run = Run(home, f"echo $$ >pid; {says(0, 'x')}; exec sleep 60")
    (run.folder / "rank_output.py").open("a").write("RunOutput.add_line = None\n")
    began = time.monotonic()
    assert run.result()["state"] == "failed"
    assert time.monotonic() - began < 15
    assert not is_alive(int((run.folder / "pid").read_text()))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def test_mpirun_ends_with_a_killed_supervisor(home: Path) -> None:
    run = Run(home, "exec sleep 60")
    process = run.start()
    pid = run.running()["mpirun"]
    process.kill()
    process.wait()
    until = time.monotonic() + 5
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_alive(pid)


CANCELS = {
    "one that obeys": ("exec sleep 60", 8.0),
    "one that does not": ("trap '' TERM; while :; do sleep 1; done", 20.0),
}


@pytest.mark.parametrize("script, seconds", CANCELS.values(), ids=CANCELS)
def test_cancelled(home: Path, script: str, seconds: float) -> None:
    run = Run(home, script)
    process = run.start()
    run.running()
    began = time.monotonic()
    process.terminate()
    process.wait(30)
    assert time.monotonic() - began < seconds
    result = run.read("results/result.json")
    assert (result["state"], result["culprit"]) == ("cancelled", None)


def test_what_holds_the_pipe_does_not_hold_the_run(home: Path) -> None:
    run = Run(home, f"sleep 60 & {says(0, 'said')}; exit 0")
    result = run.result()
    assert (result["state"], run.log("rank-0")) == ("succeeded", "said\n")
    assert result["seconds"] < 15 and result["swept"]["a"]["ended"] == 1


def test_a_progress_bar_is_seen_before_its_line_ends(home: Path) -> None:
    run = Run(home, r"printf '[1,0]<stdout>:10%%\r[1,0]<stdout>:20%%'; sleep 3")
    process = run.start()
    for _ in range(200):
        if (run.folder / "state.json").exists() and run.read("state.json").get("begun"):
            break
        time.sleep(0.02)
    assert run.read("state.json")["begun"] == {"0": "20%"}
    process.wait(20)
    assert run.read("state.json")["begun"] == {}
    assert run.log("rank-0") == "10%\r20%\n"


# --- secrets

SECRETS = {
    "a word": ("hunter2", "it is hunter2!", "it is [secret]!"),
    "several lines": ("-----BEGIN\nabcdef\n}\n", "x abcdef } -----BEGIN", "x [secret] } [secret]"),
    "as JSON has it": ('say "hi"', '{"a": "say \\"hi\\""}', '{"a": "[secret]"}'),
    "not ASCII": ("gr\u00fcn", "gr\u00fcn gr\\u00fcn", "[secret] [secret]"),
    "one within another": ("ab1\nab1cd2", "ab1cd2 ab1", "[secret] ab1"),
    "a pattern's characters": ("a.*b(", "a.*b( axxb(", "[secret] axxb("),
    "nothing": ("", "as it was", "as it was"),
}


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(REMOTE))
    yield importlib.import_module("rank_output")
    for name in ("rank_output", "mpirun_output"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("value, text, shown", SECRETS.values(), ids=SECRETS)
def test_secrets_are_taken_out(lines: ModuleType, value: str, text: str, shown: str) -> None:
    assert lines.Secrets([value]).redact(text.encode()).decode() == shown


def test_no_secret_is_in_any_file(home: Path) -> None:
    secret = "first-half\nsecond-half"
    record = '@railhead {"kind": "message", "text": "first-half\\nsecond-half"}'
    reported = [says(0, "first-half"), says(0, record), "echo second-half is wrong >&2"]
    begun = "printf '[1,1]<stdout>:a first-half'; sleep 1.5"
    run = Run(home, "", secrets=["TOKEN"])
    run.write("secrets.json", {"TOKEN": secret})
    run.write("mpirun.json", ["sh", "work/do.sh"])  # the command itself is no secret's place
    (run.folder / "work" / "do.sh").write_text("; ".join([*reported, begun, "exit 9"]))
    result = run.result()
    assert result["culprit"]["lines"] == ["[secret] is wrong"]
    written = [p for p in run.folder.rglob("*") if p.is_file() and p.parent.name != "work"]
    assert run.log("rank-1") == "a [secret]\n"
    assert not [p for p in written if b"-half" in p.read_bytes()]


# --- the disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
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
    script = "; ".join(["head -c 30000 /dev/zero >work/gap", fill, *many, *records, f"exit {code}"])
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


# --- the real mpirun


def with_script(run: Run, script: str) -> Run:
    """The run of a script by rank.py on two ranks of this machine."""
    (run.folder / "work" / "train.py").write_text(script)
    run.write("run.json", {**run.read("run.json"), "program": PROGRAM})
    start = f"cd {run.folder}/work; PYTHONUNBUFFERED=1 exec {sys.executable} ../rank.py"
    mpirun = ["mpirun", "-np", "2", "--oversubscribe", "--tag-output", "sh", "-c", start]
    run.write("mpirun.json", mpirun)
    return run


PROGRAM = {"kind": "script", "path": "train.py", "args": [], "sagemaker": False}
HEAD = "import os, sys, time\nrank = int(os.environ['RAILHEAD_RANK'])\n"
REAL: dict[str, tuple[str, dict[str, Any]]] = {
    "at once": ("sys.exit(3)", {"exit": 3}),
    "an error": ("if rank: 1 / 0\ntime.sleep(20)", {"rank": 1, "host": "b", "exit": 1}),
    "os._exit": ("time.sleep(1)\nif rank: os._exit(6)\ntime.sleep(20)", {"rank": 1, "exit": 6}),
    "killed": ("time.sleep(1)\nif rank: os.kill(os.getpid(), 9)\ntime.sleep(20)", {"signal": 9}),
}


@needs_mpirun
@pytest.mark.parametrize("script, blamed", REAL.values(), ids=REAL)
def test_real_ranks_fail(home: Path, script: str, blamed: dict[str, Any]) -> None:
    last = "print('last words of', rank)\n"
    result = with_script(Run(home, ""), HEAD + last + script).result()
    culprit = result["culprit"]
    assert result["state"] == "failed"
    assert {k: culprit.get(k) for k in blamed} == blamed
    assert culprit["lines"][0] == f"last words of {culprit['rank']}"


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


@needs_mpirun
@pytest.mark.slow
def test_every_line_of_a_fast_talker_is_kept_in_little_memory(home: Path) -> None:
    script = HEAD + "start = time.monotonic()\nfor n in range(50000):\n"
    script += "    print(n, 'x' * 80)\n    time.sleep(max(0, start + n / 10000 - time.monotonic()))"
    run = with_script(Run(home, ""), script)
    process = run.start()
    peak = 0
    while process.poll() is None:
        text = Path(f"/proc/{process.pid}/status").read_text()
        peak = max(peak, *(int(x.split()[1]) for x in text.splitlines() if x[:6] == "VmRSS:"), 0)
        time.sleep(0.1)
    for rank in (0, 1):
        numbers = [int(line.split()[0]) for line in run.log(f"rank-{rank}").splitlines()]
        assert numbers == list(range(50000))
    assert peak < 40_000  # kB


# --- what cannot be read at the end

SOCKET = "import socket; socket.socket(socket.AF_UNIX).bind('odd')"
SPECIAL = {
    "a FIFO": "mkfifo odd",
    "a socket": f'{sys.executable} -c "{SOCKET}"',
    "a link to a FIFO": "mkfifo fifo; ln -s $PWD/fifo odd",
    "a link to a device that never ends": "ln -s /dev/zero odd",
    "folders in a circle": "mkdir odd; ln -s . odd/circle",
    "a link to itself": "ln -s odd odd",
}


@pytest.mark.parametrize("folder", ["work", "results", "logs"])
@pytest.mark.parametrize("make", SPECIAL.values(), ids=SPECIAL)
def test_what_is_no_file_does_not_hold_the_end(home: Path, make: str, folder: str) -> None:
    run = Run(
        home, f"cd {folder}; {make}; test -L odd -o -e odd || exit 1; cd ../work; echo x >made"
    )
    result = run.result()
    assert (result["state"], result["trouble"]) == ("succeeded", None)
    assert ["made", 2] in run.read("results/outputs.json")["files"]
    assert "work/made" in hashed(run) and f"{folder}/odd" not in hashed(run)


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


def hashed(run: Run) -> set[str]:
    """The files of the manifest, each of which is there once."""
    paths = [entry["path"] for entry in run.read("results/manifest.json")["files"]]
    assert len(set(paths)) == len(paths)
    return set(paths)


def test_a_result_of_the_program_s_own_gives_way_to_ours(home: Path) -> None:
    run = Run(home, "echo mine >results/result.json")
    assert run.result()["state"] == "succeeded" and "results/result.json" in hashed(run)


def change(run: Run, name: str, before: str, after: str) -> None:
    """Another text in one of the run's own copies of our files."""
    text = (run.folder / name).read_text()
    assert text.count(before) == 1
    (run.folder / name).write_text(text.replace(before, after))


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
    change(run, "closing.py", "HASHING = 1800.0", "HASHING = 1.5")
    (run.folder / "manifest.py").open("a").write(DEAD)
    trouble = run.result()["trouble"]
    assert trouble == "2 results were not read, first work/dead: no end within 1.5 s"
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
    (run.folder / "manifest.py").open("a").write(DEAD)
    process = run.start()
    wait_until(lambda: bool(left_over(run)) and (run.folder / "results/result.json").exists())
    assert run.read("results/result.json")["state"] == "succeeded"
    assert run.read("state.json")["state"] == "running"
    process.kill()
    process.wait()
    wait_until(lambda: not left_over(run))


def wait_until(true: Callable[[], bool]) -> None:
    """Wait 20 seconds at most."""
    until = time.monotonic() + 20
    while not true():
        assert time.monotonic() < until
        time.sleep(0.05)


# As of results so large that reading them takes longer than a cancel waits.
SLOW = DEAD.replace("while path.endswith", "if path.endswith").replace("sleep(1)", "sleep(6)")


def test_cancel_while_results_are_hashed_leaves_the_supervisor_to_stop_the_machines(
    home: Path,
) -> None:
    stopped = home / "stopped"
    stop = {"argv": [["touch", str(stopped)], None], "keep_minutes": 0}
    run = Run(home, "echo x >work/dead", stop=stop)
    (run.folder / "manifest.py").open("a").write(SLOW)
    process = run.start()
    wait_until(lambda: (run.folder / "results/result.json").exists())
    process.terminate()  # `fab cancel` sends SIGTERM, and ends what is left after some seconds
    argv = [sys.executable, "-I", "-S", "-", run.run_id]
    source = (REMOTE / "end_processes.py").read_bytes()
    done = subprocess.run(argv, input=source, env={"HOME": str(home)}, capture_output=True)
    assert json.loads(done.stdout) == {"ended": 0, "left": []}
    process.wait(20)
    assert stopped.exists()
    assert run.read("state.json")["machines"]["phase"] == "stopping"
    assert {"results/result.json", "work/dead"} <= hashed(run)


def test_cancel_while_a_slow_host_ends_its_processes_leaves_the_supervisor_its_result(
    home: Path,
) -> None:
    run = Run(home, "exec sleep 60")
    slow = f'#!/bin/sh\ntouch {home}/asked\nsleep 4\necho \'{{"ended": 1, "left": []}}\'\n'
    (home / "bin" / "ssh").write_text(slow)
    process = run.start()
    run.running()
    process.terminate()
    wait_until(lambda: (home / "asked").exists())
    argv = [sys.executable, "-I", "-S", "-", run.run_id]  # what `fab cancel` does on each host
    source = (REMOTE / "end_processes.py").read_bytes()
    done = subprocess.run(argv, input=source, env={"HOME": str(home)}, capture_output=True)
    assert json.loads(done.stdout)["left"] == []
    process.wait(30)
    result = run.read("results/result.json")
    assert (result["state"], result["swept"]["b"]) == ("cancelled", {"ended": 1, "left": []})


def test_a_folder_that_cannot_be_listed_in_time_is_reported(home: Path) -> None:
    run = Run(home, "echo x >work/made", stop={"argv": [["true"], None], "keep_minutes": 0})
    change(run, "closing.py", "LISTING = 120.0", "LISTING = 1.0")
    listing = "def main(task: str, folder: str) -> None:\n"
    change(
        run,
        "closing.py",
        listing,
        f"{listing}    import time\n    time.sleep(task[0] == 'o' and 60)\n",
    )
    assert run.result()["trouble"] == "work/ was not listed: no end within 1 s"
    assert run.read("state.json")["machines"]["phase"] == "stopping"
    assert "results/result.json" in hashed(run) and not left_over(run)


def left_over(run: Run) -> list[str]:
    """Processes that still look through a run's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        if b"closing.py" in text and str(run.folder).encode() in text:
            found.append(path.parent.name)
    return found


def test_a_fault_at_the_very_end_does_not_keep_the_machines(home: Path) -> None:
    run = Run(home, "true", stop={"argv": [["true"], None], "keep_minutes": 0})
    (run.folder / "closing.py").open("a").write("whole_manifest = None\n")
    run.start().wait(20)
    assert run.read("state.json")["machines"]["phase"] == "stopping"
    assert "TypeError" in run.log("supervisor")


# --- the end of the machines


def test_the_manifest_holds_every_result_with_its_hash(home: Path) -> None:
    run = Run(home, f"{says(0, 'hello')}; mkdir -p work/ckpt; printf abc >work/ckpt/w.h5")
    run.result()
    files = {f["path"]: f for f in run.read("results/manifest.json")["files"]}
    assert {"run.json", "results/result.json", "logs/rank-0.log", "work/ckpt/w.h5"} <= files.keys()
    assert not {"logs/supervisor.log", "results/outputs.json"} & files.keys()
    for path, entry in files.items():
        data = (run.folder / path).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())


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


def test_a_run_is_cancelled_when_its_hours_are_over(home: Path) -> None:
    result = Run(home, "exec sleep 60", max_hours=1 / 3600).result()
    assert result["state"] == "cancelled" and result["seconds"] < 15
    assert "--max-hours" in result["why"]


def test_machines_are_kept_by_a_process_without_the_runs_mark(home: Path) -> None:
    run = Run(home, "exit 3", stop={"argv": [["true"], None], "keep_minutes": 5})
    process = run.start()
    for _ in range(200):
        if (run.folder / "state.json").exists() and "machines" in run.read("state.json"):
            break
        time.sleep(0.05)
    assert run.read("state.json")["state"] == "failed"
    assert run.read("state.json")["machines"]["phase"] == "keeping"
    marks = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    assert f"HOME={home}".encode() in marks
    assert not any(mark.startswith(b"RAILHEAD_") for mark in marks)
    assert run.read("state.json")["pid"] == process.pid
    again = Run(home, says(0, "x"), "r2")  # the chief is free for the next run, which takes over
    assert again.result()["state"] == "succeeded"
    process.wait(10)
    assert run.read("state.json")["machines"]["phase"] == "left to r2"


def test_the_manifest_holds_whole_trees_and_names_what_is_no_file(home: Path) -> None:
    make = [
        "mkdir -p results/model/variables logs/trace work/ckpt results/work",
        "echo w >results/model/variables/v.data; echo p >results/model/saved_model.pb",
        "echo t >logs/trace/host.xplane; echo r >results/work/x; echo s >results/x.part.old",
        "ln -s model results/latest; ln -s /etc/passwd results/model/secret",
        "mkfifo results/pipe work/ckpt/pipe; ln -s w work/ckpt/link; echo w >work/ckpt/w",
        "mkdir -p results/outputs/ckpt; echo first >results/outputs/ckpt/w",
        "touch \"results/$(printf 'a\\033b')\" results/state.json",
    ]
    run = Run(home, "; ".join(make))
    began = time.monotonic()
    assert run.result()["state"] == "succeeded"
    assert time.monotonic() - began < 20, "a FIFO holds nothing up"
    whole = run.read("results/manifest.json")
    paths = {entry["path"] for entry in whole["files"]}
    assert {
        "results/model/saved_model.pb",
        "results/model/variables/v.data",
        "results/x.part.old",
        "results/work/x",
        "results/outputs/ckpt/w",
        "logs/trace/host.xplane",
    } <= paths
    assert {entry["path"]: entry["kind"] for entry in whole["skipped"]} == {
        "results/latest": "link",
        "results/model/secret": "link",
        "results/pipe": "FIFO",
        "work/ckpt/pipe": "FIFO",
        "work/ckpt/link": "link",
        "work/ckpt/w": "another file comes back as outputs/ckpt/w",
        "results/a\x1bb": "its name holds control characters or is not UTF-8",
        "results/state.json": "another file comes back as state.json",
    }


def test_a_killed_supervisor_leaves_its_outputs_in_the_manifest(home: Path) -> None:
    run = Run(home, "mkdir work/ckpt; printf weights >work/ckpt/w.h5; touch work/made; sleep 60")
    (run.folder / "work" / "shipped").write_text("program")
    process = run.start()
    run.running()
    for _ in range(200):
        if (run.folder / "work/made").exists():
            break
        time.sleep(0.02)
    process.kill()
    process.wait()
    found = {entry["path"] for entry in remote_manifest(str(run.folder))["files"]}
    assert {"work/ckpt/w.h5", "work/made"} <= found
    assert "work/shipped" not in found
