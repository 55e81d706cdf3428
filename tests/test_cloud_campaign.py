"""What `make test-cloud` does around its parts: the budget, the record, an interruption."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bootstrap.gpu_tools import tested_on
from campaigns.cloud import campaign, parts
from campaigns.cloud.record import NothingLeft, Record, unfinished

AWS = {"RAILHEAD_CLOUD_TEST": "aws", "RAILHEAD_SSH_CIDR": "203.0.113.7/32"}
CONFIG = campaign.config_of(AWS)
NAMES = ["doctor", "up", "train", "destroy", "leaks"]


class Script:
    """Parts that only note their names; one of them fails as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ran: list[str] = []
        self.fails: dict[str, BaseException] = {}
        doctor, *with_machines, destroy, leaks = map(self.part, NAMES)
        monkeypatch.setattr(parts, "doctor", doctor)
        monkeypatch.setattr(parts, "WITH_MACHINES", tuple(with_machines))
        monkeypatch.setattr(parts, "AT_THE_END", (destroy, leaks))
        monkeypatch.setattr(campaign, "typed", lambda *argv, **_: "")

    def part(self, name: str) -> Callable[[parts.Campaign], Mapping[str, Any]]:
        def run(one: parts.Campaign) -> Mapping[str, Any]:
            self.ran.append(name)
            if one.bounded:
                one.record.seconds_left()
            if name in self.fails:
                raise self.fails[name]
            return {"seconds": 1}

        run.__name__ = name
        return run


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(monkeypatch)


def record(**changes: Any) -> Record:
    values: dict[str, Any] = {"config": CONFIG, "budget_usd": 5.0, "usd_per_hour": 1.0, **changes}
    return Record("aws", **values)


def run(one: Record, root: Path) -> list[str]:
    """The names of the parts that failed."""
    return [part.name for part in campaign.run(parts.Campaign(one, root, 0.0), root)]


def test_all_parts_run_once_and_are_recorded_without_what_is_private(
    script: Script, tmp_path: Path
) -> None:
    one = record()
    assert run(one, tmp_path) == [] and script.ran == NAMES
    written = tested_on.record(tmp_path / "tested-on/aws.json").content
    assert [part["name"] for part in written["parts"]] == NAMES and written["ended"]
    assert "203.0.113" not in (tmp_path / "tested-on/aws.json").read_text()
    assert unfinished("aws", CONFIG, tmp_path) is None


@pytest.mark.parametrize("name", ["up", "train"])
def test_after_a_failure_the_machines_are_destroyed_and_it_is_recorded(
    script: Script, tmp_path: Path, name: str
) -> None:
    script.fails[name] = AssertionError("no capacity")
    assert run(record(), tmp_path) == [name]
    assert script.ran == [*NAMES[: NAMES.index(name) + 1], "destroy", "leaks"]
    (failed,) = [
        p for p in tested_on.record(tmp_path / "tested-on/aws.json").content["parts"] if p["error"]
    ]
    assert failed["name"] == name and "no capacity" in failed["error"]


def test_ctrl_c_destroys_the_machines(script: Script, tmp_path: Path) -> None:
    script.fails["train"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run(record(), tmp_path)
    assert script.ran[-2:] == ["destroy", "leaks"]


def test_a_spent_budget_ends_it_but_not_the_end(script: Script, tmp_path: Path) -> None:
    one = record(began=time.time() - 6 * 3600)  # 6 USD
    assert run(one, tmp_path) == ["up"] and script.ran == ["up", "destroy", "leaks"]
    with pytest.raises(NothingLeft, match="5 USD"):
        record(began=time.time() - 5 * 3600 - 1).seconds_left()
    half = record(began=time.time() - 2.5 * 3600).seconds_left()
    assert half == pytest.approx(2.5 * 3600, abs=5)


def test_what_was_interrupted_continues_and_counts_from_its_beginning(
    script: Script, tmp_path: Path
) -> None:
    """Killed in the middle: the file is all that is left of it."""
    before = record(began=time.time() - 3600)
    before.save(tmp_path)
    script.fails["train"] = SystemExit()  # of a test: as a kill, before the destruction
    for name in ("up",):
        assert campaign._part(parts.Campaign(before, tmp_path), script.part(name), tmp_path)
    del script.fails["train"]
    again = unfinished("aws", CONFIG, tmp_path)
    assert again and again.passed == {"up"} and again.usd == pytest.approx(1.0, abs=0.01)
    assert again.config["ssh_cidrs"] == "203.0.113.7/32"
    script.ran.clear()
    assert run(again, tmp_path) == [] and script.ran == ["train", "destroy", "leaks"]


def test_machines_that_are_not_gone_leave_it_unfinished(script: Script, tmp_path: Path) -> None:
    script.fails["destroy"] = AssertionError("NOT ENDED, and they cost money: i-1")
    assert run(record(), tmp_path) == ["destroy"]
    again = unfinished("aws", CONFIG, tmp_path)
    assert again and "destroy" not in again.passed


@pytest.mark.parametrize("answer", ["yes", "y", ""])
def test_the_cost_and_the_time_come_before_the_question(
    answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("builtins.input", lambda _: answer)
    one = record(usd_per_hour=campaign.usd_per_hour(CONFIG))
    assert campaign.agreed(one) is (answer == "yes")
    printed = capsys.readouterr().out
    assert "1.05 USD per hour" in printed and "75 minutes, 1.32 USD" in printed
    assert "At 5 USD" in printed


@pytest.mark.parametrize(
    ("variables", "missing"),
    [
        ({}, "one of aws, gcp, local"),
        ({"RAILHEAD_CLOUD_TEST": "aws"}, "RAILHEAD_SSH_CIDR"),
        ({**AWS, "RAILHEAD_CLOUD_TEST": "gcp"}, "RAILHEAD_PROJECT"),
    ],
)
def test_what_is_missing_is_named(variables: dict[str, str], missing: str) -> None:
    with pytest.raises(SystemExit, match=missing):
        campaign.config_of(variables)


def test_another_machine_has_its_own_price_or_is_refused() -> None:
    p3 = campaign.config_of({**AWS, "RAILHEAD_CLOUD_MACHINE": "p3.2xlarge"})
    assert campaign.usd_per_hour(p3) == pytest.approx(2 * 3.06)
    with pytest.raises(SystemExit, match="p9.huge"):
        campaign.usd_per_hour({**p3, "machine_type": "p9.huge"})
