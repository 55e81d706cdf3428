"""The homes of the tests themselves: conftest.py keeps what belongs to a person out of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bootstrap.inventory import caches, local_state


def test_a_test_has_an_empty_home_and_no_agent(home: Path, tmp_path: Path) -> None:
    assert Path.home() == home
    assert list(home.iterdir()) == list(tmp_path.iterdir()) == []
    assert "SSH_AUTH_SOCK" not in os.environ
    assert local_state.home() == home / ".railhead"
    assert caches.cache("x").is_relative_to(home)


def test_shared_caches_are_outside_the_tests_home(home: Path, shared_caches: Path) -> None:
    assert Path.home() == home
    assert os.environ["XDG_CACHE_HOME"] == str(shared_caches)
    assert not shared_caches.is_relative_to(home)


def test_the_real_home_is_there_for_tests_that_request_it(real_home: Path, home: Path) -> None:
    assert Path.home() == real_home == home


def test_the_sessions_home_is_another(home: Path, home_of_session: Path) -> None:
    assert home != home_of_session
    assert home_of_session.is_dir()


@pytest.mark.parametrize("turn", [1, 2])
def test_no_test_sees_files_of_another(home: Path, turn: int) -> None:
    assert not (home / "left").exists()
    (home / "left").touch()


def test_a_fixture_that_uses_the_shared_caches_does_not_give_them_to_the_test(
    home: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("shared_caches")
    assert caches.cache("x").is_relative_to(home)
