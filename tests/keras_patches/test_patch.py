"""Patches are applied once, after the import of their module, and only where it has the fault."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hosts.ranks import lay_out, rank, script
from places import ROOT

from bootstrap.runs.strategies import STRATEGIES
from railhead.keras_patches import patch, rows
from railhead.keras_patches.draws import DRAWS
from railhead.keras_patches.gradients import GRADIENTS
from railhead.keras_patches.horovod import callbacks
from railhead.keras_patches.horovod.rows import HOROVOD
from railhead.keras_patches.losses import LOSSES
from railhead.keras_patches.multiworker import MULTIWORKER
from railhead.keras_patches.normalization import NORMALIZATION
from railhead.keras_patches.own_steps import OWN_STEPS
from railhead.keras_patches.patch import KNOWN, Patch, source_has
from railhead.keras_patches.saving import SAVING

FAULTY = "def reduce():\n    return 'axis=0'\n"


@pytest.fixture(autouse=True)
def imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The library `library.part`, which is not imported yet."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library/__init__.py").write_text("")
    (tmp_path / "library/part.py").write_text(FAULTY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "library"]:
        del sys.modules[name]


def correct(module: ModuleType) -> None:
    """The patch of the tests."""
    vars(module)["reduce"] = lambda: "axis=None"


def a_patch(text: str = "'axis=0'", name: str = "reduce") -> Patch:
    needed = source_has(name, text)
    return Patch("library.part", ("multiworker",), "a/b#1", "", correct, needed)


def test_a_module_is_patched_when_it_is_imported() -> None:
    lines: list[str] = []
    patch.install([a_patch(), a_patch()], lines.append)
    assert lines == []
    module = importlib.import_module("library.part")
    assert module.reduce() == "axis=None"
    assert len(lines) == 1
    assert module.__spec__
    assert type(module.__spec__.loader) is type(module.__loader__) is type(importlib.__loader__)


def test_a_module_that_was_only_looked_up_is_patched_when_it_is_imported() -> None:
    patch.install([a_patch()], print)
    assert importlib.util.find_spec("library.part")
    assert importlib.import_module("library.part").reduce() == "axis=None"


@pytest.mark.parametrize(
    "fault", [a_patch("another"), a_patch(name="missing"), a_patch(name="x.y")]
)
def test_a_module_without_the_fault_stays_as_it_is(fault: Patch) -> None:
    lines: list[str] = []
    patch.install([fault], lines.append)
    assert importlib.import_module("library.part").reduce() == "axis=0" and lines == []


def test_a_module_with_the_correction_stays_as_it_is() -> None:
    module = importlib.import_module("library.part")
    assert not source_has("reduce", "axis=0", expected=False)(module)
    assert source_has("reduce", "axis=None", expected=False)(module)
    assert not source_has("missing", "axis=None", expected=False)(module)


@pytest.mark.parametrize(
    ("corrects", "before", "factors"), [(True, 0.5, [0.2]), (False, 0.5, []), (True, 0.0, [])]
)
def test_momentum_is_corrected_where_the_callback_is_to_do_so(
    monkeypatch: pytest.MonkeyPatch, corrects: bool, before: float, factors: list[float]
) -> None:
    """By the factor of the learning rate, which is set in any case."""
    corrected, rates = list[float](), [before]
    monkeypatch.setattr(callbacks, "scale_momentum", lambda _, factor: corrected.append(factor))
    kind = type("LearningRateScheduleCallbackImpl", (), {})
    module: Any = SimpleNamespace(LearningRateScheduleCallbackImpl=kind)
    callbacks.patch_learning_rates(module)
    callback: Any = kind()
    optimizer = SimpleNamespace(lr=SimpleNamespace(assign=None))
    vars(callback).update(
        model=SimpleNamespace(optimizer=optimizer),
        backend=SimpleNamespace(
            get_value=lambda _: rates[-1], set_value=lambda _, rate: rates.append(rate)
        ),
        initial_lr=1.0,
        multiplier=lambda epoch: 0.1 * epoch,
        momentum_correction=corrects,
    )
    callback._adjust_learning_rate(1)
    assert rates == [before, 0.1] and corrected == pytest.approx(factors)


def test_without_patches_nothing_is_installed() -> None:
    before = [*sys.meta_path]
    patch.install([], print)
    assert sys.meta_path == before


@pytest.mark.parametrize(
    ("version", "tested"),
    [("3.11.9", False), ("3.12.4", True), ("3.15.1", True), ("3.16.0", False), ("3.9", False)],
)
def test_the_notice_names_the_version_and_whether_it_is_tested(version: str, tested: bool) -> None:
    line = patch.notice(version)
    assert f"Keras {version} " in line and "\n" not in line
    assert (f"Keras {patch.known_versions()}" in line) is not tested


@pytest.mark.parametrize("also_unknown", [True, False])
def test_an_unknown_keras_is_patched_only_where_that_is_wanted(
    also_unknown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patch, "KNOWN", ((1, 0), (1, 1)))  # the version of here is another one
    lines: list[str] = []
    patch.install([a_patch(), a_patch()], lines.append, also_unknown=also_unknown)
    assert (importlib.import_module("library.part").reduce() == "axis=None") is also_unknown
    assert len(lines) == 1 and ("--keras 3" in lines[0]) is not also_unknown


def test_the_rows_name_strategies_and_modules_of_keras_or_horovod() -> None:
    assert rows.PATCHES
    for row in rows.PATCHES:
        assert set(row.strategies) <= set(STRATEGIES) and row.strategies
        assert row.module.startswith(("keras.", "horovod."))


def test_one_process_has_only_the_patches_that_it_needs() -> None:
    """Of a strategy with several replicas, and of what is saved."""
    shared = {row for row in MULTIWORKER if "mirrored" in row.strategies}
    of_replicas = {*GRADIENTS, *DRAWS, *LOSSES, *OWN_STEPS, *NORMALIZATION}
    assert len(shared) == 2 and {*rows.patches_for("mirrored")} == {*shared, *of_replicas, *SAVING}
    assert {*rows.patches_for("one-device")} == {*SAVING}
    assert rows.patches_for("multiworker") and rows.patches_for("parameter-server")


def test_the_page_has_a_row_for_each_patch_of_tensorflows_strategies() -> None:
    lines = (ROOT / "docs/keras.md").read_text().splitlines()
    first, last = (".".join(map(str, known)) for known in KNOWN)
    assert any(f"tested with Keras {first} and {last}." in line for line in lines)
    for row in (row for row in rows.PATCHES if row not in HOROVOD):
        strategies = ", ".join(f"`{name}`" for name in row.strategies)
        url = f"https://github.com/{row.issue.replace('#', '/issues/')}"
        link = f"[{row.issue}]({url}) " if row.issue else ""
        assert f"| {strategies} | {row.does} | {link}|" in lines


# A Keras that has one of the faults.
KERAS = {
    "keras/__init__.py": "",
    "keras/src/__init__.py": "",
    "keras/src/backend/__init__.py": "",
    "keras/src/backend/tensorflow/__init__.py": "",
    "keras/src/backend/tensorflow/trainer.py": """
