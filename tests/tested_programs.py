"""Which kinds of programs run with which launcher, Keras and TensorFlow, and what runs them.

`make generate` writes the table to docs/training.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEAD = (
    "| program | launcher | strategy | Keras | TensorFlow 2.18 | TensorFlow 2.21 |\n"
    "|---|---|---|---|---|---|\n"
)
STRATEGIES = "tests/training/strategies/test_strategies.py"
BY_NAME = "tests/e2e/training/test_strategies_by_name.py::test_a_strategy_trains_with_tensorflow"
NEWEST = "tests/e2e/training/test_runtimes.py::test_the_newest_tensorflow_trains_with_each_launcher"
PATCHES = "tests/keras_patches"
FIT = f"{PATCHES}/test_trainings.py::test_several_processes_train_the_model_of_one"
HOROVOD = f"{PATCHES}/test_horovod.py::test_horovod_works_with_keras_3"
KERAS_2 = "tests/bootstrap/host/rank/test_rank.py"


@dataclass(frozen=True)
class Kind:
    """A kind of program. `on_2_18` and `on_2_21`: the test, or the campaign, that runs it with this
    TensorFlow; empty where none does."""

    kind: str
    launcher: str
    strategy: str
    keras: str
    on_2_18: str
    on_2_21: str = ""

    def row(self) -> str:
        """The line of the page."""
        cells = [self.kind, f"`{self.launcher}`", self.strategy, self.keras]
        return f"| {' | '.join([*cells, shown(self.on_2_18), shown(self.on_2_21)])} |"


def shown(reference: str) -> str:
    """Who runs it."""
    if not reference:
        return "not tested"
    return "tests" if "::" in reference else f"`make campaign-{reference}`"


KINDS = (
    Kind(
        "built-in training", "horovod", "`horovod`", "3",
        f"{STRATEGIES}::test_horovod_makes_the_same_model_on_every_rank",
        f"{STRATEGIES}::test_the_newest_tensorflow_makes_the_same_model_with_horovod",
    ),
    Kind(
        "built-in training", "tensorflow", "`multiworker`", "3",
        f"{STRATEGIES}::test_multiworker_makes_the_same_model_and_one_file", NEWEST,
    ),
    Kind(
        "built-in training", "tensorflow", "`parameter-server`", "3",
        f"{STRATEGIES}::test_parameter_servers_learn_and_end_with_the_chief", NEWEST,
    ),
    Kind("script, `fit`", "horovod", "`horovod`", "3", HOROVOD, NEWEST),
    Kind(
        "script, `fit`", "horovod", "`horovod`", "2",
        f"{KERAS_2}::test_keras_is_tf_keras_and_horovod_trains_with_it", NEWEST,
    ),
    Kind("script, loop with Horovod's tape", "horovod", "`horovod`", "3", HOROVOD, "horovod"),
    Kind("script, loop with Horovod's tape", "horovod", "`horovod`", "2", "programs", "programs"),
    Kind("script, `fit`", "tensorflow", "`multiworker`", "3", FIT, NEWEST),
    Kind("script, `fit`", "tensorflow", "`multiworker`", "2", "programs", NEWEST),
    Kind("script, `fit`", "tensorflow", "`parameter-server`", "3", FIT, "keras"),
    Kind(
        "script, loop with a coordinator", "tensorflow", "`parameter-server`", "3", BY_NAME, NEWEST
    ),
)  # fmt: skip


def table(kinds: Sequence[Kind] = KINDS) -> str:
    """The table of the page."""
    return HEAD + "".join(f"{kind.row()}\n" for kind in kinds)
