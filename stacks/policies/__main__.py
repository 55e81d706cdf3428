"""The policy pack: `pulumi preview --policy-pack stacks/policies` refuses what breaks a rule."""

from __future__ import annotations

from collections.abc import Callable

from pulumi_policy import (
    EnforcementLevel,
    PolicyPack,
    ReportViolation,
    StackValidationArgs,
    StackValidationPolicy,
)
from rules import RULES, Resource, Rule


def _validate(rule: Rule) -> Callable[[StackValidationArgs, ReportViolation], None]:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        resources = [Resource(r.resource_type, r.name, r.props) for r in args.resources]
        urns = {id(ours): r.urn for ours, r in zip(resources, args.resources, strict=True)}
        for broken, why in rule(resources):
            report(f"{broken.name}: {why}", urns[id(broken)])

    return validate


PolicyPack(
    name="railhead",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[
        StackValidationPolicy(name, str(rule.__doc__), _validate(rule))
        for name, rule in RULES.items()
    ],
)
