"""Output: colours and questions on a terminal."""

from __future__ import annotations

import io
import json
from contextvars import copy_context

import pytest

from bootstrap.console.colours import has_colours
from bootstrap.console.output import confirm, json_output, note_output, noted_output, shown_on
from bootstrap.errors import UsageError


class Stream(io.StringIO):
    """A terminal, or not."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.isatty = lambda: is_terminal  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("is_terminal", "variables", "colours"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),  # as no-color.org defines it
        (True, {"CLICOLOR": "0"}, False),
        (True, {"CLICOLOR": "1"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": ""}, False),
        (False, {"CLICOLOR_FORCE": "1"}, True),
        (False, {"CLICOLOR_FORCE": "0"}, False),
        (True, {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_the_environment_decides_whether_there_are_colours(
    is_terminal: bool, variables: dict[str, str], colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    stream = Stream(is_terminal)
    assert has_colours(stream) is colours
    sent = "\x1b[31mrun r1 succeeded in 4 s\x1b[2J\nnext: rest\n[a, b] key"
    shown = "run r1 succeeded in 4 s\nnext: rest\n[a, b] key"
    if colours:
        success, following = "\x1b[32mrun r1 succeeded in 4 s\x1b[0m", "\x1b[1mnext: rest\x1b[0m"
        shown = f"{success}\n{following}\n\x1b[2m[a, b]\x1b[0m key"
    assert shown_on(stream, sent) == shown


@pytest.mark.parametrize(
    ("answer", "typed", "agreed"),
    [
        ("y", "y", True),
        ("y", " Y ", True),
        ("y", "yes", False),
        ("y", "", False),
        ("dev", "dev", True),
        ("dev", "DEV", False),
        ("dev", "y", False),
    ],
)
def test_only_the_expected_answer_confirms(
    answer: str, typed: str, agreed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: typed)
    assert confirm("Destroy it?", hint="fab x --yes", answer=answer) is agreed


def test_without_a_terminal_the_question_is_an_error_that_names_the_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(UsageError, match="^Destroy it\\?\nstdin is not a terminal") as caught:
        confirm("Destroy it?", hint="fab x --yes")
    assert caught.value.hint == "fab x --yes"


def test_a_document_of_an_earlier_task_is_not_printed_by_the_next_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As where a fabfile calls tasks of ours one after the other."""

    def tasks() -> None:
        note_output(["earlier"])
        with json_output(True):
            print("a line for people")
        assert noted_output() == ["earlier"]
        with json_output(True):
            note_output(["own"])

    copy_context().run(tasks)
    captured = capsys.readouterr()
    assert json.loads(captured.out) == ["own"] and captured.err == "a line for people\n"
