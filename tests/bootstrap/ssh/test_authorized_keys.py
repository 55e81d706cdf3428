"""A person's key on a host: what is read as one, and which line of authorized_keys it changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bootstrap.errors import RailheadError, UsageError
from bootstrap.ssh.authorized_keys import PublicKey, add, authorize, read_public_key, remove
from bootstrap.ssh.local_session import LocalSession, local_session
from railhead.documents.agent.files import Read

DATA = "AAAAC3NzaC1lZDI1NTE5AAAAIBTkB+CnT0vqWgcl2EcN2m8yWFOXPHwWBQz5x0YMTLj4"
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUDQzZ4yZ0MFRqkSeGpGPXAhhJGuKGsm1NUOlTVS"
KEY = f"ssh-ed25519 {DATA}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ssh-ed25519",
        f"ssh-rsa {DATA} bob",
        f'command="rm" {KEY}',
        f"{KEY} bob\n{KEY} ann",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n",
        "x" * 100_000,
    ],
)
def test_what_is_not_one_public_key_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bob.pub").write_text(text)
    with pytest.raises(UsageError, match="private key|not one public SSH key|at most 20 kB"):
        read_public_key(tmp_path / "bob.pub")


def test_a_comment_marks_no_line_as_that_of_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "bob.pub").write_text(f"{KEY} bob\x1b[2J of railhead:dev \n")
    assert str(read_public_key(tmp_path / "bob.pub")) == f"{KEY} of"


@pytest.fixture
def bob(tmp_path: Path) -> PublicKey:
    (tmp_path / "bob.pub").write_text(f"{KEY} bob\n")
    return read_public_key(tmp_path / "bob.pub")


@pytest.fixture
def file(home: Path) -> Path:
    """Where authorized_keys is to be; its folder is there."""
    (home / ".ssh").mkdir(mode=0o700)
    return home / ".ssh/authorized_keys"


@pytest.fixture
def session(file: Path) -> Iterator[LocalSession]:
    """A session with this machine as the host, and its agent."""
    with local_session() as session:
        session.start_agent("python3")
        yield session


def test_only_the_line_of_the_key_is_added_and_removed(
    session: LocalSession, bob: PublicKey, file: Path
) -> None:
    add(session, bob)
    assert file.read_text() == f"{KEY} bob\n" and file.stat().st_mode & 0o777 == 0o600
    authorize(session, "dev", [f"ssh-ed25519 {OTHER} railhead:dev"])
    with pytest.raises(UsageError, match="last key"):
        remove(session, bob)
    ann = f'# of ann\nno-pty,command="sh -l" ssh-ed25519 {OTHER} ann\n'
    file.write_text(f"{ann}{file.read_text()}")
    assert add(session, bob) == "has this key already"
    remove(session, bob)
    assert file.read_text() == f"{ann}ssh-ed25519 {OTHER} railhead:dev\n"
    assert remove(session, bob) == "does not have this key"


@pytest.mark.parametrize("line", [f"  # {KEY} bob", f"#{KEY} bob", "not a key", "ssh-ed25519 AAAA"])
def test_a_line_that_lets_nobody_in_counts_as_none(
    session: LocalSession, bob: PublicKey, file: Path, line: str
) -> None:
    file.write_text(f"{line}\n")
    assert remove(session, bob) == "does not have this key"
    assert add(session, bob) == "accepts this key now"
    assert file.read_text() == f"{line}\n{KEY} bob\n"
    with pytest.raises(UsageError, match="last key"):
        remove(session, bob)


def test_a_key_that_the_guest_agent_would_add_again_is_not_removed(
    session: LocalSession, bob: PublicKey, file: Path, tmp_path: Path
) -> None:
    (tmp_path / "ann.pub").write_text(f"ssh-ed25519 {OTHER} ann\n")
    ann = read_public_key(tmp_path / "ann.pub")
    file.write_text(f"# Added by Google\n{ann}\n")
    add(session, bob)
    with pytest.raises(UsageError, match="public_key_file"):
        remove(session, ann)
    assert file.read_text() == f"# Added by Google\n{ann}\n{bob}\n"
    remove(session, bob)
    assert file.read_text() == f"# Added by Google\n{ann}\n"


@pytest.mark.parametrize("make", [os.mkfifo, lambda file: file.symlink_to(file)])
def test_a_file_that_cannot_be_read_is_an_error_and_stays(
    session: LocalSession, bob: PublicKey, file: Path, make: Callable[[Path], None]
) -> None:
    make(file)
    before = file.lstat()
    for change in (
        lambda: add(session, bob),
        lambda: remove(session, bob),
        lambda: authorize(session, "dev", [f"{KEY} railhead:dev"]),
    ):
        with pytest.raises(RailheadError, match="authorized_keys"):
            change()
    assert os.path.samestat(file.lstat(), before)


@pytest.mark.parametrize("times", [1, 1000])
def test_a_line_that_somebody_adds_after_the_read_stays(
    session: LocalSession, bob: PublicKey, file: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    added: list[str] = []
    call = session.call

    def somebody_after(request: Any, **bounds: Any) -> Any:
        reply = call(request, **bounds)
        if isinstance(request, Read) and len(added) < times:
            added.append(f"ssh-ed25519 {OTHER} ann{len(added)}\n")
            file.write_text("".join(added))
        return reply

    monkeypatch.setattr(session, "call", somebody_after)
    if times == 1:
        assert add(session, bob) == "accepts this key now"
        added.append(f"{KEY} bob\n")
    else:
        with pytest.raises(RailheadError, match="changes all the time"):
            add(session, bob)
    assert file.read_text() == "".join(added)


def test_only_the_lines_of_the_cluster_itself_are_replaced(
    session: LocalSession, file: Path
) -> None:
    """Other names begin or end with its name."""
    own = "ssh-ed25519 AAAA railhead:dev"
    others = [f"ssh-ed25519 AAAA railhead:{name}" for name in ("dev-2", "gpu-dev", "dev.b")]
    file.write_text("".join(f"{line}\n" for line in (others[0], own, *others[1:])))
    authorize(session, "dev", [])
    assert file.read_text().splitlines() == others
