"""Packages of --requirements that come as source: sent as they are, and built on each host."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hosts.operator import Cluster
from standins.connected import connected

from bootstrap.console.live import Board
from bootstrap.errors import RailheadError, UsageError
from bootstrap.facts.host import HostFacts
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import reach
from bootstrap.plan import downloads
from bootstrap.plan.cluster import SurveyedCluster
from bootstrap.plan.hostfile import Peer
from bootstrap.plan.runtimes import RUNTIMES, Environment, Source
from bootstrap.plan.steps import Plan, Step
from bootstrap.provision import apply as apply_plan
from bootstrap.provision import uv
from bootstrap.provision.requirements import sources
from bootstrap.provision.requirements.lines import read_requirements
from bootstrap.provision.requirements.resolve import with_packages
from bootstrap.provision.requirements.sources import SourceLine, fetched, packed, read_line

CPU = Environment(RUNTIMES["tf2.18-cpu"], "3.11", "")
# A build backend of the project's own: it needs nothing from an index.
BACKEND = """import pathlib, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "mine-1-py3-none-any.whl"
    needs = pathlib.Path("needs").read_text().split() if pathlib.Path("needs").exists() else []
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        wheel.write("mine.py")
        about = "Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\n"
        about += "".join(f"Requires-Dist: {one}\\n" for one in needs)
        wheel.writestr("mine-1.dist-info/METADATA", about)
        wheel.writestr("mine-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\n")
        wheel.writestr("mine-1.dist-info/RECORD", "")
    return name
"""
PROJECT = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "mine"
version = "1"
"""


def project(folder: Path, more: str = 'dependencies = ["six>=1"]\n') -> Path:
    folder.mkdir(parents=True)
    (folder / "backend.py").write_text(BACKEND)
    (folder / "mine.py").write_text("WHAT = 'built'\n")
    (folder / "pyproject.toml").write_text(PROJECT + more)
    return folder


FOLDERS = {
    "{here}/mine": (),
    "./mine": (),
    "-e ./mine": (),
    "-e./mine": (),
    "--editable=./mine[gpu, plots]": ("gpu", "plots"),
    "mine @ file://{here}/mine": (),
    "mine[gpu] @ file://{here}/mine": ("gpu",),
}


@pytest.mark.parametrize("text", FOLDERS)
def test_a_folder_is_a_source_however_it_is_named(tmp_path: Path, text: str) -> None:
    folder = project(tmp_path / "mine")
    words = text.format(here=tmp_path)
    assert read_line(words, tmp_path) == SourceLine(words, str(folder), FOLDERS[text])


REPOSITORIES = {
    "git+https://example.org/a/mine.git": (),
    "-e git+ssh://git@example.org/a/mine@v1.2#egg=mine": (),
    "mine[gpu] @ git+https://example.org/mine@main#subdirectory=python": ("gpu",),
}


@pytest.mark.parametrize("text", REPOSITORIES)
def test_a_git_repository_is_a_source(tmp_path: Path, text: str) -> None:
    (line,) = read_requirements(written(tmp_path, f"{text}\n")).sources
    assert line.place == text[text.index("git+") :] and line.extras == REPOSITORIES[text]


def written(folder: Path, text: str) -> Path:
    file = folder / "requirements.txt"
    file.write_text(text)
    return file


def test_paths_in_an_included_file_are_below_its_folder(tmp_path: Path) -> None:
    project(tmp_path / "mine")
    project(tmp_path / "more/mine")
    written(tmp_path / "more", "./mine\nsix\n-f wheels\n-c limits.txt\n-i https://index\n")
    requirements = read_requirements(written(tmp_path, "tqdm\n-r more/requirements.txt\n"))
    assert [line.place for line in requirements.sources] == [str(tmp_path / "more/mine")]
    assert requirements.text == (
        f"tqdm\nsix\n-f {tmp_path}/more/wheels\n-c {tmp_path}/more/limits.txt\n-i https://index\n"
    )


