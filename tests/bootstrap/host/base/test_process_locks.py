"""A lock is held by one process; who waits for it waits for a bounded time."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from bootstrap.host.base.locks import try_lock, wait_lock


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_lock_is_held_once_and_released_at_the_end(tmp_path: Path, is_folder: bool) -> None:
    path = tmp_path if is_folder else tmp_path / "lock"
    with try_lock(path, is_folder=is_folder) as first:
        with try_lock(path, is_folder=is_folder) as second:
            assert (first, second) == (True, False)
        with try_lock(path, is_folder=is_folder) as third:
            assert not third, "a second look releases nothing"
    with try_lock(path, is_folder=is_folder) as again:
        assert again


def test_who_waits_gets_it_or_gives_up_after_a_bounded_time(tmp_path: Path) -> None:
    lock, pauses = tmp_path / "lock", list[float]()
    with (
        wait_lock(lock),
        pytest.raises(TimeoutError, match="lock"),
        wait_lock(lock, 0.1, lambda: pauses.append(time.monotonic()), every=0.02),
    ):
        raise AssertionError("it is held")
    assert 2 <= len(pauses) <= 10
    waits, ended = threading.Event(), threading.Event()

    def wait() -> None:
        with wait_lock(lock, 60, waits.set, every=0.01):
            ended.set()

    with wait_lock(lock):
        thread = threading.Thread(target=wait)
        thread.start()
        assert waits.wait(60) and not ended.is_set()
    thread.join(20)
    assert ended.is_set()


def test_the_lock_of_a_link_to_a_folder_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError), try_lock(tmp_path / "link", is_folder=True):
        raise AssertionError("it was followed")
