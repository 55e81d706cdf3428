"""Quotas: what is read, what is refused, what is requested, and that it is never a decrease."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pulumi_gcp.cloudquota.outputs import GetSQuotaInfoDimensionsInfoDetailResult as Detail
from pulumi_gcp.cloudquota.outputs import GetSQuotaInfoDimensionsInfoResult as Row

from stacks.gcp.quota import amount_in
from tests.stacks.mocks import refused

from .world import ALL_GPUS, INSTANCE, PREFERENCE, T4, T4_SPOT, cluster, config, made, row, world
from .world import refuse as no_right

ASKING: dict[str, Any] = {"quotas": "request", "contact_email": "ann@example.com"}


def rows(*given: dict[str, Any]) -> list[Row]:
    return [
        Row(
            applicable_locations=g["applicableLocations"],
            details=[Detail(value=detail["value"]) for detail in g["details"]],
            dimensions=g["dimensions"],
        )
        for g in given
    ]


@pytest.mark.parametrize(
    ("answer", "place", "amount"),
    [
        ([row("1", "us-east1"), row("8", "us-central1")], "us-central1", 8),
        ([row("1", "us-east1")], "us-central1", None),
        ([row("4", None, "us-east1", "us-central1")], "us-central1", 4),
        ([row("4", None, "us-east1", "us-central1"), row("2", "us-central1")], "us-central1", 2),
        ([row("4", None, "us-east1")], "us-central1", None),
        ([row("6")], "global", 6),
        ([row("0", "us-central1")], "us-central1", 0),
        ([row("-1")], "global", math.inf),
        ([row(None, "us-central1")], "us-central1", None),
        ([], "global", None),
    ],
)
def test_the_row_that_counts(answer: list[Any], place: str, amount: float | None) -> None:
    assert amount_in(rows(*answer), place) == amount


@pytest.mark.parametrize("count", [1, 3, 16])
@pytest.mark.parametrize("cards", [1, 2, 4])
@pytest.mark.parametrize("spot", [False, True])
def test_just_enough_is_enough_and_one_less_is_not(count: int, cards: int, spot: bool) -> None:
    need, code = count * cards, T4_SPOT if spot else T4
    changes = {"count": count, "gpu_count": cards, "spot": spot}
    enough = {code: [row(str(need), "us-central1")], ALL_GPUS: [row(str(need))]}
    assert PREFERENCE not in made(world(enough), **changes).kinds
    for small in (
        {**enough, code: [row(str(need - 1), "us-central1")]},
        {**enough, ALL_GPUS: [row(str(need - 1))]},
    ):
        message, left = refused(cluster(config(**changes)), world(small))
        assert f"have {need - 1}, need {need} GPU" in message
        assert not left.kinds


def test_available_and_needed_amounts_are_always_logged() -> None:
    text = made().text
    assert (
        f"INFO: quota nvidia-tesla-t4 in us-central1 ({T4}, us-central1): have 16, need 2" in text
    )
    assert f"({ALL_GPUS}, global): have 64, need 2 GPU" in text


def test_a_refusal_reports_how_to_ask() -> None:
    small = world({T4: [row("0", "us-central1")]})
    message, _ = refused(cluster(config()), small)
    assert "pulumi config set contact_email YOU@EXAMPLE.COM" in message
    assert "pulumi config set quotas request && pulumi up" in message
    assert "console.cloud.google.com/iam-admin/quotas?project=p-12345" in message
    message, _ = refused(cluster(config(contact_email="ann@example.com")), small)
    assert "contact_email" not in message


@pytest.mark.parametrize("unknown", [world(getSQuotaInfo=no_right), world({T4: [], ALL_GPUS: []})])
def test_what_cannot_be_read_is_unknown_and_stops_nothing(unknown: Any) -> None:
    everything = made(unknown)
    assert "have unknown" in everything.text and "have 0" not in everything.text
    assert len(everything.every(INSTANCE)) == 2


def test_a_request_makes_no_machine() -> None:
    small = world({T4: [row("0", "us-central1")], ALL_GPUS: [row("0")]})
    everything = made(small, gpu_count=2, **ASKING)
    assert everything.kinds == {PREFERENCE}
    everywhere, region = everything.every(PREFERENCE)
    assert everywhere.inputs["quotaId"] == ALL_GPUS and not everywhere.inputs["dimensions"]
    assert region.inputs["quotaId"] == T4
    assert region.inputs["dimensions"] == {"region": "us-central1"}
    for preference in (everywhere, region):
        assert preference.inputs["quotaConfig"] == {"preferredValue": "4"}
        assert preference.inputs["contactEmail"] == "ann@example.com"
        assert preference.inputs["parent"] == "projects/p-12345"
        assert "ignoreSafetyChecks" not in preference.inputs
        assert preference.retain_on_delete
    assert everything.outputs.get("cluster") is None
    assert "no machines are made" in everything.text


def test_only_quotas_that_are_too_small_are_requested() -> None:
    everything = made(world({ALL_GPUS: [row("1")]}), **ASKING)
    assert [one.inputs["quotaId"] for one in everything.every(PREFERENCE)] == [ALL_GPUS]


def test_once_granted_the_same_config_makes_the_machines() -> None:
    everything = made(**ASKING)
    assert PREFERENCE not in everything.kinds and INSTANCE in everything.kinds


def test_a_request_that_could_be_a_decrease_is_refused() -> None:
    message, left = refused(cluster(config(**ASKING)), world(getSQuotaInfo=no_right))
    assert "a request without it could decrease the quota" in message
    assert not left.kinds
