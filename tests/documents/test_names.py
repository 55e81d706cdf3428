"""Names of things, and paths of files, that come from elsewhere."""

from __future__ import annotations

import os
import shlex

from hypothesis import example, given
from hypothesis import strategies as st
from properties import bounded

from railhead.documents.names import NAME_LENGTH, is_name
from railhead.documents.runs.manifest import PART, fault

ODD = "aZ9._-/~,:@ \n\0é\u202e\ud800"


@bounded(200)
@given(st.text(ODD, max_size=6))
@example("..")
@example("a\n")
def test_a_name_is_part_of_a_path_of_a_host_list_and_of_an_argv(text: str) -> None:
    if is_name(text):
        assert os.path.normpath(f"/folder/{text}") == f"/folder/{text}" != "/folder/"
        assert shlex.split(shlex.join(["fab", text])) == ["fab", text] == f"fab {text}".split()
        assert not text.startswith("-") and "," not in text and text.isascii()


@given(st.text("aZ9_", min_size=1, max_size=9), st.text("aZ9._-", max_size=9))
@bounded(50)
def test_what_begins_and_ends_with_a_letter_or_digit_is_a_name(edge: str, middle: str) -> None:
    assert is_name(edge + middle.replace("..", ".") + edge)


def test_a_name_with_a_suffix_is_still_a_name_of_a_file() -> None:
    assert is_name("a" * NAME_LENGTH) and not is_name("a" * (NAME_LENGTH + 1))


@bounded(200)
@given(st.text(ODD, max_size=8))
@example("a/../b")
@example("a/")
def test_a_path_without_a_fault_is_below_its_folder_and_can_be_shown(path: str) -> None:
    if not fault(path):
        assert os.path.normpath(f"/folder/{path}") == f"/folder/{path}"
        assert "\n" not in path and path.isprintable() and path.encode()


def test_a_path_without_a_fault_has_parts_that_file_systems_allow() -> None:
    assert not fault(f"a/{'x' * PART}") and fault("x" * (PART + 1)) and fault("a/" * 40 + "a")
