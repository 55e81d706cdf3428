"""A sweep ends the run's processes, whatever they do about it, and nobody else's."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from places import ROOT
from standins import programs
from standins.agent_process import Agent
from standins.runs.run_documents import run_json

from bootstrap.errors import HostsFailed
from bootstrap.host.agent import temporary
from bootstrap.host.agent.packing import is_left
from bootstrap.host.agent.runs import end_all
from bootstrap.host.run import end_processes
from bootstrap.runs import cancel
from bootstrap.runs.run import Run
from railhead.documents.agent.runs import EndRun, MakeTemporary
from railhead.documents.runs.swept import OF_ENDPOINTS, OF_RUNS, OF_STANDBYS, Swept

Start = Callable[..., int]

# Each writes its own pid to the file $PID once it is as the test wants it.
PLAIN = "echo $$ >$PID.part; mv $PID.part $PID; exec sleep 60"
STUBBORN = "trap '' TERM; echo $$ >$PID.part; mv $PID.part $PID; while :; do sleep 1; done"
DAEMON = f"(setsid sh -c '{PLAIN}' &) ; exit 0"
BREEDER = (
    "trap 'sleep 61 & sleep 62 & exit' TERM; echo $$ >$PID.part; mv $PID.part $PID;"
    " while :; do sleep 0.1; done"
)


@pytest.fixture
def start(home: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts marked processes and answers their pids; ends what is left after the test."""
    pids: list[int] = []
    processes: list[subprocess.Popen[bytes]] = []

    def begin(script: str, run: str | None = "r1", of: Path = home) -> int:
        marks = {"RAILHEAD_RUN": run, "RAILHEAD_HOME": str(of)} if run else {}
        file = tmp_path / f"pid{len(pids)}"
        environment = {"PATH": os.environ["PATH"], "PID": str(file), **marks}
        processes.append(subprocess.Popen(["sh", "-c", script], env=environment))
        until = time.monotonic() + 60
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.01)
        pids.append(int(file.read_text()))
        return pids[-1]

    yield begin
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    for process in processes:
        process.wait()


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    return False


