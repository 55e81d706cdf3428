"""The list of allowed skips."""

from __future__ import annotations

import pytest
import skip_list

RULES = [("tests/a.py", "no Go"), ("tests/b.py", ""), ("tests/d/*cases_*.py", "today")]
CASES = {
    "none": ([], []),
    "an allowed one": ([("tests/a.py", "there is no Go here")], []),
    "any reason": ([("tests/b.py", "x")], []),
    "another reason": ([("tests/a.py", "no ssh")], ["tests/a.py: no ssh"]),
    "a pattern": ([("tests/d/e/cases_f.py", "passed today")], []),
    "another file": ([("tests/c.py", "no Go")], ["tests/c.py: no Go"]),
    "twice the same": ([("tests/c.py", "x"), ("tests/c.py", "x")], ["tests/c.py: x"]),
}


@pytest.mark.parametrize("skips, found", CASES.values(), ids=CASES)
def test_a_skip_that_no_line_allows_is_found(
    skips: list[tuple[str, str]], found: list[str]
) -> None:
    assert skip_list.unexpected(skips, RULES) == found


def test_every_line_names_a_test_file_that_exists() -> None:
    assert skip_list.allowed()
    for path, reason in skip_list.allowed():
        assert any(skip_list.FILE.parents[1].glob(path)) and reason
