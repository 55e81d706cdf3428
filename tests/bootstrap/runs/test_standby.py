"""The standby of a run: when it ends, and what is recorded of it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins.runs.run_documents import record_run, run_document

from bootstrap.errors import HostsNotReady
from bootstrap.host.run import end_processes
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory, parse_hosts
from bootstrap.lifecycle import consent
from bootstrap.plan.hostfile import Peer
from bootstrap.runs import elsewhere, launch, start, takeover
from bootstrap.runs.bucket import results as bucket_results
from bootstrap.runs.run import Run
from bootstrap.ssh import connect
from bootstrap.ssh.bundle import pack_folder
from bootstrap.ssh.connect import Sessions
from bootstrap.ssh.local_session import local_session
from bootstrap.ssh.session import ConnectionLost
from railhead.documents.codec import encode
from railhead.documents.runs.cause import Cause
from railhead.documents.runs.result import Result
from railhead.documents.runs.run import RunData, RunHost, Stop
from railhead.documents.runs.state import RunState
from railhead.documents.runs.swept import OF_RUNS, OF_STANDBYS
from railhead.documents.runs.takeover import NO_LEASE

STANDBY = "#!/bin/sh\necho {} >before.json\nexec sleep 60\n"  # in place of the Python that runs it


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The cluster as its standby has it: this computer with an own home, and its agent."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(end_processes, "HOME", str(tmp_path))
    (tmp_path / "client/bin").mkdir(parents=True)
    (tmp_path / "client/bin/python").write_text(STANDBY)
    (tmp_path / "client/bin/python").chmod(0o755)
    for run_id in ("r0", "r1"):
        (tmp_path / f".railhead/runs/{run_id}/logs").mkdir(parents=True)
    with contextlib.ExitStack() as stack:

        def opened(*_: Any) -> Sessions:
            session = stack.enter_context(local_session())
            session.start_agent(sys.executable)
            return Sessions(Inventory("c", (session.host,)), {"here": session})

        sessions = opened()
        monkeypatch.setattr(connect, "open_sessions", opened)
        monkeypatch.setattr(takeover, "start_agent", lambda *_: "")
        facts = SimpleNamespace(home=str(tmp_path), addresses=(), openmpi="4.1.4", boot_id="one")
        facts.standbys = frozenset({"r0", "r1"})
        yield SimpleNamespace(
            inventory=sessions.inventory,
            sessions=sessions,
            chief="here",
            facts={"here": facts},
            peers=(Peer("here", "127.0.0.1", 22, "me", 1, "key"),),
            bucket_client=SimpleNamespace(folder=tmp_path / "client"),
            python_of=lambda _: sys.executable,
        )
    for run_id in ("r0", "r1"):
        end_processes.end_run(run_id, OF_STANDBYS)


def standbys(run_id: str = "r1") -> int:
    """How many standbys of the run there are."""
    return len(end_processes.processes(run_id, OF_STANDBYS))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ConnectionLost("h1")])
def test_the_standby_ends_if_the_supervisor_is_not_started(
    error: BaseException, second: Any, tmp_path: Path
) -> None:
    run = Run("r1", tmp_path / "results")
    takeover.start_standby(second, run)
    with pytest.raises((KeyboardInterrupt, ConnectionLost)), takeover.ended_on_error(second, run):
        assert standbys() == 1
        raise error
    assert standbys() == 0


@pytest.mark.parametrize(
    ("program", "seconds", "why"),
    [
        ("echo no client >&2; exit 1", 60.0, "ended: no client"),
        ("sleep 60; :", 5.0, "did not begin within 5 s: it printed nothing"),
    ],
)
def test_a_run_whose_standby_does_not_begin_leaves_nothing(
    second: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    seconds: float,
    why: str,
) -> None:
    takeover.start_standby(second, Run("r0", tmp_path / "earlier"))
    assert standbys("r0") == 1
    (tmp_path / "client/bin/python").write_text(
        f"#!/bin/sh\nreadlink memory >~/memory\n{program}\n"
    )
    document = run_document(hosts=(RunHost("here", "127.0.0.1", None, 1),), takeover=True)
    monkeypatch.setattr(takeover, "LISTED", seconds)
    monkeypatch.setattr(start, "document_of", lambda *_: document)
    monkeypatch.setattr(start, "processes_of", lambda *_: [1])
    monkeypatch.setattr(launch, "new_run_id", lambda: document.run_id)
    monkeypatch.setattr(takeover, "as_standby", lambda cluster: cluster)
    (tmp_path / "empty").mkdir()
    request: Any = SimpleNamespace(
        options=SimpleNamespace(launcher="tensorflow"),
        bundle=pack_folder(tmp_path / "empty"),
        secrets={"TOKEN": "s3cret"},
        record=None,
    )
    with pytest.raises(HostsNotReady) as refusal:
        start.start(second, request, (), tmp_path / "results", launch.StopPolicy(stop=False))
    assert refusal.value.outcomes["here"] == f"the standby {why}" and refusal.value.hint
    assert not Path((tmp_path / "memory").read_text().strip()).exists(), "secrets"
    assert not (tmp_path / ".railhead/runs/r1").exists() and not local_state.is_recorded("r1")
    assert standbys() == standbys("r0") == 0, "that of an earlier run would start it again"


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_new_run_ends_the_standby_of_an_earlier_one_and_says_so(
    second: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_recorded: bool
) -> None:
    run = Run("r1", tmp_path / "results")
    if is_recorded:
        record_run(run.results, RUN)
        assert takeover.standby_of(run) == "h2"
    takeover.start_standby(second, run)
    assert standbys() == 1
    marks = {OF_RUNS: "r1", "RAILHEAD_HOME": str(tmp_path)}
    with subprocess.Popen(["sleep", "60"], env=marks) as started:  # after the facts were read
        takeover.end_earlier_standbys(second)
        assert started.wait(30)
    assert standbys() == 0 and not takeover.standby_of(run)
    assert "r1" in capsys.readouterr().out


HOSTS = tuple(RunHost(name, "10.0.0.1", None, 1) for name in ("h1", "h2", "h3"))
PATHS = RunData("train", "host:/data", None, None, ("/1", "/2", "/3"))
RUN = run_document(
    hosts=HOSTS, size=3, takeover=True, data=(PATHS,), stop=Stop((("a",), ("b",), ("c",)), 0)
)


class Folder:
    """A host whose home is a folder here."""

    has_agent = False

    def __init__(self, home: Path) -> None:
        self.home, self.host = home, parse_hosts(home.name).hosts[0]

    def shell(self, script: str) -> tuple[list[str], int]:
        done = subprocess.run(
            ["sh", "-c", script], env={"HOME": str(self.home)}, capture_output=True
        )
        return done.stdout.decode().splitlines(), done.returncode


@pytest.mark.parametrize(("taken_over", "order"), [(True, "h2 h3 h1"), (False, "h1 h2 h3")])
def test_another_computer_shows_and_records_the_chief_of_now_and_its_standby(
    home: Path, tmp_path: Path, taken_over: bool, order: str
) -> None:
    """The folder of the first chief, which answers again, is still there."""
    of_first = replace(RUN, run_id="20261126-090000-abcd")
    of_second = replace(of_first, hosts=(*HOSTS[1:], HOSTS[0]), takeover=False)
    for name in ("h1", "h2", "h3"):
        document = of_second if taken_over and name == "h2" else of_first
        folder = tmp_path / name / ".railhead/runs" / document.run_id
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(encode(document)))
        if document is of_second:
            (folder / "takeover.json").write_text("{}")
    sessions: Any = {name: Folder(tmp_path / name) for name in ("h1", "h2", "h3")}
    there = elsewhere.on_hosts(sessions, None)
    assert there
    inventory = parse_hosts("h1,h2,h3")
    for run in (takeover.current_of(sessions, inventory, there.run), there.record(inventory)):
        assert " ".join(run.hosts) == order
        assert takeover.standby_of(run) == ("" if taken_over else "h2")


@pytest.mark.parametrize(
    ("state", "takes_over", "standbys", "lost"),
    [
        ("running", True, {"r1"}, ""),
        ("running", True, {"r0"}, "h2"),
        ("running", True, None, ""),
        ("running", False, set(), ""),
        ("succeeded", True, set(), ""),
    ],
)
@pytest.mark.parametrize("is_alone", [False, True])
def test_a_standby_that_does_not_run_any_more_is_named_during_the_run(
    tmp_path: Path,
    state: str,
    takes_over: bool,
    standbys: set[str] | None,
    lost: str,
    is_alone: bool,
) -> None:
    """As after a reboot of its host, also where the chief has continued alone. Of a host that does
    not answer nothing is known."""
    run_state = RunState(state=state, pid=7, heartbeat=1.0, started="2026-11-26T09:00:00Z")
    whole = replace(RUN, takeover=takes_over)
    files = {"state.json": run_state, "run.json": whole}
    if is_alone:
        files |= {"whole.json": whole, "run.json": replace(whole, hosts=HOSTS[:1])}
    texts = {name: json.dumps(encode(document)) for name, document in files.items()}
    hosts: Any = {"h1": SimpleNamespace(standbys=frozenset())}
    hosts |= {} if standbys is None else {"h2": SimpleNamespace(standbys=frozenset(standbys))}
    run = Run("r1", tmp_path)
    text = texts.get("whole.json") or texts["run.json"]
    assert takeover.lost_standby(run_state, text, run, hosts) == lost
    record_run(tmp_path / "r1", replace(RUN, takeover=takes_over))
    has_standby = takes_over and not lost and state == "running"
    assert state != "running" or bool(takeover.ready_standby(run, hosts)) == has_standby


class Standby:
    """A host that says it leads the run, and gives its own document."""

    has_agent = True

    def __init__(self, leads: bool = True) -> None:
        self.host, self.leads = parse_hosts("h2").hosts[0], leads

    def read(self, path: str) -> str | None:
        forged = replace(RUN, stop=Stop((("halt",),) * 3, 0), bundle="0" * 64)
        if path.endswith("takeover.json"):
            return "{}" if self.leads else None
        return json.dumps(encode(forged))


def test_a_host_that_takes_over_changes_only_the_order_of_what_is_recorded(
    home: Path, tmp_path: Path
) -> None:
    record_run(tmp_path / "r1", RUN)
    sessions: Any = {"h2": Standby()}
    inventory = replace(parse_hosts("h1,h2,h3"), name="c")
    run = takeover.current_of(sessions, inventory, Run("r1", tmp_path / "r1"))
    assert run.hosts == ("h2", "h3", "h1") and not takeover.standby_of(run)
    assert local_state.recorded_run("r1").run == replace(
        RUN,
        hosts=(*HOSTS[1:], HOSTS[0]),
        data=(replace(PATHS, paths=("/2", "/3", "/1")),),
        stop=Stop((("b",), ("c",), ("a",)), 0),
        takeover=False,
    )


LOST = Cause("host", f"{NO_LEASE}, because its sign of life did not arrive", "h1")


@pytest.mark.parametrize(
    ("cause", "chiefs", "is_fetched"),
    [(LOST, ("h1", "h2"), False), (Cause("program", "ValueError", "h1"), ("h1", "h1"), True)],
)
def test_the_result_of_a_chief_that_lost_the_lease_does_not_end_the_run(
    home: Path, tmp_path: Path, cause: Cause, chiefs: tuple[str, str], is_fetched: bool
) -> None:
    """Its results are fetched while the standby restores the run, which then leads it."""
    record_run(tmp_path / "r1", RUN)
    (tmp_path / "r1").mkdir()
    file = tmp_path / "r1/result.json"
    file.write_text(json.dumps(encode(Result(run_id="r1", state="failed", cause=cause))))
    inventory, run = replace(parse_hosts("h1,h2,h3"), name="c"), Run("r1", tmp_path / "r1")
    for leads, chief in zip((False, True), chiefs, strict=True):
        sessions: Any = {"h2": Standby(leads)}
        assert takeover.current_of(sessions, inventory, run).hosts[0] == chief
        assert (consent.unfetched(inventory) == []) == is_fetched
        assert ("failed" in bucket_results.run_line(inventory, run)) == is_fetched
    assert file.exists() == is_fetched
