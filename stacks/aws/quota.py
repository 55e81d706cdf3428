"""The vCPU quotas of EC2: the account's value, what this stack needs, and requests for more."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_aws import servicequotas

from stacks.aws.lookups import existing_machines
from stacks.quotas import QuotaNeed, comparison
from stacks.settings import ClusterConfig
from stacks.validators import ConfigError

REQUEST = "pulumi config set quotas request && pulumi up"
GRANTED = "pulumi config rm quotas && pulumi up"


def check(config: ClusterConfig, opts: pulumi.InvokeOptions) -> tuple[QuotaNeed, ...]:
    """Log every quota that this stack needs; return those to request.

    Empty unless the config has `quotas: request`. A quota that cannot be read counts as large
    enough: EC2 refuses the machines if it is not.

    Raises:
        ConfigError: a quota is too small and the config does not request more; or it requests
            more, but there is enough, or the current value is unknown, or machines exist.
    """
    available = {need: _read(need, opts) for need in config.quota_needs}
    for need, amount in available.items():
        pulumi.log.info(comparison(need, amount))
    if config.quotas == "request":
        return _to_request(config, available, opts)
    small = [comparison(n, a) for n, a in available.items() if a is not None and a < n.amount]
    if small:
        raise ConfigError("\n".join([*small, f"  next: {REQUEST}   # requests more from AWS"]))
    return ()


def request(needs: Sequence[QuotaNeed], parent: pulumi.Resource) -> None:
    """Request the needed amounts; each is more than the current value.

    A granted quota outlives the stack: others may use it.
    """
    for need in needs:
        servicequotas.ServiceQuota(
            need.code,
            service_code=need.service,
            quota_code=need.code,
            value=float(need.amount),
            opts=pulumi.ResourceOptions(parent=parent, retain_on_delete=True),
        )
        pulumi.log.info(
            f"only the quota is requested, no machines are made. AWS's answer: "
            f"{console(need)}; once it is granted: {GRANTED}"
        )


def console(need: QuotaNeed) -> str:
    """The page that shows the state of a request."""
    return (
        f"https://{need.place}.console.aws.amazon.com/servicequotas/home/services/"
        f"{need.service}/quotas/{need.code}"
    )


def _to_request(
    config: ClusterConfig, available: dict[QuotaNeed, float | None], opts: pulumi.InvokeOptions
) -> tuple[QuotaNeed, ...]:
    """The quotas that are too small.

    A stack that only requests quotas has no machines, so existing machines would be destroyed.
    """
    machines = existing_machines(config, opts)
    if machines:
        raise ConfigError(
            f"quotas: request would destroy the machines of this stack: {', '.join(machines)}\n"
            "  next: request it from another stack: pulumi stack init more-quota "
            f"--copy-config-from {pulumi.get_stack()} && {REQUEST}"
        )
    unknown = [comparison(need, amount) for need, amount in available.items() if amount is None]
    if unknown:
        raise ConfigError(
            "\n".join([*unknown, "a request without it could decrease the quota"])
            + "\n  next: get the permission servicequotas:GetServiceQuota"
        )
    small = tuple(need for need, amount in available.items() if (amount or 0) < need.amount)
    if not small:
        raise ConfigError(
            f"quotas: the quotas are large enough, there is nothing to request\n  next: {GRANTED}"
        )
    return small


def _read(need: QuotaNeed, opts: pulumi.InvokeOptions) -> float | None:
    try:
        return servicequotas.get_service_quota(
            service_code=need.service, quota_code=need.code, opts=opts
        ).value
    except Exception as error:  # the type that a failed invoke raises
        pulumi.log.warn(f"quota {need.code} cannot be read: {error}")
        return None
