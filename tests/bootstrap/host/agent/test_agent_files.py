"""The agent writes, receives and removes files."""

from __future__ import annotations

import hashlib
import json
import signal
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from standins import agent_process
from standins.agent_process import Agent, Failed, build, found

from bootstrap.ssh.bundle import contents, pack_folder
from bootstrap.ssh.session import START_AGENT
from railhead.documents.codec import encode


def test_write_changes_only_what_differs(agent: Agent, home: Path) -> None:
    files = [
        {"path": "~/.ssh/a", "mode": 0o600, "text": "one\n"},
        {"path": "~/b", "mode": 0o755, "text": "two\n"},
    ]
    assert agent.call("write", files=files)[0]["changed"] == [f"{home}/.ssh/a", f"{home}/b"]
    assert agent.call("write", files=files)[0] == {"changed": []}
    (home / "b").chmod(0o644)
    assert agent.call("write", files=files)[0] == {"changed": [f"{home}/b"]}
    assert [p.stat().st_mode & 0o777 for p in (home / ".ssh", home / "b")] == [0o700, 0o755]


def test_write_keeps_the_users_own_link(agent: Agent, home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / "keys").symlink_to(home / "dotfiles" / "keys")
    agent.call("write", files=[{"path": "~/keys", "mode": 0o600, "text": "line\n"}])
    assert (home / "keys").is_symlink()
    assert (home / "dotfiles" / "keys").read_text() == "line\n"


TREES: dict[str, tuple[dict[str, str], dict[str, str]]] = {  # what is there, what is wanted
    "nothing there": ({}, {"a": "1", "d/b": "2"}),
    "the same": ({"a": "1"}, {"a": "1"}),
    "more and emptied folders": ({"a": "1", "d/x/y": "old", "e/": ""}, {"a": "1"}),
    "a folder becomes a file": ({"a/b/c": "old", "a/d": "old"}, {"a": "new"}),
    "an empty folder becomes a file": ({"a/": ""}, {"a": "new"}),
    "a file becomes a folder": ({"a": "old"}, {"a/b": "new"}),
    "a link in a file's place": ({"a": "->../out/kept"}, {"a": "new"}),
    "a link to the same content": ({"a": "->../out/kept"}, {"a": "outside"}),
    "a link in a folder's place": ({"d": "->../out"}, {"d/kept": "new"}),
    "a link to a folder beside it": ({"a": "1", "d": "->../out"}, {"a": "1"}),
    "a link above a folder": ({"d": "->../out"}, {"d/kept/b": "new"}),
    "a link deep in the way": ({"d/e": "->../../out"}, {"d/e/kept": "new"}),
    "a dangling link": ({"a": "->nowhere"}, {"a": "new"}),
    "a pipe in a file's place": ({"a": "fifo"}, {"a": "new"}),
    "the longest name": ({}, {"n" * 255: "new"}),
}


@pytest.mark.parametrize("prune", [True, False], ids=["prune", "keep"])
@pytest.mark.parametrize("before, after", TREES.values(), ids=TREES)
def test_tree(
    agent: Agent, tmp_path: Path, before: dict[str, str], after: dict[str, str], prune: bool
) -> None:
    build(tmp_path / "out", {"kept": "outside"})
    build(tmp_path / "dest", before)
    build(tmp_path / "here", after)
    bundle = pack_folder(tmp_path / "here")
    payload = partial(contents, bundle)
    options: dict[str, Any] = {"blobs": "~/blobs", "dest": str(tmp_path / "dest"), "prune": prune}
    manifest = encode(bundle.files)
    agent.call("tree", payload, manifest=manifest, **options)
    now = found(tmp_path / "dest")
    assert {k: now.get(k) for k in after} == after
    assert now == after or not prune
    assert found(tmp_path / "out") == {"kept": "outside"}
    again, events = agent.call("tree", manifest=manifest, **options)
    assert (again, events) == ({"sent": 0, "changed": []}, [{"need": []}])


