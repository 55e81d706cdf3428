"""The ranks of a second attempt are forks of the spare of their host, or start as usual."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hosts.ranks import command, lay_out, script, text_of
from standins import programs
from standins.runs.run_documents import run_document

from bootstrap.console.wait import wait_until
from bootstrap.host.base import free_memory
from bootstrap.host.rank import spare_start, stand_in
from bootstrap.host.run import end_processes
from bootstrap.host.stall.collect import ranks_here
from bootstrap.host.stall.counter import Counter

NUMBERS = count()
# In place of TensorFlow: it knows the process that has imported it.
PACKAGE = """import os
PID = os.getpid()
os.environ['SET_BY_IMPORT'] = '1'
READ = os.environ.get("OF_THE_RUN")
class distributed:
    is_initialized = staticmethod(lambda: False)
"""
SCARCE = """
def available():
    import sys
    return 0 if os.path.exists(os.path.join(sys.argv[2], "scarce")) else 1 << 40
"""
ENV = {"OF_THE_RUN": "yes"}
WAIT = """
import time
while not os.path.exists("../go"):
    time.sleep(0.01)
"""
SCRIPT = f"""
import json, os, sys
import tensorflow, railhead_ticks
railhead_ticks.tick()
{WAIT}
print(json.dumps([tensorflow.PID != os.getpid(), os.getpid()]), flush=True)
"""


class Attempts:
    """A run in a folder, whose attempts are started as mpirun does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "work").mkdir(parents=True)
        for name in ("tensorflow", "keras", "tf_keras", "torch", "jax"):
            (folder / "lib" / name).mkdir(parents=True)
            (folder / "lib" / name / "__init__.py").write_text(PACKAGE)
        self.run_id = f"r{os.getpid()}-{next(NUMBERS)}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def lay_out(self, text: str = SCRIPT, **changes: Any) -> None:
        lay_out(
            self.folder,
            script(self.folder, text),
            **{"run_id": self.run_id, "retries": 1, **changes},
        )
        programs.change(self.folder, "rank/spare.py", "KEPT = 30.0", "KEPT = 1.0")

    def change(self, **values: Any) -> None:
        """The document of the second attempt has other values."""
        file = self.folder / "run.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **values}))

    def start(self, **variables: str) -> subprocess.Popen[bytes]:
        world = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
        marks = {"RAILHEAD_RUN": self.run_id, "RAILHEAD_HOME": str(self.folder)}
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **world, **marks}
        environment |= {"PYTHONPATH": str(self.folder / "lib"), "PYTHONUNBUFFERED": "1"}
        with (self.folder / f"out-{len(self.processes)}").open("wb") as output:
            process = subprocess.Popen(
                command(self.folder), cwd=self.folder / "work", stdout=output, stderr=output,
                stdin=subprocess.DEVNULL, env={**environment, **variables}, start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def out(self, number: int) -> str:
        return text_of((self.folder / f"out-{number}").read_text(errors="replace"))

    def spares(self) -> list[int]:
        """The pids of the spare, and of nothing else."""
        name = end_processes.SPARE
        processes = [p for p in Path("/proc").glob("[0-9]*") if self._of(p, "comm").strip() == name]
        run = f"RAILHEAD_RUN={self.run_id}\0"
        return [int(p.name) for p in processes if run in self._of(p, "environ")]

    @staticmethod
    def _of(process: Path, name: str) -> str:
        try:
            return (process / name).read_text(errors="replace")
        except OSError:
            return ""

    def kill_first(self) -> None:
        """The first attempt, which has a spare, is killed."""
        process = self.start()
        until(lambda: "spare process" in self.out(0))
        assert " MB on this host" in self.out(0), self.out(0)
        process.kill()
        process.wait()
        (self.folder / "go").touch()

    def second(self, **variables: str) -> tuple[int, Any]:
        """The exit code of a second attempt, and whether it was a fork of the spare."""
        code = self.start(**variables).wait(60)
        until(lambda: "]\n" in self.out(1))
        line = next(line for line in self.out(1).splitlines() if line.startswith("["))
        return code, json.loads(line)[0]


def until(true: Callable[[], object]) -> None:
    """Wait for it."""
    assert wait_until(true, seconds=60, every=0.02)


class SpareStart(spare_start.SpareStart):
    """The start of a spare after the first step, which says whether it is over."""

    @classmethod
    def of(cls, attempts: Attempts, **changes: Any) -> SpareStart:
        document = run_document(**{"run_id": attempts.run_id, "retries": 1, **changes})
        steps = Counter()
        steps.tick()
        steps.note(0)
        return cls(document, str(attempts.folder), 0, steps)


@pytest.fixture
def attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attempts]:
    """Attempts of a run, and no process of it afterwards."""
    monkeypatch.setattr(end_processes, "HOME", str(tmp_path))
    attempts = Attempts(tmp_path)
    yield attempts
    end_processes.end_run(attempts.run_id)
    for process in attempts.processes:
        process.wait()


