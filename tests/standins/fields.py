"""What a change of each field does, as the providers' own schemas say: fields.json, which
scripts/provider-fields writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pulumi.runtime.proto import provider_pb2

MISSING = object()


@cache
def table() -> dict[str, dict[str, str]]:
    """By type and path: "required", "optional" or "computed", and " fixed"."""
    kinds: dict[str, dict[str, str]] = json.loads(
        Path(__file__).with_name("fields.json").read_text()
    )["fields"]
    return kinds


def effects(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, bool]:
    """The paths of the fields of a resource that an update changes; True: by replacing it. A field
    that the provider computes where a program leaves it out does not change when it goes."""
    known = table().get(kind, {})
    changed = {}
    for path, is_left_out in _changes(dict(old), dict(new)):
        flags = _flags(known, path)
        if not (is_left_out and flags.startswith("computed")):
            changed[path] = flags.endswith("fixed")
    return changed


def _flags(known: Mapping[str, str], path: str) -> str:
    """Those of a path without indexes, or of the block that it is in."""
    plain = re.sub(r"\[\d+\]", "", path)
    while plain and plain not in known:
        plain = plain.rpartition(".")[0]
    return known.get(plain, "")


def _changes(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, bool]]:
    """The paths at which two values differ; True where the new one lacks it."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            inner = f"{path}.{key}" if path else key
            yield from _changes(old.get(key, MISSING), new.get(key, MISSING), inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(before, after, f"{path}[{number}]")
    elif old != new:
        yield path, new is MISSING


def difference(changed: Mapping[str, bool]) -> Any:
    """The answer to Diff for these paths; True: they replace the resource."""
    some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
    update = provider_pb2.PropertyDiff.UPDATE, provider_pb2.PropertyDiff.UPDATE_REPLACE
    return provider_pb2.DiffResponse(
        changes=some if changed else none,
        diffs=sorted({_top(path) for path in changed}),
        replaces=sorted({_top(path) for path, replaces in changed.items() if replaces}),
        # As the real provider: by path, for what a program itself replaces for a change.
        detailedDiff={
            path: provider_pb2.PropertyDiff(kind=update[replaces], inputDiff=True)
            for path, replaces in changed.items()
        },
        hasDetailedDiff=True,
    )


def _top(path: str) -> str:
    return path.split(".")[0].split("[")[0]
