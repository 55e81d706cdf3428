"""Times as documents and clouds write them."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from railhead.documents.times import moment, seconds

AT = datetime(2026, 11, 22, 10, 22, 43, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-22T10:22:43Z",
        "2026-11-22T10:22:43.000Z",
        "2026-11-22T02:22:43.000-08:00",
        "2026-11-22 10:22:43Z",
        "2026-11-22T12:22:43+02:00",
    ],
)
def test_a_time_with_its_zone_is_read(text: str) -> None:
    time = moment(text)
    assert time == AT and time.tzinfo is timezone.utc
    assert seconds(text) == AT.timestamp()


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "yesterday",
        "2026-11-22T10:22:43",
        "2026-11-22",
        "2026-13-22T10:22:43Z",
        "9999-12-31T23:59:59-05:00",
        "0001-01-01T00:00:00+05:00",
        "Z" * 100_000,
    ],
)
def test_another_text_is_no_time(text: str | None) -> None:
    assert moment(text) is None and seconds(text) is None
