"""Quotas of Google Cloud: what there is, what this stack needs, and asking for more."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pulumi
from pulumi_gcp import cloudquota
from pulumi_gcp.cloudquota.outputs import GetSQuotaInfoDimensionsInfoResult as Row

from stacks.needs import EVERYWHERE, Need, needs, verdict
from stacks.rules import ConfigError
from stacks.settings import ClusterConfig

CONSOLE = "https://console.cloud.google.com/iam-admin/quotas"


def check(config: ClusterConfig, opts: pulumi.InvokeOptions) -> tuple[Need, ...]:
    """Log every quota that this stack needs; return those to ask for.

    Empty where there is enough of all, and where rights lack to read one: Google says the rest.

    Raises:
        ConfigError: a quota is too small and the config does not ask for more, or it asks and
            cannot read what there is.
    """
    have = {need: _read(need, config, opts) for need in needs(config)}
    for need, amount in have.items():
        pulumi.log.info(verdict(need, amount))
    if config.quotas == "request":
        return _to_ask_for(have)
    small = [verdict(n, a) for n, a in have.items() if a is not None and a < n.amount]
    if small:
        raise ConfigError("\n".join([*small, _next(config)]))
    return ()


def amount_in(rows: Sequence[Row], place: str) -> float | None:
    """The amount that counts in a place, of all rows of one quota; None: unknown.

    T4 has a row for every region, others one row for all their locations. A row without a
    value is unknown, not zero: policies of an organisation can hide it.
    """
    own = [row for row in rows if (row.dimensions or {}).get("region") == place]
    shared = [row for row in rows if not row.dimensions and place in _locations(row)]
    for row in own or shared:
        for detail in row.details or ():
            if detail.value:
                return math.inf if detail.value == "-1" else float(detail.value)
    return None


def ask(asked: Sequence[Need], config: ClusterConfig, parent: pulumi.Resource) -> None:
    """Ask Google for what is needed, which is more than there is: never a decrease.

    A request outlives the stack: Google knows no way to take one back, and others may count
    on what was granted. Nothing is asked where the stack has machines: the run ends with an
    error, for an `up` that makes none would remove them.
    """
    none = _no_machines(config)
    for need in asked:
        where = {} if need.place == EVERYWHERE else {"region": need.place}
        cloudquota.SQuotaPreference(
            need.code.lower(),
            parent=f"projects/{config.project}",
            name=f"railhead-{need.code}-{need.place}".lower(),
            service=need.service,
            quota_id=need.code,
            dimensions=where,
            quota_config=cloudquota.SQuotaPreferenceQuotaConfigArgs(
                preferred_value=pulumi.Output.concat(str(need.amount), none)
            ),
            contact_email=config.contact_email,
            justification=f"GPU training on {config.count} machines, cluster {config.name}",
            opts=pulumi.ResourceOptions(parent=parent, retain_on_delete=True),
        )
    pulumi.log.info(
        "only the quotas are asked for, no machines are made. Google's answer: "
        f"{CONSOLE}?project={config.project}"
    )


def _no_machines(config: ClusterConfig) -> pulumi.Output[str]:
    """An empty text, once it is known that this stack's last `up` left no machines."""
    own = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"

    def refuse(document: object) -> str:
        if document is None:
            return ""
        raise pulumi.RunError(
            "quotas: request makes no machines, and would remove those of this stack\n"
            f"  next: pulumi config rm quotas, and ask by hand: {CONSOLE}?project={config.project}"
        )

    return pulumi.StackReference(own).get_output("cluster").apply(refuse)


def _to_ask_for(have: dict[Need, float | None]) -> tuple[Need, ...]:
    unknown = [verdict(need, amount) for need, amount in have.items() if amount is None]
    if unknown:
        raise ConfigError(
            "\n".join([*unknown, "without that, a request could be for less than there is"])
            + "\n  next: ask for the role roles/cloudquotas.admin"
        )
    return tuple(need for need, amount in have.items() if (amount or 0) < need.amount)


def _locations(row: Row) -> Sequence[str]:
    return row.applicable_locations or ()


def _read(need: Need, config: ClusterConfig, opts: pulumi.InvokeOptions) -> float | None:
    try:
        info = cloudquota.get_s_quota_info(
            parent=f"projects/{config.project}",
            service=need.service,
            quota_id=need.code,
            opts=opts,
        )
    except Exception as error:  # that is what a failed invoke raises
        pulumi.log.warn(f"quota {need.code} cannot be read: {error}")
        return None
    return amount_in(info.dimensions_infos or (), need.place)


def _next(config: ClusterConfig) -> str:
    email = "" if config.contact_email else "pulumi config set contact_email YOU@EXAMPLE.COM && "
    return (
        f"  next: {email}pulumi config set quotas request && pulumi up"
        f"   # or by hand: {CONSOLE}?project={config.project}"
    )
