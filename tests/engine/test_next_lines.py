"""Who types each command that a message names comes to an end: the real engine and the real `fab`.

Each of these ended with itself once: a locked teardown, an up over machines that were lost, and a
machine type that is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import pytest
from draws import drawn
from engine.aws import OnAws
from engine.stack import Done

from campaigns.kills import settle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MOST = 5  # commands until one succeeds
DESTROY = "fab teardown --destroy --stack g4dn"
UP = "fab up --stack g4dn"


def test_each_named_command_leads_on(aws: OnAws) -> None:
    aws.stack.config(count=2, bucket=False)
    drawn(LOOPS)(aws)


def follow(aws: OnAws, command: str) -> list[str]:
    """Type a command, and what its message names, until one succeeds; what was typed."""
    typed: list[str] = []
    while True:
        assert command not in typed and len(typed) < MOST, f"{typed} leads to {command}"
        typed.append(command)
        done = run(aws, command)
        if done.code == 0:
            return typed
        command = following(done.text)


def run(aws: OnAws, command: str) -> Done:
    """One line of a shell, with the answers of somebody who agrees."""
    for one in command.split(" && "):
        program, *words = shlex.split(one)
        if program == "fab":
            yes = [] if "--yes" in words else ["--yes"]
            lost = ["--discard-results"] if "--destroy" in words else []
            done = aws.stack.fab(*words, *yes, *lost)
        else:
            assert program == "pulumi", command
            agreed = ["--yes", "--skip-preview"] if words[0] == "up" else []
            done = aws.stack.run(*words, *agreed)
        assert "Traceback" not in done.text, done.text
        if done.code:
            return done
    return done


def following(text: str) -> str:
    """The command of the last `next:` line, without its comment."""
    found = re.findall(r"next: (.*)", text)
    assert found, text
    return str(found[-1]).split("   #")[0].strip()


def a_locked_teardown(aws: OnAws) -> None:
    """Its lock is of a command that was killed."""
    aws.stack.up().ended(0)
    aws.stack.config(count=3)
    process = aws.stack.start("pulumi", "up", "--yes", "--skip-preview", "--stack", "g4dn")
    aws.watch(lambda called: aws.stack.kill_between_writes(process.pid))
    process.communicate(timeout=200)
    aws.watch(lambda _: None)
    settle(aws)
    assert len(follow(aws, DESTROY)) > 1, "it was not locked"
    assert not aws.existing() and aws.stack.resources() == []


def an_up_over_machines_that_were_lost(aws: OnAws) -> None:
    aws.stack.up().ended(0)
    aws.take_away()
    follow(aws, UP)
    follow(aws, "fab up --refresh --stack g4dn")
    assert len(aws.running()) == 2


def a_machine_type_that_is_refused(aws: OnAws) -> None:
    """By our table, and by the region."""
    aws.stack.config(machine_type="g4dn.xlargee")
    first = follow(aws, UP)
    assert first[1] == "pulumi config set --stack g4dn machine_type g4dn.xlarge"
    follow(aws, UP)
    assert len(aws.running()) == 2


LOOPS: list[Callable[[OnAws], None]] = [
    a_locked_teardown,
    an_up_over_machines_that_were_lost,
    a_machine_type_that_is_refused,
]
