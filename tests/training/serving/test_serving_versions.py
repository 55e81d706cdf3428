"""Which version of a model serves, as versions come, fail and change. Nothing here is TensorFlow:
a model is loaded by a function that notes its calls."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from training.serving.metrics import ServingMetrics
from training.serving.model import Model, ModelError
from training.serving.settings import ServeSettings
from training.serving.signature import Arrays, Signature, Tensor
from training.serving.versions import NotFound, Versions

NOTHING = Model({}, {}, None)


class Loader:
    """Loads every version without the file `broken`."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def __call__(self, path: Path) -> Model:
        self.loaded.append(path.name)
        if (path / "broken").exists():
            raise ModelError(f"{path.name} is broken")
        return NOTHING


def watched(
    folder: Path, work: Callable[[Versions, Loader], Awaitable[None]], *broken: str
) -> None:
    """Run `work` with the versions of a folder, which has version 1 and these broken ones."""
    (folder / "1").mkdir()
    for name in broken:
        (folder / name).mkdir()
        (folder / name / "broken").touch()
    loader = Loader()
    settings = ServeSettings(folder, "m")
    asyncio.run(
        work_with(Versions(settings, loader, ServingMetrics(), lambda _: None), loader, work)
    )


async def work_with(
    versions: Versions, loader: Loader, work: Callable[[Versions, Loader], Awaitable[None]]
) -> None:
    await asyncio.wait_for(work(versions, loader), 60)


def test_a_version_that_failed_is_loaded_again_only_when_it_changes(tmp_path: Path) -> None:
    async def work(versions: Versions, loader: Loader) -> None:
        for _ in range(3):
            await versions.look()
        assert loader.loaded == ["2", "1"] and versions.get(None).number == 1
        assert versions.states == {2: ("END", "2 is broken"), 1: ("AVAILABLE", "")}
        (tmp_path / "2/broken").unlink()
        os.utime(tmp_path / "2", (1, 1))
        await versions.look()
        assert loader.loaded == ["2", "1", "2"] and versions.get(None).number == 2

    watched(tmp_path, work, "2")


def test_the_newest_version_alone_serves(tmp_path: Path) -> None:
    async def work(versions: Versions, loader: Loader) -> None:
        await versions.look()
        (tmp_path / "10").mkdir()
        (tmp_path / "9").mkdir()
        await versions.look()
        assert loader.loaded == ["1", "10"] and versions.get(10).number == 10
        for number in (1, 9, 11):
            with pytest.raises(NotFound, match=f"{number}"):
                versions.get(number)

    watched(tmp_path, work)


def test_an_old_version_is_closed_after_its_last_request(tmp_path: Path) -> None:
    async def work(versions: Versions, loader: Loader) -> None:
        await versions.look()
        with versions.get(None).in_use():
            (tmp_path / "2").mkdir()
            await versions.look()
            await asyncio.sleep(0)
            assert versions.states[1] == ("UNLOADING", "")
        while versions.states[1] != ("END", ""):
            await asyncio.sleep(0.01)

    watched(tmp_path, work)


def test_without_a_version_that_loads_the_reason_is_named(tmp_path: Path) -> None:
    async def work(versions: Versions, loader: Loader) -> None:
        (tmp_path / "1").rmdir()
        with pytest.raises(ModelError, match="2 is broken"):
            await versions.look()

    watched(tmp_path, work, "2")


def test_a_version_whose_folder_is_gone_serves_until_another_one_loads(tmp_path: Path) -> None:
    async def work(versions: Versions, loader: Loader) -> None:
        await versions.look()
        (tmp_path / "1").rmdir()
        (tmp_path / "2").mkdir()
        (tmp_path / "2/broken").touch()
        await versions.look()
        assert loader.loaded == ["1", "2"] and versions.get(None).number == 1

    watched(tmp_path, work)


UNTRIED: dict[str, Exception | Tensor] = {
    "the warm-up fails without a message": NotImplementedError(),
    "the type of an input is unknown to NumPy": Tensor("x", "resource", (None, 4)),
    "trial rows do not fit into memory": Tensor("x", "float32", (None, 2**20, 2**20, 2**10)),
}


@pytest.mark.parametrize("why", UNTRIED.values(), ids=UNTRIED)
def test_a_version_serves_even_if_each_trial_call_fails(
    tmp_path: Path, why: Exception | Tensor
) -> None:
    """The server ended, with the version that served, and so did each restart of it."""
    tensor = why if isinstance(why, Tensor) else Tensor("x", "float32", (None, 4))

    def predict(arrays: Arrays) -> dict[str, Any]:
        raise why if isinstance(why, Exception) else AssertionError("not reached")

    def load(path: Path) -> Model:
        signature = Signature("s", (tensor,), (tensor,))
        return Model({"s": signature}, {"s": predict}, None) if path.name == "2" else NOTHING

    async def work() -> int:
        await versions.look()
        (tmp_path / "2").mkdir()
        await versions.look()
        return versions.get(None).number

    (tmp_path / "1").mkdir()
    versions = Versions(ServeSettings(tmp_path, "m"), load, ServingMetrics(), lambda _: None)
    assert asyncio.run(asyncio.wait_for(work(), 60)) == 2
