"""Which Python of a host serves a model or shows a notebook, and what to type if it has none."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bootstrap.errors import UsageError
from bootstrap.facts.host import HostFacts
from bootstrap.plan.runtimes import choose_runtime
from bootstrap.serving.environment import python_on_host
from bootstrap.serving.place import EndpointPlace

OF_RUN, OTHER = "a" * 16, "b" * 16
TARGET = {"hosts": "ann@h1"}


def place(facts: HostFacts, *digests: str) -> EndpointPlace:
    """A host that has these environments."""
    session = cast(Any, SimpleNamespace(host=SimpleNamespace(name="h1")))
    return EndpointPlace(session, "python3", replace(facts, envs=frozenset(digests)), target=TARGET)


def test_the_runtime_of_the_run_is_used_then_what_bootstrap_installs(debian: HostFacts) -> None:
    complete, plain = (choose_runtime({"h1": debian}, x, None).digest for x in (None, "tensorflow"))
    order = [OF_RUN, complete, plain]
    for first, digest in enumerate(order):
        python = python_on_host(place(debian, OTHER, *order[first:]), OF_RUN)
        assert python == f"~/.railhead/envs/{digest}/bin/python"


@pytest.mark.parametrize("run", [None, OF_RUN])
def test_a_host_without_one_is_bootstrapped_without_a_compilation(
    debian: HostFacts, run: str | None
) -> None:
    with pytest.raises(UsageError, match="^h1 has no runtime to serve with") as caught:
        python_on_host(place(debian, OTHER), run)
    assert str(caught.value.hint) == "fab bootstrap --launcher tensorflow --hosts ann@h1"
