"""The quota requests of a project: Cloud Quotas has one preference for each quota and place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...quotas import EVERYWHERE, QuotaNeed
from .rest import Google


def dimensions(need: QuotaNeed) -> dict[str, str]:
    """The dimensions of the preference for a quota."""
    return {} if need.place == EVERYWHERE else {"region": need.place}


@dataclass(frozen=True)
class Preference:
    """The request for a quota in a place, whoever made it. None: no such amount yet."""

    name: str
    preferred: float | None
    granted: float | None

    def __str__(self) -> str:
        has, gets = (
            "none" if amount is None else f"{amount:g}" for amount in (self.preferred, self.granted)
        )
        return f"requested {has}, granted {gets}"


def current(need: QuotaNeed, listed: Sequence[dict[str, Any]]) -> Preference | None:
    """The request for this quota among all requests of the project; None if there is none."""
    for preference in listed:
        key = preference.get("service"), preference.get("quotaId"), preference.get("dimensions", {})
        if key == (need.service, need.code, dimensions(need)):
            amounts = preference.get("quotaConfig", {})
            preferred, granted = (
                _amount(amounts, f"{key}Value") for key in ("preferred", "granted")
            )
            return Preference(str(preference.get("name")), preferred, granted)
    return None


def send(
    need: QuotaNeed, there: Preference | None, justification: str, email: str, google: Google
) -> None:
    """Request the amount: by the request that exists, or by a new one. The provider's own resource
    creates another one after each create (terraform-provider-google#22342), and its changes are
    refused (#21935)."""
    path = f"projects/{google.project}/locations/global/quotaPreferences"
    new_name = f"railhead-{need.code.partition('-per-project')[0]}-{need.place}".lower()
    name = there.name if there else f"{path}/{new_name}"
    body = {
        "name": name,
        "service": need.service,
        "quotaId": need.code,
        "dimensions": dimensions(need),
        "quotaConfig": {"preferredValue": str(need.amount)},
        "contactEmail": email,
        "justification": justification,
    }
    google.send("PATCH", "cloudquotas", f"v1/{name}", body, allowMissing="true")


def every(google: Google) -> Iterator[dict[str, Any]]:
    """All requests of the project."""
    path = f"v1/projects/{google.project}/locations/global/quotaPreferences"
    for page in google.every("cloudquotas", path):
        yield from page.get("quotaPreferences", ())


def _amount(amounts: dict[str, Any], key: str) -> float | None:
    try:
        return float(amounts[key])  # int64, which is a text in JSON
    except (KeyError, TypeError, ValueError):
        return None
