"""Quotas of Google Cloud: the project's value, what this stack needs, and requests for more."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pulumi
from pulumi_gcp import cloudquota
from pulumi_gcp.cloudquota.outputs import GetSQuotaInfoDimensionsInfoResult as Row

from ..config.settings import ClusterConfig
from ..next_command import UP, Part, rm, set_
from ..quotas import QuotaNeed, QuotaState, comparison, too_small
from ..rules.validators import ConfigError
from .lookups import existing, preferences, usage
from .lookups.preferences import Preference
from .lookups.rest import Google, LookupFailed
from .lookups.usage import Usage
from .zone import Location

CONSOLE = "https://console.cloud.google.com/iam-admin/quotas"
LOG_IN = "gcloud auth application-default login"


def check(
    config: ClusterConfig,
    own_id: str,
    location: Location,
    google: Google | None,
    opts: pulumi.InvokeOptions,
) -> tuple[QuotaNeed, ...]:
    """Log every quota that this stack needs; return those to request. Empty if all are large
    enough. A quota that cannot be read counts as large enough: Google refuses the machines if it is
    not. ConfigError: a quota is too small and the config does not request more, or it requests more
    and the current value cannot be read."""
    used = usage.read(own_id, location, google)
    states = {need: _state(need, config, used, opts) for need in config.quota_needs}
    for need, state in states.items():
        pulumi.log.info(comparison(need, state))
    if config.quotas == "request":
        return _to_request(states)
    complete = used is not None and used.exist >= config.count
    small = [comparison(n, s) for n, s in states.items() if _alone(s, complete).lacks(n)]
    if small:
        request: list[Part] = [set_("quotas", "request"), "&&", UP]
        if not config.contact_email:
            request = [set_("contact_email", "YOU@EXAMPLE.COM"), "&&", *request]
        console = f"  # or in the console: {CONSOLE}?project={config.project}"
        raise ConfigError("\n".join(small), *request, console)
    return ()


def _alone(state: QuotaState, complete: bool) -> QuotaState:
    """A stack that has all its machines needs no more: what others use does not matter."""
    return QuotaState(state.limit, 0) if complete else state


def _state(
    need: QuotaNeed, config: ClusterConfig, used: Usage | None, opts: pulumi.InvokeOptions
) -> QuotaState:
    """The value comes from Cloud Quotas, for every GPU type; the use comes from Compute, for
    most."""
    measured = usage.state(need, config.count, used)
    limit = _read(need, config, opts)
    return QuotaState(measured.limit if limit is None else limit, measured.used)


def amount_in(rows: Sequence[Row], place: str) -> float | None:
    """The amount in a region, from all rows of one quota; None: unknown. T4 has a row for every
    region, others one row for all their locations. A row without a value is unknown, not zero: an
    organisation's policies can hide it."""
    regional = [row for row in rows if (row.dimensions or {}).get("region") == place]
    shared = [
        row for row in rows if not row.dimensions and place in (row.applicable_locations or ())
    ]
    for row in regional or shared:
        for detail in row.details or ():
            if detail.value:
                return math.inf if detail.value == "-1" else float(detail.value)
    return None


def request(
    needs: Sequence[QuotaNeed], config: ClusterConfig, own_id: str, google: Google | None
) -> None:
    """Request the needed amounts, by a call and not as a resource: Google has one request per quota
    and place, whoever makes it first, and it cannot be withdrawn. It is never made smaller.
    ConfigError: the stack has machines, which would be removed, or Google does not answer."""
    if google is None:
        raise ConfigError("quotas: Google gave no token", LOG_IN)
    try:
        _refuse_machines(existing.machine_names(google, own_id), config)
        listed = [*preferences.every(google)]
        for need in needs:
            _request(need, preferences.current(need, listed), config, google)
    except LookupFailed as why:
        page = f"{CONSOLE}?project={config.project}"
        raise ConfigError(f"quotas: Google refused: {why}", f"in the console: {page}") from None
    pulumi.log.info(
        "only the quotas are requested, no machines are created. Google's answer: "
        f"{CONSOLE}?project={config.project}"
    )


def _request(
    need: QuotaNeed, there: Preference | None, config: ClusterConfig, google: Google
) -> None:
    quota = f"quota {need.name} ({need.code}, {need.place})"
    if there and there.preferred is not None and there.preferred >= need.amount:
        pulumi.log.info(f"{quota}: {there}; this stack needs {need.amount}")
        return
    if not pulumi.runtime.is_dry_run():
        why = f"GPU training on {config.count} machines, cluster {config.name}"
        preferences.send(need, there, why, str(config.contact_email), google)
    pulumi.log.info(f"{quota}: {there or 'requested none'}; now {need.amount} are requested")


def _refuse_machines(machines: Sequence[str], config: ClusterConfig) -> None:
    if machines:
        raise ConfigError(
            f"quotas: request makes no machines, and would remove those of this stack: "
            f"{', '.join(machines)}",
            rm("quotas"),
            f"  # and request it in the console: {CONSOLE}?project={config.project}",
        )


def _to_request(states: dict[QuotaNeed, QuotaState]) -> tuple[QuotaNeed, ...]:
    """The quotas that are too small, with the amounts that this stack and all others need. A quota
    of unknown value is not requested: that could decrease it. ConfigError if none is known.
    """
    unknown = [comparison(need, state) for need, state in states.items() if state.limit is None]
    if unknown and len(unknown) == len(states):
        raise ConfigError(
            "\n".join([*unknown, "a request without it could decrease the quota"]),
            "get the role roles/cloudquotas.admin",
        )
    return too_small(states)


def _read(need: QuotaNeed, config: ClusterConfig, opts: pulumi.InvokeOptions) -> float | None:
    try:
        info = cloudquota.get_s_quota_info(
            parent=f"projects/{config.project}", service=need.service, quota_id=need.code, opts=opts
        )
    except Exception as error:  # the type that a failed invoke raises
        pulumi.log.warn(f"quota {need.code} cannot be read: {error}")
        return None
    return amount_in(info.dimensions_infos or (), need.place)
