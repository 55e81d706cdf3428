"""Endpoints on a host, through the agent: what is read, sent and started there."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bootstrap.cli import serving_tasks, status, tasks
from bootstrap.cli.running import Exit
from bootstrap.errors import RailheadError, UsageError
from bootstrap.facts.host import HostFacts
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host, Inventory, parse_hosts
from bootstrap.lifecycle import reach, timer
from bootstrap.lifecycle.power import ClusterStatus
from bootstrap.serving import deploy as deploying
from bootstrap.serving import environment, records
from bootstrap.serving.deploy import choose_port
from bootstrap.serving.model import copy_on_chief, pack_model, remove_unused_models, send_model
from bootstrap.serving.place import EndpointPlace, place_here
from bootstrap.serving.request import DeployRequest, read_request
from bootstrap.serving.source import ModelSource
from bootstrap.serving.state import is_alive
from bootstrap.ssh import connect
from bootstrap.ssh.bundle import pack_folder
from bootstrap.ssh.connect import Sessions, start_agent
from bootstrap.ssh.local_session import HERE, LocalSession, local_session
from bootstrap.untrusted.decode import parsed
from bootstrap.workflows import serving as workflow
from bootstrap.workflows.serving import deploy_here, deploy_on_host
from railhead.documents.agent.files import TextFile
from railhead.documents.agent.network import FindPort, FoundPort
from railhead.documents.options.serving import DeployOptions
from railhead.documents.serving.endpoint import Deployed, EndpointState
from training.serving.metrics import ServingMetrics
from training.serving.model import Model, ModelError
from training.serving.settings import ServeSettings
from training.serving.versions import Versions, versions_in

pytestmark = pytest.mark.usefixtures("known_facts")


class SharedSession(LocalSession):
    """A session for all tests of this file: its facts are read, and its agent started, once."""

    def __init__(self) -> None:
        super().__init__()
        self.known_facts = super().facts()
        start_agent(self, self.known_facts)

    def facts(self) -> HostFacts:
        return self.known_facts

    def sh(self, text: str, *, report: Any = None, silence: float | None = None) -> str:
        if not self.has_agent:
            return super().sh(text)
        return "\n".join(self.run(["sh", "-c", text]).tail)

    def place(self) -> EndpointPlace:
        self.host = Host(HERE, "localhost")
        return EndpointPlace(self, self.known_facts.python or "", self.known_facts)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedSession]:
    """At home in a folder of this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("host")))
        patch.delenv("KERAS_HOME", raising=False)
        shared = SharedSession()
    yield shared
    shared.close()


