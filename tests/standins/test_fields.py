"""The table of the providers' fields, beside pulumi_aws and pulumi_gcp as they are pinned."""

from __future__ import annotations

import importlib
import inspect
import typing
from typing import Any

import pulumi
import pytest
from standins import fields
from standins.aws.provider import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_has_each_field_that_the_stand_in_knows(kind: str) -> None:
    assert not set(KINDS[kind].knows.split()) - fields.table()[kind].keys()


@pytest.mark.parametrize("kind", sorted(fields.table()))
def test_what_the_provider_computes_is_an_output_that_is_always_there(kind: str) -> None:
    """So the pinned SDK has it: of a field that is optional and computed, the output's type is not
    Optional. The table is of another version of the provider, perhaps."""
    resource, names = _resource(kind)
    computed = {n for n, flags in fields.table()[kind].items() if flags.startswith("computed")}
    optional = {n for n, flags in fields.table()[kind].items() if flags.startswith("optional")}
    assert not {name for name in computed if name in names and names[name]}, resource
    assert not {name for name in optional if name in names and not names[name]} - WITH_DEFAULT


# Fields with a default value in the schema: the output is always there, too.
WITH_DEFAULT = {"description"}


def _resource(kind: str) -> tuple[str, dict[str, bool]]:
    """A class of the SDK, and whether each of its outputs is Optional, by Pulumi's name."""
    package, path, name = kind.split(":")
    module = importlib.import_module(f"pulumi_{package}.{path.split('/')[0]}")
    made = getattr(module, name)
    names = {}
    for attribute, value in inspect.getmembers(made, lambda value: isinstance(value, property)):
        hints: dict[str, Any] = typing.get_type_hints(value.fget, include_extras=True)
        first, *words = attribute.split("_")
        camel = first + "".join(word.capitalize() for word in words)
        for inner in typing.get_args(hints["return"]):  # of Output; urn and id have none here
            names[camel] = type(None) in typing.get_args(inner)
    assert issubclass(made, pulumi.CustomResource)
    return name, names
