"""The agent, driven as the channel drives it: its source, then requests, through pipes."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bootstrap.remote.agent import packing
from bootstrap.remote.run.manifest import snapshot
from bootstrap.ssh.bundle import pack_folder, tar
from bootstrap.ssh.session import START_AGENT, agent_source


class Failed(Exception):
    """What the agent answered instead of `ok`."""


class Agent:
    """An agent in a process of its own, at home in `home`."""

    def __init__(self, home: Path, python: str = sys.executable) -> None:
        self.process = subprocess.Popen(
            [python, "-I", "-S", "-c", START_AGENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"HOME": str(home), "PATH": os.environ["PATH"]},
        )
        source = agent_source()
        self.send(b"%d\n%s" % (len(source), source))
        self.hello = self.line()["event"]

    def send(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def line(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def call(self, op: str, payload: bytes = b"", **options: Any) -> tuple[Any, list[Any]]:
        """The answer of one operation and its events; a chunk's bytes are put into its event."""
        self.send(json.dumps({"op": op, **options}).encode() + b"\n")
        events = []
        while "event" in (answer := self.line()):
            event = answer["event"]
            if "need" in event:
                self.send(b"%d\n%s" % (len(payload), payload))
            if "chunk" in event:
                assert self.process.stdout
                event["bytes"] = self.process.stdout.read(event["chunk"])
            events.append(event)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["ok"], events


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    agent = Agent(home)
    yield agent
    assert agent.process.stdin and agent.process.stdout
    agent.process.stdin.close()
    agent.process.wait(10)
    agent.process.stdout.close()


def test_it_reports_hello_and_ends_with_its_channel(home: Path) -> None:
    agent = Agent(home)
    assert agent.hello["agent"] == 1
    assert agent.process.communicate()[0] == b""
    assert agent.process.returncode == 0


def test_a_failure_is_an_answer_and_the_next_request_works(agent: Agent) -> None:
    with pytest.raises(Failed, match="ENOENT"):
        agent.call("run", argv=["~/not-there"])
    with pytest.raises(Failed, match="KeyError"):
        agent.call("not-an-op")
    assert agent.call("read", paths=["~/none"])[0] == {"~/none": None}


# --- files


def test_write_changes_only_what_differs(agent: Agent, home: Path) -> None:
    files = [["~/.ssh/a", 0o600, "one\n"], ["~/b", 0o755, "two\n"]]
    assert agent.call("write", files=files)[0]["changed"] == [f"{home}/.ssh/a", f"{home}/b"]
    assert agent.call("write", files=files)[0] == {"changed": []}
    (home / "b").chmod(0o644)
    assert agent.call("write", files=files)[0] == {"changed": [f"{home}/b"]}
    assert [p.stat().st_mode & 0o777 for p in (home / ".ssh", home / "b")] == [0o700, 0o755]


def test_write_keeps_the_users_own_link(agent: Agent, home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / "keys").symlink_to(home / "dotfiles" / "keys")
    agent.call("write", files=[["~/keys", 0o600, "line\n"]])
    assert (home / "keys").is_symlink()
    assert (home / "dotfiles" / "keys").read_text() == "line\n"


def build(root: Path, layout: dict[str, str]) -> None:
    """Make files; a text that starts with -> makes a link, a name that ends in / a folder."""
    root.mkdir(parents=True, exist_ok=True)
    for name, text in layout.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        elif text == "fifo":
            os.mkfifo(path)
        elif text.startswith("->"):
            path.symlink_to(text[2:])
        else:
            path.write_text(text)


def found(root: Path) -> dict[str, str]:
    """The files and empty folders in a folder, as `build` takes them; links are marked."""
    seen = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            seen[name] = f"->{path.readlink()}"
        elif path.is_file():
            seen[name] = path.read_text()
        elif not any(path.iterdir()):
            seen[f"{name}/"] = ""
    return seen


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
    "a link deep in the way": ({"d/e": "->../../out"}, {"d/e/kept": "new"}),
    "a dangling link": ({"a": "->nowhere"}, {"a": "new"}),
    "a pipe in a file's place": ({"a": "fifo"}, {"a": "new"}),
    "the longest name": ({}, {"n" * 255: "new"}),
}


