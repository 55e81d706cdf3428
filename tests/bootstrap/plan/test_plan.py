"""A plan: what it says, and that a step on one host is not a step on another."""

from __future__ import annotations

import json

import pytest

from bootstrap.plan.steps import MINUTES, Plan, Step

KEY = Step("h1", "key", "let the chief log in here, to start ranks")
RUNTIME = Step("h2", "runtime", "not there", MINUTES, fetches=325)
PLAN = Plan(("h2", "h1", "h3"), (KEY, RUNTIME), ("runtime tf on Python 3.11",))


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (KEY, "key: let the chief log in here, to start ranks"),
        (RUNTIME, "runtime: not there (minutes, fetches about 325 MB)"),
        (Step("h", "uv", "why", fetches=20), "uv: why (fetches about 20 MB)"),
        (Step("h", "uv", "why", sends=20), "uv: why (about 20 MB through this connection)"),
        (Step("h", "system", "why", MINUTES), "system: why (minutes)"),
        (Step("h", "reboot", "why", MINUTES, reboots=True), "reboot: why (minutes, reboots)"),
    ],
)
def test_a_step_reports_why_and_what_it_costs(step: Step, line: str) -> None:
    assert str(step) == line


def test_a_plan_is_reported_host_by_host_in_their_order() -> None:
    assert PLAN.describe() == [
        "runtime tf on Python 3.11",
        "[h2] runtime: not there (minutes, fetches about 325 MB)",
        "[h1] key: let the chief log in here, to start ranks",
        "[h3] nothing to do",
    ]


def test_a_step_that_hosts_share_is_one_line_in_the_order_of_each() -> None:
    steps = {
        "a": ("uv", "runtime", "built here", "key"),
        "b": ("system", "uv", "runtime", "wheel", "key"),
        "c": (),
        "d": ("uv", "runtime", "wheel", "bucket", "key"),
        "e": ("key", "uv"),  # another order is two lines
        "f": (),
    }
    plan = Plan(tuple(steps), tuple(Step(h, name, "") for h in steps for name in steps[h]))
    assert plan.describe() == [
        "[b] system: ",
        "[e] key: ",
        "[a, b, d, e] uv: ",
        "[a, b, d] runtime: ",
        "[a] built here: ",
        "[b, d] wheel: ",
        "[d] bucket: ",
        "[a, b, d] key: ",
        "[c, f] nothing to do",
    ]


def test_a_step_belongs_to_one_host() -> None:
    assert PLAN.of("h1") == (KEY,)
    assert PLAN.of("h3") == ()
    assert PLAN.needs("h2", "runtime")
    assert not PLAN.needs("h1", "runtime")


def test_a_plan_without_steps_has_nothing_to_do_and_reports_so_of_every_host() -> None:
    ready = Plan(("h1", "h2"), notes=("a choice",))
    assert ready.nothing_to_do
    assert not PLAN.nothing_to_do
    assert ready.describe() == ["a choice", "[h1, h2] nothing to do"]


def test_a_plan_for_programs_has_every_step_of_every_host() -> None:
    document = PLAN.document()
    assert json.loads(json.dumps(document)) == document
    key = {"name": "key", "why": KEY.why, "takes": "seconds", "fetches": 0, "sends": 0}
    key["reboots"] = False
    runtime = {**key, "name": "runtime", "why": "not there", "takes": "minutes", "fetches": 325}
    hosts = {"h2": [runtime], "h1": [key], "h3": []}
    assert document == {"schema": 1, "hosts": hosts, "notes": ["runtime tf on Python 3.11"]}
    assert list(document["hosts"]) == ["h2", "h1", "h3"]