@pytest.fixture
def home(home: Path, session: SharedSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home of the session, empty; this side has the same one."""
    folder = Path(session.known_facts.home)
    monkeypatch.setenv("HOME", str(folder))
    yield folder
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


STATE: dict[str, Any] = {"state": "ready", "pid": 7, "heartbeat": 1.0, "until": 4000.0}


def state_of(text: str) -> EndpointState:
    return parsed(EndpointState, text, "x")


def test_a_time_to_live_beyond_the_machines_deadline_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The timer is read although the agent runs in the session of the endpoint."""
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho stops=7200 now=0 late=no timer=active\n")
    tool.chmod(0o755)
    monkeypatch.setattr(timer, "TOOL", str(tool))
    monkeypatch.setattr(reach, "sessions", fresh_session)
    machine = ClusterStatus(Inventory("c", (Host("h1", "localhost"),), cloud="aws"), {}, "aws")
    (tmp_path / "m.keras").touch()
    with pytest.raises(UsageError, match="before the time-to-live of 3 h") as refused:
        deploy_on_host(machine, DeployRequest("m", hours=3), ModelSource(None, tmp_path))
    assert refused.value.hint.startswith("fab extend --hours 3.5")
    # It fits, and the agent answers.
    with pytest.raises(UsageError, match="cannot get a new version"):
        deploy_on_host(machine, DeployRequest("m", update=True), ModelSource(None, tmp_path))


@contextmanager
def fresh_session(inventory: Inventory) -> Iterator[Sessions]:
    """A session with this machine, as that of the chief."""
    with local_session() as session:
        session.host = inventory.chief
        yield Sessions(inventory, {inventory.chief.name: session})


DOCUMENT = {"schema": 1, "name": "m", "run_id": "r1", "port": 8501, "until": 9e9, "argv": ["x"]}


def use_sessions(patch: pytest.MonkeyPatch, opened: Callable[..., Any]) -> None:
    patch.setattr(reach, "sessions", opened)
    patch.setattr(connect, "open_sessions", opened)


@pytest.fixture
def elsewhere(home: Path, session: SharedSession, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """A host with an endpoint `m` that another computer has deployed."""
    folder = home / ".railhead/endpoints/m"
    folder.mkdir(parents=True)
    (folder / "endpoint.json").write_text(json.dumps(DOCUMENT))
    (folder / "state.json").write_text(json.dumps({**STATE, "state": "ended", "reason": "over"}))

    @contextmanager
    def opened(inventory: Inventory) -> Iterator[Sessions]:
        session.host = inventory.chief
        yield Sessions(inventory, {inventory.chief.name: session})

    use_sessions(monkeypatch, opened)
    return parse_hosts("h1")


def test_an_endpoint_of_another_computer_is_shown_and_ended_by_its_hosts(
    elsewhere: Inventory,
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_sessions(monkeypatch, fresh_session)  # what is read comes before its agent
    local_state.save_cluster(elsewhere)
    status.show(ClusterStatus(elsewhere, {}, "hosts"), None)
    assert (
        f"endpoint m on h1 of {elsewhere.name}, port 8501: ended: over" in capsys.readouterr().out
    )
    with pytest.raises(Exit, match=f"no endpoint 'x' is deployed on h1 of {elsewhere.name}"):
        serving_tasks.undeploy(name="x")
    mine = Deployed("m", "other", "h2", 8501, None)
    records.save(mine)
    serving_tasks.undeploy(name="m", hosts="h1")
    assert "had already ended; no process left" in capsys.readouterr().out
    assert not (home / ".railhead/endpoints/m").exists()
    assert records.find("m") == mine, "one of this name at another place stays recorded"


def test_the_log_of_an_endpoint_is_printed(
    elsewhere: Inventory, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = home / ".railhead/endpoints/m/logs"
    with pytest.raises(Exit, match="endpoint m has no log yet\n  next: fab status --hosts h1"):
        tasks.logs(hosts="h1", endpoint="m")
    logs.mkdir()
    (logs / "server.log").write_text("loads version 1\n\x1b[31mserves\n")
    tasks.logs(hosts="h1", endpoint="m")
    out = capsys.readouterr().out
    assert "loads version 1\n" in out and "serves\n" in out and "\x1b" not in out
    (logs / "server.log.1").write_text("older\n")
    tasks.logs(hosts="h1", endpoint="m")
    assert "older\nloads version 1\n" in capsys.readouterr().out
    with pytest.raises(Exit, match="--endpoint cannot be used with"):
        tasks.logs(hosts="h1", endpoint="m", follow=True)


@pytest.mark.parametrize(
    "change", [{"port": "8501"}, {"port": 0}, {"run_id": "../x"}, {"argv": []}]
)
def test_an_endpoint_of_another_computer_is_checked(
    change: dict[str, Any], elsewhere: Inventory, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local_state.save_cluster(elsewhere)
    file = home / ".railhead/endpoints/m/endpoint.json"
    file.write_text(json.dumps({**DOCUMENT, **change}))
    (home / ".railhead/endpoints/\x1b[31m").mkdir()
    with pytest.raises(Exit, match="an endpoint.json of m that is not valid"):
        serving_tasks.undeploy(name="m")
    status.show(ClusterStatus(elsewhere, {}, "hosts"), None)
    shown = capsys.readouterr().out
    assert "an endpoint.json of m that is not valid" in shown and "\x1b" not in shown


def test_a_session_with_this_machine_works_as_one_over_ssh(
    home: Path, session: SharedSession
) -> None:
    """Its facts were read by `SharedSession`."""
    assert session.known_facts.home == str(home)
    with local_session() as opened:
        start_agent(opened)
        opened.write(TextFile("~/x/y", "text", 0o600))
        assert opened.run(["cat", "~/x/y"]).tail == ("text",)
        state = state_of(json.dumps({**STATE, "heartbeat": time.time(), "pid": 2}))
        assert not is_alive(opened, "~/.railhead/endpoints/m", state)


def test_keras_writes_into_our_folder_unless_the_user_has_one(
    home: Path, session: SharedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert session.place().keras_home() == {"KERAS_HOME": f"{home}/.railhead/keras"}
    (home / ".keras").mkdir()
    assert session.place().keras_home() == {}
    (home / ".keras").rmdir()
    monkeypatch.setenv("KERAS_HOME", "/data/keras")
    with place_here() as place:
        assert place.keras_home() == {}


def test_an_interrupted_copy_on_the_chief_leaves_nothing_in_the_next(
    home: Path, session: SharedSession
) -> None:
    source = home / "run/saved_model"
    source.mkdir(parents=True)
    (source / "saved_model.pb").write_text("model")
    dest = home / copy_on_chief(session, str(source), "r1").removeprefix("~/")
    shutil.rmtree(dest)
    partial = Path(f"{dest}.part/model")
    partial.mkdir(parents=True)
    (partial / "saved_model.pb").write_text("mod")
    copy_on_chief(session, str(source), "r1")
    assert {path.name: path.read_text() for path in dest.iterdir()} == {"saved_model.pb": "model"}
    assert not partial.parent.exists()


def test_a_model_is_sent_once_and_removed_when_no_endpoint_uses_it(
    home: Path, session: SharedSession
) -> None:
    (home / "model").mkdir()
    (home / "model/saved_model.pb").write_text("model")
    model = pack_model(home / "model")
    models, versions = home / ".railhead/models", home / ".railhead/endpoints/m/versions"
    sent = home / send_model(session, model).removeprefix("~/")
    before = (sent / "saved_model.pb").stat().st_mtime_ns
    send_model(session, model)
    assert (sent / "saved_model.pb").stat().st_mtime_ns == before
    assert not list((home / ".railhead/blobs").iterdir()), "it is not kept twice"
    versions.mkdir(parents=True)
    (versions / "1").symlink_to(sent)
    (models / "run-r0").mkdir()
    remove_unused_models(session)
    assert list(models.iterdir()) == [sent]
    (versions / "1").unlink()
    remove_unused_models(session)
    assert not list(models.iterdir())


def test_what_starts_an_endpoint_is_for_its_user_alone(home: Path, session: SharedSession) -> None:
    """A notebook's command has its token."""
    endpoint = Deployed("m", None, "here", 8501, None)
    argv = ["python", "--token", "s3cret"]
    document = deploying.document_of(session.place(), endpoint, argv, 60)
    deploying.lay_out(session.place(), endpoint, document)
    file = home / ".railhead/endpoints/m/endpoint.json"
    assert "s3cret" in file.read_text() and file.stat().st_mode & 0o777 == 0o600
    assert records.find("m") == endpoint


def test_a_server_s_command_has_paths_that_no_shell_has_to_expand(
    home: Path, session: SharedSession, tmp_path: Path
) -> None:
    (tmp_path / "served.py").touch()
    for _ in range(2):  # the second time it is there
        path = Path(environment._send(session.place(), pack_folder(tmp_path)))
        assert path.parent == home / ".railhead/serving" and (path / "served.py").exists()


class Server:
    """The server's watch over versions: a version with the file `broken` does not load. `look` is
    what it and its supervisor do, until state.json."""

    def __init__(self, endpoint: Path) -> None:
        self.file = endpoint / "state.json"
        self.settings = ServeSettings(endpoint / "versions", "m")
        self.versions = Versions(self.settings, self.load, ServingMetrics(), lambda _: None)

    def load(self, path: Path) -> Model:
        if (path / "broken").exists():
            raise ModelError("no signature")
        return Model({}, {}, None)

    async def look(self) -> None:
        await self.versions.look()
        states, version = self.versions.states, self.versions.current
        health = {"version": version.number if version else 0}
        failed = {str(number): error for number, (_, error) in states.items() if error}
        self.file.write_text(json.dumps({**STATE, **health, "failed": failed}))


@pytest.fixture
def deployed(home: Path, session: SharedSession) -> Deployed:
    """An endpoint whose version 1 is in the folder `good`, on port 8502."""
    endpoint = Deployed("m", None, HERE, 8502, None)
    document = deploying.document_of(session.place(), endpoint, ["python"], 60)
    deploying.lay_out(session.place(), endpoint, document)
    for name in ("good", "bad", "better"):
        (home / name).mkdir()
        (home / name / "saved_model.pb").write_text(name)
    (home / "bad/broken").touch()
    (home / ".railhead/endpoints/m/versions/1").symlink_to(home / "good")
    return endpoint


def test_a_version_that_does_not_serve_is_not_tried_again_and_the_next_one_serves(
    home: Path, session: SharedSession, deployed: Deployed
) -> None:
    """A restart would load the newest version; and a number that has failed stays failed."""
    versions = home / ".railhead/endpoints/m/versions"
    request = DeployRequest("m", update=True)

    async def updates() -> None:
        server = Server(versions.parent)
        await server.look()
        loop = asyncio.get_running_loop()

        def look(_: str) -> None:
            asyncio.run_coroutine_threadsafe(server.look(), loop).result(20)

        def update(name: str) -> EndpointState:
            folder = str(home / name)
            return deploying.update(session.place(), request, deployed, folder, look)

        with pytest.raises(RailheadError, match="version 2 of endpoint m .*: no signature"):
            await asyncio.to_thread(update, "bad")
        assert sorted(path.name for path in versions.iterdir()) == [".2", ".keep", "1"]
        state = await asyncio.to_thread(update, "better")
        assert (state.version, server.versions.get(None).number) == (3, 3)

    asyncio.run(asyncio.wait_for(updates(), 60))
    assert (versions / "3").readlink() == home / "better"


def test_a_version_that_is_still_loading_does_not_serve_under_the_number_of_the_next_one(
    home: Path, session: SharedSession, deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time is over, the server completes the version: it would be taken for the next."""
    monkeypatch.setattr(deploying, "LOADING", 0.1)
    request = DeployRequest("m", update=True)
    for number, name in ((2, "good"), (3, "better")):
        with pytest.raises(RailheadError, match=f"version {number} of endpoint m does not serve"):
            folder = str(home / name)
            deploying.update(session.place(), request, deployed, folder, lambda _: None)
    versions = home / ".railhead/endpoints/m/versions"
    assert [number for number, _ in versions_in(versions)] == [1]


def test_an_endpoint_has_more_than_a_hundred_versions(
    home: Path, session: SharedSession, deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that is in use would count as served already, with the model before."""
    monkeypatch.setattr(deploying, "LOADING", 0.1)
    versions = home / ".railhead/endpoints/m/versions"
    for number in range(2, 101):
        (versions / str(number)).symlink_to(home / "good")
    request, folder = DeployRequest("m", update=True), str(home / "better")
    with pytest.raises(RailheadError, match="version 101 of endpoint m does not serve"):
        deploying.update(session.place(), request, deployed, folder, lambda _: None)
    with pytest.raises(RailheadError, match="version 7 could not be created"):
        deploying._link_version(session, deployed.folder, folder, 7)
    assert [path.name for path in (home / "good").iterdir()] == ["saved_model.pb"]


@contextmanager
def here(session: SharedSession) -> Iterator[EndpointPlace]:
    yield session.place()


def test_a_new_version_keeps_the_port_of_its_endpoint_on_record(
    home: Path, session: SharedSession, deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is what `fab predict` and `undeploy` use."""
    state = state_of(json.dumps({**STATE, "pid": session.run(["true"]).rc + 7}))
    monkeypatch.setattr(workflow, "place_here", lambda: here(session))
    monkeypatch.setattr(workflow, "refuse_second", lambda *_: True)
    monkeypatch.setattr(workflow, "runtime_here", lambda: home / "python")
    monkeypatch.setattr(deploying, "_wait", lambda *_: state)
    request = read_request(DeployOptions(name="m", port=9999, update=True))
    deploy_here(request, ModelSource(None, home / "better", trusted=True))
    assert records.require("m").port == 8502


def test_a_second_endpoint_gets_the_next_free_port(session: SharedSession) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        taken = first.getsockname()[1]
        assert taken < choose_port(session.place(), None, taken) < taken + 100
        with pytest.raises(UsageError, match=f"port {taken} of this computer is in use"):
            choose_port(session.place(), taken, 8501)
    assert choose_port(session.place(), taken, 8501) == taken


def test_a_deploy_to_a_port_in_use_sends_and_records_nothing(
    home: Path, session: SharedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "place_here", lambda: here(session))
    (home / "m.keras").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        request = read_request(DeployOptions(name="m", port=port))
        with pytest.raises(UsageError, match=f"port {port} of this computer is in use"):
            deploy_here(request, ModelSource(None, home, trusted=True))
    assert records.names() == [] and [path.name for path in home.iterdir()] == ["m.keras"]


@pytest.mark.parametrize("port", [80, 8500, 8602])
def test_a_port_that_a_host_invents_is_hostile(port: int) -> None:
    assert not FindPort(8501, 8601).is_answered_by(FoundPort(port))
