"""The clouds' refusals for capacity, in the words of their APIs and of Pulumi's errors."""

from __future__ import annotations

NO_CAPACITY = {
    "aws": ("InsufficientInstanceCapacity", "InsufficientHostCapacity", "UnfulfillableCapacity"),
    "gcp": ("RESOURCE_POOL_EXHAUSTED", "does not have enough resources available"),
}


def is_no_capacity(text: str) -> bool:
    """Whether the message of a refusal is one for capacity."""
    return any(code in text for codes in NO_CAPACITY.values() for code in codes)
