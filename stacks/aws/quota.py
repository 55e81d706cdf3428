"""The vCPU quotas of EC2: what there is, what this stack needs, and asking for more."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_aws import servicequotas

from stacks.aws.asking import machines_here
from stacks.needs import Need, needs, verdict
from stacks.rules import ConfigError
from stacks.settings import ClusterConfig

REQUEST = "pulumi config set quotas request && pulumi up"
GRANTED = "pulumi config rm quotas && pulumi up"


def check(config: ClusterConfig, opts: pulumi.InvokeOptions) -> tuple[Need, ...]:
    """Log every quota that this stack needs; return those to ask for.

    Nothing is returned but for `quotas: request`. Where rights lack to read a quota it counts
    as enough: EC2 itself says the rest when the machines are made.

    Raises:
        ConfigError: a quota is too small and the config does not ask for more; or it asks, and
            has nothing to ask for, or could ask for less than there is, or has machines already.
    """
    have = {need: _read(need, opts) for need in needs(config)}
    for need, amount in have.items():
        pulumi.log.info(verdict(need, amount))
    if config.quotas == "request":
        return _to_ask_for(config, have, opts)
    small = [verdict(n, a) for n, a in have.items() if a is not None and a < n.amount]
    if small:
        raise ConfigError("\n".join([*small, f"  next: {REQUEST}   # asks AWS for more"]))
    return ()


def ask(asked: Sequence[Need], parent: pulumi.Resource) -> None:
    """Ask AWS for what is needed, which is more than there is: never a decrease.

    What was granted outlives the stack: others may count on it.
    """
    for need in asked:
        servicequotas.ServiceQuota(
            need.code,
            service_code=need.service,
            quota_code=need.code,
            value=float(need.amount),
            opts=pulumi.ResourceOptions(parent=parent, retain_on_delete=True),
        )
        pulumi.log.info(
            f"only the quota is asked for, no machines are made. AWS's answer: "
            f"{console(need)}; once it is granted: {GRANTED}"
        )


def console(need: Need) -> str:
    """Where a person reads what became of a request."""
    return (
        f"https://{need.place}.console.aws.amazon.com/servicequotas/home/services/"
        f"{need.service}/quotas/{need.code}"
    )


def _to_ask_for(
    config: ClusterConfig, have: dict[Need, float | None], opts: pulumi.InvokeOptions
) -> tuple[Need, ...]:
    """What there is too little of.

    A request alone means a stack without machines, so those that exist would be destroyed.
    """
    here = machines_here(config, opts)
    if here:
        raise ConfigError(
            f"quotas: request would destroy the machines of this stack: {', '.join(here)}\n"
            "  next: ask in a stack of its own: pulumi stack init more-quota --copy-config-from "
            f"{pulumi.get_stack()} && {REQUEST}"
        )
    unknown = [verdict(need, amount) for need, amount in have.items() if amount is None]
    if unknown:
        raise ConfigError(
            "\n".join([*unknown, "without that, a request could be for less than there is"])
            + "\n  next: ask for the right servicequotas:GetServiceQuota"
        )
    small = tuple(need for need, amount in have.items() if (amount or 0) < need.amount)
    if not small:
        raise ConfigError(f"quotas: there is enough, nothing is to be asked for\n  next: {GRANTED}")
    return small


def _read(need: Need, opts: pulumi.InvokeOptions) -> float | None:
    try:
        return servicequotas.get_service_quota(
            service_code=need.service, quota_code=need.code, opts=opts
        ).value
    except Exception as error:  # that is what a failed invoke raises
        pulumi.log.warn(f"quota {need.code} cannot be read: {error}")
        return None