@pytest.mark.parametrize("prune", [True, False], ids=["prune", "keep"])
@pytest.mark.parametrize("before, wanted", TREES.values(), ids=TREES)
def test_tree(
    agent: Agent, tmp_path: Path, before: dict[str, str], wanted: dict[str, str], prune: bool
) -> None:
    build(tmp_path / "out", {"kept": "outside"})
    build(tmp_path / "dest", before)
    build(tmp_path / "here", wanted)
    bundle = pack_folder(tmp_path / "here")
    payload = tar(bundle, {f.sha256 for f in bundle.files})
    options = {"blobs": "~/blobs", "dest": str(tmp_path / "dest"), "prune": prune}
    manifest = bundle.manifest()["files"]
    agent.call("tree", payload, manifest=manifest, **options)
    now = found(tmp_path / "dest")
    assert {k: now.get(k) for k in wanted} == wanted
    assert now == wanted or not prune
    assert found(tmp_path / "out") == {"kept": "outside"}
    again, events = agent.call("tree", b"", manifest=manifest, **options)
    assert (again, events) == ({"sent": 0, "changed": []}, [{"need": []}])


def test_tree_without_prune_keeps_what_is_not_in_its_way(agent: Agent, tmp_path: Path) -> None:
    build(tmp_path / "dest", {"other": "kept", "d/e/f": "kept", "a/x": "goes"})
    build(tmp_path / "here", {"a": "1"})
    bundle = pack_folder(tmp_path / "here")
    payload = tar(bundle, {f.sha256 for f in bundle.files})
    options = {"blobs": "~/blobs", "dest": str(tmp_path / "dest"), "prune": False}
    agent.call("tree", payload, manifest=bundle.manifest()["files"], **options)
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
        self.payload = tar(bundle, {f.sha256 for f in bundle.files})
        self.options: dict[str, Any] = {"manifest": bundle.manifest()["files"]}
        self.options |= {"blobs": "~/blobs", "dest": "~/above/there"}

    def to(self, agent: Agent) -> Any:
        """Send it to the end; the agent's answer."""
        self.begin(agent)
        payload = self.payload if agent.line()["event"]["need"] else b""
        agent.send(b"%d\n%s" % (len(payload), payload))
        return agent.line()["ok"]

    def begin(self, agent: Agent) -> None:
        """Ask for the operation."""
        agent.send(json.dumps({"op": "place_folder", **self.options}).encode() + b"\n")


@pytest.fixture
def sent(tmp_path: Path) -> Sent:
    return Sent(tmp_path / "here")


