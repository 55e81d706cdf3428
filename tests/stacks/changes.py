"""What an `up` changes in a stack that exists, as the engine decides by the providers' schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping

from standins import fields

from tests.stacks.mocks import Made, Resource


def changes(before: Made, after: Made) -> dict[str, str]:
    """`update` or `replace` of each resource that changes, by type and name: `Vpc cluster-vpc`."""
    old = {(one.type, one.name): one for one in before.resources}
    done = {}
    for one in after.resources:
        if found := old.get((one.type, one.name)):
            name = f"{one.type.rpartition(':')[2]} {one.name}"
            if operation := _operation(found, one):
                done[name] = operation
    return done


def _operation(old: Resource, new: Resource) -> str:
    changed = fields.effects(new.type, old.inputs, new.inputs)
    kept = {p: r for p, r in changed.items() if not _covers(new.ignore_changes, p)}
    if not kept:
        return ""
    return "replace" if _replaces(kept, new.replace_on_changes) else "update"


def _replaces(changed: Mapping[str, bool], paths: tuple[str, ...]) -> bool:
    return any(replaces or _covers(paths, path) for path, replaces in changed.items())


def _covers(paths: tuple[str, ...], path: str) -> bool:
    plain = re.sub(r"\[\d+\]", "", path)
    wanted = [re.sub(r'\["(.*)"\]', r".\1", one) for one in paths]
    return any(plain == one or plain.startswith(f"{one}.") for one in wanted)
