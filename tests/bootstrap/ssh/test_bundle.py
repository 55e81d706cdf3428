from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT

from bootstrap.errors import RailheadError, UsageError
from bootstrap.ssh.bundle import PACKAGES, Bundle, contents, pack_folder, pack_script, pack_training
from railhead.documents.agent.files import BundleFile


def plant(root: Path, *paths: str, content: str = "x") -> Path:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    return root


def paths(bundle: Bundle) -> list[str]:
    return [file.path for file in bundle.files]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# What is sent


def test_a_bundle_knows_each_file_by_path_hash_size_and_executable_bit(tmp_path: Path) -> None:
    plant(tmp_path, "b/run.sh", content="hello")
    plant(tmp_path, "a.py", content="")
    (tmp_path / "b/run.sh").chmod(0o755)
    assert pack_folder(tmp_path).files == (
        BundleFile("a.py", sha256(""), 0, executable=False),
        BundleFile("b/run.sh", sha256("hello"), 5, executable=True),
    )


@pytest.mark.parametrize(
    "stays",
    [
        ".git/config",
        "sub/.git",
        "__pycache__/a.pyc",
        "sub/__pycache__/a.pyc",
        "env/pyvenv.cfg",
        "sub/env/conda-meta/history",
        "results/20261121-101500-3f2a/run.json",
        "sub/results/20261121-101500-3f2a/run.json",
        "results/sweep-1a2b3c4d/sweep.json",
        "results/sweep-1a2b3c4d/sweep.lock",
        "results/scale-20261121-101500-3f2a/report.html",
        "results/report-20261121-101500-3f2a-and-1-more/report.html",
    ],
)
def test_what_nobody_wants_on_a_host_stays_behind(tmp_path: Path, stays: str) -> None:
    beside = str(Path(stays).parent / "beside")
    plant(tmp_path, "train.py", stays)
    if stays != "sub/.git":
        plant(tmp_path, beside)
    assert paths(pack_folder(tmp_path)) == ["train.py"]


def test_only_what_railhead_wrote_is_left_out_of_results(tmp_path: Path) -> None:
    mine = ["results/baseline.csv", "results/20261121-101500-3f2a.txt", "results/best/run.json"]
    more = ["results/20261121-101500-beef/notes.txt", "20261121-101500-3f2a/run.json"]
    more += ["results/report-mine/report.html", "results/sweep-1a2b3c4d/a.txt"]
    plant(tmp_path, *mine, *more, "results/20261121-101500-3f2a/run.json")
    assert paths(pack_folder(tmp_path)) == sorted([*mine, *more])


def test_sockets_and_pipes_stay_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, "train.py")
    monkeypatch.chdir(tmp_path)  # a socket's path has to be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        os.mkfifo("pipe")
        assert paths(pack_folder(tmp_path)) == ["train.py"]


def test_an_empty_folder_is_an_empty_bundle(tmp_path: Path) -> None:
    bundle = pack_folder(tmp_path)
    assert (bundle.files, bundle.total_bytes) == ((), 0)


@pytest.mark.parametrize("name", ["$(reboot)", ";rm -rf ~", "-n", "a b", "größe", "'\"", "\\", "*"])
def test_names_that_a_shell_would_read_are_names(tmp_path: Path, name: str) -> None:
    plant(tmp_path, f"{name}/{name}")
    assert paths(pack_folder(tmp_path)) == [f"{name}/{name}"]


def test_something_that_is_not_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere is not a folder"):
        pack_folder(tmp_path / "nowhere")


# Links


def test_a_link_inside_the_folder_ships_its_content(tmp_path: Path) -> None:
    plant(tmp_path, "data/v2/x.csv", "data/v2/y.csv")
    (tmp_path / "data/latest").symlink_to("v2")
    (tmp_path / "x.csv").symlink_to(tmp_path / "data/latest/x.csv")
    assert paths(pack_folder(tmp_path)) == [
        "data/latest/x.csv",
        "data/latest/y.csv",
        "data/v2/x.csv",
        "data/v2/y.csv",
        "x.csv",
    ]


@pytest.mark.parametrize("target", ["../secret", "../outside", "/etc"])
def test_a_link_out_of_the_folder_is_refused_by_name(tmp_path: Path, target: str) -> None:
    plant(tmp_path, "secret", "outside/x", "project/train.py", "project/sub/y")
    (tmp_path / "project/sub/link").symlink_to(Path("..") / target)
    with pytest.raises(UsageError, match="sub/link is a link to /.* outside .*/project"):
        pack_folder(tmp_path / "project")


