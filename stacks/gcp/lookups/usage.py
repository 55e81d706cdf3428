"""What Compute counts now: every quota of the region and of the project, with its use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from ...quotas import EVERYWHERE, QuotaNeed, QuotaState
from ..labels import ID
from ..zone import Location
from .rest import Google, LookupFailed

RUNNING = ("PROVISIONING", "STAGING", "RUNNING", "STOPPING", "SUSPENDING")
ALWAYS = "SSD-TOTAL-GB"  # counted for stopped machines too


@dataclass(frozen=True)
class Usage:
    """Limits and use by place and metric, and this stack's own machines: how many exist, and how
    many of them run."""

    states: Mapping[tuple[str, str], QuotaState]
    exist: int
    run: int


def read(own_id: str, location: Location, google: Google | None) -> Usage | None:
    """The use that Compute reports; None if it does not."""
    if google is None:
        return None
    project = f"projects/{location.project}"
    try:
        places = {
            EVERYWHERE: google.get("compute", project),
            location.region: google.get("compute", f"{project}/regions/{location.region}"),
        }
        path, condition = f"{project}/zones/{location.zone}/instances", f"labels.{ID}={own_id}"
        pages = google.every("compute", path, filter=condition)
        machines = [machine for page in pages for machine in page.get("items", ())]
    except LookupFailed as why:
        pulumi.log.warn(f"Compute does not say what is in use: {why}")
        return None
    states = {
        (place, str(row["metric"])): QuotaState(row.get("limit"), row.get("usage"))
        for place, response in places.items()
        for row in response.get("quotas", ())
    }
    running = sum(machine.get("status") in RUNNING for machine in machines)
    return Usage(states, len(machines), running)


def state(need: QuotaNeed, count: int, usage: Usage | None) -> QuotaState:
    """The limit of a quota, and what others use of it: without the machines of this stack, each
    of which uses as much as one of the `count` that it needs."""
    if usage is None:
        return QuotaState()
    state = usage.states.get((need.place, metric(need.code)), QuotaState())
    if state.used is None:
        return state
    machines = usage.exist if need.code.startswith(ALWAYS) else usage.run
    return QuotaState(state.limit, max(0.0, state.used - machines * need.amount / count))


def metric(code: str) -> str:
    """Compute's name of a quota: NVIDIA_T4_GPUS of NVIDIA-T4-GPUS-per-project-region."""
    return code.partition("-per-project")[0].replace("-", "_")