@pytest.fixture(autouse=True)
def host(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process ends processes as the agent of a host with this home."""
    monkeypatch.setattr(end_processes, "HOME", str(home))


def sweep(run: str = "r1", variable: str = OF_RUNS) -> Swept:
    """End the processes of a run."""
    return end_processes.end_run(run, variable)


def ended(count: int) -> Swept:
    """So many processes have ended, and none is left."""
    return Swept(count, ())


def test_the_agent_ends_the_processes_of_its_home(start: Start, home: Path) -> None:
    ours, other = start(PLAIN), start(PLAIN, of=home / "other")
    agent = Agent(home)
    reply = agent.call("end_run", run_id="r1")[0]
    agent.close()
    assert reply == {"ended": 1, "left": []}
    assert (alive(ours), alive(other)) == (False, True)


def test_a_standby_outlives_the_end_of_an_attempt_and_the_agent_ends_it(
    start: Start, home: Path
) -> None:
    marks = f"export {OF_STANDBYS}=r1 RAILHEAD_HOME={home}; cd {put(home, 'r1')}/r1"
    standby = start(f"{marks}; exec sh -c '{PLAIN}'", None)
    assert sweep() == sweep("all") == ended(0) and alive(standby)
    agent = Agent(home)
    replies = [agent.call("end_run", run_id="r1", variable=v)[0] for v in (OF_ENDPOINTS, OF_RUNS)]
    agent.close()
    assert replies == [{"ended": count, "left": []} for count in (0, 1)] and not alive(standby)


def test_a_standby_that_is_left_is_reported_with_the_processes_of_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcomes = {OF_STANDBYS: Swept(1, (7,)), OF_RUNS: Swept(2, (8,))}
    monkeypatch.setattr(end_processes, "end_run", lambda _, variable: outcomes[variable])
    assert end_all(EndRun("r1")) == Swept(3, (7, 8))


def test_a_run_is_left_when_it_has_neither_a_process_nor_a_result(start: Start, home: Path) -> None:
    """Then a fetch adds what its supervisor had not read; nobody else may write there."""
    folder = put(home, "r1/results") / "r1"
    seen = [is_left(str(folder))]
    (folder / "state.json").write_text("{}")
    start(PLAIN)
    seen.append(is_left(str(folder)))
    sweep()
    seen.append(is_left(str(folder)))
    (folder / "results/result.json").write_text("{}")
    assert [*seen, is_left(str(folder))] == [False, False, True, False]


def test_endpoints_and_runs_are_ended_apart(start: Start, home: Path) -> None:
    work = put(home, "r1/work") / "r1/work"
    run, by_folder = start(PLAIN), start(emptied(work))
    endpoint = start(f"export RAILHEAD_ENDPOINT=m RAILHEAD_HOME={home}; exec sh -c '{PLAIN}'", None)
    assert sweep("other", OF_ENDPOINTS) == ended(0)
    assert sweep("all", OF_RUNS) == ended(2)
    assert (alive(run), alive(by_folder), alive(endpoint)) == (False, False, True)
    assert sweep("m", OF_ENDPOINTS) == ended(1)


PLAIN_OF_SH = PLAIN.replace("$", "\\$")


def emptied(folder: object) -> str:
    """A process in a new session, without our variables, that works in this folder."""
    return f"cd {folder}; (env -i PID=$PID setsid sh -c '{PLAIN}' &) ; exit 0"


def put(home: Path, *folders: str) -> Path:
    """Make folders of runs; the folder of all runs."""
    runs = home / ".railhead" / "runs"
    for name in folders:
        (runs / name).mkdir(parents=True)
    return runs


def test_a_process_with_an_emptied_environment_is_found_by_its_folder(
    start: Start, home: Path
) -> None:
    runs = put(home, "r1/work/data", "r10/work")
    ours = start(emptied(runs / "r1/work/data"))
    other = start(emptied(runs / "r10/work"))
    assert sweep() == ended(1)
    assert (alive(ours), alive(other)) == (False, True)
    assert sweep("all") == ended(1)


def test_a_process_in_the_runs_folder_itself_is_not_ended(start: Start, home: Path) -> None:
    """It stops the machines after the run."""
    pid = start(emptied(put(home, "r1") / "r1"))
    assert sweep() == ended(0)
    assert alive(pid)


def test_somebody_who_looks_into_a_runs_folder_is_left_alone(
    start: Start, home: Path, tmp_path: Path
) -> None:
    work = put(home, "r1/work") / "r1" / "work"
    (tmp_path / "sshd").symlink_to("/bin/sh")
    of_a_login = start(f"exec {tmp_path}/sshd -c 'cd {work}; sh -c \"{PLAIN_OF_SH}\"; :'", run=None)
    with_terminal = start(f"script -qc 'cd {work}; {PLAIN}' /dev/null </dev/null", run=None)
    assert sweep() == ended(0)
    assert alive(of_a_login) and alive(with_terminal)


NAMELESS = """exec python3 -c '
import ctypes, os, time
ctypes.CDLL(None).prctl(15, b"")
with open(os.environ["PID"] + ".part", "w") as file:
    file.write(str(os.getpid()))
os.rename(file.name, os.environ["PID"])
time.sleep(300)'"""
OURS = {
    "a plain one": PLAIN,
    "one without a name": NAMELESS,
    "one that ignores TERM": STUBBORN,
    "a daemonised grandchild": DAEMON,
    "one that starts others when it gets the signal": BREEDER,
}


@pytest.mark.parametrize("script", OURS.values(), ids=OURS)
def test_a_process_of_the_run_is_ended(start: Start, home: Path, script: str) -> None:
    pid = start(script)
    swept = sweep()
    assert swept.ended >= 1 and not swept.left
    assert not alive(pid)
    assert sweep() == ended(0)


OTHERS: dict[str, dict[str, Any]] = {
    "another run's": {"run": "r2"},
    "a run's whose id begins like it": {"run": "r10"},
    "another home's": {"of": Path("/somewhere/else")},
    "a home's whose path begins like it": {"of": Path("beneath")},
    "nobody's": {"run": None},
}


@pytest.mark.parametrize("marks", OTHERS.values(), ids=OTHERS)
def test_anybody_elses_process_is_untouched(
    start: Start, home: Path, marks: dict[str, Any]
) -> None:
    if marks.get("of") == Path("beneath"):
        marks = {"of": home / "beneath"}
    other, ours = start(PLAIN, **marks), start(PLAIN)
    assert sweep() == ended(1)
    assert alive(other) and not alive(ours)


def test_all_means_every_run_of_this_home(start: Start, home: Path) -> None:
    pids = [start(PLAIN, run=run) for run in ("r1", "r2")]
    other = start(PLAIN, of=home / "other")
    assert sweep("all") == ended(2)
    assert [alive(pid) for pid in [*pids, other]] == [False, False, True]


@pytest.fixture
def runs(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two runs with their temporary folders; in each memory a secret."""
    monkeypatch.setenv("HOME", str(home))
    runs = home / ".railhead" / "runs"
    for name in ("r1", "r2"):
        (runs / name).mkdir(parents=True)
        temporary.make_temporary(MakeTemporary(f"~/.railhead/runs/{name}"))
        (runs / name / "memory" / "secrets-0.json").write_text("{}")
    made = [link.readlink() for link in runs.glob("*/[mt]*")]
    assert len(made) == 4
    yield runs
    for folder in made:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("run, remaining", [("r1", ["r2"]), ("all", [])])
def test_no_secret_and_no_temporary_file_outlives_its_run(
    runs: Path, home: Path, run: str, remaining: list[str]
) -> None:
    made = {link: link.readlink() for link in runs.glob("*/[mt]*")}
    sweep(run)
    assert sorted(p.parent.parent.name for p in runs.glob("*/memory/secrets-0.json")) == remaining
    assert {link.parent.name for link, folder in made.items() if folder.exists()} == {*remaining}


def test_every_agent_removes_what_runs_left_that_were_killed(
    runs: Path, home: Path, start: Start
) -> None:
    """A run that just starts has no process yet; one in progress has."""
    (runs / "r3").mkdir()
    temporary.make_temporary(MakeTemporary(str(runs / "r3")))
    for link in [*runs.glob("r1/[mt]*"), *runs.glob("r2/[mt]*")]:
        os.utime(link, (0, 0), follow_symlinks=False)
    made = {link: link.readlink() for link in runs.glob("*/[mt]*")}
    start(PLAIN, run="r2")
    Agent(home).process.communicate(timeout=30)
    remaining = {link.parent.name for link, folder in made.items() if folder.exists()}
    assert remaining == {"r2", "r3"}
    sweep("all")


def test_hosts_that_share_a_home_each_remove_their_own_folder(runs: Path, home: Path) -> None:
    """The first of them that ends must not take the name away from the others."""
    folder = (runs / "r1/memory").readlink()
    for _ in ("h1", "h2"):
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "secrets-1.json").write_text("{}")
        sweep("r1")
        assert not folder.exists()


def test_no_other_user_decides_where_secrets_are(runs: Path, home: Path, tmp_path: Path) -> None:
    """A home that hosts share has the link already: what it leads to must be this user's alone."""
    for link in runs.glob("r1/*"):
        link.unlink()
    (runs / "r1/memory").symlink_to(tmp_path / "link")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="not this user's alone"):
        temporary.make_temporary(MakeTemporary(str(runs / "r1")))
    (tmp_path / "link").unlink()
    (tmp_path / "link").mkdir(0o755)
    with pytest.raises(PermissionError, match="not this user's alone"):
        temporary.make_temporary(MakeTemporary(str(runs / "r1")))
    (tmp_path / "link").chmod(0o700)
    temporary.make_temporary(MakeTemporary(str(runs / "r1")))


def test_another_users_folder_is_not_removed(home: Path) -> None:
    """As after a boot: the run's own is gone, and the name is free for all."""
    folder = home / ".railhead/runs/r1"
    folder.mkdir(parents=True)
    (folder / "memory").symlink_to("/proc/1/task" if os.geteuid() else "/proc/self/none")
    (folder / "tmp").symlink_to(home / "not-here")
    sweep()
    assert (folder / "memory").is_symlink() and (folder / "tmp").is_symlink()


def test_streams_in_memory_go_with_their_run(home: Path, tmp_path: Path) -> None:
    memory, streams = tmp_path / "memory", home / ".railhead/runs/r1/streams"
    memory.mkdir()
    (memory / "00000000.tfrecord").write_bytes(b"data")
    streams.mkdir(parents=True)
    (streams / "train").symlink_to(memory)
    sweep()
    assert not memory.exists()


def test_a_sweeper_with_the_mark_does_not_end_itself(home: Path) -> None:
    """As the supervisor, which is of the run and sweeps."""
    environment = {"HOME": str(home), "RAILHEAD_HOME": str(home), "RAILHEAD_RUN": "r1"}
    programs.place(home)
    argv = programs.command(home, "run.end_processes", "r1")
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    assert json.loads(done.stdout) == {"ended": 0, "left": []}


HOSTS = {
    "an answer": ('echo \'{"ended": 2, "left": []}\'', {"ended": 2, "left": []}),
    "a talkative shell": (
        'echo welcome; echo \'{"ended": 0, "left": []}\'',
        {"ended": 0, "left": []},
    ),
    "an answer without an end": ("head -c 100000 /dev/zero | tr '\\0' '['", {"unknown": "[" * 600}),
    "no way there": ("echo refused >&2; exit 255", {"unknown": "refused"}),
    "no output": ("exit 1", {"unknown": ""}),
    "no end": ("exec sleep 600", {"unknown": "no answer within 3 seconds"}),
}


@pytest.mark.parametrize("ssh, output", HOSTS.values(), ids=HOSTS)
def test_every_host_is_swept_and_received(
    start: Start, home: Path, tmp_path: Path, ssh: str, output: Any
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").write_text(
        f"#!/bin/sh\necho $* $RAILHEAD_RUN >>{home}/calls\n{ssh}\n"
    )
    (tmp_path / "bin" / "ssh").chmod(0o755)
    pid = start(PLAIN)
    run = json.dumps(run_json(hosts=[{"name": "a"}, {"name": "b"}]))
    (tmp_path / "run.json").write_text(run)
    text = "import json; from bootstrap.host.run import end_processes;"
    text += "from bootstrap.host.base import json_file;"
    text += "from railhead.documents.codec import encode; from railhead.documents.runs.run import "
    text += "RunDocument; end_processes.REPLY = 3.0;"
    text += f"run = json_file.read({str(tmp_path / 'run.json')!r}, RunDocument);"
    text += "print(json.dumps(encode(end_processes.end_on_all_hosts(run, 'F'))))"
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    marks = {"RAILHEAD_RUN": "r1", "RAILHEAD_HOME": str(home)}
    environment = {"HOME": str(home), "PATH": path, "PYTHONPATH": str(ROOT), **marks}
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True
    )
    assert json.loads(done.stdout) == {"a": {"ended": 1, "left": []}, "b": output}, done.stderr
    assert not alive(pid)
    (line,) = (home / "calls").read_text().splitlines()
    assert line.startswith("-F F/ssh_config railhead-2 exec") and line.endswith(
        'railhead.pyz" run.end_processes r1'
    )