def test_the_next_attempt_begins_with_the_imports_of_the_spare(attempts: Attempts) -> None:
    attempts.lay_out()
    attempts.kill_first()
    assert attempts.second() == (0, True)


@pytest.mark.parametrize(("name", "forks"), [("railhead", True), ("keras", False)])
def test_a_program_may_have_our_modules_but_none_of_the_spare(
    attempts: Attempts, name: str, forks: bool
) -> None:
    """The built-in training has its own `railhead` beside it."""
    attempts.lay_out(SCRIPT.replace("import tensorflow,", "import keras, tensorflow,"))
    (attempts.folder / "work" / name).mkdir()
    (attempts.folder / "work" / name / "__init__.py").write_text("")
    attempts.kill_first()
    assert attempts.second() == (0, forks)


@pytest.mark.parametrize("launcher", ["torch", "jax"])
def test_a_spare_keeps_the_framework_of_the_launcher(attempts: Attempts, launcher: str) -> None:
    document = {"launcher": launcher, "coordinator": "127.0.0.1:9"}
    attempts.lay_out(SCRIPT.replace("tensorflow", launcher), **document)
    attempts.kill_first()
    assert attempts.second() == (0, True)


def test_the_spare_imports_with_the_variables_of_the_run(attempts: Attempts) -> None:
    """TensorFlow reads TF_ENABLE_ONEDNN_OPTS of --env when it is imported, and never again."""
    attempts.lay_out(SCRIPT.replace("tensorflow.PID != os.getpid()", "tensorflow.READ"), env=ENV)
    attempts.kill_first()
    assert attempts.second() == (0, "yes")
    assert "spare process" in attempts.out(0)


