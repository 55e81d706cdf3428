"""`fab` typed in a folder where another user has written what it would run, or read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from standins.forks import forked_fab

from bootstrap.cli import program, shell
from bootstrap.cli.command_line.completion import _starting
from bootstrap.errors import UsageError
from bootstrap.inventory import files, local_state, pulumi_cli
from bootstrap.project import job_file
from bootstrap.runs.request import check_settings, commit_of, training_repo

NOBODY = 65534
RESULTS = "20260101-120000-abcdef"


@pytest.mark.root
@pytest.mark.parametrize("owned", ["file", "folder"])
def test_what_another_user_has_written_is_refused_by_its_owner(tmp_path: Path, owned: str) -> None:
    file = tmp_path / "theirs" / "railhead.toml"
    file.parent.mkdir()
    file.write_text("[train]\n")
    files.refuse_of_others(file)
    os.chown(file if owned == "file" else file.parent, NOBODY, NOBODY)
    with pytest.raises(UsageError, match=f"{file} is not used: .* belongs to nobody, not to you"):
        files.refuse_of_others(file)


@pytest.mark.parametrize("writable", ["file", "folder"])
def test_what_every_user_can_write_is_refused(tmp_path: Path, writable: str) -> None:
    file = tmp_path / "shared" / "fabfile.py"
    file.parent.mkdir()
    file.touch()
    (file if writable == "file" else file.parent).chmod(0o777)
    with pytest.raises(UsageError, match="can be written by every user"):
        files.refuse_of_others(file)
    file.chmod(0o644)
    file.parent.chmod(0o1777)
    files.refuse_of_others(file)  # as in /tmp: only the owner can replace it


def of_all(file: Path, text: str) -> Path:
    """A file that every user can write."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o666)
    return file


def test_a_fabfile_of_others_is_not_run_also_on_tab(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    of_all(tmp_path / "fabfile.py", f"open({str(marker)!r}, 'w')\n")
    (tmp_path / "mine/below").mkdir(parents=True)
    for words in (["--list"], ["--complete", "--", "fab", ""]):
        argv = [sys.executable, "-m", "bootstrap.cli.program", *words]
        variables = {**os.environ, "PYTHONPATH": str(Path(program.__file__).parents[2])}
        done = subprocess.run(
            argv, cwd=tmp_path / "mine/below", env=variables, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{tmp_path}/fabfile.py is not used: " in done.stderr
    assert not marker.exists()


def test_a_job_file_of_others_is_refused_and_has_no_names(tmp_path: Path) -> None:
    path = of_all(tmp_path / "railhead.toml", "[train]\n")
    with pytest.raises(UsageError, match="is not used"):
        job_file.names(path)
    assert not job_file.has(path, "train")


def test_the_code_of_another_training_is_refused_where_others_can_write_it(tmp_path: Path) -> None:
    of_all(tmp_path / "training/__main__.py", "")
    with pytest.raises(UsageError, match="is not used"):
        training_repo(str(tmp_path / "training"))


def test_the_code_of_another_training_gets_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "0123hidden")
    (tmp_path / "training").mkdir()
    (tmp_path / "training/__init__.py").touch()
    main = "import json, os\nprint(json.dumps({'settings': {**os.environ, 'data': 'x'},"
    (tmp_path / "training/__main__.py").write_text(f"{main} 'folder': '', 'metrics': []}}))")
    seen = check_settings(None, {}, tmp_path)["settings"]
    assert "PATH" in seen and "0123hidden" not in seen.values()


def test_a_project_of_pulumi_counts_only_where_the_user_has_written_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulumi_cli, "CLONE", None)
    fetched = tmp_path / "results" / RESULTS / "outputs"
    fetched.mkdir(parents=True)
    for folder in (fetched, fetched.parent):
        (folder / "Pulumi.yaml").write_text("name: railhead\n")
        monkeypatch.chdir(folder)
        assert pulumi_cli.project() is None, "hosts have written it"
    (tmp_path / "Pulumi.yaml").write_text("name: railhead\n")
    assert pulumi_cli.project() == tmp_path
    (tmp_path / "Pulumi.yaml").chmod(0o666)
    with pytest.raises(UsageError, match="is not used"):
        pulumi_cli.project()


def test_only_names_that_need_no_quotes_are_completed() -> None:
    hostile = ["x;touch${IFS}p", "x$(p)", "x`p`", "x p", "x|p", "x\np", "x'p", "x>p"]
    assert _starting("x", [*hostile, "x-1.y", "x=", "x/é"]) == ["x-1.y", "x=", "x/é"]


GIT = {
    "a filter": ("filter.f.clean", "touch {marker}; cat"),
    "a filter that is a server": ("filter.f.process", "touch {marker}; false"),
    "a monitor": ("core.fsmonitor", "touch {marker}; false"),
    "a hook": ("core.hooksPath", "{folder}/hooks"),
}


@pytest.mark.parametrize("name, value", GIT.values(), ids=GIT)
def test_the_commit_is_read_without_programs_of_the_repository(
    tmp_path: Path, name: str, value: str
) -> None:
    folder, marker = tmp_path / "theirs", tmp_path / "ran"
    (folder / "hooks").mkdir(parents=True)
    hook = folder / "hooks/post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    (folder / "train.py").write_text("1")
    (folder / ".gitattributes").write_text("train.py filter=f\n")
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    setting = value.format(marker=marker, folder=folder)
    subprocess.run(["git", "config", name, setting], cwd=folder, check=True)
    (folder / "train.py").write_text("2")
    os.utime(folder / ".gitattributes", (0, 0))
    commit = commit_of(folder)
    assert commit and commit.endswith("-dirty") and not marker.exists()
    subprocess.run(["git", "status"], cwd=folder, capture_output=True)
    assert marker.exists(), "git itself starts it"


@pytest.mark.parametrize("option", ["--job x --file", "--script t.py --env-file"])
@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
def test_a_file_without_an_end_is_refused(tmp_path: Path, option: str, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "t.py").touch()
    done = forked_fab(tmp_path, "train", "--hosts", "127.0.0.1:9", *option.split(), name)
    assert (done.returncode, done.stdout) == (2, "") and "regular file" in done.stderr


def test_a_damaged_record_of_the_last_cluster_is_shown_in_part(tmp_path: Path) -> None:
    local_state.home().mkdir(parents=True, exist_ok=True)
    (local_state.home() / "last").write_text("x y" * 50_000)
    with pytest.raises(UsageError) as caught:
        local_state.last_cluster()
    assert len(caught.value.message) < 500


def test_a_name_with_a_blank_is_quoted_for_ssh() -> None:
    assert (
        shell.include_line(Path("/home/ann lee/ssh_config")) == 'Include "/home/ann lee/ssh_config"'
    )
    assert shell.include_line(Path("/home/ann/ssh_config")) == "Include /home/ann/ssh_config"
