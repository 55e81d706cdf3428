"""The quota requests of a project: Cloud Quotas has one preference for each quota and place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pulumi

from ...quotas import EVERYWHERE, QuotaNeed
from .rest import MOST_PAGES, Google, LookupFailed


def dimensions(need: QuotaNeed) -> dict[str, str]:
    """The dimensions of the preference for a quota."""
    return {} if need.place == EVERYWHERE else {"region": need.place}


def requested(needs: Sequence[QuotaNeed], google: Google | None) -> list[str]:
    """For each of these quotas that was requested before, whoever did: the amounts. Empty where
    Cloud Quotas does not answer."""
    if google is None:
        return []
    try:
        every = [*_every(google)]
    except LookupFailed as why:
        pulumi.log.warn(f"Cloud Quotas does not list the requests of this project: {why}")
        return []
    return [
        f"{need.name} ({need.code}, {need.place}): {_amounts(one.get('quotaConfig', {}))}"
        for need in needs
        for one in every
        if (one.get("service"), one.get("quotaId"), one.get("dimensions", {}))
        == (need.service, need.code, dimensions(need))
    ]


def _every(google: Google) -> Iterator[dict[str, Any]]:
    path = f"v1/projects/{google.project}/locations/global/quotaPreferences"
    query: dict[str, str] = {}
    for _ in range(MOST_PAGES):
        page = google.get("cloudquotas", path, **query)
        yield from page.get("quotaPreferences", ())
        if not page.get("nextPageToken"):
            return
        query = {"pageToken": page["nextPageToken"]}


def _amounts(quota: dict[str, Any]) -> str:
    granted = quota.get("grantedValue", "none")
    return f"requested {quota.get('preferredValue', 'unknown')}, granted {granted}"
