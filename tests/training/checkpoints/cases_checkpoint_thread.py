"""Checkpoints that are written while the training continues."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
from samples.trainings import losses, prepared, run, same
from standins.case_runner import case, replaced

from training.checkpoints import memory
from training.checkpoints.checkpoint import Checkpoints
from training.train import Training

SECONDS = 300.0  # a bound of waiting: a failure


@case
def the_steps_go_on_and_the_checkpoint_has_the_state_of_its_own_step(folder: Path) -> None:
    """The first checkpoint is not written before two more steps are done."""
    whole = run(folder / "whole", checkpoint_steps=2, checkpoint_keep=9, steps=4)
    write, count, later = Checkpoints.write, Training._count_position, threading.Event()
    waited = []

    def write_late(self: Checkpoints, *arguments: Any) -> Path:
        waited.append(later.wait(SECONDS))
        return write(self, *arguments)

    def count_step(self: Training) -> None:
        count(self)
        if self.position.step == 4:
            later.set()

    with replaced(Checkpoints, write=write_late), replaced(Training, _count_position=count_step):
        late = run(folder / "late", checkpoint_steps=2, checkpoint_keep=9, steps=4)
    # One of steps 2 and 4, and those of step 4 that replace it: at the end, and for a better model
    # unless another one is being written then.
    assert all(waited) and len(waited) in (2, 3, 4)
    for step in (2, 4):
        name = f"checkpoints/step-{step:08d}/state.npz"
        first, second = np.load(folder / "whole" / name), np.load(folder / "late" / name)
        assert set(first) == set(second)
        for array in set(first):
            np.testing.assert_array_equal(first[array], second[array])
    same(late, whole, 0)


@case
def without_memory_for_a_copy_the_training_waits_and_reports_it_once(folder: Path) -> None:
    settings: dict[str, Any] = dict(checkpoint_steps=2, checkpoint_keep=9, steps=4)
    with replaced(memory, RESERVED=1 << 60):
        outcome = run(folder / "r", **settings)
    (message,) = [text for text in outcome.messages if "checkpoint" in text]
    assert message.startswith("the training waits for its checkpoints: a copy of ")
    stored, faults = outcome.training.state.checkpoints.newest()
    assert stored.position.done and faults == []
    for array, variable in zip(stored.arrays, outcome.training.model.variables, strict=False):
        np.testing.assert_array_equal(array, variable.numpy())
    assert not prepared(folder / "r", **settings).state.writer.busy
    assert losses(outcome)