def test_a_link_out_of_the_folder_does_not_matter_when_gitignore_names_it(tmp_path: Path) -> None:
    plant(tmp_path, "project/train.py")
    plant(tmp_path, "project/.gitignore", content="/data\n")
    (tmp_path / "project/data").symlink_to("/etc")
    assert paths(pack_folder(tmp_path / "project")) == [".gitignore", "train.py"]


@pytest.mark.parametrize("target", ["nowhere", "/nowhere/at/all", "link", "user@host.123:456"])
def test_a_link_to_nothing_stays_behind(tmp_path: Path, target: str) -> None:
    plant(tmp_path, "train.py")
    (tmp_path / "link").symlink_to(target)
    assert paths(pack_folder(tmp_path)) == ["train.py"]


def test_a_link_to_a_folder_that_holds_it_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, "sub/x")
    (tmp_path / "sub/loop").symlink_to("..")
    with pytest.raises(UsageError, match="sub/loop is a link to a folder that contains it"):
        pack_folder(tmp_path)


def test_a_link_to_a_fetched_run_stays_behind(tmp_path: Path) -> None:
    plant(tmp_path, "train.py", "results/20261121-101500-3f2a/run.json")
    (tmp_path / "results/last").symlink_to("20261121-101500-3f2a")
    assert paths(pack_folder(tmp_path)) == ["train.py"]


def test_a_folder_reached_through_a_link_is_the_same_folder(tmp_path: Path) -> None:
    plant(tmp_path, "real/train.py", "real/x")
    (tmp_path / "real/y").symlink_to("x")
    (tmp_path / "link").symlink_to("real")
    assert pack_folder(tmp_path / "link") == pack_folder(tmp_path / "real")


# What is refused


def test_too_much_is_refused_with_the_five_largest_files(tmp_path: Path) -> None:
    for number in range(1, 8):
        plant(tmp_path, f"data/{number}.bin", content="x" * number * 100_000)
    with pytest.raises(UsageError, match=r"holds 2\.8 MB in 7 files, more than the 2\.0") as caught:
        pack_folder(tmp_path, limit=2_000_000)
    assert [line.split() for line in caught.value.message.splitlines()[1:]] == [
        [f"0.{number}", "MB", f"data/{number}.bin"] for number in (7, 6, 5, 4, 3)
    ]
    assert ".gitignore" in caught.value.hint
    assert "--workdir" in caught.value.hint


def test_the_limit_itself_ships(tmp_path: Path) -> None:
    plant(tmp_path, "x", content="x" * 1000)
    assert pack_folder(tmp_path, limit=1000).total_bytes == 1000


def test_too_much_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as sparse:
        sparse.truncate(50_000_000_000)
    with pytest.raises(UsageError, match="50000.0 MB  huge"):
        pack_folder(tmp_path)


@pytest.mark.parametrize("name", [b"two\nlines", b"two\rlines", b"gr\xf6\xdfe"])
def test_a_name_that_is_not_one_line_of_utf8_is_refused(tmp_path: Path, name: bytes) -> None:
    try:
        (tmp_path / os.fsdecode(name)).write_text("x")
    except OSError:
        pytest.skip("this file system takes no such name")
    with pytest.raises(UsageError, match="is not one line of UTF-8") as caught:
        pack_folder(tmp_path)
    assert repr(name) in caught.value.message
    plant(tmp_path, ".gitignore", content="two*\ngr*\n")
    assert paths(pack_folder(tmp_path)) == [".gitignore"]


