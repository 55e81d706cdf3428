"""For a person with an account: up, train, stop, receipt, destroy, on the cheapest machines.

    RAILHEAD_CLOUD_TEST=aws RAILHEAD_SSH_CIDR=203.0.113.7/32 make test-cloud

It makes two machines and costs money; for Google Cloud, RAILHEAD_PROJECT names the project.
What it saw is written to tested-on/<cloud>.json, a record of the kind `cloud`. No page is made
from it: who ran the test changes README.md and docs/stacks.md by hand, and commits the record too.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from cloud.clean_up import clean_up, typed
from places import ROOT

from bootstrap.gpu_tools import tested_on

CLOUD = os.environ.get("RAILHEAD_CLOUD_TEST", "")
STACK = "cloud-test"
CONFIG = {
    "aws": {"machine_type": "g4dn.xlarge", "region": "us-east-1"},
    "gcp": {"machine_type": "n1-standard-4", "project": os.environ.get("RAILHEAD_PROJECT", "")},
}
COMMON = {"count": "2", "deadline_hours": "2", "ssh_cidrs": os.environ.get("RAILHEAD_SSH_CIDR", "")}

pytestmark = [
    pytest.mark.skipif(
        CLOUD not in CONFIG, reason="costs money; RAILHEAD_CLOUD_TEST=aws|gcp make test-cloud"
    ),
    pytest.mark.timeout(3 * 3600),
]


@pytest.fixture
def stack() -> Iterator[dict[str, Any]]:
    """A stack of two machines, destroyed at the end whatever happened."""
    typed("pulumi", "stack", "init", STACK)
    typed("pulumi", "config", "set", "cloud", CLOUD)
    for key, value in {**COMMON, **CONFIG[CLOUD]}.items():
        typed("pulumi", "config", "set", key, value)
    started = time.monotonic()
    try:
        typed("pulumi", "up", "--yes", "--skip-preview", "--non-interactive")
        output = subprocess.check_output(
            ["pulumi", "stack", "output", "cluster", "--json"], cwd=ROOT
        )
        yield {"document": json.loads(output), "started": started}
    finally:
        clean_up(STACK)


def test_up_train_stop_train_again_and_destroy(stack: dict[str, Any]) -> None:
    first = typed("fab", "train", "--stack", STACK, "--preset", "smoke")
    assert "succeeded" in first
    assert "stopped" in typed("fab", "status", "--stack", STACK)
    again = typed("fab", "train", "--stack", STACK, "--preset", "smoke", "--start")
    assert "succeeded" in again
    receipt = typed("fab", "teardown", "--stack", STACK)
    write(stack, receipt)


def write(stack: dict[str, Any], receipt: str, root: Path = ROOT) -> None:
    """tested-on/<cloud>.json: what ran, when, how long, at most at what cost."""
    hours = (time.monotonic() - stack["started"]) / 3600
    price = stack["document"]["price"]
    seen = {
        "date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
        "config": {**COMMON, **CONFIG[CLOUD], "ssh_cidrs": "(not kept)", "project": "(not kept)"},
        "minutes": round(hours * 60, 1),
        "cost_at_most": round(price["per_hour"] * hours, 2) if price else None,
        "receipt": receipt.splitlines(),
    }
    tested_on.write(f"{CLOUD}.json", tested_on.CLOUD, seen, root)
