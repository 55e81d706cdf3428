"""Facts about the clouds for the stacks, `fab` and the hosts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommonFacts:
    """`scheme` is that of its buckets' addresses. `no_capacity` are texts of its refusals for
    capacity, in its API and in Pulumi's errors."""

    scheme: str
    no_capacity: tuple[str, ...]


COMMON_FACTS = {
    "aws": CommonFacts(
        "s3",
        ("InsufficientInstanceCapacity", "InsufficientHostCapacity", "UnfulfillableCapacity"),
    ),
    "gcp": CommonFacts(
        "gs", ("RESOURCE_POOL_EXHAUSTED", "does not have enough resources available")
    ),
}


def is_no_capacity(text: str) -> bool:
    """Whether the message of a refusal means that the cloud has no capacity."""
    return any(code in text for facts in COMMON_FACTS.values() for code in facts.no_capacity)
