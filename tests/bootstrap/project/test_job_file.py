"""Job files: their options are those of a command line."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import CASES, ROOT

import railhead
from bootstrap.cli import generate, tasks
from bootstrap.cli.command_line.arguments import read, with_name
from bootstrap.cli.program import TASKS
from bootstrap.cli.task import values_of
from bootstrap.errors import UsageError
from bootstrap.project import job_file
from bootstrap.workflows.train import train_options
from railhead.documents.options.jobs import JobOptions, keys
from railhead.documents.options.option import options_in

FILES = sorted(CASES.glob("jobs/*.toml"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script and what the cases name."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work/x").write_text("x")
    (tmp_path / "train.py").write_text("import keras\n")
    (tmp_path / "requirements.txt").write_text("")
    for name in ("TOKEN", "KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(command: str) -> dict[str, Any]:
    """The groups of options of a command, as the task receives them."""
    line = read(*with_name(shlex.split(command), TASKS), TASKS)
    assert line.task
    return values_of(line.task.parts, line.texts)


def lines_of(file: Path) -> Iterator[str]:
    """The commands in the first lines of a case."""
    return (line[2:] for line in file.read_text().splitlines() if line.startswith("# "))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_job_is_the_same_as_its_command_line(file: Path, folder: Path) -> None:
    command, *more = lines_of(file)
    options = more[0].removeprefix("job: ") if more else ""
    by_line, by_job = typed(command), typed(f"train {file.stem} --file {file} {options}")
    assert by_job.pop("job") != by_line.pop("job")
    assert by_job == by_line
    del by_line["target"], by_job["target"]
    first, second = (
        train_options(run["program"], run["ready"], run["ending"], run["start"], folder)
        for run in (by_line, by_job)
    )
    assert first == second


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_saved_command_is_a_job_with_the_same_options(file: Path, folder: Path) -> None:
    command, *_ = lines_of(file)
    by_line = typed(command)
    del by_line["job"]
    job_file.save(JobOptions(job="a b", save="railhead.toml"), *by_line.values())
    by_job = typed("train 'a b'")
    assert {name: by_job[name] for name in by_line} == by_line
    with pytest.raises(UsageError, match="has a job a b already"):
        job_file.save(JobOptions(job="a b", save="railhead.toml"), *by_line.values())


def test_a_file_with_one_job_needs_no_name_and_keeps_its_other_text(folder: Path) -> None:
    text = '# mine\n[one]\npreset = "smoke"   # short\n'
    (folder / "mine.toml").write_text(text)
    assert typed("train --file mine.toml")["program"].preset == "smoke"
    job_file.save(JobOptions(job="two", save="mine.toml"), typed("train --ps 2")["program"])
    assert (folder / "mine.toml").read_text() == f"{text}\n[two]\nps = 2\n"
    with pytest.raises(UsageError, match="it has one, two"):
        typed("train --file mine.toml")


WRONG = {
    "epoch = 3": "job one: unknown key 'epoch', which is not an option of train",
    "max_hours = 3": "job one: unknown key 'max_hours'; did you mean max-hours?",
    "keep = 2000": "job one: --keep: 2000 is not",
    "keep = true": "job one: --keep: 'True' is not",
    "no-stop = 1": "job one: no-stop: 1 is neither true nor false",
    "set = 3": "job one: 3: write a mapping",
    "sagemaker = 4": "job one: --sagemaker: 4 is not one of 2, 3",
    "secret = 'TOKEN'": "job one: 'TOKEN': write a list",
    "resume = 'r1'": "job one: unknown key 'resume'",
    "preset = ": "railhead.toml: Invalid value",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_key_or_value_is_refused(line: str, folder: Path) -> None:
    (folder / "railhead.toml").write_text(f"[one]\n{line}\n")
    for task in (tasks.train, tasks.plan):
        with pytest.raises(UsageError) as caught:
            typed(f"{task.name} one")
        assert WRONG[line] in caught.value.message


def test_a_missing_file_job_or_table_is_named(folder: Path) -> None:
    with pytest.raises(UsageError, match="there is no railhead.toml, for the job x"):
        typed("train x")
    (folder / "railhead.toml").write_text("preset = 'smoke'\n")
    with pytest.raises(UsageError, match="preset is not in a job"):
        typed("train x")
    (folder / "railhead.toml").write_text("[y]\n")
    with pytest.raises(UsageError, match="has no job x; it has y"):
        typed("train x")


UNREADABLE = {"latin": b"[one]\npreset = '\xe4'\n", "deep": b"[one]\na = " + b"[" * 9_000}


@pytest.mark.parametrize("name", [".", *UNREADABLE])
def test_a_file_that_cannot_be_read_is_named(name: str, folder: Path) -> None:
    for file, content in UNREADABLE.items():
        (folder / file).write_bytes(content)
    with pytest.raises(UsageError, match=f"^{re.escape(name)}: "):
        typed(f"train --file {name}")
    with pytest.raises(UsageError, match=f"^{re.escape(name)}: "):
        job_file.save(JobOptions(save=name), typed("train --ps 2")["program"])
    assert all((folder / file).read_bytes() == content for file, content in UNREADABLE.items())


def test_a_private_file_stays_private(folder: Path) -> None:
    (folder / "mine.toml").write_text("[one]\n")
    (folder / "mine.toml").chmod(0o600)
    for name in ("mine.toml", "new.toml"):
        job_file.save(JobOptions(job="two", save=name), typed("train --ps 2")["program"])
    modes = [(folder / name).stat().st_mode & 0o777 for name in ("mine.toml", "new.toml")]
    assert modes == [0o600, 0o644]


def test_a_sweep_has_its_fixed_settings_from_the_job(folder: Path) -> None:
    (folder / "railhead.toml").write_text(
        "[one]\npreset = 'digits'\nset = {epochs = 3, seed = 1, units = '8,4'}\nretries = 1\n"
    )
    values = typed("sweep one --set epochs=1,2")
    assert values["trials"].values == {"epochs": ("1", "2"), "seed": ("1",), "units": ("8,4",)}
    assert values["program"].preset == "digits"


def test_a_plan_shows_where_each_value_comes_from(folder: Path) -> None:
    (folder / "railhead.toml").write_text(
        "[one]\nstack = 'gpu'\nset = {epochs = 3, seed = 1}\nruntime = 'tf2.18'\nretries = 0\n"
    )
    chosen = job_file.chosen(JobOptions(job="one"))
    assert chosen
    by_line = typed("train one --hosts a --set seed=2 --keep 1")
    assert list(job_file.describe(chosen, *by_line.values())) == [
        "job one of railhead.toml:",
        '  hosts = "a"   # command line',
        '  set = {epochs = "3", seed = "2"}   # command line',
        '  runtime = "tf2.18"   # railhead.toml',
        '  keep = "1m"   # command line',
        "  retries = 0   # railhead.toml",
        "  all other options: their defaults",
    ]
    of_plan = typed("plan one --runtime tf2.21")
    assert list(job_file.describe(chosen, *of_plan.values()))[1:-1] == [
        '  stack = "gpu"   # railhead.toml',
        '  set = {epochs = "3", seed = "1"}   # railhead.toml',
        '  runtime = "tf2.21"   # command line',
        "  retries = 0   # railhead.toml",
    ]


def test_a_job_may_have_each_option_of_train_but_the_run_that_it_continues() -> None:
    of_job = {option.name for option in options_in(JobOptions)}
    assert {option.flag for option in tasks.train.options()} == {*keys(), *of_job, "resume", "json"}


def test_the_schema_is_current_and_describes_each_key() -> None:
    text = (ROOT / "railhead/project/railhead.schema.json").read_text()
    properties = json.loads(text)["additionalProperties"]["properties"]
    assert generate.files()[ROOT / "railhead/project/railhead.schema.json"] == text
    assert properties.keys() == keys().keys()
    assert properties["keep"] == {**properties["keep"], "type": ["number", "string"], "minimum": 0}
    assert properties["min"]["additionalProperties"] == {"type": "number"}


def test_python_reads_the_same_job(folder: Path) -> None:
    (folder / "railhead.toml").write_text(
        "[one]\nhosts = 'a'\nruntime = 'tf2.18'\nset = {epochs = 3}\nno-stop = true\n"
        "[two]\nstack = 'gpu'\nproxy = 'http://p:1'\n[three]\nstack = 'gpu'\nstart = true\n"
    )
    job = railhead.job("one")
    assert job.of_cluster == {"hosts": "a", "runtime": "tf2.18"}
    assert job.arguments == {"settings": {"epochs": "3"}, "stop": False}
    assert railhead.Cluster.from_job(railhead.job("three"))._target.options.stack == "gpu"
    with pytest.raises(railhead.UsageError, match="job two: proxy: Python does not have"):
        railhead.job("two")


def test_the_first_argument_of_train_is_a_job_or_a_script(folder: Path) -> None:
    (folder / "railhead.toml").write_text("[digits]\npreset = 'digits'\n")
    assert typed("train digits")["program"].preset == "digits"
    assert typed("train train.py")["program"].script == "train.py"
    assert typed("train ./digits")["program"].script == "./digits"


def test_a_job_may_have_the_name_of_a_task(folder: Path) -> None:
    (folder / "railhead.toml").write_text("[demo]\npreset = 'digits'\n")
    assert typed("train demo")["program"].preset == "digits"
