"""A stack shows the cloud's own prices; without them those of the table, and says why."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from railhead.documents.codec import encode
from railhead.money.table import ON_DEMAND, Row
from stacks import cost
from stacks.config.settings import ClusterConfig
from stacks.live_prices import live_rates
from tests.stacks.test_document import AWS, LOCAL

ROW = Row("machine", "g4dn.12xlarge", "us-east-1", ON_DEMAND, "4", "", "h", "2026-11-01", "AWS")
Answer = Callable[..., Any]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    messages: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", messages.append)
    return messages


def answers(monkeypatch: pytest.MonkeyPatch, code: int, output: str, errors: str = "") -> list[Any]:
    """What the program prints, instead of being started; the command lines."""
    started: list[Any] = []

    def run(argv: list[str], **options: Any) -> Any:
        started.append(argv[-3:])
        return subprocess.CompletedProcess(argv, code, output, errors)

    monkeypatch.setattr(subprocess, "run", run)
    return started


def shown(config: ClusterConfig) -> str:
    return cost.cost(replace(config, rates=live_rates(config)))


def test_the_clouds_price_comes_before_the_table(
    monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    started = answers(monkeypatch, 0, json.dumps(encode((ROW,))))
    assert shown(AWS).startswith("8.05 USD per hour (2 x machine 4.000, disk 0.011, ")
    assert started == [["aws", "us-east-1", "g4dn.12xlarge"]] and lines == []


@pytest.mark.parametrize(
    ("code", "output", "errors", "why"),
    [
        (1, "", "AWS refuses get_products: AccessDeniedException", "AccessDeniedException"),
        (1, "", "", "no answer"),
        (0, "[", "", "Expecting value"),
        (0, '[{"kind": 1}]', "", "must be an object"),
    ],
)
def test_without_one_the_table_counts_and_why_is_shown(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], code: int, output: str, errors: str, why: str
) -> None:
    answers(monkeypatch, code, output, errors)
    assert shown(AWS).startswith("7.87 USD per hour ")
    assert len(lines) == 1 and why in lines[0]


def test_no_log_has_the_account(monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    refusal = "AccessDeniedException: User: arn:aws:iam::123456789012:user/ann is not authorized"
    answers(monkeypatch, 1, "", f"AWS refuses get_products: {refusal}; account 123456789012")
    assert live_rates(AWS) is None and "AccessDeniedException" in lines[0]
    assert not [secret for secret in ("123456789012", "ann", "arn:") if secret in lines[0]]


@pytest.mark.parametrize("config", [LOCAL, replace(AWS, price_per_hour=2.0)])
def test_nothing_is_read_where_no_price_is_needed(
    monkeypatch: pytest.MonkeyPatch, config: ClusterConfig
) -> None:
    started = answers(monkeypatch, 0, "[]")
    assert live_rates(config) is None and started == []
