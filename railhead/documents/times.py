"""Times as documents and clouds write them: RFC 3339, such as 2026-11-22T10:22:43Z."""

from __future__ import annotations

from datetime import datetime, timezone


def moment(text: str | None) -> datetime | None:
    """A time, UTC; None for a text that is not a time, or has no time zone."""
    try:
        time = datetime.fromisoformat((text or "").replace("Z", "+00:00"))
        return time.astimezone(timezone.utc) if time.tzinfo else None
    except (ValueError, OverflowError):
        return None


def shown(time: datetime) -> str:
    """A time with a time zone, for people: 2026-11-22 10:22:43 UTC."""
    return f"{time.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def seconds(text: str | None) -> float | None:
    """The same in seconds since 1970."""
    time = moment(text)
    return time.timestamp() if time else None
