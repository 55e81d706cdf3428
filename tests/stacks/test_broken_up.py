"""What a `pulumi up` prints as it breaks off; tests/engine has it on the real engine."""

from __future__ import annotations

from typing import Any

import pulumi

from stacks.broken_up import Alternatives, on_failure
from stacks.component.logical_names import LogicalNames
from tests.stacks.aws.world import INSTANCE, config, world
from tests.stacks.mocks import make

CAPACITY = "api error InsufficientInstanceCapacity: not enough"


def test_advice_and_commands_are_printed_once_however_many_resources_fail() -> None:
    failures = [
        pulumi.ErrorHookArgs("", "", name, INSTANCE, failed_operation="create", errors=[error])
        for error in ("refused", CAPACITY)
        for name in ("c-1", "c-2")
    ]

    def program() -> None:
        others = Alternatives(zones=("us-east-1c",))
        add = on_failure(LogicalNames("c"), config(), others)
        bare = pulumi.ResourceOptions()
        changed: Any = add(pulumi.ResourceTransformArgs(True, INSTANCE, "c-1", {}, bare))
        (hook,) = changed.opts.hooks.on_error
        assert [hook(failure) for failure in failures] == [False] * 4, "none is tried again"

    text = make(program, world()).text
    assert text.count("c-1 failed: this `up` breaks off") == 1 and "c-2 failed" not in text
    assert text.count("Other zones that offer it: us-east-1c") == 1
    assert text.count("to end all of it: fab teardown --destroy --stack test") == 2
