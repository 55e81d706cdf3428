"""Wheels fetched here for hosts elsewhere: which, by hash, once. The index is a folder."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bootstrap.errors import RailheadError
from bootstrap.inventory import caches
from bootstrap.plan import runtimes
from bootstrap.provision import wheels

pytestmark = pytest.mark.slow  # pip is started for each
HASH = " \\\n    --hash=sha256:"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that pip takes everything from."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def wheel(
    index: Path, tags: str = "py3-none-any", name: str = "demo", requires: str = ">=3.8"
) -> str:
    """Put a wheel there; its entry in a lock."""
    path = index / f"{name}-1.0-{tags}.whl"
    with zipfile.ZipFile(path, "w") as files:
        info, needs = f"{name}-1.0.dist-info", f"Requires-Python: {requires}\n"
        files.writestr(f"{name}.py", "")
        files.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}"
        )
        files.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {tags}\n")
        files.writestr(f"{info}/RECORD", "")
    return f"{name}==1.0{HASH}{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def source(index: Path) -> str:
    """Put a source distribution there; its entry in a lock."""
    path = index / "demo-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as files:
        for name, text in {
            "setup.py": "from setuptools import setup\nsetup(name='demo', version='1.0')\n",
            "PKG-INFO": "Metadata-Version: 1.0\nName: demo\nVersion: 1.0\n",
        }.items():
            member = tarfile.TarInfo(f"demo-1.0/{name}")
            member.size = len(text)
            files.addfile(member, io.BytesIO(text.encode()))
    return f"demo==1.0{HASH}{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def quiet(count: int) -> None:
    """Nobody listens."""


def test_the_entries_that_apply_are_those_of_the_host_not_of_this_machine() -> None:
    lock = (
        f"# a comment\nwin==1.0 ; sys_platform == 'win32'{HASH}aa\nold==1.0 ; python_full_version"
    )
    lock += f" < '3.11'{HASH}bb\nnew==1.0 ; python_full_version >= '3.11' and platform_machine =="
    lock += f" 'x86_64' and sys_platform == 'linux'{HASH}cc{HASH}dd\nplain==1.0{HASH}ee\n"
    both = [lock, f"plain==1.0{HASH}ee\n"]
    new, plain = "new==1.0 --hash=sha256:cc --hash=sha256:dd\n", "plain==1.0 --hash=sha256:ee\n"
    assert wheels.applying(both, "3.12.3") == new + plain
    assert wheels.applying(both, "3.10.12") == "old==1.0 --hash=sha256:bb\n" + plain


MICRO = f"""below==1.0 ; python_full_version < '3.11.5'{HASH}aa
from==1.0 ; python_full_version >= '3.11.5'{HASH}bb
minor==1.0 ; python_version == '3.11'{HASH}cc
"""


@pytest.mark.parametrize(
    ("python", "names"),
    [
        ("3.10.12", ["below"]),
        ("3.11.0", ["below", "minor"]),
        ("3.11.4", ["below", "minor"]),
        ("3.11.5", ["from", "minor"]),
        ("3.11.10", ["from", "minor"]),
        ("3.12.0", ["from"]),
    ],
)
def test_a_marker_may_name_the_micro_version(python: str, names: list[str]) -> None:
    assert [x.partition("==")[0] for x in wheels.applying([MICRO], python).splitlines()] == names


@pytest.mark.parametrize("name", ["runtime-tf2.18-cpu", "runtime-tf2.18-gpu", "bucket"])
def test_every_entry_of_our_locks_is_understood(name: str) -> None:
    lock = (runtimes.LOCKS / f"{name}.txt").read_text()
    entries = [x for x in lock.splitlines() if x[:1].isalnum()]
    pins = wheels.applying([lock], "3.11.2").splitlines()
    assert len(entries) * 0.8 < len(pins) <= len(entries)
    assert all("==" in x and "--hash=sha256:" in x and ";" not in x for x in pins)


def test_a_wheel_for_later_micro_versions_comes_and_hosts_that_need_the_same_share_it(
    index: Path,
) -> None:
    entry, digest = wheel(index, requires=">=3.11.4").split(HASH)
    lock = f"{entry} ; python_full_version >= '3.11.4'{HASH}{digest}"
    lock += wheel(index, name="other")
    folders = {python: folder_of(lock, python) for python in ("3.11.2", "3.11.4", "3.11.9")}
    assert folders["3.11.2"] != folders["3.11.4"] == folders["3.11.9"]
    fetched = wheels.fetch([lock], "3.11.4", quiet)
    assert fetched == folders["3.11.4"] and len([*fetched.iterdir()]) == 2


def folder_of(lock: str, python: str) -> Path:
    """The folder of the wheels that a host with this Python needs from a lock."""
    return wheels._folder(wheels.applying([lock], python), wheels._wheels_only(python))


FIT = {
    "one": "py3-none-any",
    "two": "cp311-cp311-manylinux_2_35_x86_64",
    "three": "cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64",
    "four": "cp311-cp311-linux_x86_64",
}


def test_wheels_that_run_on_the_oldest_system_come_once_for_all_hosts(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_LOG", str(tmp_path / "pip.log"))  # each pip adds to it
    reports: list[int] = []
    locks = [wheel(index, tags, name) for name, tags in FIT.items()]
    with ThreadPoolExecutor(3) as pool:
        fetched = {*pool.map(lambda _: wheels.fetch(locks, "3.11.2", reports.append), range(3))}
    (folder,) = fetched
    assert {path.name for path in folder.iterdir()} == {path.name for path in index.iterdir()}
    assert (tmp_path / "pip.log").read_text().count("Successfully downloaded") == 1
    assert reports
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert wheels.fetch(locks, "3.11.2", quiet) == folder
    assert folder.is_relative_to(caches.cache("wheelhouse"))
    assert not list(folder.parent.glob("*.part"))


NOT_FIT = ("cp312-cp312-linux_x86_64", "cp311-cp311-manylinux_2_36_x86_64")


def test_neither_a_wheel_that_would_not_run_there_comes_nor_a_source(index: Path) -> None:
    """All files that the lock allows are in the index, and none of them is for this host."""
    only_source = source(index)
    hashes = [wheel(index, tags).split(HASH)[1].strip() for tags in NOT_FIT]
    lock = only_source.rstrip("\n") + "".join(f"{HASH}{digest}" for digest in hashes) + "\n"
    with pytest.raises(RailheadError, match=r"could not be downloaded:\n[^$]*demo==1\.0"):
        wheels.fetch([lock], "3.11.2", quiet)
    (fetched,) = wheels.fetch_source(only_source, quiet).iterdir()
    assert fetched.name == "demo-1.0.tar.gz"


def test_another_content_than_the_lock_reports_is_refused_and_not_kept(index: Path) -> None:
    lock, path = wheel(index), index / "demo-1.0-py3-none-any.whl"
    path.write_bytes(b"another")
    with pytest.raises(RailheadError, match="(?i)hash"):
        wheels.fetch([lock], "3.11.2", quiet)
    folder = folder_of(lock, "3.11.2")
    assert not folder.exists() and not list(folder.parent.glob("*.part"))


def test_an_entry_without_a_hash_is_refused(index: Path) -> None:
    wheel(index)
    with pytest.raises(RailheadError, match="(?i)hash"):
        wheels.fetch(["demo==1.0\n"], "3.11.2", quiet)
