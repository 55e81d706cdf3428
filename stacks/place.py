"""The place of a stack: its cloud, region, project and account, recorded in Pulumi's state.

A killed `pulumi up` leaves machines that are in no state. They are found in the recorded place, by
the stack's id. So another place is refused, in the preview too and before any resource of a cloud
is registered, while something with the id exists in the recorded one. Where nothing does, the
record follows the config.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping

import pulumi

from railhead.installation import PREFIX, PROGRAM

from .cluster_id import ClusterId
from .config.settings import ClusterConfig

PLACE, ACCOUNT = "cluster-place", "cluster-account"  # in Pulumi's state; bootstrap reads them there
SHOWN = 5  # of what exists there
SECONDS = 120  # to look for what exists in the recorded place
Place = Mapping[str, str]


def keep_place(config: ClusterConfig, own: ClusterId) -> pulumi.Resource:
    """Record the stack's cloud, region and project. What is registered after this resource is
    registered only if the place is accepted."""
    keys = {"cloud": config.cloud, "region": config.region, "project": config.project}
    here = {key: value for key, value in keys.items() if value}

    def check(args: pulumi.ResourceHookArgs) -> None:
        if args.old_inputs:
            _check_recorded(own, args.old_inputs["input"], here)
        elif not own.is_new:
            _check_unrecorded(own, here)

    return _kept(PLACE, here, check)


def keep_account(account: str, own: ClusterId) -> pulumi.Resource:
    """Record the account of the machines; refuse another one, which cannot see them."""

    def check(args: pulumi.ResourceHookArgs) -> None:
        if recorded := (args.old_inputs or {}).get("input"):
            raise pulumi.RunError(
                f"these credentials are of account {account}, and this stack is in account "
                f"{recorded}: they cannot see what of it exists there\n  next: log in to account "
                f"{recorded}, then {_continue()}   # or, to end all of it there: {_end()}; if that "
                f"account is closed: {_forget()} && {_continue()}"
            )

    return _kept(ACCOUNT, account, check)


def _kept(
    name: str, value: object, check: Callable[[pulumi.ResourceHookArgs], None]
) -> pulumi.Resource:
    """A value in Pulumi's state that changes only where `check` accepts it."""
    hook = pulumi.ResourceHook(name, check, pulumi.ResourceHookOptions(on_dry_run=True))
    hooks = pulumi.ResourceHookBinding(before_create=[hook], before_update=[hook])
    return pulumi.Stash(name, input=value, opts=pulumi.ResourceOptions(hooks=hooks))


def _check_recorded(own: ClusterId, recorded: Place, here: Place) -> None:
    """Refuse another place while something exists in the recorded one, or may exist."""
    existing = _existing(own, recorded)
    if existing:
        raise _refusal(here, recorded, existing)


def _check_unrecorded(own: ClusterId, here: Place) -> None:
    """For a stack that was created before its place was recorded: refuse a place while something
    with its id exists in another region."""
    everywhere = {key: value for key, value in here.items() if key != "region"}
    existing = _existing(own, everywhere)
    elsewhere = {key: each for key, each in existing.items() if key != here.get("region")}
    for region, each in elsewhere.items():
        raise _refusal(here, {**here, "region": region}, {region: each})


def _existing(own: ClusterId, place: Place) -> Mapping[str, list[str]]:
    """What exists with the stack's id in a place, by region; without a region in all of them.

    `bootstrap` looks, in a separate process: it does so for every cloud, also for one that is
    not the stack's any more.
    """
    module = f"{PREFIX}bootstrap.clouds.existing"
    argv = [sys.executable, "-m", module, own.value, json.dumps(place)]
    try:
        process = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
        )
        why = process.stderr.strip()
    except subprocess.TimeoutExpired:
        why = f"there was no answer within {SECONDS} s"
    if why or process.returncode:
        raise pulumi.RunError(
            f"this stack is in {_text(place)}. What of it exists there is not known: {why}"
        )
    found: dict[str, list[str]] = json.loads(process.stdout)
    return found


def _refusal(here: Place, recorded: Place, existing: Mapping[str, list[str]]) -> pulumi.RunError:
    names = [name for each in existing.values() for name in each]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    changed = [key for key in {**here, **recorded} if here.get(key) != recorded.get(key)]
    option = f" --stack {shlex.quote(pulumi.get_stack())}"
    back = " && ".join(_set(key, recorded.get(key)) + option for key in changed)
    return pulumi.RunError(
        f"{', '.join(changed)}: this stack is in {_text(recorded)}, where with its id exist: "
        f"{', '.join(names[:SHOWN])}{more}. It cannot move to {_text(here)} while they do\n"
        f"  next: {back} && {_continue()}   # or, to end all of it in {_text(recorded)}: {_end()}"
    )


def _set(key: str, value: str | None) -> str:
    return f"pulumi config set {key} {shlex.quote(value)}" if value else f"pulumi config rm {key}"


def _text(place: Place) -> str:
    return ", ".join(place[key] for key in ("cloud", "project", "region") if key in place)


def _continue() -> str:
    return f"{PROGRAM} up --stack {shlex.quote(pulumi.get_stack())}"


def _forget() -> str:
    """The stack without its state: nothing of it exists."""
    stack = shlex.quote(pulumi.get_stack())
    return f"pulumi stack rm --force --preserve-config --yes {stack} && pulumi stack init {stack}"


def _end() -> str:
    return f"{PROGRAM} teardown --destroy --stack {shlex.quote(pulumi.get_stack())}"
