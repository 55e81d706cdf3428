"""The vCPU quotas of EC2: the account's value, what this stack needs, and requests for more."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_aws import servicequotas

from ..component.logical_names import named
from ..config.settings import ClusterConfig
from ..machine_types.aws import quota_of
from ..next_command import UP, rm, set_, typed
from ..quotas import QuotaNeed, QuotaState, comparison, too_small
from ..rules.validators import ConfigError
from .lookups import usage
from .lookups.existing import existing_machines, is_complete

REQUEST = (set_("quotas", "request"), "&&", UP)
GRANTED = (rm("quotas"), "&&", UP)


def check(config: ClusterConfig, own_id: str, opts: pulumi.InvokeOptions) -> tuple[QuotaNeed, ...]:
    """Log every quota that this stack needs; return those to request.

    Empty unless the config has `quotas: request`. A quota that cannot be read counts as large
    enough: EC2 refuses the machines if it is not.

    Raises:
        ConfigError: what others use leaves too little of a quota, and the config does not request
            more; or it requests more, but there is enough, or the current value is unknown, or
            machines exist.
    """
    states = {need: _state(need, config, own_id, opts) for need in config.quota_needs}
    for need, state in states.items():
        pulumi.log.info(comparison(need, state))
    if config.quotas == "request":
        return _to_request(existing_machines(own_id, opts), states)
    small = [comparison(need, state) for need, state in states.items() if state.lacks(need)]
    if small:
        raise ConfigError("\n".join(small), *REQUEST, "  # requests more from AWS")
    return ()


def _state(
    need: QuotaNeed, config: ClusterConfig, own_id: str, opts: pulumi.InvokeOptions
) -> QuotaState:
    """The quota's value and what others use. If a stack has all its machines, what others use is
    not a reason to refuse it."""
    quota = quota_of(config.machine_type, spot=config.spot)
    used = usage.vcpus_of_others(own_id, quota, opts)
    if used and config.quotas == "check" and is_complete(config, own_id, opts):
        used = 0
    return QuotaState(_read(need, opts), used)


def request(needs: Sequence[QuotaNeed], parent: pulumi.Resource) -> None:
    """Request the needed amounts; each is more than the current value. A granted quota outlives the
    stack: others may use it."""
    granted = typed(GRANTED, pulumi.get_stack())
    for need in needs:
        opts = pulumi.ResourceOptions(parent=parent, retain_on_delete=True)
        servicequotas.ServiceQuota(
            named(opts, need.code),
            service_code=need.service,
            quota_code=need.code,
            value=float(need.amount),
            opts=opts,
        )
        pulumi.log.info(
            f"only the quota is requested, no machines are created. AWS's answer: "
            f"{console(need)}; once it is granted: {granted}"
        )


def console(need: QuotaNeed) -> str:
    """The page that shows the state of a request."""
    return (
        f"https://{need.place}.console.aws.amazon.com/servicequotas/home/services/"
        f"{need.service}/quotas/{need.code}"
    )


def _to_request(
    machines: Sequence[str], states: dict[QuotaNeed, QuotaState]
) -> tuple[QuotaNeed, ...]:
    """The quotas that are too small, with the amounts that this stack and all others need. A stack
    that only requests quotas has no machines, so existing machines would be destroyed."""
    if machines:
        raise ConfigError(
            f"quotas: request would destroy the machines of this stack: {', '.join(machines)}",
            "request it from another stack: pulumi stack init more-quota "
            f"--copy-config-from {pulumi.get_stack()} && {typed(REQUEST, 'more-quota')}",
        )
    unknown = [comparison(need, state) for need, state in states.items() if state.limit is None]
    if unknown:
        raise ConfigError(
            "\n".join([*unknown, "a request without it could decrease the quota"]),
            "get the permissions servicequotas:GetServiceQuota and "
            "servicequotas:GetAWSDefaultServiceQuota",
        )
    if not (small := too_small(states)):
        raise ConfigError(
            "quotas: the quotas are large enough, there is nothing to request", *GRANTED
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
