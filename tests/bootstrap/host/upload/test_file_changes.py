"""Logs and checkpoints of a program differ in how they change."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bootstrap.host.attempts import points
from bootstrap.host.attempts.points import BEGINNING
from bootstrap.host.upload.changes import Changes, birth


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "checkpoints").mkdir()
    return tmp_path


@pytest.fixture
def seen(run: Path) -> Changes:
    changes = Changes(str(run / "checkpoints"))
    changes.look()
    return changes


def write(run: Path, name: str, text: str, age: float = 0.0, mode: str = "w") -> Path:
    """Write a file, last changed so many seconds ago."""
    path = run / "checkpoints" / name
    with path.open(mode) as file:
        file.write(text)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def age_of_newest(run: Path, seen: Changes) -> float:
    """Seconds since the newest checkpoint was complete."""
    return time.time() - points.checkpoints(str(run), seen).newest.completed


def test_a_checkpoint_has_its_own_time_whatever_is_logged_after_it(
    run: Path, seen: Changes
) -> None:
    write(run, "model.h5", "1", age=30)
    write(run, "log.csv", "1\n", age=20)
    seen.look()
    write(run, "log.csv", "2\n", mode="a")
    write(run, "events.out.tfevents.1.h", "x")
    point = points.checkpoints(str(run), seen).newest
    assert 29 < time.time() - point.completed < 31
    again = points.checkpoints(str(run), seen).newest
    assert again == point, "the same checkpoint"


def test_a_file_that_is_written_again_is_a_checkpoint(run: Path, seen: Changes) -> None:
    """At its place, with more bytes each time: its begin may even be the same."""
    write(run, "log.csv", "1\n", age=20)
    for number in (1, 2, 3):
        write(run, "state.json", '{"steps": [' + "0, " * number + "0]}", age=9 - 2 * number)
        seen.look()
    assert 2 < age_of_newest(run, seen) < 4


def test_a_file_that_is_being_written_is_not_yet_a_checkpoint(run: Path, seen: Changes) -> None:
    write(run, "1.h5", "whole", age=30)
    write(run, "2.h5", "ha")
    seen.look()
    write(run, "2.h5", "lf", mode="a")
    assert 29 < age_of_newest(run, seen) < 31
    os.utime(run / "checkpoints/2.h5", (time.time() - 3, time.time() - 3))
    assert 2 < age_of_newest(run, seen) < 4


def test_files_that_only_grow_are_what_a_run_continues_from_where_there_is_nothing_else(
    run: Path, seen: Changes
) -> None:
    write(run, "done.txt", "1\n", age=20)
    seen.look()
    write(run, "done.txt", "2\n", age=10, mode="a")
    assert 9 < age_of_newest(run, seen) < 11


def test_events_of_tensorboard_are_not_a_checkpoint(run: Path, seen: Changes) -> None:
    write(run, "events.out.tfevents.1.h", "x")
    assert points.checkpoints(str(run), seen).newest is BEGINNING


def test_a_checkpoint_was_begun_when_its_file_was_created(run: Path, seen: Changes) -> None:
    """As by a thread that writes while the training continues."""
    hidden = run / "checkpoints/.part"
    hidden.write_text("1")
    created = birth(str(hidden))
    if created is None:
        pytest.skip("this disk has no times of creation")
    os.utime(hidden, (time.time() + 5, time.time() + 5))
    hidden.rename(run / "checkpoints/model.h5")
    point = points.checkpoints(str(run), seen).newest
    assert point.begun == created and point.completed > created + 4


def test_a_file_from_before_the_run_was_begun_when_it_was_complete(run: Path) -> None:
    """It may have been written to often since its creation."""
    written = write(run, "model.h5", "1")
    os.utime(written, (time.time() + 5, time.time() + 5))
    changes = Changes(str(run / "checkpoints"))
    changes.look()
    point = points.checkpoints(str(run), changes).newest
    assert point.begun == pytest.approx(point.completed)


def test_a_log_that_never_paused_is_not_a_checkpoint_after_its_program_has_ended(
    run: Path, seen: Changes
) -> None:
    """A restart takes longer than the rest after which a file counts as complete."""
    write(run, "model.h5", "1", age=30)
    write(run, "log.csv", "1\n")
    seen.look()
    write(run, "log.csv", "2\n", age=3, mode="a")
    assert 29 < age_of_newest(run, seen) < 31
