"""Events on a small disk that is full for a while: run by a runtime's python."""

from __future__ import annotations

import contextlib
from pathlib import Path

import tensorflow as tf
from standins.case_runner import replaced

from training import events
from training.config import resolve


def events_are_best_effort(folder: Path, disk: str, by: str, is_full: str) -> None:
    """`by`: what is used up; `is_full`: already before the first event."""
    texts: list[str] = []
    place = Path(disk)
    with replaced(events, FLUSH_MS=0, AGAIN=0.0):
        if is_full:
            fill(place, by)
        written = events.Events(place, 0, resolve({}), texts.append)
        written.scalars(1, loss=1.0)
        fill(place, by)
        for step in range(2, 200):
            written.scalars(step, loss=1.0)
        for path in place.glob("filler*"):
            path.unlink()
        written.scalars(200, loss=1.0)
        written.scalars(201, loss=1.0)
        written.close(201)
    steps = steps_in(place / "tensorboard")
    assert {200, 201} <= steps and (1 in steps) is not bool(is_full), steps
    assert len(texts) == (len(steps) < 201), texts


def fill(disk: Path, by: str) -> None:
    """Use every byte, or every inode, of a disk."""
    with contextlib.suppress(OSError):
        for number in range(1000):
            with (disk / f"filler{number}").open("ab", 0) as file:
                while by == "bytes":
                    file.write(b"x" * 4096)


def steps_in(folder: Path) -> set[int]:
    """The steps that TensorBoard can read."""
    steps = set()
    for path in folder.glob("events.*"):
        with contextlib.suppress(tf.errors.DataLossError):  # the end of a file that failed
            for event in tf.compat.v1.train.summary_iterator(str(path)):
                steps |= {event.step} if event.summary.value else set()
    return steps