@pytest.fixture
def anybody() -> Iterator[Path]:
    """A folder of an ordinary user, who is who we are: root may read everything."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() != 0:
            yield Path(folder)
            return
        os.chown(folder, 65534, -1)
        os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("shut", "mode"),
    [("data", 0), ("data", 0o400), ("data/x", 0), (".gitignore", 0)],
)
def test_what_cannot_be_read_is_refused_by_name(anybody: Path, shut: str, mode: int) -> None:
    plant(anybody, "data/x", "train.py")
    plant(anybody, ".gitignore", content="*.tmp")
    (anybody / shut).chmod(mode)
    try:
        with pytest.raises(UsageError, match=f"cannot read .*/{shut}.*: Permission denied"):
            pack_folder(anybody)
    finally:
        (anybody / shut).chmod(0o700)


# The digest and the manifest


def test_the_digest_is_of_the_content_alone(tmp_path: Path) -> None:
    one, other = plant(tmp_path / "one", "a", "d/b"), plant(tmp_path / "other", "d/b", "a")
    os.utime(other / "a", (0, 0))
    (other / "a").chmod(0o600)
    if os.geteuid() == 0:
        os.chown(other / "a", 65534, 65534)
    assert pack_folder(one).digest == pack_folder(other).digest


def test_the_digest_changes_with_a_path_a_content_and_an_executable_bit(tmp_path: Path) -> None:
    trees = [plant(tmp_path / name, "a", "d/b") for name in ("same", "path", "content", "bit")]
    (tmp_path / "path/a").rename(tmp_path / "path/c")
    (tmp_path / "content/a").write_text("y")
    (tmp_path / "bit/a").chmod(0o700)
    assert len({pack_folder(tree).digest for tree in trees}) == 4


def test_the_digest_of_a_known_bundle_stays_what_it_is() -> None:
    file = BundleFile("train.py", sha256("x"), 1, executable=False)
    expected = sha256(f"{sha256('x')} 0 train.py\n")
    assert Bundle(Path("/anywhere"), (file,)).digest == expected


# Our own training, and a script


def test_training_ships_by_its_own_name_with_the_documents_alone(tmp_path: Path) -> None:
    plant(tmp_path, "training/__main__.py", "training/data/shards.py", "bootstrap/x.py", "README")
    plant(tmp_path, ".gitignore", content="*.tmp\n")
    plant(tmp_path, "training/x.tmp", "training/__pycache__/y.pyc", ".git/HEAD")
    bundle = pack_training(tmp_path)
    assert hash(bundle) == hash(pack_training(tmp_path)), "what is packed is kept by bundle"
    own = [path for path in paths(bundle) if not path.startswith("railhead/documents/")]
    assert own == ["training/__main__.py", "training/data/shards.py"]
    assert "railhead/documents/uri.py" in paths(bundle), "also for a copy of training"
    assert bundle.root == tmp_path
    uri = (PACKAGES / "railhead/documents/uri.py").read_text()
    assert zlib.decompress(contents(bundle, [sha256(uri)])) == uri.encode()
    assert zlib.decompress(contents(bundle, [sha256("x")])) == b"x"


def test_a_clone_without_training_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no training/ in"):
        pack_training(tmp_path)


def test_a_script_ships_with_its_folder(tmp_path: Path) -> None:
    plant(tmp_path, "mnist/main.py", "mnist/net/model.py", "other/main.py")
    bundle, path = pack_script(tmp_path / "mnist/main.py")
    assert (path, paths(bundle)) == ("main.py", ["main.py", "net/model.py"])


def test_a_script_ships_with_the_workdir_around_it(tmp_path: Path) -> None:
    plant(tmp_path, "mnist/main.py", "shared.py")
    bundle, path = pack_script(tmp_path / "mnist/main.py", tmp_path)
    assert (path, paths(bundle)) == ("mnist/main.py", ["mnist/main.py", "shared.py"])


def test_paths_are_relative_to_where_the_command_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, "mnist/main.py", "here/x")
    monkeypatch.chdir(tmp_path / "here")
    assert pack_script(Path("../mnist/main.py"))[1] == "main.py"
    assert pack_script(Path("../mnist/main.py"), Path(".."))[1] == "mnist/main.py"


def test_a_script_that_is_a_link_inside_the_workdir_keeps_its_name(tmp_path: Path) -> None:
    plant(tmp_path, "v2/main.py")
    (tmp_path / "train.py").symlink_to("v2/main.py")
    bundle, path = pack_script(tmp_path / "train.py")
    assert (path, paths(bundle)) == ("train.py", ["train.py", "v2/main.py"])


@pytest.mark.parametrize(
    ("script", "workdir", "says", "hint"),
    [
        ("tarin.py", None, "there is no script .*tarin.py", "did you mean .*/train.py"),
        ("nowhere/x.py", None, "there is no script", "^$"),
        ("sub", None, "sub is a folder", "train.py"),
        ("train.py", "sub", "train.py is not inside .*/sub", "--workdir"),
        ("train.py", "nowhere", "nowhere is not a folder", "^$"),
        ("train.py", "train.py", "train.py is not a folder", "^$"),
        ("left/out.py", ".", "left/out.py is not among the files that are uploaded", ".gitignore"),
        ("env/bin/tool.py", ".", "env/bin/tool.py is not among the files", "--workdir"),
    ],
)
def test_a_script_that_cannot_run_is_refused(
    tmp_path: Path, script: str, workdir: str | None, says: str, hint: str
) -> None:
    plant(tmp_path, "train.py", "sub/x", "left/out.py", "env/pyvenv.cfg", "env/bin/tool.py")
    plant(tmp_path, ".gitignore", content="left/\n")
    with pytest.raises(UsageError, match=says) as caught:
        pack_script(tmp_path / script, None if workdir is None else tmp_path / workdir)
    assert re.search(hint, caught.value.hint)


@pytest.mark.parametrize("home", ["", "user"])
def test_a_home_ships_only_when_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    plant(tmp_path, "train.py", ".ssh/id_ed25519", "user/x")
    monkeypatch.setenv("HOME", str(tmp_path / home))
    with pytest.raises(UsageError, match="with the keys in it"):
        pack_script(tmp_path / "train.py")
    assert pack_script(tmp_path / "train.py", tmp_path)[1] == "train.py"


# The contents


def test_each_needed_content_is_there_once_in_the_order_of_the_hashes(tmp_path: Path) -> None:
    plant(tmp_path, "a", "same", content="one")
    plant(tmp_path, "b", content="two")
    plant(tmp_path, "not needed", content="three")
    stream = contents(pack_folder(tmp_path), [sha256("two"), sha256("one"), sha256("two")])
    assert zlib.decompress(stream).decode() == "".join(sorted(("one", "two"), key=sha256))


def test_they_are_the_same_bytes_for_the_same_need(tmp_path: Path) -> None:
    one, other = plant(tmp_path / "one", "a", "d/b"), plant(tmp_path / "other", "a", "d/b")
    plant(one, "c", content="y" * 100_000)
    plant(other, "c", content="y" * 100_000)
    os.utime(other / "c", (0, time.time()))
    need = [sha256("x"), sha256("y" * 100_000)]
    streams = {contents(pack_folder(tree), need[::step]) for tree, step in ((one, 1), (other, -1))}
    assert len(streams) == 1
    assert len(streams.pop()) < 10_000


def test_nothing_needed_has_no_content(tmp_path: Path) -> None:
    assert zlib.decompress(contents(pack_folder(plant(tmp_path, "a")), [])) == b""


def test_a_hash_that_is_not_in_the_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        contents(pack_folder(plant(tmp_path, "a")), ["0" * 64])


@pytest.mark.parametrize("content", ["x and more", "y", ""])
def test_a_file_that_changed_since_it_was_hashed_is_refused(tmp_path: Path, content: str) -> None:
    """Also one of the same size and the same time: its old hash would name other content."""
    bundle = pack_folder(plant(tmp_path, "train.log"))
    before = (tmp_path / "train.log").stat().st_mtime_ns
    plant(tmp_path, "train.log", content=content)
    os.utime(tmp_path / "train.log", ns=(before, before))
    with pytest.raises(RailheadError, match="train.log changed while it was being uploaded"):
        contents(bundle, [sha256("x")])


def test_a_file_that_is_gone_since_it_was_hashed_is_refused(tmp_path: Path) -> None:
    bundle = pack_folder(plant(tmp_path, "train.log"))
    (tmp_path / "train.log").unlink()
    with pytest.raises(UsageError, match="cannot read .*train.log: No such file"):
        contents(bundle, [sha256("x")])


PACK = """
import sys
from pathlib import Path
from bootstrap.ssh.bundle import pack_folder
print(*[file.path for file in pack_folder(Path(sys.argv[1])).files], file=sys.stderr)
"""


def test_the_file_that_takes_the_output_of_the_command_stays(tmp_path: Path) -> None:
    plant(tmp_path, "train.py", "other.log")
    with (tmp_path / "train.log").open("w") as log:
        done = subprocess.run(
            [sys.executable, "-c", PACK, str(tmp_path)],
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
    assert done.stderr.split() == ["other.log", "train.py"]
    assert "train.log is not sent" in (tmp_path / "train.log").read_text()
