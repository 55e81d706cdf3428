"""What tasks print with --json: one document on stdout, for programs.

docs/schemas has the JSON Schema of each. A key that is null is not known or does not apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railhead.documents.codec import key
from railhead.documents.doctor import Diagnosis
from railhead.documents.lazy import dataclass
from railhead.documents.leaks import LeakReport

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class HostStatus:
    """A host. `machine`: its state at its cloud, such as running. `reached` is null if its
    machine does not run; `reason` says why it was not reached. `runs`: those with processes."""

    name: str
    machine: str | None = None
    reached: bool | None = None
    reason: str = ""
    runtimes: int | None = None
    runs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DeadlineStatus:
    """What stops a machine: `kind` names it, `state` is armed, past, UNKNOWN or MISSING."""

    host: str
    kind: str
    state: str
    at: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """A run. `state` is a sentence; `results` is a folder, null if they are not here."""

    run_id: str
    state: str
    results: str | None = None


@dataclass(frozen=True, kw_only=True)
class EndpointStatus:
    """An endpoint; `state` is a sentence."""

    name: str
    host: str
    port: int | None = None
    state: str = ""


@dataclass(frozen=True, kw_only=True)
class StatusOutput:
    """`fab status --json`."""

    schema: int = SCHEMA
    cluster: str
    hosts: tuple[HostStatus, ...] = ()
    deadlines: tuple[DeadlineStatus, ...] = ()
    run: RunStatus | None = None
    endpoints: tuple[EndpointStatus, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HealthFinding:
    """A problem, its host, and what to do. `counts` false: a note; the hosts are still healthy."""

    host: str
    problem: str
    action: str
    counts: bool = True


@dataclass(frozen=True, kw_only=True)
class HealthOutput:
    """`fab health --json`. `not_checked`: why TensorFlow and the links were not checked."""

    schema: int = SCHEMA
    healthy: bool
    hosts: tuple[str, ...]
    findings: tuple[HealthFinding, ...] = ()
    not_checked: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunOutput:
    """`fab train --json`. `state` is running after --detach and if the run is no longer followed;
    `exit_code`, `cause` and `evaluation` as in result.json."""

    schema: int = SCHEMA
    run_id: str
    state: str = key(choices=("running", "succeeded", "failed", "cancelled"))
    results: str
    seconds: float | None = None
    size: int | None = None
    exit_code: int | None = None
    cause: str | None = None
    evaluation: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class EvaluationOutput:
    """`fab evaluate --json`: the run whose model it is, and its evaluation.json. Without one,
    `evaluation` is empty, and `state` is that of the run that evaluated."""

    schema: int = SCHEMA
    run_id: str
    evaluation: Mapping[str, Any]
    state: str | None = None


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """An item of `fab runs --json`. `created` is a time in UTC; `results` says where they are."""

    run_id: str
    name: str | None
    cluster: str | None
    kind: str
    program: str
    launcher: str | None
    hosts: tuple[str, ...]
    state: str
    created: str | None
    seconds: float | None
    samples_per_s: float | None
    cost: float | None
    metrics: Mapping[str, Any]
    results: str


@dataclass(frozen=True, kw_only=True)
class DeployOutput:
    """`fab deploy --json`: the endpoint, and the URL on its host; `seconds_left` until it ends."""

    schema: int = SCHEMA
    name: str
    version: int | None
    cluster: str | None
    host: str
    port: int
    url: str
    run_id: str | None
    seconds_left: float


@dataclass(frozen=True)
class ReceiptLine:
    """What was removed or still costs money, and whether that was verified."""

    host: str
    text: str
    verified: bool = True


@dataclass(frozen=True, kw_only=True)
class TeardownOutput:
    """`fab teardown --json`: the receipt. `at` is a time in UTC."""

    schema: int = SCHEMA
    cluster: str
    at: str
    verified: bool
    lines: tuple[ReceiptLine, ...]


@dataclass(frozen=True, kw_only=True)
class StoredObject:
    """An object, or data that was uploaded: `files` and `source` only of the latter."""

    uri: str
    bytes: int | None
    files: int | None = None
    source: str | None = None


@dataclass(frozen=True, kw_only=True)
class DataOutput:
    """`fab data list --json`. `objects` are the first ones; `count` and `bytes` are of all."""

    schema: int = SCHEMA
    uri: str
    count: int
    bytes: int
    objects: tuple[StoredObject, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ErrorOutput:
    """With --json, after an error that leaves no other document. `next` is what to type, as in the
    message for people; `exit_code` that of the command."""

    schema: int = SCHEMA
    error: str
    next: str | None = None
    exit_code: int


@dataclass(frozen=True, kw_only=True)
class CostRow:
    """What a stack, a run or a person has cost: from `usd` to `high`, and what has no price. `idle`
    is the part of the machine hours without a run; `billed` is what the cloud has billed; `gco2e`
    is the carbon of its runs, with two digits, null if none is known."""

    name: str
    usd: float
    high: float
    unknown: tuple[str, ...]
    machine_hours: float
    idle: float | None
    billed: float | None
    gco2e: float | None


@dataclass(frozen=True, kw_only=True)
class CostsOutput:
    """`fab costs --json`."""

    schema: int = SCHEMA
    since: str
    until: str
    by: str = key(choices=("run", "stack", "person"))
    rows: tuple[CostRow, ...]
    total: CostRow


@dataclass(frozen=True, kw_only=True)
class OfferOutput:
    """An offer: `machines` of one type in a region. Prices are in USD, per hour from `usd_per_hour`
    to `high_per_hour`; `epoch` is the price of an epoch of the run `run_id` on them, null without
    one. `source` and `day` are those of the price."""

    cloud: str
    machine: str
    machines: int
    gpu: str
    region: str
    usd_per_hour: float
    high_per_hour: float
    usd_per_gpu_hour: float
    usd: float
    epoch: float | None
    run_id: str | None
    source: str
    day: str


@dataclass(frozen=True, kw_only=True)
class PriceOutput:
    """`fab price --json`: the offers, the cheapest first, without disks and addresses. `usd` of
    each is for `hours`, at the higher price of a range."""

    schema: int = SCHEMA
    gpus: int
    hours: float
    spot: bool
    offers: tuple[OfferOutput, ...]


# By the name of the task; the output of runs is a list.
OUTPUTS: Mapping[str, Any] = {
    "status": StatusOutput,
    "health": HealthOutput,
    "train": RunOutput,
    "evaluate": EvaluationOutput,
    "runs": tuple[ListedRun, ...],
    "deploy": DeployOutput,
    "teardown": TeardownOutput,
    "data-list": DataOutput,
    "doctor": Diagnosis,
    "leaks": LeakReport,
    "costs": CostsOutput,
    "price": PriceOutput,
    "error": ErrorOutput,
}
