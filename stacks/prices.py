"""What a cluster costs per hour: the config's own figure, else a small table with its date. Pure.

US dollars, on demand, Linux, in the region that the table names; elsewhere nothing is guessed.
"""

from __future__ import annotations

from typing import Any

from stacks.settings import ClusterConfig

AWS_REGION, AWS_DATE = "us-east-1", "2026-07-20"
AWS_SOURCE = "AWS price list for us-east-1, on demand"
AWS = {
    "p3.2xlarge": 3.06, "p3.8xlarge": 12.24, "p3.16xlarge": 24.48, "p3dn.24xlarge": 31.212,
    "g4dn.xlarge": 0.526, "g4dn.2xlarge": 0.752, "g4dn.4xlarge": 1.204, "g4dn.8xlarge": 2.176,
    "g4dn.12xlarge": 3.912, "g4dn.16xlarge": 4.352, "g4dn.metal": 7.824,
    "g5.xlarge": 1.006, "g5.2xlarge": 1.212, "g5.4xlarge": 1.624, "g5.8xlarge": 2.448,
    "g5.12xlarge": 5.672, "g5.16xlarge": 4.096, "g5.24xlarge": 8.144, "g5.48xlarge": 16.288,
    "g6.xlarge": 0.8048, "g6.2xlarge": 0.9776, "g6.4xlarge": 1.3232, "g6.8xlarge": 2.0144,
    "g6.12xlarge": 4.6016, "g6.16xlarge": 3.3968, "g6.24xlarge": 6.6752, "g6.48xlarge": 13.3504,
}  # fmt: skip


def price(config: ClusterConfig) -> dict[str, Any] | None:
    """`per_hour` of the whole cluster with currency, source and date; None where unknown."""
    if config.price_per_hour is not None:
        return _priced(config.price_per_hour, "the stack's config, price_per_hour", "")
    each = AWS.get(config.machine_type) if config.cloud == "aws" else None
    if each is None or config.region != AWS_REGION or config.spot:
        return None
    return _priced(round(each * config.count, 4), AWS_SOURCE, AWS_DATE)


def _priced(per_hour: float, source: str, date: str) -> dict[str, Any]:
    return {"per_hour": per_hour, "currency": "USD", "source": source, "date": date}