def test_of_a_tree_that_is_in_place_only_what_changed_is_looked_for(
    agent: Agent, tmp_path: Path, home: Path
) -> None:
    """Each content is hashed once: that of a file in its place is not among the blobs any more."""
    for text in ("1", "2"):
        build(tmp_path / "here", {"a": "same", "d/b": text})
        bundle = pack_folder(tmp_path / "here")
        payload = partial(contents, bundle)
        options = {"blobs": "~/blobs", "dest": str(tmp_path / "dest")}
        _, events = agent.call("tree", payload, manifest=encode(bundle.files), **options)
        assert len(events[0]["need"]) == (2 if text == "1" else 1)
        for blob in (home / "blobs").iterdir():
            blob.unlink()
    assert found(tmp_path / "dest") == {"a": "same", "d/b": "2"}


@pytest.mark.parametrize(("before", "mode"), [(0o644, 0o755), (0o755, 0o644)])
def test_a_file_of_a_tree_gets_its_mode_again(
    agent: Agent, tmp_path: Path, before: int, mode: int
) -> None:
    for name, file_mode in (("a", mode), ("b", 0o644)):
        build(tmp_path / "here", {name: name})
        (tmp_path / "here" / name).chmod(file_mode)
    bundle = pack_folder(tmp_path / "here")
    options = {"blobs": "~/blobs", "dest": str(tmp_path / "dest")}
    agent.call("tree", partial(contents, bundle), manifest=encode(bundle.files), **options)
    (tmp_path / "dest/a").chmod(before)
    again, _ = agent.call(
        "tree", partial(contents, bundle), manifest=encode(bundle.files), **options
    )
    assert again["changed"] == ["a"]
    modes = [(tmp_path / "dest" / name).stat().st_mode & 0o777 for name in ("a", "b")]
    assert modes == [mode, 0o644]


def test_tree_without_prune_keeps_what_is_not_in_its_way(agent: Agent, tmp_path: Path) -> None:
    build(tmp_path / "dest", {"other": "kept", "d/e/f": "kept", "a/x": "goes"})
    build(tmp_path / "here", {"a": "1"})
    bundle = pack_folder(tmp_path / "here")
    payload = partial(contents, bundle)
    options = {"blobs": "~/blobs", "dest": str(tmp_path / "dest"), "prune": False}
    agent.call("tree", payload, manifest=encode(bundle.files), **options)
    assert found(tmp_path / "dest") == {"a": "1", "d/e/f": "kept", "other": "kept"}


INSTALLER = {"uv": "an installer " * 3, "share/licence": "text"}
DAMAGED: dict[str, dict[str, str]] = {
    "nothing": {},
    "an empty folder": {"there/": ""},
    "half of the files": {"there/uv": INSTALLER["uv"]},
    "another content": {"there/uv": "half an inst", "there/share/licence": "text"},
    "a file": {"there": "x"},
    "a dangling link": {"there": "->nowhere"},
    "a pipe in a file's place": {"there/uv": "fifo"},
}


class Sent:
    """A folder named by a digest, as it is sent to a host."""

    def __init__(self, here: Path) -> None:
        build(here, INSTALLER)
        bundle = pack_folder(here)
        self.bundle = bundle
        self.payload = contents(bundle, {f.sha256 for f in bundle.files})
        self.options: dict[str, Any] = {"manifest": encode(bundle.files)}
        self.options |= {"blobs": "~/blobs", "dest": "~/above/there"}

    def to(self, agent: Agent) -> Any:
        """Send it to the end; the agent's answer."""
        self.begin(agent)
        need = agent.line()["event"]["need"]
        payload = contents(self.bundle, need) if need else b""
        agent.send(b"%d\n%s" % (len(payload), payload))
        return agent.line()["ok"]

    def begin(self, agent: Agent) -> None:
        """Ask for the operation."""
        agent.send(json.dumps({"op": "place_folder", **self.options}).encode() + b"\n")


@pytest.fixture
def sent(tmp_path: Path) -> Sent:
    return Sent(tmp_path / "here")


@pytest.mark.parametrize("before", DAMAGED.values(), ids=DAMAGED)
def test_a_folder_named_by_a_digest_becomes_complete_whatever_was_there(
    agent: Agent, home: Path, sent: Sent, before: dict[str, str]
) -> None:
    build(home / "above", {**before, "other/uv": "kept"})
    sent.to(agent)
    assert found(home / "above/there") == INSTALLER
    assert {path.name for path in (home / "above").iterdir()} == {"there", "other"}
    inode = (home / "above/there").stat().st_ino
    assert sent.to(agent) == {"sent": 0, "changed": []}
    assert (home / "above/there").stat().st_ino == inode, "what is whole is not replaced"


