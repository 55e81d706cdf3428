"""Quotas: what is read, what is refused, what is requested, and that it is never a decrease."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pulumi_gcp.cloudquota.outputs import GetSQuotaInfoDimensionsInfoDetailResult as Detail
from pulumi_gcp.cloudquota.outputs import GetSQuotaInfoDimensionsInfoResult as Row
from standins.gcp.rest import PREFERENCES, REQUEST, Rest, machines

from stacks.gcp.quota import _to_request, amount_in
from stacks.machine_types.gcp import SERVICE
from stacks.quotas import QuotaNeed, QuotaState
from stacks.rules.validators import ConfigError
from tests.stacks.mocks import Made, make, preview

from .world import (
    ALL_GPUS,
    INSTANCE,
    T4,
    T4_SPOT,
    asking,
    cluster,
    config,
    denied,
    made,
    row,
    world,
)
from .world import refuse as no_right

ASKING: dict[str, Any] = {"quotas": "request", "contact_email": "ann@example.com"}


def rows(*documents: dict[str, Any]) -> list[Row]:
    return [
        Row(
            applicable_locations=g["applicableLocations"],
            details=[Detail(value=detail["value"]) for detail in g["details"]],
            dimensions=g["dimensions"],
        )
        for g in documents
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
def test_every_card_of_every_machine_is_counted(count: int, cards: int, spot: bool) -> None:
    needs = config(count=count, gpu_count=cards, spot=spot).quota_needs
    gpus = {need.code: (need.amount, need.place) for need in needs if need.unit == "GPU"}
    amount = count * cards
    region = {T4_SPOT if spot else T4: (amount, "us-central1")}
    assert gpus == {**region, ALL_GPUS: (amount, "global")}


@pytest.mark.parametrize("limit", [5.0, 6.0, None])
@pytest.mark.parametrize("used", [0.0, 1.0, None])
def test_just_enough_beside_others_is_enough_and_one_less_is_not(
    limit: float | None, used: float | None
) -> None:
    need = QuotaNeed("compute", "C", "c", 5, "GPU", "global")
    too_small = limit is not None and limit - (used or 0) < 5
    assert QuotaState(limit, used).lacks(need) == too_small


@pytest.mark.parametrize(("spot", "code"), [(False, T4), (True, T4_SPOT)])
def test_each_quota_is_compared_with_what_the_machines_need(spot: bool, code: str) -> None:
    changes: dict[str, Any] = {"count": 3, "gpu_count": 2, "spot": spot}
    enough = {code: [row("6", "us-central1")], ALL_GPUS: [row("6")]}
    assert made(world(enough), **changes).kinds
    for small in (
        {**enough, code: [row("5", "us-central1")]},
        {**enough, ALL_GPUS: [row("5")]},
    ):
        assert "have 5, used by others unknown, need 6 GPU" in denied(world(small), **changes)


def test_available_and_needed_amounts_are_always_logged() -> None:
    text = made().text
    assert (
        f"INFO: quota nvidia-tesla-t4 in us-central1 ({T4}, us-central1): have 16, used by others "
        "unknown, need 2 GPU"
    ) in text
    assert f"({ALL_GPUS}, global): have 64, used by others unknown, need 2 GPU" in text
    assert "(SSD-TOTAL-GB-per-project-region, us-central1): have 9999" in text


def test_a_refusal_reports_how_to_ask() -> None:
    small = world({T4: [row("0", "us-central1")]})
    message = denied(small)
    assert "pulumi config set contact_email YOU@EXAMPLE.COM" in message
    assert "pulumi config set quotas request && pulumi up" in message
    assert "console.cloud.google.com/iam-admin/quotas?project=p-12345" in message
    assert "contact_email" not in denied(small, contact_email="ann@example.com")


@pytest.mark.parametrize("unknown", [world(getSQuotaInfo=no_right), world({T4: [], ALL_GPUS: []})])
def test_what_cannot_be_read_is_unknown_and_stops_nothing(unknown: Any) -> None:
    everything = made(unknown)
    assert "have unknown" in everything.text and "have 0" not in everything.text
    assert len(everything.every(INSTANCE)) == 2


def requesting(
    quotas: dict[str, Any], rest: Rest | None = None, *, seen: bool = False, **changes: Any
) -> tuple[Made, Rest]:
    """A stack that requests quotas, or its preview, and the project after it."""
    rest = rest or Rest()
    with asking(rest) as token:
        run = preview if seen else make
        return run(cluster(config(**{**ASKING, **changes})), world(quotas, **token)), rest


def test_a_request_makes_no_machine() -> None:
    small = {T4: [row("0", "us-central1")], ALL_GPUS: [row("0")]}
    everything, rest = requesting(small, gpu_count=2)
    assert not everything.kinds and everything.outputs.get("cluster") is None
    everywhere, region = rest.preferences
    assert everywhere["quotaId"] == ALL_GPUS and not everywhere["dimensions"]
    assert region["quotaId"] == T4 and region["dimensions"] == {"region": "us-central1"}
    assert region["name"].startswith("projects/p-12345/locations/global/quotaPreferences/railhead-")
    for request in (everywhere, region):
        assert request["quotaConfig"] == {"preferredValue": "4"}
    assert "no machines are created" in everything.text


def test_a_preview_of_a_request_sends_nothing() -> None:
    seen, rest = requesting({T4: [row("0", "us-central1")]}, seen=True)
    assert rest.preferences == [] and "requested none; now 2 are requested" in seen.text


def test_only_quotas_that_are_too_small_are_requested() -> None:
    _, rest = requesting({ALL_GPUS: [row("1")]})
    assert [request["quotaId"] for request in rest.preferences] == [ALL_GPUS]


def test_once_granted_the_same_config_makes_the_machines() -> None:
    everything = made(**ASKING)
    assert INSTANCE in everything.kinds


def test_a_request_that_could_be_a_decrease_is_refused() -> None:
    message = denied(world(getSQuotaInfo=no_right), **ASKING)
    assert "a request without it could decrease the quota" in message


def test_a_quota_that_is_unknown_keeps_no_other_from_being_requested() -> None:
    unknown, small, enough = (
        QuotaNeed(SERVICE, code, code, 8, "GPUs", "global") for code in ("x", "y", "z")
    )
    states = {unknown: QuotaState(), small: QuotaState(4, 3), enough: QuotaState(16, 3)}
    assert [(need.code, need.amount) for need in _to_request(states)] == [("y", 11)]
    with pytest.raises(ConfigError):
        _to_request({unknown: QuotaState()})


def preference(**changes: Any) -> dict[str, Any]:
    """A request of another stack, or of a person."""
    quota = {"preferredValue": "1", "grantedValue": "1"}
    place = {"region": "us-central1"}
    usual = {"service": SERVICE, "quotaId": T4, "dimensions": place, "quotaConfig": quota}
    return {"name": "projects/p-12345/locations/global/quotaPreferences/anns", **usual, **changes}


@pytest.mark.parametrize(("preferred", "then"), [("1", "2"), ("2", "2"), ("9", "9"), ("0", "2")])
def test_the_request_that_exists_is_increased_and_never_decreased(
    preferred: str, then: str
) -> None:
    """Google has one request for each quota and place, and refuses a second."""
    sent = {"preferredValue": preferred, "grantedValue": "1"}
    others = [preference(quotaId=T4_SPOT), preference(dimensions={"region": "us-east1"})]
    others = [{**request, "name": f"{request['name']}-{n}"} for n, request in enumerate(others)]
    rest = Rest(preferences=[*others, preference(quotaConfig=sent)])
    everything, _ = requesting({T4: [row("1", "us-central1")]}, rest)
    assert [request["quotaConfig"]["preferredValue"] for request in rest.preferences] == [
        "1",
        "1",
        then,
    ]
    assert f"requested {preferred}, granted 1" in everything.text


@pytest.mark.parametrize("method", [PREFERENCES, REQUEST])
def test_a_refused_request_is_one_sentence_and_the_console(method: str) -> None:
    rest = Rest(refused={method: (403, f"{method} is refused")})
    with asking(rest) as token:
        message = denied(world({T4: [row("1", "us-central1")]}, **token), **ASKING)
    assert f"quotas: Google refused: HTTP 403: {method} is refused" in message
    assert "iam-admin/quotas?project=p-12345" in message
    assert rest.preferences == []
    message = denied(world({T4: [row("1", "us-central1")]}), **ASKING)
    assert "Google gave no token" in message and "next: gcloud auth" in message


def test_a_request_removes_no_machine() -> None:
    rest = Rest(instances=machines({"t4-1": "TERMINATED"}))
    with asking(rest) as token:
        message = denied(world({T4: [row("0", "us-central1")]}, **token), **ASKING)
    assert "would remove those of this stack: t4-1" in message
    assert "next: pulumi config rm quotas" in message
    assert rest.preferences == []


REGION: dict[str, tuple[float, float]] = {
    "NVIDIA_T4_GPUS": (16, 15),
    "CPUS": (72, 8),
    "IN_USE_ADDRESSES": (8, 0),
}


def test_what_others_use_counts() -> None:
    with asking(Rest(quotas={"us-central1": REGION})) as token:
        message = denied(world(**token))
    assert f"({T4}, us-central1): have 16, used by others 15, need 2 GPU" in message


@pytest.mark.parametrize(
    ("metric", "limit", "says"),
    [
        ("CPUS", (8, 0), "(CPUS-per-project-region, us-central1): have 8, used by others 0, need"),
        ("IN_USE_ADDRESSES", (4, 3), "have 4, used by others 3, need 2 address"),
        ("SSD_TOTAL_GB", (250, 100), "have 250, used by others 100, need 200 GB"),
    ],
)
def test_cpus_addresses_and_disks_are_read_where_cloud_quotas_has_no_value(
    metric: str, limit: tuple[float, float], says: str
) -> None:
    with asking(Rest(quotas={"us-central1": {metric: limit}})) as token:
        assert says in denied(world(**token, getSQuotaInfo=no_right))


def test_own_machines_are_no_others() -> None:
    """An `up` that makes no machine is not refused because others have filled the quota; one
    that makes another needs room for it."""
    ours = {"t4-1": "RUNNING", "t4-2": "TERMINATED"}
    region: dict[str, tuple[float, float]] = {
        "NVIDIA_T4_GPUS": (16, 16),
        "SSD_TOTAL_GB": (500, 300),
    }
    with asking(Rest(quotas={"us-central1": region}, instances=machines(ours))) as token:
        text = made(world(**token)).text
        assert f"({T4}, us-central1): have 16, used by others 15, need 2 GPU" in text
        assert "have 9999, used by others 100, need 200 GB" in text, "a stopped machine has a disk"
        message = denied(world(**token), count=3)
    assert "have 16, used by others 15, need 3 GPU" in message


def test_a_request_has_room_for_what_others_use() -> None:
    _, rest = requesting({}, Rest(quotas={"us-central1": REGION}))
    assert [request["quotaConfig"] for request in rest.preferences] == [{"preferredValue": "17"}]


def test_what_compute_does_not_say_is_unknown() -> None:
    with asking(Rest(refused={"compute.regions.get": (403, "forbidden")})) as token:
        everything = made(world(**token))
    assert "Compute does not say what is in use: HTTP 403" in everything.text
    assert "used by others unknown" in everything.text
    assert len(everything.every(INSTANCE)) == 2
