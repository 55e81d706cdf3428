"""Quotas of Google Cloud: the project's value, what this stack needs, and requests for more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pulumi
from pulumi.runtime.sync_await import _sync_await
from pulumi_gcp import cloudquota
from pulumi_gcp.cloudquota.outputs import GetSQuotaInfoDimensionsInfoResult as Row

from ..config.settings import ClusterConfig
from ..config.validators import ConfigError
from ..next_command import naming
from ..quotas import QuotaNeed, QuotaState, comparison
from .lookups import preferences, usage
from .lookups.rest import Google
from .lookups.usage import Usage
from .zone import Location

CONSOLE = "https://console.cloud.google.com/iam-admin/quotas"


def check(
    config: ClusterConfig,
    own_id: str,
    location: Location,
    google: Google | None,
    opts: pulumi.InvokeOptions,
) -> tuple[QuotaNeed, ...]:
    """Log every quota that this stack needs; return those to request.

    Empty where all are large enough. A quota that cannot be read counts as large enough: Google
    refuses the machines if it is not.

    Raises:
        ConfigError: a quota is too small and the config does not request more, or it requests
            more and the current value cannot be read.
    """
    used = usage.read(own_id, location, google)
    states = {need: _state(need, config, used, opts) for need in config.quota_needs}
    for need, state in states.items():
        pulumi.log.info(comparison(need, state))
    if config.quotas == "request":
        return _to_request(states)
    complete = used is not None and used.exist >= config.count
    small = [comparison(n, s) for n, s in states.items() if _alone(s, complete).lacks(n)]
    if small:
        raise ConfigError("\n".join([*small, _next(config)]))
    return ()


def _alone(state: QuotaState, complete: bool) -> QuotaState:
    """A stack that has all its machines needs no more: what others use does not matter."""
    return QuotaState(state.limit, 0) if complete else state


def _state(
    need: QuotaNeed, config: ClusterConfig, used: Usage | None, opts: pulumi.InvokeOptions
) -> QuotaState:
    """Cloud Quotas has the value, for every GPU type; Compute has the use of most."""
    found = usage.state(need, config.count, used)
    limit = _read(need, config, opts)
    return QuotaState(found.limit if limit is None else limit, found.used)


def amount_in(rows: Sequence[Row], place: str) -> float | None:
    """The amount in a region, from all rows of one quota; None: unknown.

    T4 has a row for every region, others one row for all their locations. A row without a
    value is unknown, not zero: an organisation's policies can hide it.
    """
    own = [row for row in rows if (row.dimensions or {}).get("region") == place]
    shared = [row for row in rows if not row.dimensions and place in _locations(row)]
    for row in own or shared:
        for detail in row.details or ():
            if detail.value:
                return math.inf if detail.value == "-1" else float(detail.value)
    return None


def request(needs: Sequence[QuotaNeed], config: ClusterConfig, parent: pulumi.Resource) -> None:
    """Request the needed amounts; each is more than the current value.

    A request outlives the stack: Google cannot withdraw one, and others may use what was
    granted.
    """
    for need in needs:
        cloudquota.SQuotaPreference(
            need.code.lower(),
            parent=f"projects/{config.project}",
            name=f"railhead-{need.code}-{need.place}".lower(),
            service=need.service,
            quota_id=need.code,
            dimensions=preferences.dimensions(need),
            quota_config=cloudquota.SQuotaPreferenceQuotaConfigArgs(
                preferred_value=str(need.amount)
            ),
            contact_email=config.contact_email,
            justification=f"GPU training on {config.count} machines, cluster {config.name}",
            opts=pulumi.ResourceOptions(parent=parent, retain_on_delete=True),
        )
    pulumi.log.info(
        "only the quotas are requested, no machines are created. Google's answer: "
        f"{CONSOLE}?project={config.project}"
    )


def refuse_others(needs: Sequence[QuotaNeed], config: ClusterConfig, google: Google | None) -> None:
    """An error if the stack has machines: one that only requests quotas has none, so they would be
    removed. Also if another stack, or a person, has requested one of these quotas: Google has one
    request for each, and refuses a second.

    It waits for the state, and nothing else may be registered meanwhile: where the state is in a
    folder, Pulumi cannot read it while it writes it.
    """
    own = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    outputs = pulumi.StackReference(own)
    if _sync_await(outputs.get_output("cluster").future()) is not None:
        message = (
            "quotas: request makes no machines, and would remove those of this stack\n"
            f"  next: pulumi config rm quotas, and request it in the console: "
            f"{CONSOLE}?project={config.project}"
        )
        raise pulumi.RunError(naming(message, pulumi.get_stack()))
    if _sync_await(outputs.get_output("next").future()):
        return  # the requests are its own, and may be changed
    if requested := preferences.requested(needs, google):
        raise ConfigError(
            "\n".join(f"quotas: there is a request already: {one}" for one in requested)
            + f"\n  next: change it in the console: {CONSOLE}?project={config.project}"
        )


def _to_request(states: dict[QuotaNeed, QuotaState]) -> tuple[QuotaNeed, ...]:
    """The quotas that are too small, with the amounts that they need beside what others use. One
    whose value is unknown is not requested: that could decrease it. ConfigError if none is known.
    """
    small = tuple(
        replace(need, amount=need.amount + math.ceil(state.used or 0))
        for need, state in states.items()
        if state.lacks(need)
    )
    unknown = [comparison(need, state) for need, state in states.items() if state.limit is None]
    if unknown and len(unknown) == len(states):
        raise ConfigError(
            "\n".join([*unknown, "a request without it could decrease the quota"])
            + "\n  next: get the role roles/cloudquotas.admin"
        )
    return small


def _locations(row: Row) -> Sequence[str]:
    return row.applicable_locations or ()


def _read(need: QuotaNeed, config: ClusterConfig, opts: pulumi.InvokeOptions) -> float | None:
    try:
        info = cloudquota.get_s_quota_info(
            parent=f"projects/{config.project}",
            service=need.service,
            quota_id=need.code,
            opts=opts,
        )
    except Exception as error:  # the type that a failed invoke raises
        pulumi.log.warn(f"quota {need.code} cannot be read: {error}")
        return None
    return amount_in(info.dimensions_infos or (), need.place)


def _next(config: ClusterConfig) -> str:
    email = "" if config.contact_email else "pulumi config set contact_email YOU@EXAMPLE.COM && "
    return (
        f"  next: {email}pulumi config set quotas request && pulumi up"
        f"   # or in the console: {CONSOLE}?project={config.project}"
    )
