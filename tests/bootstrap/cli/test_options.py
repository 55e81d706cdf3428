"""The validation of option values and of $DEBIAN_MIRROR."""

from __future__ import annotations

import pytest
from invoke import Exit

from bootstrap.cli.collection import ns
from bootstrap.cli.command_line import arguments
from bootstrap.cli.task import GROUPS, GroupTask
from bootstrap.errors import UsageError
from bootstrap.workflows.plan import ready_options
from railhead.documents.options.hosts import ReadyOptions
from railhead.documents.options.runs import ProgramOptions

TASKS = {name: ns[name] for name in ns.task_names}


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
        ("deploy r1 --here", "deploy --run r1 --here"),
        ("deploy --here", "deploy --here"),
        ("evaluate r1", "evaluate --run r1"),
        ("logs r1 --rank 2", "logs --run r1 --rank 2"),
        ("logs -f r1", "logs -f --run r1"),
        ("logs --rank 2 r1", "logs --rank 2 --run r1"),
        ("logs --rank=2 r1", "logs --rank=2 --run r1"),
        ("attach --run r1 r2", "attach --run r1 r2"),
        ("train train.py --hosts a", "train --script train.py --hosts a"),
        ("train --hosts a train.py", "train --hosts a --script train.py"),
        ("train -H a src/train", "train -H a --script src/train"),
        ("train digits", "train --job digits"),
        ("train train", "train --job train"),
        ("train --script a.py smoke", "train --script a.py --job smoke"),
        ("exec nvidia-smi", "exec --cmd nvidia-smi"),
        ("exec --hosts a nvidia-smi", "exec --hosts a --cmd nvidia-smi"),
        ("data-list s3://b", "data-list --uri s3://b"),
        ("data-push runs s3://b", "data-push runs s3://b"),
        ("predict status --file x", "predict status --file x"),
        ("status runs", "status runs"),
        ("status logs r1", "status logs --run r1"),
        ("report r1,r2", "report --runs r1,r2"),
        ("train --sagemaker x.py", "train --sagemaker=2 --script x.py"),
        ("train --sagemaker 3 x.py", "train --sagemaker 3 --script x.py"),
        ("train --sagemaker=3 x.py", "train --sagemaker=3 --script x.py"),
        ("train x.py --sagemaker", "train --script x.py --sagemaker=2"),
        ("", ""),
    ],
)
def test_the_first_argument_of_a_task_needs_no_name(words: str, understood: str) -> None:
    named = arguments.name_first_arguments(words.split(), TASKS, {"-H", "--hosts"})
    assert named == understood.split()


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_option_of_a_first_argument_exists(task: GroupTask) -> None:
    assert {*task.first} <= {one.flag for one in task.options()}
    assert task.group in GROUPS


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
    assert arguments.join_task_names(words, TASKS) == understood


@pytest.mark.parametrize("words", [["data"], ["data", "pull"], ["data", "--stack"], ["data", ""]])
def test_a_wrong_second_part_of_a_name_is_answered_with_the_choices(words: list[str]) -> None:
    with pytest.raises(Exit, match="fab data takes push, list, shard or index") as refused:
        arguments.join_task_names(words, TASKS)
    assert refused.value.code == 2
    assert len(words) == 1 or f"not {words[1]!r}\n" in str(refused.value)
