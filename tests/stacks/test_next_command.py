"""The commands in a program's messages name the stack."""

from __future__ import annotations

import pytest

from stacks.next_command import naming


@pytest.mark.parametrize(
    ("command", "complete"),
    [
        ("pulumi config set count 2", "pulumi config set --stack 'my dev' count 2"),
        (
            "pulumi config rm quotas && pulumi up   # or: pulumi config set bucket true",
            "pulumi config rm --stack 'my dev' quotas && pulumi up --stack 'my dev'"
            "   # or: pulumi config set --stack 'my dev' bucket true",
        ),
        ("pulumi config set --stack other zones a", "pulumi config set --stack other zones a"),
        ("pulumi stack init other && gcloud x", "pulumi stack init other && gcloud x"),
    ],
)
def test_the_stack_is_named_once_in_each_command_of_pulumi(command: str, complete: str) -> None:
    message = "count: wrong since pulumi up\n  next: "
    assert naming(message + command, "my dev") == message + complete
    assert naming("count: wrong since pulumi up", "dev") == "count: wrong since pulumi up"
