"""The commands that an error prints have the hosts that were typed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from invoke import Collection, Task

from bootstrap.cli import executor, machine_tasks, result_tasks, serving_tasks, tasks
from bootstrap.cli.hints import with_target
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory, parse_hosts

STACK, HOSTS = {"stack": "gpu a"}, {"hosts": "a,b*2", "stack": None}
COMPLETED = [
    "fab stop{}",
    "fab start{}   # later",
    "move it away, then: fab fetch{}",
    "fab stop{}, then fab start{} --hours 4",
    "fab plan{} && fab train{}",
    "fab fetch --run r1   # or: fab teardown{} --destroy",
    "fab exec{} --cmd 'du; ls'   # data",
    "fab evaluate r1{} --script x",
    "fab ssh{}   # look at the host",
    "fab teardown{} ends what is left",
]
AS_IT_IS = [
    "",
    "fab --list",
    "fab --help train",
    "fab train --hosts user@first,user@second",
    "fab stop --stack other --yes",
    "fab cancel --run r1",
    "fab undeploy digits",
    "fab runs",
    "fab demo   # makes new ones",
    "run fab with -r and the clone's folder",
    "pulumi up",
]


@cache
def all_tasks() -> dict[str, Task[Any]]:
    modules = (tasks, machine_tasks, result_tasks, serving_tasks)
    found = [task for module in modules for task in Collection.from_module(module).tasks.values()]
    return {task.name.rstrip("_").replace("_", "-"): task for task in found}


@pytest.mark.parametrize("hint", COMPLETED)
def test_each_command_of_a_hint_gets_the_hosts_that_were_typed(hint: str) -> None:
    short = hint.replace("{}", "")
    assert with_target(short, STACK, all_tasks()) == hint.replace("{}", " --stack 'gpu a'")
    assert with_target(short, HOSTS, all_tasks()) == hint.replace("{}", " --hosts 'a,b*2'")
    assert with_target(short, {"hosts": None}, all_tasks()) == short


@pytest.mark.parametrize("hint", AS_IT_IS)
def test_a_command_that_names_its_hosts_or_takes_none_stays(hint: str) -> None:
    assert with_target(hint, STACK, all_tasks()) == hint


def test_a_task_gets_only_an_option_that_it_takes() -> None:
    up = "fab up --refresh   # makes it"
    assert with_target(up, STACK, all_tasks()) == "fab up --stack 'gpu a' --refresh   # makes it"
    assert with_target(up, HOSTS, all_tasks()) == up


def test_data_push_and_data_list_get_the_stack() -> None:
    hint = "fab data push FOLDER bucket   # then: fab data list"
    completed = (
        "fab data push FOLDER bucket --stack 'gpu a'   # then: fab data list --stack 'gpu a'"
    )
    assert with_target(hint, STACK, all_tasks()) == completed
    assert with_target(hint, HOSTS, all_tasks()) == hint


def hint_of_command(monkeypatch: pytest.MonkeyPatch, **given: str) -> str:
    """The hint `fab stop` of a failed command with these options."""
    monkeypatch.setattr(executor.RUNNING, "collection", Collection.from_module(machine_tasks))
    return executor._with_target("fab stop", given)


@pytest.mark.parametrize(
    ("cluster", "completed"),
    [
        (replace(parse_hosts("h1"), cloud="aws", stack="gpu"), "fab stop --stack gpu"),
        (parse_hosts("a,b*2"), "fab stop --hosts 'a,b*2'"),
        (replace(parse_hosts("h1"), cloud="local"), "fab stop"),
    ],
)
def test_a_command_that_names_only_a_run_gets_the_hosts_of_the_run(
    home: Path, monkeypatch: pytest.MonkeyPatch, cluster: Inventory, completed: str
) -> None:
    local_state.save_cluster(cluster)
    local_state.save_run({"run_id": "r1", "cluster": cluster.name}, home / "results/r1")
    assert hint_of_command(monkeypatch, run="r1") == completed
    assert hint_of_command(monkeypatch, run="r1", stack="other") == "fab stop --stack other"
    for unknown in ("r2", "../x"):
        assert hint_of_command(monkeypatch, run=unknown) == "fab stop"


def test_the_option_of_hosts_names_them_all() -> None:
    assert parse_hosts("a,root@[::1]:22*2").option == " --hosts 'a,root@[::1]:22*2'"