# How many bytes of the answer to `need` arrive: of its length, of the contents, or all.
@pytest.mark.parametrize("bytes_sent", [0, 1, 5, 20, -1, None])
def test_a_sender_that_ends_early_leaves_no_folder_in_part(
    home: Path, sent: Sent, bytes_sent: int | None
) -> None:
    agent = Agent(home)
    sent.begin(agent)
    assert agent.line()["event"]["need"]
    agent.send((b"%d\n%s" % (len(sent.payload), sent.payload))[:bytes_sent])
    agent.process.communicate()  # the channel ends
    all_came = bytes_sent is None
    assert (home / "above/there").exists() is all_came
    assert not all_came or found(home / "above/there") == INSTALLER
    again = Agent(home)
    assert sent.to(again)["sent"] == (0 if all_came else 2)
    again.process.communicate()
    assert found(home / "above/there") == INSTALLER


# The agent is killed at each of its renames: of either content into `blobs`, of either file into
# the folder's part, and of the part itself.
@pytest.mark.parametrize("renames", range(5))
def test_an_agent_that_is_killed_leaves_no_folder_in_part(
    home: Path, sent: Sent, renames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = f"""
import os, signal
left = iter(range({renames}))
for name in ("replace", "rename"):
    def counted(*words, real=getattr(os, name)):
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        real(*words)
    setattr(os, name, counted)
"""
    monkeypatch.setattr(agent_process, "START_AGENT", killed + START_AGENT)
    agent = Agent(home)
    sent.begin(agent)
    assert agent.line()["event"]["need"]
    agent.send(b"%d\n%s" % (len(sent.payload), sent.payload))
    agent.process.communicate()
    assert agent.process.returncode == -signal.SIGKILL
    assert not (home / "above/there").exists() and list(home.glob("**/*.part-*"))
    monkeypatch.undo()
    again = Agent(home)
    sent.to(again)
    again.process.communicate()
    assert found(home / "above/there") == INSTALLER
    assert not list(home.glob("**/*.part-*"))


def test_the_part_of_another_host_that_shares_the_home_stays(
    agent: Agent, home: Path, sent: Sent
) -> None:
    elsewhere = "above/there.part-another-host-0"  # no process here has this pid
    build(home, {f"{elsewhere}/uv": "half"})
    sent.to(agent)
    assert found(home / elsewhere) == {"uv": "half"}


@pytest.mark.parametrize("missing", [0, 1, 1 << 20], ids=["damaged", "cut", "empty"])
def test_a_content_on_the_host_that_was_damaged_travels_again(
    agent: Agent, home: Path, sent: Sent, missing: int
) -> None:
    for file in sent.options["manifest"]:
        build(home / "blobs", {file["sha256"]: "\0" * max(0, file["size"] - missing)})
    assert sent.to(agent)["sent"] == 2
    assert found(home / "above/there") == INSTALLER


def test_a_blob_with_another_content_is_refused(agent: Agent, home: Path) -> None:
    sha256 = hashlib.sha256(b"1").hexdigest()
    manifest = [{"path": "a", "sha256": sha256, "size": 1, "executable": False}]
    options = {"manifest": manifest, "blobs": "~/blobs", "dest": "~/dest"}
    for sent, why in ((b"2", "sha256"), (b"", "other contents"), (b"11", "other contents")):
        packed = zlib.compress(sent)

        def payload(_: Sequence[str], packed: bytes = packed) -> bytes:
            return packed

        with pytest.raises(Failed, match=why):
            agent.call("tree", payload, **options)
    assert found(home / "dest") == found(home / "blobs") == {}


def test_remove_takes_folders_and_spares_what_a_link_leads_to(agent: Agent, home: Path) -> None:
    build(home, {"a/b": "1", "kept/c": "2", "link": "->kept"})
    assert agent.call("remove", paths=["~/a", "~/link", "~/none"])[0] == {"left": []}
    assert found(home) == {"kept/c": "2"}
