"""What an `up` changes in a stack that exists, as the engine decides by the providers' schemas."""

from __future__ import annotations

import re

from standins import fields

from tests.stacks.mocks import Made, Resource


def changes(before: Made, after: Made) -> dict[str, str]:
    """`update` or `replace` of each resource that changes, by type and name: `Vpc cluster-vpc`."""
    old = {(resource.type, resource.name): resource for resource in before.resources}
    done = {}
    for new in after.resources:
        known = old.get((new.type, new.name))
        if known and (operation := _operation(known, new)):
            done[f"{new.type.rpartition(':')[2]} {new.name}"] = operation
    return done


def _operation(old: Resource, new: Resource) -> str:
    changed = fields.effects(new.type, old.inputs, new.inputs)
    kept = {p: r for p, r in changed.items() if not _covers(new.ignore_changes, p)}
    if not kept:
        return ""
    replaces = any(fixed or _covers(new.replace_on_changes, p) for p, fixed in kept.items())
    return "replace" if replaces else "update"


def _covers(paths: tuple[str, ...], path: str) -> bool:
    plain = re.sub(r"\[\d+\]", "", path)
    plain_paths = [re.sub(r'\["(.*)"\]', r".\1", each) for each in paths]
    return any(plain == each or plain.startswith(f"{each}.") for each in plain_paths)