def reduce_per_replica(values, strategy, reduction):
    return strategy.reduce("MEAN", v, axis=0)
""",
    "keras-3.99.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: keras\nVersion: 3.99.0\n",
}
SCRIPT = """
from keras.src.backend.tensorflow import trainer
print("patched", hasattr(trainer.reduce_per_replica, "__wrapped__"))
"""


@pytest.mark.parametrize(
    ("strategy", "number", "changes", "patched", "notices"),
    [
        ("multiworker", 0, {}, True, ["is patched"]),
        ("multiworker", 1, {}, True, []),
        ("multiworker", 0, {"keras_patches": False}, False, []),
        ("multiworker", 0, {"keras_auto": True}, False, ["is not patched"]),
        ("mirrored", 0, {}, False, []),
    ],
)
def test_a_rank_installs_the_patches_of_its_strategy(
    tmp_path: Path,
    strategy: str,
    number: int,
    changes: dict[str, bool],
    patched: bool,
    notices: list[str],
) -> None:
    for name, text in KERAS.items():
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run = {"strategy": strategy, "size": 2, "hosts": [{"name": "h1", "slots": 2}]}
    run |= {"independent": True}
    lay_out(tmp_path, script(tmp_path, SCRIPT), **run, **changes)
    lines = rank(tmp_path, number=number).stdout.splitlines()
    assert lines[-1] == f"patched {patched}"
    announced = [line for line in lines if line.startswith("railhead: Keras 3.99.0 ")]
    assert len(announced) == len(notices) and all(map(str.__contains__, announced, notices))
