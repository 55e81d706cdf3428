"""Output: questions on a terminal."""

from __future__ import annotations

import pytest

from bootstrap.console.output import confirm
from bootstrap.errors import UsageError


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
