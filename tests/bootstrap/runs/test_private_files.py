"""Only the user can read the files that a bootstrap and a run put on a host."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hosts.operator import Cluster
from standins import ctrl_c
from standins.runs.run_documents import run_document

from bootstrap.host.agent import files
from bootstrap.host.agent.temporary import make_temporary
from bootstrap.inventory.files import atomic_write
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan.internet import Internet
from bootstrap.provision.apply import KEY, _Installation
from bootstrap.runs import start
from bootstrap.runs.run import Run
from bootstrap.ssh import connect
from bootstrap.ssh.authorized_keys import authorize
from bootstrap.ssh.bundle import pack_folder
from bootstrap.ssh.connect import Sessions
from bootstrap.ssh.local_session import local_session
from bootstrap.ssh.session import ConnectionLost, Session
from railhead.documents.agent.files import TextFile, Write
from railhead.documents.agent.runs import MakeTemporary
from railhead.documents.runs.run import RunHost

PYTHON = "python3"
DOCUMENT = run_document(env={"PROJECT": "p-1"})


@pytest.fixture
def host(one_host: Cluster, session: Session) -> Path:
    """The home of a real host with an agent that runs without its own umask."""
    session.start_agent(session.facts().python or "")
    return one_host.machines[0].home


@pytest.fixture
def open_umask() -> Iterator[None]:
    """New files are open to everybody, unless the code closes them."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def send_all(session: Session, request: Any, run: Run) -> None:
    """The whole folder of a run on one host."""
    start.write_program(session, request, DOCUMENT, run)
    start.send_program(session, request, DOCUMENT, run)