def test_a_fork_is_a_rank_for_everybody(attempts: Attempts) -> None:
    """The pids, the name and the variables that /proc shows are those of a rank, and its output,
    folder and arguments those of what mpirun has started."""
    show = "print('is', os.getcwd(), sys.argv, os.environ['SET_BY_IMPORT'], flush=True)\n"
    attempts.lay_out(f"{SCRIPT}{show}{WAIT.replace('go', 'end')}")
    attempts.kill_first()
    process = attempts.start()
    until(lambda: "is " in attempts.out(1))
    assert f"is {attempts.folder}/work ['train.py'] 1\n" in attempts.out(1)
    pid = json.loads(attempts.out(1).splitlines()[0])[1]
    assert pid != process.pid and ranks_here(attempts.run_id) == {0: pid}
    started = json.loads((attempts.folder / "rank-0.json").read_text())
    assert started["pid"] == pid and started["name"] != end_processes.SPARE
    assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, process.pid)
    (attempts.folder / "end").touch()
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("sys.exit(7)", 7),
        ("os._exit(9)", 9),
        ("raise ValueError('x')", 1),
        ("os.kill(os.getpid(), 9)", -9),
        ("import ctypes; ctypes.string_at(0)", -11),
    ],
)
def test_what_mpirun_has_started_ends_as_the_fork_does(
    attempts: Attempts, end: str, code: int
) -> None:
    attempts.lay_out(f"{SCRIPT}{end}\n")
    attempts.kill_first()
    assert attempts.second() == (code, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_of_mpirun_reaches_the_fork(attempts: Attempts, number: int) -> None:
    text = f"import signal\nsignal.signal({number:d}, lambda *_: sys.exit(5))\n"
    attempts.lay_out(f"{SCRIPT}{text}print('ready', flush=True)\n{WAIT.replace('go', 'end')}")
    attempts.kill_first()
    process = attempts.start()
    until(lambda: "ready" in attempts.out(1))
    process.send_signal(number)
    assert process.wait(60) == 5 and "[true" in attempts.out(1)


def test_a_rank_outlives_its_spare(attempts: Attempts) -> None:
    attempts.lay_out(f"{SCRIPT}{WAIT.replace('go', 'end')}sys.exit(3)\n")
    attempts.kill_first()
    process = attempts.start()
    until(lambda: "[true" in attempts.out(1))
    (spare,) = attempts.spares()
    os.kill(spare, signal.SIGKILL)
    (attempts.folder / "end").touch()
    assert process.wait(60) == 3


def test_a_spare_that_has_died_is_gone_on_without(attempts: Attempts) -> None:
    attempts.lay_out()
    attempts.kill_first()
    (spare,) = attempts.spares()
    os.kill(spare, signal.SIGKILL)
    assert attempts.second() == (0, False)


def test_a_spare_that_hangs_is_gone_on_without_and_begins_no_second_rank(
    attempts: Attempts,
) -> None:
    attempts.lay_out()
    programs.change(attempts.folder, "rank/stand_in.py", "ANSWER = 3.0", "ANSWER = 0.2")
    attempts.kill_first()
    (spare,) = attempts.spares()
    os.kill(spare, signal.SIGSTOP)
    assert attempts.second() == (0, False)
    os.kill(spare, signal.SIGCONT)
    until(lambda: not attempts.spares())
    assert attempts.out(1).count("[") == 1


@pytest.mark.parametrize(
    "difference",
    [
        lambda attempts: attempts.change(keras=2),
        lambda attempts: attempts.change(env={"A": "1"}),
        lambda attempts: (attempts.folder / "work/keras.py").touch(),
    ],
    ids=("another Keras", "another variable", "a module of the program"),
)
def test_a_rank_that_would_import_otherwise_is_no_fork(
    attempts: Attempts, difference: Callable[[Attempts], None]
) -> None:
    attempts.lay_out(SCRIPT.replace("import tensorflow", "import keras, tensorflow"))
    attempts.kill_first()
    difference(attempts)
    assert attempts.second() == (0, False)
    until(lambda: not attempts.spares())


def test_other_variables_of_its_start_are_no_forks(attempts: Attempts) -> None:
    attempts.lay_out()
    attempts.kill_first()
    assert attempts.second(XLA_FLAGS="--xla") == (0, False)


@pytest.mark.parametrize(
    "before",
    ["import os; os.environ['KERAS_BACKEND'] = 'jax'", "import sys; sys.path.insert(0, '/x')"],
)
def test_a_program_that_changes_what_imports_read_has_no_spare(
    attempts: Attempts, before: str
) -> None:
    attempts.lay_out(f"{before}\n{SCRIPT}")
    attempts.start()
    none = attempts.folder / stand_in.NONE.format(host=0)
    until(none.exists)
    (attempts.folder / "go").touch()
    assert attempts.processes[0].wait(60) == 0
    assert not attempts.spares() and "spare" not in attempts.out(0)


@pytest.mark.parametrize("how", [{"retries": 0}, {"spare": False}])
def test_a_run_without_restarts_or_spares_starts_none(
    attempts: Attempts, how: dict[str, Any]
) -> None:
    start = SpareStart.of(attempts, **how)
    assert start.look() == b"" and start.ends and not attempts.spares()


def test_no_spare_is_started_beside_that_of_an_attempt_before(attempts: Attempts) -> None:
    start = SpareStart.of(attempts)
    with socket.socket(socket.AF_UNIX) as spare:
        spare.bind(f"\0{start.name}")
        spare.listen()
        assert start.look() == b"" and start.ends and not attempts.spares()


def test_no_spare_is_started_where_it_does_not_fit(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_memory, "available", lambda: spare_start.LEAST - 1)
    start = SpareStart.of(attempts)
    assert b"memory" in start.look() and start.ends and not attempts.spares()


def test_a_spare_ends_when_memory_gets_scarce(attempts: Attempts) -> None:
    attempts.lay_out()
    programs.append(attempts.folder, "base/free_memory.py", SCARCE)
    attempts.start()
    until(lambda: " MB on this host" in attempts.out(0))
    assert attempts.spares()
    (attempts.folder / "scarce").touch()
    until(lambda: not attempts.spares())
    (attempts.folder / "go").touch()
    assert attempts.processes[0].wait(60) == 0


def test_a_spare_without_a_run_ends(attempts: Attempts) -> None:
    attempts.lay_out()
    attempts.kill_first()
    until(lambda: not attempts.spares())


def test_a_socket_of_another_user_gets_neither_variables_nor_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Anybody may listen on the name of a spare."""
    run, user = run_document(run_id=f"20261128-090000-{os.getpid()}"), os.geteuid()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"\0{stand_in.socket_name(run, 0)}")
        other.listen()
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
        assert stand_in.outcome(run, 0) is None
        with other.accept()[0] as asking:
            assert asking.recv(1) == b""


def test_a_library_with_a_thread_has_no_spare(attempts: Attempts) -> None:
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True)"
    (attempts.folder / "lib/tensorflow/__init__.py").write_text(f"{PACKAGE}{thread}.start()\n")
    attempts.lay_out()
    attempts.start()
    until(lambda: "no spare process" in attempts.out(0))
    until(lambda: not attempts.spares())
    attempts.processes[0].kill()


def test_a_sweep_between_attempts_leaves_the_spare_alone(attempts: Attempts) -> None:
    attempts.lay_out()
    attempts.start()
    until(lambda: " MB on this host" in attempts.out(0))
    (spare,) = attempts.spares()
    swept = end_processes.end_run(attempts.run_id, kept=end_processes.SPARE)
    assert swept.left == () and attempts.spares() == [spare]
    assert end_processes.end_run(attempts.run_id).ended == 0, "always ended so: not counted"
    until(lambda: not attempts.spares())


@pytest.mark.parametrize(
    ("version", "files"),
    [
        ("0::/a/b", {"a/memory.max": "300", "a/memory.current": "200", "a/b/memory.max": "max"}),
        (
            "9:memory:/a/b",
            {"memory/a/b/memory.limit_in_bytes": "300", "memory/a/b/memory.usage_in_bytes": "200"},
        ),
        (
            "9:cpu,memory:/x",
            {"memory/memory.limit_in_bytes": "9000", "memory/memory.usage_in_bytes": "8900"},
        ),
    ],
)
def test_free_memory_is_what_the_cgroup_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, files: dict[str, str]
) -> None:
    for path, text in files.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
        (file.parent / "memory.stat").write_text("inactive_file 7\ntotal_inactive_file 7\n")
    (tmp_path / "cgroup").write_text(f"1:pids:/\n{version}\n")
    monkeypatch.setattr(free_memory, "GROUPS", str(tmp_path))
    monkeypatch.setattr(free_memory, "OWN", str(tmp_path / "cgroup"))
    assert free_memory.available() == 107