class Host:
    """Stands for the session of a host whose sweep leaves these processes."""

    def __init__(self, name: str, remaining: tuple[int, ...]) -> None:
        self.host, self.remaining = SimpleNamespace(name=name), remaining

    def read(self, path: str, silence: float | None = None) -> None:
        """There is no state.json."""

    def call(self, request: EndRun) -> Swept:
        assert request == EndRun("r1", "RAILHEAD_RUN")
        return Swept(1, self.remaining)


def test_a_cancel_fails_if_a_process_is_left_on_one_host(tmp_path: Path) -> None:
    hosts: dict[str, Any] = {"a": Host("a", ()), "b": Host("b", (7,))}
    with pytest.raises(HostsFailed, match="LEFT: pids 7") as failed:
        cancel.cancel(hosts, Run("r1", tmp_path), "a")
    outcome = "no process of the run is left; 1 process ended by force"
    assert failed.value.outcomes["a"] == outcome
    hosts["b"].remaining = ()
    assert cancel.cancel(hosts, Run("r1", tmp_path), "a") == {
        "a": outcome, "b": outcome,
    }  # fmt: skip


@pytest.mark.root
def test_a_process_of_another_user_is_not_one_of_a_run_of_root(home: Path, start: Start) -> None:
    """Everybody can give a process the variables of a run."""
    mine = start(PLAIN)
    marks = {"RAILHEAD_RUN": "r1", "RAILHEAD_HOME": str(home)}
    with subprocess.Popen(["sleep", "60"], env={**os.environ, **marks}, user=65534) as other:
        try:
            assert end_processes.processes("r1") == [mine]
            end_processes.end_run("r1")
            assert not alive(mine) and other.poll() is None
        finally:
            other.kill()
