"""The validation of option values and of $DEBIAN_MIRROR."""

from __future__ import annotations

import pytest
from invoke import Collection, Exit

import fabfile
from bootstrap.cli import program
from bootstrap.errors import UsageError
from bootstrap.workflows.plan import ready_options
from railhead.documents.options.hosts import ReadyOptions
from railhead.documents.options.runs import ProgramOptions


def mirror() -> str:
    return ready_options(ReadyOptions(), ProgramOptions()).archive


@pytest.mark.parametrize("url", ["", "http://a.example/debian", "https://a.example:8443/d"])
def test_the_debian_mirror_is_read_from_the_environment(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBIAN_MIRROR", url)
    assert mirror() == url
    monkeypatch.delenv("DEBIAN_MIRROR")
    assert mirror() == ""


@pytest.mark.parametrize(
    "url", ["a.example/debian", "file:/srv/debian", "http://me:secret@a.example/", "http://a b"]
)
def test_a_mirror_that_is_no_url_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBIAN_MIRROR", url)
    with pytest.raises(UsageError, match="an address like") as refused:
        mirror()
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "understood"),
    [
        (["deploy", "r1", "--here"], ["deploy", "--run", "r1", "--here"]),
        (["deploy", "--here"], ["deploy", "--here"]),
        (["deploy"], ["deploy"]),
        (["evaluate", "r1"], ["evaluate", "r1"]),
        (["logs", "r1", "--rank", "2"], ["logs", "--run", "r1", "--rank", "2"]),
        (["train", "train.py", "--hosts", "a"], ["train", "--script", "train.py", "--hosts", "a"]),
        (["exec", "nvidia-smi"], ["exec", "--cmd", "nvidia-smi"]),
        (["status", "runs"], ["status", "runs"]),
        ([], []),
    ],
)
def test_the_first_argument_of_a_task_needs_no_name(
    words: list[str], understood: list[str]
) -> None:
    assert program.name_first_argument(words, ["runs", "status", "teardown"]) == understood


@pytest.mark.parametrize("task", program.FIRST_ARGUMENT)
def test_the_option_of_a_first_argument_exists(task: str) -> None:
    flags = {f"--{one.name}" for one in Collection.from_module(fabfile)[task].get_arguments()}
    assert program.FIRST_ARGUMENT[task] in flags


@pytest.mark.parametrize(
    ("words", "understood"),
    [
        (["data", "push", "folder", "s3://b"], ["data-push", "folder", "s3://b"]),
        (["data", "list"], ["data-list"]),
        (["data-push", "data", "push"], ["data-push", "data", "push"]),
        (["train", "--script", "data", "push"], ["train", "--script", "data", "push"]),
        (["train", "--data", "push"], ["train", "--data", "push"]),
        (["--data", "push"], ["--data", "push"]),
        ([], []),
    ],
)
def test_the_name_of_a_task_may_be_two_arguments(words: list[str], understood: list[str]) -> None:
    assert program.join_task_name(words) == understood


@pytest.mark.parametrize("words", [["data"], ["data", "pull"], ["data", "--stack"], ["data", ""]])
def test_a_wrong_second_part_of_a_name_is_answered_with_the_choices(words: list[str]) -> None:
    with pytest.raises(Exit, match="fab data takes push, list or shard") as refused:
        program.join_task_name(words)
    assert refused.value.code == 2
    assert len(words) == 1 or f"not {words[1]!r}\n" in str(refused.value)
