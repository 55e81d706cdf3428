"""The validation of option values and of $DEBIAN_MIRROR."""

from __future__ import annotations

import pytest

from bootstrap.cli.command_line.arguments import Wrong, read, with_name
from bootstrap.cli.program import TASKS
from bootstrap.cli.task import GROUPS, Task
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
    ("words", "task", "understood"),
    [
        ("deploy r1 --here", "deploy", {"run": "r1", "here": True}),
        ("deploy --here", "deploy", {"here": True}),
        ("logs r1 --rank 2", "logs", {"run": "r1", "rank": "2"}),
        ("logs -f r1", "logs", {"run": "r1", "follow": True}),
        ("logs --rank=2 r1", "logs", {"run": "r1", "rank": "2"}),
        ("--hosts a logs --rank 2 r1", "logs", {"run": "r1", "rank": "2", "hosts": "a"}),
        ("train -H a src/train", "train", {"script": "src/train", "hosts": "a"}),
        ("-H a train --hosts a x.py", "train", {"script": "x.py", "hosts": "a"}),
        ("train digits --detach", "train", {"job": "digits", "detach": True}),
        ("train train", "train", {"job": "train"}),
        ("train status", "train", {"job": "status"}),
        ("train --script a.py smoke", "train", {"script": "a.py", "job": "smoke"}),
        ("train --min a=1 --min b=2", "train", {"min": ["a=1", "b=2"]}),
        ("train --args=--lr", "train", {"args": "--lr"}),
        ("train --args --lr x.py", "train", {"script": "x.py", "args": "--lr"}),
        ("train --sagemaker x.py", "train", {"script": "x.py", "sagemaker": "2"}),
        ("train --sagemaker 3 x.py", "train", {"script": "x.py", "sagemaker": "3"}),
        ("train --sagemaker=3 x.py", "train", {"script": "x.py", "sagemaker": "3"}),
        ("train x.py --sagemaker", "train", {"script": "x.py", "sagemaker": "2"}),
        ("exec nvidia-smi", "exec", {"cmd": "nvidia-smi"}),
        ("exec --hosts a -- ls -l", "exec", {"cmd": "ls -l", "hosts": "a"}),
        ("exec -- 'ls -l'", "exec", {"cmd": "'ls -l'"}),
        ("data list s3://b", "data-list", {"uri": "s3://b"}),
        ("data push runs s3://b", "data-push", {"folder": "runs", "uri": "s3://b"}),
        ("data-push data push", "data-push", {"folder": "data", "uri": "push"}),
        ("--debug data push data push", "data-push", {"folder": "data", "uri": "push"}),
        ("predict status --file x", "predict", {"name": "status", "file": "x"}),
        ("report r1,r2", "report", {"runs": "r1,r2"}),
    ],
)
def test_values_need_no_names_and_options_any_order(
    words: str, task: str, understood: dict[str, object]
) -> None:
    before, _, after = words.partition(" -- ")
    line = read(
        *with_name(before.split(), TASKS), TASKS, [after] if "'" in after else after.split()
    )
    assert line.task is TASKS[task]
    assert {name: text for name, text in line.texts.items() if text} == understood


@pytest.mark.parametrize(
    ("words", "rule", "unknown"),
    [
        ("trian", "has no task trian", "trian"),
        ("train --bogus", "fab train has no option --bogus", "--bogus"),
        ("--bogus train", "fab has no option --bogus", "--bogus"),
        ("--preset x train", "fab has no option --preset", "--preset"),
        ("--bogus", "fab has no option --bogus", "--bogus"),
        ("train --bogus=1", "fab train has no option --bogus", "--bogus"),
        ("attach --run r1 r2", "fab attach does not take r2", "r2"),
        ("attach r1 r2", "fab attach does not take r2", "r2"),
        ("bootstrap train", "fab bootstrap does not take train", "train"),
        ("train --hosts", "expected one argument", ""),
        ("train --min", "expected one argument", ""),
        ("train --min --preset x", "expected one argument", ""),
        ("train --detach=yes", "'yes'", ""),
        ("-H a train --hosts b", "--hosts is given twice, with different values", ""),
        ("train --preset a --preset b", "--preset is given twice", ""),
        ("data push", "fab data push needs FOLDER and URI", ""),
        ("data push x", "fab data push needs URI", ""),
        ("data", "fab data takes push, list, shard or index", ""),
        ("data pull", "fab data takes push, list, shard or index, not 'pull'", ""),
        ("data --stack", "fab data takes push, list, shard or index, not '--stack'", ""),
    ],
)
def test_what_no_task_takes_is_refused(words: str, rule: str, unknown: str) -> None:
    with pytest.raises(Wrong) as wrong:
        read(*with_name(words.split(), TASKS), TASKS)
    assert rule in str(wrong.value) and wrong.value.unknown == unknown


def test_hosts_are_refused_where_a_task_takes_none() -> None:
    with pytest.raises(UsageError, match="fab demo takes no hosts"):
        read("demo", ["-H", "a"], TASKS)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_option_of_a_first_argument_exists(task: Task) -> None:
    assert {*task.first} <= {option.flag for option in task.options()}
    assert task.group in GROUPS
