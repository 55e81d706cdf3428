"""The commands in a program's messages name the stack."""

from __future__ import annotations

import pytest

from stacks.next_command import UP, Part, rm, set_, typed
from stacks.rules.validators import ConfigError


@pytest.mark.parametrize(
    ("parts", "selected", "named"),
    [
        ((set_("n", 2),), "pulumi config set n 2", "pulumi config set --stack 'my dev' n 2"),
        (
            (rm("n"), "&&", UP, "  # or gcloud x"),
            "pulumi config rm n && pulumi up   # or gcloud x",
            "pulumi config rm --stack 'my dev' n && pulumi up --stack 'my dev'   # or gcloud x",
        ),
    ],
)
def test_the_stack_is_named_in_each_command_of_pulumi(
    parts: tuple[Part, ...], selected: str, named: str
) -> None:
    assert (typed(parts), typed(parts, "my dev")) == (selected, named)


def test_each_problem_is_shown_with_its_own_command() -> None:
    problems = ConfigError("a: since pulumi up", rm("a")), ConfigError("b: wrong")
    shown = ["a: since pulumi up\n  next: pulumi config rm --stack dev a", "b: wrong"]
    assert ConfigError(problems=problems).shown("dev") == shown
