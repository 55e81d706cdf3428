"""IAM's decision about an action of a role, by the policies that the role has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote


def decision(role: Any, action: str, resource: str, context: Mapping[str, str]) -> str:
    """ "allowed", "explicitDeny" or "implicitDeny", for a role as moto has it."""
    effects = {
        statement["Effect"]
        for statement in _statements(role)
        if _covers(statement, "Action", action.lower(), str.lower)
        and _covers(statement, "Resource", resource)
        and _holds(statement.get("Condition", {}), context)
    }
    if "Deny" in effects:
        return "explicitDeny"
    return "allowed" if "Allow" in effects else "implicitDeny"


def _statements(role: Any) -> Iterator[dict[str, Any]]:
    documents = [*role.policies.values()]
    documents += [policy.document for policy in role.managed_policies.values()]
    for text in documents:
        statements = json.loads(unquote(text))["Statement"]
        yield from statements if isinstance(statements, list) else [statements]


def _covers(statement: Mapping[str, Any], key: str, name: str, form: Any = str) -> bool:
    patterns = statement.get(key, [])
    patterns = [patterns] if isinstance(patterns, str) else patterns
    return any(fnmatchcase(name, form(pattern)) for pattern in patterns)


def _holds(condition: Mapping[str, Mapping[str, Any]], context: Mapping[str, str]) -> bool:
    """Of the operators only those that our policies have: another one is an error."""
    for operator, values in condition.items():
        for key, allowed in values.items():
            choices = [allowed] if isinstance(allowed, str) else allowed
            if operator == "StringEquals":
                met = context.get(key) in choices
            elif operator == "StringLike":
                met = any(fnmatchcase(context.get(key, ""), choice) for choice in choices)
            else:
                raise NotImplementedError(f"the stand-in does not evaluate {operator}")
            if not met:
                return False
    return True