def test_secrets_and_the_folder_of_a_run_are_the_users_alone(
    session: Session, host: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("pass")
    request: Any = SimpleNamespace(bundle=pack_folder(tmp_path), secrets=(("TOKEN", "s3cret"),))
    run = Run("r1", tmp_path / "results")
    send_all(session, request, run)
    document = replace(DOCUMENT, hosts=(RunHost(session.host.name, "10.0.0.1", None, 2),))
    session.call_all(*start._temporary(session, {"TOKEN": "s3cret"}, document, run))
    folder = host / ".railhead/runs/r1"
    memory, tmp = ((folder / name).readlink() for name in ("memory", "tmp"))
    assert memory.parent == Path("/dev/shm"), "a secret is on no disk"
    assert sorted(path.name for path in memory.iterdir()) == [
        *("secrets-0.json", "secrets-1.json", "secrets.json")
    ]
    assert {mode(path) for path in memory.iterdir()} == {0o600}
    assert mode(memory) == mode(tmp) == 0o700 and len(str(tmp)) < 60
    start.remove_run({"h1": session}, run)
    assert not memory.exists() and not tmp.exists() and not folder.exists()
    send_all(session, request, run)
    for private in (host / ".railhead", folder.parent, folder):
        assert mode(private) == 0o700, private
    assert "s3cret" not in (folder / "run.json").read_text()
    assert not list(folder.rglob("*.part-*"))


def test_each_rank_finds_the_secrets_on_its_own_host_and_the_supervisor_on_the_chief() -> None:
    hosts = tuple(RunHost(name, "10.0.0.1", None, slots) for name, slots in (("a", 2), ("b", 3)))
    document = replace(DOCUMENT, hosts=hosts, size=5)
    files = {host.name: document.secret_files(at) for at, host in enumerate(hosts)}
    assert files == {
        "a": ["secrets.json", "secrets-0.json", "secrets-1.json"],
        "b": ["secrets-2.json", "secrets-3.json", "secrets-4.json"],
    }
    for rank in range(5):  # the name that rank.py opens
        assert f"secrets-{rank}.json" in files[hosts[document.host_of(rank)].name]


def test_the_standby_alone_gets_the_secrets_of_the_supervisor_too(tmp_path: Path) -> None:
    """Nobody would remove them on the other hosts."""
    hosts = tuple(RunHost(name, "10.0.0.1", None, 1) for name in ("a", "b", "c"))
    document = replace(DOCUMENT, hosts=hosts, size=3, takeover=True)
    names: dict[str, list[str]] = {}
    for host in hosts:
        session: Any = SimpleNamespace(host=host)
        secrets = {"TOKEN": "s3cret"}
        requests = start._temporary(session, secrets, document, Run("r1", tmp_path))
        (files,) = (request.files for request in requests if isinstance(request, Write))
        names[host.name] = sorted(file.path.rpartition("/")[2] for file in files)
    assert names == {
        "a": ["secrets-0.json", "secrets.json"],
        "b": ["secrets-1.json", "secrets.json"],
        "c": ["secrets-2.json"],
    }


@pytest.mark.parametrize("kind", ["new", "ours", "open", "a link", "of another user"])
def test_secrets_are_not_written_into_a_folder_that_others_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Hosts that share a home have the links of the first one, which name folders in /dev/shm."""
    folder, memory = tmp_path / "run", tmp_path / "memory"
    folder.mkdir()
    for name in ("memory", "tmp"):
        (folder / name).symlink_to(tmp_path / name)
    if kind == "a link":
        memory.symlink_to(tmp_path / "others", target_is_directory=True)
        (tmp_path / "others").mkdir(mode=0o700)
    elif kind != "new":
        memory.mkdir(mode=0o700)
    if kind == "open":
        memory.chmod(0o750)
    if kind == "of another user":
        monkeypatch.setattr(os, "geteuid", lambda: memory.stat().st_uid + 1)
    if kind in ("new", "ours"):
        make_temporary(MakeTemporary(str(folder)))
        assert mode(memory) == mode(tmp_path / "tmp") == 0o700
    else:
        with pytest.raises(PermissionError, match="memory is not this user's alone"):
            make_temporary(MakeTemporary(str(folder)))


def test_ctrl_c_while_a_run_is_sent_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that sends has not ended; it must not send secrets after the removal."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "train.py").write_text("pass")
    request: Any = SimpleNamespace(bundle=pack_folder(tmp_path), secrets={"TOKEN": "s3cret"})
    run, over = Run("r1", tmp_path / "results"), threading.Event()
    folder, prepare = tmp_path / ".railhead/runs/r1", start.send_program

    def interrupted(session: Session, *more: Any) -> None:
        prepare(session, *more)
        assert folder.exists()
        ctrl_c.press()
        with pytest.raises(ConnectionLost):
            session.run(["sh", "-c", f"while [ -e {folder} ]; do sleep 0.1; done; sleep 1"])
        over.set()

    monkeypatch.setattr(start, "send_program", interrupted)
    with contextlib.ExitStack() as stack:

        def opened(*_: Any) -> Sessions:
            session = stack.enter_context(local_session())
            return Sessions(Inventory("c", (session.host,)), {"here": session})

        monkeypatch.setattr(connect, "open_sessions", opened)
        sessions = opened()
        sessions["here"].start_agent(sys.executable)
        facts = {"here": SimpleNamespace(python=sys.executable)}
        cluster: Any = SimpleNamespace(sessions=sessions, facts=facts, chief="there")
        with pytest.raises(KeyboardInterrupt):
            start.lay_out(cluster, request, DOCUMENT, run)
        assert over.wait(120) and not folder.exists()


def test_a_part_of_a_file_is_private_before_it_has_content(
    open_umask: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the creation of the part and its final mode, another user could open it."""
    seen: list[int] = []
    real = os.fchmod

    def noted(descriptor: int, mode: int) -> None:
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        real(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", noted)
    files.write(Write((TextFile(str(tmp_path / "a/run/secrets.json"), "{}", 0o600),)))
    atomic_write(tmp_path / "b/cluster/key", "text")
    assert seen == [0o600, 0o600]
    for name in ("a", "a/run", "b", "b/cluster"):
        assert mode(tmp_path / name) == 0o700
    for name in ("a/run/secrets.json", "b/cluster/key"):
        assert mode(tmp_path / name) == 0o600


def installation(session: Session, **facts: Any) -> _Installation:
    """That of a cluster with one host, which has these facts."""
    cluster = SimpleNamespace(
        inventory=Inventory("c", (Host("h1", "127.0.0.1"),)),
        internet=Internet(),
        sessions={"h1": session},
        facts={"h1": SimpleNamespace(system=SimpleNamespace(trusts=False), **facts)},
        chief="h1",
        leaders=(SimpleNamespace(name="h1", address="127.0.0.1"),),
        wheel=None,
        environment=SimpleNamespace(horovod=False, megabytes=0),
    )
    board = SimpleNamespace(line=lambda *_, **__: None, print_lines=lambda *_: None)
    return _Installation(cluster, None, board)  # type: ignore[arg-type]


def test_the_key_of_the_cluster_is_the_users_alone(session: Session, host: Path) -> None:
    installation(session, cluster_key=None, run_processes=(), standbys=())._exchange_keys({})
    key = host / KEY.removeprefix("~/")
    assert mode(key) == 0o600 and mode(key.parent) == 0o700


@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        ({"run_processes": (), "standbys": ()}, 1),
        ({"run_processes": (1,), "standbys": ()}, 2),
        ({"run_processes": (), "standbys": frozenset({"r1"})}, 2),
    ],
)
def test_a_run_in_progress_with_another_chief_keeps_its_key(
    session: Session, host: Path, facts: dict[str, Any], lines: int
) -> None:
    """As after a takeover: the first host of the command is not its chief."""
    file = host / ".ssh/authorized_keys"
    earlier = "ssh-ed25519 AAAA railhead:c"
    authorize(session, "c", [earlier])
    for _ in range(2):
        installed = installation(session, cluster_key="ssh-ed25519 BBBB", **facts)
        installed._exchange_keys({"h1": session})
        present = [line for line in file.read_text().splitlines() if line.endswith(" railhead:c")]
        assert len(present) == lines and (earlier in present) == (lines == 2)
    authorize(session, "c", [])


def test_authorized_keys_stay_the_users_alone(session: Session, host: Path) -> None:
    """sshd refuses the file otherwise, or others add their keys to it."""
    before = (host / ".ssh/authorized_keys").read_text()
    authorize(session, "c", ["ssh-ed25519 AAAA railhead:c"])
    assert mode(host / ".ssh/authorized_keys") == 0o600 and mode(host / ".ssh") == 0o700
    authorize(session, "c", [])
    assert (host / ".ssh/authorized_keys").read_text() == before
