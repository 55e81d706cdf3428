"""Which programs run with which launcher, Keras and TensorFlow: the table in docs/training.md."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import pytest
from campaign import COMMANDS
from places import ROOT

STRATEGIES = "tests/training/strategies/test_strategies.py"
BY_NAME = "tests/e2e/test_strategies_by_name.py::test_parameter_servers_train_with_tensorflow"
NEWEST = "tests/e2e/test_runtimes.py::test_the_newest_tensorflow_trains_with_each_launcher"
PATCHES = "tests/bootstrap/remote/keras_patches"
FIT = f"{PATCHES}/test_trainings.py::test_several_processes_train_the_model_of_one"
HOROVOD = f"{PATCHES}/test_horovod.py::test_horovod_works_with_keras_3"
KERAS_2 = "tests/bootstrap/remote/rank/test_rank.py"


@dataclass(frozen=True)
class Program:
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


PROGRAMS = (
    Program(
        "built-in training", "horovod", "`horovod`", "3",
        f"{STRATEGIES}::test_horovod_makes_the_same_model_on_every_rank",
        f"{STRATEGIES}::test_the_newest_tensorflow_makes_the_same_model_with_horovod",
    ),
    Program(
        "built-in training", "tensorflow", "`multiworker`", "3",
        f"{STRATEGIES}::test_multiworker_makes_the_same_model_and_one_file",
    ),
    Program(
        "built-in training", "tensorflow", "`parameter-server`", "3",
        f"{STRATEGIES}::test_parameter_servers_learn_and_end_with_the_chief",
    ),
    Program("script, `fit`", "horovod", "`horovod`", "3", HOROVOD),
    Program(
        "script, `fit`", "horovod", "`horovod`", "2",
        f"{KERAS_2}::test_keras_is_tf_keras_and_horovod_trains_with_it", NEWEST,
    ),
    Program("script, loop with Horovod's tape", "horovod", "`horovod`", "3", HOROVOD),
    Program("script, `fit`", "tensorflow", "`multiworker`", "3", FIT, NEWEST),
    Program("script, `fit`", "tensorflow", "`multiworker`", "2", "", NEWEST),
    Program("script, `fit`", "tensorflow", "`parameter-server`", "3", FIT, "keras"),
    Program("script, loop with a coordinator", "tensorflow", "`parameter-server`", "3", BY_NAME),
)  # fmt: skip


def test_the_page_has_the_table_of_programs() -> None:
    page = (ROOT / "docs/training.md").read_text()
    rows = "\n".join(program.row() for program in PROGRAMS)
    assert f"|---|---|---|---|---|---|\n{rows}\n\n" in page, rows


@pytest.mark.parametrize("program", PROGRAMS, ids=Program.row)
def test_what_runs_a_program_exists(program: Program) -> None:
    for reference in filter(None, (program.on_2_18, program.on_2_21)):
        file, _, name = reference.partition("::")
        if not name:
            assert reference in COMMANDS
            continue
        functions = ast.parse((ROOT / file).read_text()).body
        names = [part.name for part in functions if isinstance(part, ast.FunctionDef)]
        assert name in names, reference
