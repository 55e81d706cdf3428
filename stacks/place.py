"""The place of a stack: its cloud, region, project and account, recorded in Pulumi's state.

A killed `pulumi up` leaves machines that are not in Pulumi's state. They are found in the recorded
place, by the stack's id. So while something with the id exists there, another place is refused,
already in the preview and before any resource of a cloud is registered. If nothing exists there,
the record follows the config.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

import pulumi

from railhead.installation import PROGRAM

from .cluster_id import ClusterId
from .component.logical_names import LogicalNames
from .config.settings import ClusterConfig

PLACE, ACCOUNT = "place", "account"  # in Pulumi's state, after the cluster's name; bootstrap reads
FORMER = "cluster-{}"
SHOWN = 5  # of what exists there
Place = Mapping[str, str]
# What exists with an id in a place, as texts by region.
Existing = Callable[[str, Place], Mapping[str, list[str]]]


class NotKnown(Exception):
    """What exists in a place is not known; the message has the reason."""


def nobody_looks(_id: str, _place: Place) -> Mapping[str, list[str]]:
    """For a program without `existing`: its stack must stay in its place."""
    raise NotKnown("its program does not look for it (`existing` of Cluster)")


def keep_place(
    names: LogicalNames, config: ClusterConfig, own_id: ClusterId, existing: Existing
) -> pulumi.Resource:
    """Record the stack's cloud, region and project. Later resources are registered only if the
    place is accepted."""
    keys = {"cloud": config.cloud, "region": config.region, "project": config.project}
    here = {key: value for key, value in keys.items() if value}

    def check(args: pulumi.ResourceHookArgs) -> None:
        if args.old_inputs:
            _check_recorded(own_id, args.old_inputs["input"], here, existing)

    return _kept(names, PLACE, here, check)


def keep_account(names: LogicalNames, account: str) -> pulumi.Resource:
    """Record the account of the machines; refuse another one, from which they are not visible."""

    def check(args: pulumi.ResourceHookArgs) -> None:
        if recorded := (args.old_inputs or {}).get("input"):
            raise pulumi.RunError(
                f"these credentials are of account {account}, and this stack is in account "
                f"{recorded}: they cannot see what of it exists there\n  next: log in to account "
                f"{recorded}, then {_continue()}   # or, to end all of it there: {_end()}; if that "
                f"account is closed: {_forget()} && {_continue()}"
            )

    return _kept(names, ACCOUNT, account, check)


def _kept(
    names: LogicalNames, kind: str, value: object, check: Callable[[pulumi.ResourceHookArgs], None]
) -> pulumi.Resource:
    """A value in Pulumi's state that changes only if `check` accepts it."""
    name = names.of(kind)
    hook = pulumi.ResourceHook(name, check, pulumi.ResourceHookOptions(on_dry_run=True))
    hooks = pulumi.ResourceHookBinding(before_create=[hook], before_update=[hook])
    aliases = names.former(FORMER.format(kind))
    return pulumi.Stash(
        name, input=value, opts=pulumi.ResourceOptions(hooks=hooks, aliases=aliases)
    )


def _check_recorded(own_id: ClusterId, recorded: Place, here: Place, existing: Existing) -> None:
    """Refuse another place while something exists in the recorded one, or may exist."""
    try:
        remaining = existing(own_id.value, recorded)
    except NotKnown as why:
        raise pulumi.RunError(
            f"this stack is in {_text(recorded)}. What of it exists there is not known: {why}\n"
            f"  next: {_back(here, recorded)} && {_continue()}"
        ) from None
    if remaining:
        raise _refusal(here, recorded, remaining)


def _refusal(here: Place, recorded: Place, existing: Mapping[str, list[str]]) -> pulumi.RunError:
    names = [name for each in existing.values() for name in each]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    changed = _changed(here, recorded)
    back = _back(here, recorded)
    return pulumi.RunError(
        f"{', '.join(changed)}: this stack is in {_text(recorded)}, where with its id exist: "
        f"{', '.join(names[:SHOWN])}{more}. It cannot move to {_text(here)} while they do\n"
        f"  next: {back} && {_continue()}   # or, to end all of it in {_text(recorded)}: {_end()}"
    )


def _changed(here: Place, recorded: Place) -> list[str]:
    return [key for key in {**here, **recorded} if here.get(key) != recorded.get(key)]


def _back(here: Place, recorded: Place) -> str:
    """The commands that set the recorded place again."""
    option = f" --stack {shlex.quote(pulumi.get_stack())}"
    return " && ".join(_set(k, recorded.get(k)) + option for k in _changed(here, recorded))


def _set(key: str, value: str | None) -> str:
    return f"pulumi config set {key} {shlex.quote(value)}" if value else f"pulumi config rm {key}"


def _text(place: Place) -> str:
    return ", ".join(place[key] for key in ("cloud", "project", "region") if key in place)


def _continue() -> str:
    return f"{PROGRAM} up --stack {shlex.quote(pulumi.get_stack())}"


def _forget() -> str:
    """The commands that reset the state of a stack of which nothing exists."""
    stack = shlex.quote(pulumi.get_stack())
    return f"pulumi stack rm --force --preserve-config --yes {stack} && pulumi stack init {stack}"


def _end() -> str:
    return f"{PROGRAM} teardown --destroy --stack {shlex.quote(pulumi.get_stack())}"