@pytest.mark.parametrize("before", DAMAGED.values(), ids=DAMAGED)
def test_a_folder_named_by_a_digest_is_made_whole_whatever_was_there(
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
@pytest.mark.parametrize("bytes_sent", [0, 1, 5, 60, -1, None])
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
    source = agent_source()
    monkeypatch.setattr(sys.modules[__name__], "agent_source", lambda: killed.encode() + source)
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
    elsewhere = "above/there.part-another-host-1"
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
    wanted = hashlib.sha256(b"1").hexdigest()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo(wanted)
        member.size = 1
        archive.addfile(member, io.BytesIO(b"2"))
    manifest = [{"path": "a", "sha256": wanted, "size": 1, "executable": False}]
    payload = zlib.compress(packed.getvalue())
    with pytest.raises(Failed, match="sha256"):
        agent.call("tree", payload, manifest=manifest, blobs="~/blobs", dest="~/dest")
    assert found(home / "dest") == found(home / "blobs") == {}


def unpacked(events: list[Any]) -> dict[str, str]:
    packed = io.BytesIO(b"".join(e["bytes"] for e in events))
    with tarfile.open(fileobj=packed) as archive:
        return {m.name: text(archive, m) for m in archive}


def text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    content = archive.extractfile(member)
    assert content
    return content.read().decode()


def test_get_sends_the_contents_up_to_a_limit(agent: Agent, home: Path) -> None:
    build(home / "run", {"run.json": "{}", "results/a": "x" * 50, "results/b": "y" * 50})
    (home / "run" / "results" / "link").symlink_to(home / "run" / "results" / "a")
    os.link(home / "run" / "run.json", home / "run" / "results" / "0-hard")
    patterns = ["run.json", "results/*", "run.*", "../*"]
    answer, events = agent.call("get", root="~/run", patterns=patterns, limit=1000)
    assert unpacked(events) == {
        "run.json": "{}",
        "results/0-hard": "{}",
        "results/a": "x" * 50,
        "results/b": "y" * 50,
    }
    assert answer["left"] == []
    answer, events = agent.call("get", root="~/run", patterns=["run.json", "results/?"], limit=60)
    assert list(unpacked(events)) == [path for path, _ in answer["files"]]
    assert len(answer["files"]) == 2 and len(answer["left"]) == 1


def going_on(home: Path, **more: str) -> Path:
    """A run that goes on: its program was shipped with `train.py` and `data`."""
    folder = home / ".railhead/runs/r1"
    work = {"work/train.py": "x", "work/data": "old"}
    layout = {"run.json": '{"outputs": ["**"]}', "results/.keep": "", **work}
    build(folder, {**layout, "logs/supervisor.log": "", "logs/rank-0.log": "tick\n"})
    (folder / "before.json").write_text(json.dumps(snapshot(str(folder))))
    (folder / "work/data").write_text("changed")
    build(folder, {"work/ckpt/1/w.h5": "weights", "results/model/v/x": "tree", **more})
    return folder


RUNNING = {"run.json", "results/model/v/x", "logs/rank-0.log", "logs/supervisor.log"}


def collected(agent: Agent) -> tuple[Any, dict[str, str]]:
    answer, events = agent.call("collect", folder="~/.railhead/runs/r1", limit=1000)
    return answer, unpacked(events)


def test_outputs_are_there_before_the_end_of_a_run(agent: Agent, home: Path) -> None:
    going_on(home)
    answer, files = collected(agent)
    assert files.keys() == RUNNING | {"work/ckpt/1/w.h5", "work/data"}
    assert files["work/ckpt/1/w.h5"] == "weights" and answer["changed"] == answer["skipped"] == []


def test_outputs_are_chosen_before_the_end_as_at_the_end(agent: Agent, home: Path) -> None:
    (going_on(home) / "run.json").write_text('{"outputs": ["*.h5"]}')
    assert collected(agent)[1].keys() == RUNNING | {"work/ckpt/1/w.h5"}


def test_what_the_supervisor_found_at_the_end_counts(agent: Agent, home: Path) -> None:
    folder = going_on(home)
    (folder / "results/outputs.json").write_text('{"files": [["data", 7]]}')
    assert collected(agent)[1].keys() == RUNNING | {"work/data"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"data": 5}'])
def test_no_outputs_are_known_where_the_start_is_not(agent: Agent, home: Path, text: str) -> None:
    (going_on(home) / "before.json").write_text(text)
    assert collected(agent)[1].keys() >= RUNNING


def test_what_is_no_file_is_named_and_holds_nothing_up(agent: Agent, home: Path) -> None:
    folder = going_on(home, **{"results/pipe": "fifo", "work/link": "->/etc/passwd"})
    build(folder, {"logs/pipe": "fifo"})
    answer, files = collected(agent)
    assert files.keys() == RUNNING | {"work/ckpt/1/w.h5", "work/data"}
    assert {(s["path"], s["kind"]) for s in answer["skipped"]} == {
        ("results/pipe", "FIFO"),
        ("logs/pipe", "FIFO"),
        ("work/link", "link"),
    }
    assert agent.call("read", paths=["~/.railhead/runs/r1/logs/pipe"])[0].popitem()[1] is None


def test_a_file_that_is_cut_while_it_is_sent_breaks_no_archive() -> None:
    content = io.BytesIO(b"12345")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        assert not packing.add(tar, "cut", content, 100_000)
        assert packing.add(tar, "whole", io.BytesIO(b"abc"), 3)
        assert packing.add(tar, "longer now", io.BytesIO(b"abcdef"), 3)
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        assert [m.size for m in tar] == [100_000, 3, 3]


def test_files_that_are_written_all_the_time_come_meanwhile(agent: Agent, home: Path) -> None:
    folder = going_on(home)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            (folder / "work/ckpt/1/w.h5").write_text("w" * 300)
            (folder / "work/ckpt/new").write_text("n")
            (folder / "work/ckpt/new").unlink()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(30):
            answer, files = collected(agent)
            assert files.keys() >= RUNNING
            cut = "work/ckpt/1/w.h5" in answer["changed"]
            assert cut or files.get("work/ckpt/1/w.h5", "weights") in ("weights", "", "w" * 300)
    finally:
        stop.set()
        writer.join()


PATTERNS: dict[str, tuple[list[str], list[str]]] = {
    "a name": (["a"], ["a"]),
    "a star in a folder": (["d/*"], ["d/.hidden", "d/b.h5", "d/odd[1]*"]),
    "a star stays in its folder": (["*"], [".top", "a"]),
    "two stars": (["**"], [".top", "a", "d/.hidden", "d/b.h5", "d/e/c.h5", "d/odd[1]*"]),
    "two stars below": (["d/**/*.h5"], ["d/b.h5", "d/e/c.h5"]),
    "a name that looks like a pattern": (["d/odd[[]1][*]"], ["d/odd[1]*"]),
    "the patterns' order": (["d/*.h5", "a", "d/b.h5"], ["d/b.h5", "a"]),
    "a folder is no file": (["d", "d/e"], []),
    "nothing outside": (["../*", "../other", "d/../../other"], []),
    "no such name": (["b*", "z"], []),
}


@pytest.mark.parametrize("patterns, paths", PATTERNS.values(), ids=PATTERNS)
def test_get_finds(agent: Agent, home: Path, patterns: list[str], paths: list[str]) -> None:
    names = ["a", ".top", "d/b.h5", "d/.hidden", "d/e/c.h5", "d/odd[1]*"]
    build(home / "run", dict.fromkeys(names, "x"))
    build(home, {"other": "x"})
    answer, events = agent.call("get", root="~/run", patterns=patterns, limit=1000)
    assert [path for path, _ in answer["files"]] == list(unpacked(events)) == paths


@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
def test_any_python_of_a_host_will_do(home: Path, version: str) -> None:
    name = f"python{version}"
    if not shutil.which(name):
        pytest.skip(f"no {name} here")
    done = subprocess.run([name, "-c", "import sys; print(sys.executable)"], capture_output=True)
    if done.returncode:  # a version manager's stand-in for one that is not chosen
        pytest.skip(f"{name} does not start here")
    agent = Agent(home, done.stdout.decode().strip())
    assert agent.hello["python"].startswith(version)
    agent.call("write", files=[["~/run/.a", 0o600, "x"]])
    assert unpacked(agent.call("get", root="~", patterns=["run/*"], limit=9)[1]) == {"run/.a": "x"}
    assert agent.call("run", argv=["echo", "a"])[0] == {"rc": 0, "tail": ["a"]}
    agent.process.communicate()


def test_remove_takes_folders_and_spares_what_a_link_leads_to(agent: Agent, home: Path) -> None:
    build(home, {"a/b": "1", "kept/c": "2", "link": "->kept"})
    assert agent.call("remove", paths=["~/a", "~/link", "~/none"])[0] == {"left": []}
    assert found(home) == {"kept/c": "2"}


# --- commands


COMMANDS: dict[str, tuple[str, int, list[str]]] = {
    "lines": (r"printf 'a\nb\n'", 0, ["a", "b"]),
    "both streams and a code": (r"echo a; echo b >&2; exit 3", 3, ["a", "b"]),
    "an empty line between": (r"printf 'a\n\n b\n'", 0, ["a", "", " b"]),
    "no newline at the end": (r"printf 'a\nb'", 0, ["a", "b"]),
    "a progress bar": (r"printf '1%%\r2%%\r100%%\ndone\n'", 0, ["100%", "done"]),
    "a bar's unfinished state": (r"printf 'a\n1%%\r2%%\r'", 0, ["a", "2%"]),
    "lines of another system": (r"printf 'a\r\nb\r\n'", 0, ["a", "b"]),
    "no text": (r"printf 'a\377b\n'", 0, ["a\ufffdb"]),
    "more than the tail": (r"seq 100000", 0, [str(n) for n in range(99961, 100001)]),
    "a signal": (r"kill -9 $$", -9, []),
}


@pytest.mark.parametrize("script, code, tail", COMMANDS.values(), ids=COMMANDS)
def test_run_answers_the_code_and_the_last_lines(
    agent: Agent, script: str, code: int, tail: list[str]
) -> None:
    assert agent.call("run", argv=["sh", "-c", script])[0] == {"rc": code, "tail": tail}


def test_run_gives_input_environment_and_folder(agent: Agent, home: Path) -> None:
    script = 'cat; echo "$WHERE"; pwd'
    options: dict[str, Any] = {"text": "in\n", "env": {"WHERE": "~/x"}, "cwd": "~"}
    answer, _ = agent.call("run", argv=["sh", "-c", script], **options)
    assert answer["tail"] == ["in", f"{home}/x", str(home)]


def test_run_does_not_mind_input_that_nobody_reads(agent: Agent) -> None:
    assert agent.call("run", argv=["true"], text="x" * 1_000_000)[0] == {"rc": 0, "tail": []}


BACKGROUND = {
    "a silent one": "sleep 8 &",
    "a talkative one": "while sleep 0.001; do echo still here; done &",
    "one that closed our pipe first": "exec >&- 2>&-; sleep 0.2;",
}


@pytest.mark.parametrize("left", BACKGROUND.values(), ids=BACKGROUND)
def test_what_a_command_leaves_behind_does_not_hold_the_answer(agent: Agent, left: str) -> None:
    start = time.monotonic()
    answer, _ = agent.call("run", argv=["sh", "-c", f"echo started; {left} exit 4"])
    assert answer["rc"] == 4
    assert answer["tail"][0] in ("started", "still here")
    assert time.monotonic() - start < 4


ENDLESS = {
    "silent": "exec sleep 60",
    "through a child": "sleep 60; echo never",
    "loud": "while :; do echo x; done",
    "with its output closed": "exec >&- 2>&-; sleep 60",
}


def alive(group: int) -> list[int]:
    """The processes of a group that have not ended; who should bury the dead is not our matter."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, pgrp = path.read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state != "Z":
                found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("script", ENDLESS.values(), ids=ENDLESS)
def test_a_timeout_ends_all_that_was_started(agent: Agent, home: Path, script: str) -> None:
    start = time.monotonic()
    argv = ["sh", "-c", f"echo $$ >~/pid; {script}"]
    assert agent.call("run", argv=argv, timeout=0.5)[0]["rc"] == -9
    assert time.monotonic() - start < 4
    assert alive(int((home / "pid").read_text())) == []


def test_a_flood_is_reported_at_a_bounded_pace(agent: Agent) -> None:
    start = time.monotonic()
    answer, events = agent.call("run", argv=["sh", "-c", "seq 2000000; sleep 0.2"])
    assert answer["tail"][-1] == events[-1]["line"] == "2000000"
    assert len(events) <= 25 * (time.monotonic() - start) + 2


def test_slow_lines_are_all_reported(agent: Agent) -> None:
    script = r"for i in 1 2 3; do echo $i; sleep 0.12; done; printf '4%%\r'; sleep 0.12; echo 5%"
    _, events = agent.call("run", argv=["sh", "-c", script])
    assert [e["line"] for e in events][:4] == ["1", "2", "3", "4%"]


def test_a_line_without_end_stays_small(agent: Agent) -> None:
    script = "head -c 30000000 /dev/zero | tr '\\0' x; echo end"
    answer, events = agent.call("run", argv=["sh", "-c", script])
    assert answer["tail"][-1].endswith("xend")
    assert len(answer["tail"][-1]) <= (1 << 20) + (1 << 16)


def test_processes_of_one_machine_download_one_after_the_other(home: Path) -> None:
    """Local hosts share uv's cache: the second finds what the first has downloaded."""
    agents = [Agent(home) for _ in range(3)]
    alone = ["sh", "-c", "mkdir ~/busy || exit 7; sleep 0.2; rmdir ~/busy"]
    codes: list[int] = []

    def download(one: Agent) -> None:
        codes.append(one.call("run", argv=alone, fetches=True)[0]["rc"])

    threads = [threading.Thread(target=download, args=(one,)) for one in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for one in agents:
        one.process.communicate()
    assert codes == [0, 0, 0]


def test_growth_is_reported_while_it_fetches_and_no_longer(agent: Agent) -> None:
    _, events = agent.call("run", argv=["sleep", "1.3"], fetches=True)
    assert [list(e) for e in events] == [["grown"]]
    with pytest.raises(Failed, match="ENOENT"):
        agent.call("run", argv=["/not/there"], fetches=True)
    assert agent.call("run", argv=["sleep", "1.3"])[1] == []


def test_start_outlives_the_channel(home: Path) -> None:
    agent = Agent(home)
    options: dict[str, Any] = {"cwd": "~", "env": {"A": "~/b"}, "log": "~/log"}
    script = "sleep 0.5; echo $A; pwd"
    agent.call("start", argv=["sh", "-c", script], **options)
    agent.process.communicate()
    time.sleep(1)
    assert (home / "log").read_text() == f"{home}/b\n{home}\n"


# --- following a run


def run_folder(home: Path, state: str, pid: int) -> Path:
    folder = home / "runs" / "r1"
    build(folder, {"logs/rank-0.log": "1%\r2%", "results/metrics.jsonl": '{"a": 1}\n{"b": '})
    (folder / "state.json").write_text(json.dumps({"state": state, "pid": pid}))
    return folder


def test_follow_passes_on_what_is_new_and_ends_with_the_run(agent: Agent, home: Path) -> None:
    folder = run_folder(home, "succeeded", 1)
    answer, events = agent.call("follow", folder="~/runs/r1")
    assert answer == {"offset": 9, "lost": False}
    assert events[0] == {"metrics": '{"a": 1}\n', "offset": 9}
    assert events[1]["last"] == {"0": "2%"}
    with (folder / "results" / "metrics.jsonl").open("a") as metrics:
        metrics.write("2}\n")
    _, events = agent.call("follow", folder="~/runs/r1", offset=9)
    assert events[0] == {"metrics": '{"b": 2}\n', "offset": 18}


def test_follow_sees_that_the_supervisor_was_killed(agent: Agent, home: Path) -> None:
    """Also when this agent started it, and so is the parent of a zombie."""
    folder = run_folder(home, "running", 0)
    (folder / "supervisor.py").write_text("import time; time.sleep(60)")
    argv = [sys.executable, "~/runs/r1/supervisor.py"]
    pid = agent.call("start", argv=argv, cwd="~", env={}, log="~/log")[0]["pid"]
    run_folder(home, "running", pid)
    started = time.monotonic()
    killer = threading.Timer(1, os.kill, (pid, 9))
    killer.start()
    assert agent.call("follow", folder="~/runs/r1")[0]["lost"]
    assert time.monotonic() - started >= 1
    time.sleep(0.2)
    assert not Path(f"/proc/{pid}").exists()  # buried: `kill -0` fails for everybody


def test_follow_is_not_fooled_by_another_process_of_that_number(agent: Agent, home: Path) -> None:
    run_folder(home, "running", os.getpid())
    assert agent.call("follow", folder="~/runs/r1")[0]["lost"]


# --- wires


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_peers_are_called_and_report_who_answers(agent: Agent, address: str) -> None:
    import socket

    try:
        port = agent.call("listen", address=address)[0]["port"]
    except Failed:
        pytest.skip(f"{address} is no address of this machine")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.closing(socket.socket(family)) as stranger, socket.socket(family) as closed:
        stranger.bind((address, 0))
        stranger.listen()
        closed.bind((address, 0))
        numbers = [port, stranger.getsockname()[1], closed.getsockname()[1]]
        peers = [[address, number] for number in numbers]
        wrong = agent.call("dial", peers=peers, timeout=0.5)[0]["wrong"]
    assert wrong[0] is None
    assert "timed out" in wrong[1]
    assert "refused" in wrong[2]


def test_ports_are_free_and_different(agent: Agent) -> None:
    numbers = agent.call("ports", count=50)[0]["ports"]
    assert len(set(numbers)) == 50
