"""What is printed when a `pulumi up` breaks off: what may run, what it costs, what terminates it.

A program learns of a refused resource only in an error hook, and of a killed engine not at all. So
the commands are printed before the first resource, and again, with the advice about capacity, by a
hook on every resource.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from railhead.documents.clouds import is_no_capacity
from railhead.documents.codec import encode
from railhead.installation import PROGRAM

from .component.logical_names import LogicalNames
from .component.parts import plus
from .config.settings import ClusterConfig
from .cost import cost, price

# Names of resources in Pulumi's state, after the cluster's name; bootstrap reads them there.
PRICE = "price-per-machine"
ZONES = "zones"


@dataclass(frozen=True)
class Alternatives:
    """What else may have room: other zones that offer the machine type, types with its GPUs."""

    zones: Sequence[str] = ()
    types: Sequence[str] = ()


def announce(names: LogicalNames, config: ClusterConfig, zone: str, others: Alternatives) -> None:
    """Before anything is created: print which commands show and end what a broken `up` leaves, and
    record what one machine costs, and in which zones `fab up` looks for capacity in turn."""
    each = encode(price(config, 1)) or {}
    pulumi.Stash(names.of(PRICE), input=each, opts=names.known(PRICE))
    in_turn = list(config.zones or (zone, *others.zones))
    pulumi.Stash(names.of(ZONES), input=in_turn, opts=names.known(ZONES))
    if not pulumi.runtime.is_dry_run():
        pulumi.log.info(f"if this `up` breaks off, machines may run. {_commands(config)}")


def on_failure(
    names: LogicalNames, config: ClusterConfig, others: Alternatives
) -> pulumi.ResourceTransform:
    """A transform for a component: if one of its resources fails, the commands are printed, and
    after a refusal for capacity also what else may have room. Each is printed once: Pulumi prints
    the error of every resource."""
    printed = set[bool]()

    def failed(args: pulumi.ErrorHookArgs) -> bool:
        no_capacity = args.failed_operation == "create" and any(map(is_no_capacity, args.errors))
        if no_capacity not in printed:
            printed.add(no_capacity)
            why = f"{args.name} failed: this `up` breaks off, and machines may run. "
            why = _no_capacity(config, others) if no_capacity else why
            pulumi.log.warn(why + _commands(config))
        return False  # do not try again

    binding = pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(names.of("broken-up"), failed)])

    def add(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if not args.custom:
            return None
        opts = plus(args.opts, hooks=binding)
        return pulumi.ResourceTransformResult(args.props, opts)

    return add


def _no_capacity(config: ClusterConfig, others: Alternatives) -> str:
    text = f"{config.cloud} has no {config.machine_type} free in this zone now. "
    if others.zones:
        zones, stack = ",".join(others.zones), shlex.quote(pulumi.get_stack())
        text += (
            f"Other zones that offer it: {', '.join(others.zones)}. To try them in turn: "
            f"pulumi config set zones {zones} --stack {stack} && {PROGRAM} up --stack {stack}. "
        )
    if others.types:
        text += f"Other types with the same GPUs: {', '.join(others.types)}. "
    return text


def _commands(config: ClusterConfig) -> str:
    stack = shlex.quote(pulumi.get_stack())
    return (
        f"When all machines run, {cost(config)}. To see what runs: {PROGRAM} status "
        f"--stack {stack}; to continue: {PROGRAM} up --stack {stack}; "
        f"to end all of it: {PROGRAM} teardown --destroy --stack {stack}"
    )