LISTED = {
    'dependencies = ["six>=1"]\n': ("six>=1",),
    'dynamic = ["version"]\ndependencies = []\n': (),
    'dynamic = ["dependencies"]\n': None,
    'dependencies = ["six"]\noptional-dependencies = {gpu = ["einops"], plots = ["x"]}\n': (
        "six",
        "einops",
    ),
}


@pytest.mark.parametrize("more", LISTED)
def test_what_a_project_lists_is_resolved_with_the_rest(
    tmp_path: Path, home: Path, more: str
) -> None:
    project(tmp_path / "mine", more)
    program = tmp_path / "uv"
    program.write_text('#!/bin/sh\ncat | sed "s/.*/# &/"\n')
    program.chmod(0o755)
    file = written(tmp_path, "tqdm\n./mine[gpu]\n")
    environment = with_packages(CPU, file, str(program))
    (source,) = environment.sources
    assert source.requires == LISTED[more]
    assert environment.extra == "".join(f"# {line}\n" for line in ("tqdm", *(LISTED[more] or ())))
    assert ("--requirements too" in source.note) == (LISTED[more] is None)


def test_a_project_that_only_its_build_knows_is_not_run_here(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    program = tmp_path / "uv"
    program.write_text("#!/bin/sh\ncat\n")
    program.chmod(0o755)
    (source,) = with_packages(CPU, written(tmp_path, "./mine\n"), str(program)).sources
    assert source.requires is None and not (tmp_path / "ran").exists()


def test_a_damaged_project_is_refused(tmp_path: Path) -> None:
    folder = project(tmp_path / "mine", "dependencies = [")
    with pytest.raises(UsageError, match=r"mine/pyproject.toml is not TOML: "):
        fetched(SourceLine("./mine", str(folder)))


def test_an_environment_is_named_by_the_files_of_its_sources(tmp_path: Path) -> None:
    first, second = (project(tmp_path / name) for name in ("one", "two"))
    digests = [
        replace(CPU, sources=(source_of(folder),)).digest for folder in (first, second, first)
    ]
    assert digests[0] == digests[1] == digests[2] != CPU.digest
    (first / "mine.py").write_text("WHAT = 'changed'\n")
    assert replace(CPU, sources=(source_of(first),)).digest != digests[0]


def test_files_that_change_between_plan_and_build_are_not_sent(tmp_path: Path) -> None:
    source = source_of(folder := project(tmp_path / "mine"))
    (folder / "mine.py").write_text("WHAT = 'changed'\n")
    with pytest.raises(RailheadError, match=r"\./mine has changed meanwhile"):
        packed(source)


def source_of(folder: Path) -> Source:
    return fetched(SourceLine(f"./{folder.name}", str(folder)))


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = subprocess.run(["git", *who, "-C", str(folder), *words], capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits on `main`, the first with tag `old`; https://example.org/mine leads to it."""
    folder = project(tmp_path / "repository/python").parent
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    git(folder, "tag", "old")
    (folder / "python/mine.py").write_text("WHAT = 'newer'\n")
    git(folder, "commit", "--quiet", "-am", "two")
    (home / ".gitconfig").write_text(
        f'[url "file://{folder}"]\n  insteadOf = https://example.org/mine\n'
    )
    return folder


NAMED = "git+https://example.org/mine{}#subdirectory=python"


@pytest.fixture
def from_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository may be on this computer."""
    monkeypatch.setattr(sources, "FETCHES", (*sources.FETCHES, "protocol.file.allow=always"))


@pytest.mark.usefixtures("from_files")
def test_a_branch_a_tag_and_a_commit_are_fetched(tmp_path: Path, repository: Path) -> None:
    commit = git(repository, "rev-parse", "main")
    texts = {}
    for ref in ("", "@main", "@old", f"@{commit}"):
        (line,) = read_requirements(written(tmp_path, NAMED.format(ref))).sources
        source = fetched(line)
        assert source.requires == ("six>=1",) and source.inside == "python"
        assert {file.path for file in packed(source).files} == {
            f"python/{name}" for name in ("backend.py", "mine.py", "pyproject.toml")
        }
        texts[ref] = (source.root / "python/mine.py").read_text()
    assert texts == dict.fromkeys(texts, "WHAT = 'newer'\n") | {"@old": "WHAT = 'built'\n"}


@pytest.mark.usefixtures("from_files")
def test_a_branch_is_looked_at_again_and_a_commit_is_not(tmp_path: Path, repository: Path) -> None:
    commit = git(repository, "rev-parse", "main")
    lines = [SourceLine("x", NAMED.format(ref)) for ref in ("@main", f"@{commit}")]
    before = [fetched(line).digest for line in lines]
    (repository / "python/mine.py").write_text("WHAT = 'newest'\n")
    git(repository, "commit", "--quiet", "-am", "three")
    assert fetched(lines[0]).digest != before[0]
    repository.rename(tmp_path / "away")
    assert fetched(lines[1]).digest == before[1]
    with pytest.raises(UsageError, match="git cannot fetch main of https://example.org/mine"):
        fetched(lines[0])


def test_git_uses_no_other_transport_than_those_of_the_line(repository: Path) -> None:
    """A setting of the user leads to a file; in a repository's submodule a stranger could."""
    with pytest.raises(UsageError, match="git cannot fetch"):
        fetched(SourceLine("x", NAMED.format("")))


def test_a_host_without_outbound_access_is_named(tmp_path: Path) -> None:
    source = source_of(project(tmp_path / "mine"))
    steps = [Step("h1", "runtime", "", fetches=9), Step("h2", "runtime", "", sends=9)]
    with pytest.raises(UsageError, match=r"^h2: no outbound access, which the build of \./mine"):
        downloads.refuse_sources((source,), steps)
    downloads.refuse_sources((), steps)
    downloads.refuse_sources((source,), steps[:1])


@pytest.fixture
def host(one_host: Cluster, inventory: Inventory, debian: HostFacts) -> SimpleNamespace:
    """A real host with uv, and an environment with pip alone in place of a runtime's."""
    return SimpleNamespace(home=one_host.machines[0].home, inventory=inventory, facts=debian)


def build(host: SimpleNamespace, *sent_sources: Source) -> Path:
    """Build sources on the host as a bootstrap does; returns the environment's packages."""
    environment = replace(CPU, sources=sent_sources)
    folder = host.home / environment.folder.removeprefix("~/")
    program = host.home / uv.PROGRAM.removeprefix("~/")
    program.parent.mkdir(parents=True, exist_ok=True)
    if not program.exists():
        program.symlink_to(uv.local_uv())
    argv = [uv.local_uv(), "venv", "--quiet", "--no-config", "--python", sys.executable]
    subprocess.run([*argv, str(folder)], check=True, capture_output=True)
    peers = (Peer("h1", "127.0.0.1", 22, "u", 1, "k"),)
    cluster: Any = SurveyedCluster(host.inventory, {"h1": host.facts}, environment, peers, None)
    with reach.sessions(host.inventory) as sessions:
        for session in sessions.values():
            session.start_agent("python3")
        work = apply_plan._Installation(
            connected(cluster, sessions), Plan(("h1",), (), ()), Board(io.StringIO(), ("h1",))
        )
        work._build_sources(work._host_step(sessions["h1"]))
    packages: Path = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    return packages


def test_a_source_is_built_and_installed_on_the_host(host: SimpleNamespace, tmp_path: Path) -> None:
    folder = project(tmp_path / "mine")
    packages = build(host, source_of(folder))
    assert (packages / "mine.py").read_text() == "WHAT = 'built'\n"
    assert not (packages / "six.py").exists(), "--no-deps"


def test_a_requirement_that_is_not_there_is_named(host: SimpleNamespace, tmp_path: Path) -> None:
    folder = project(tmp_path / "mine", 'dynamic = ["dependencies"]\n')
    (folder / "needs").write_text("einops>=0.8\n")
    with pytest.raises(
        RailheadError, match="`mine` requires `einops>=0.8`, but it's not installed"
    ):
        build(host, source_of(folder))
