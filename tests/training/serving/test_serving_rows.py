"""Which signatures mix the rows of a call, found at the warm-up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from training.serving.metrics import ServingMetrics
from training.serving.model import Model
from training.serving.row_check import find_mixed
from training.serving.settings import ServeSettings
from training.serving.signature import Signature, Tensor
from training.serving.versions import Versions


def model(function: Callable[[Any], Any], dtype: str = "float32", *shape: int | None) -> Model:
    """A model with this function of its input as the only output."""
    inputs = (Tensor("x", dtype, (None, *(shape or (4,)))),)
    signature = Signature("s", inputs, (Tensor("y", "float32", (None,)),))
    return Model({"s": signature}, {"s": lambda values: {"y": function(values["x"])}}, None)


def rounded(x: Any) -> Any:
    """A product whose rounding depends on the size of the batch, as on a GPU."""
    return x.sum(1) * np.float32(1 + 1e-3 * len(x) / 8)


def needs_length(x: Any) -> Any:
    if x.shape[1] < 3:
        raise ValueError("too short for a convolution")
    return x[:, 2]


def of_positives(x: Any) -> Any:
    """Rows as long as the longest one of the call, such as the boxes that a detector keeps."""
    kept = [row[row > 0.5] for row in x]
    return np.array([np.pad(row, (0, max(map(len, kept)) - len(row))) for row in kept])


def fails(x: Any) -> Any:
    raise ValueError("takes serialized examples only")


RANDOM = np.random.default_rng(1)
CASES: dict[str, tuple[Model, bool]] = {
    "sum of a row": (model(lambda x: x.sum(1)), False),
    "rounding": (model(rounded), False),
    "constant": (model(lambda x: np.full(len(x), np.nan, np.float32)), False),
    "half": (model(lambda x: (x.sum(1) / 3).astype("float16")), False),
    "whole numbers": (model(lambda x: x[:, 0] * 3, "int64"), False),
    "text": (model(lambda x: x, "string"), False),
    "any length": (model(needs_length, "float32", None), False),
    "mean of the batch": (model(lambda x: (x - x.mean(0)).sum(1)), True),
    "softmax of the batch": (model(lambda x: np.exp(x[:, 0]) / np.exp(x[:, 0]).sum()), True),
    "sorted": (model(lambda x: np.sort(x[:, 0])), True),
    "first row": (model(lambda x: x[:, 0] - x[0, 0]), True),
    "number of rows": (model(lambda x: np.full(len(x), len(x))), True),
    "one output": (model(lambda x: x.sum(1)[:1]), True),
    "rows of other lengths": (model(of_positives), True),
    "random": (model(lambda x: RANDOM.random(len(x))), True),
    "text of the batch": (model(lambda x: np.roll(x, 1, 0), "string"), True),
    "no trial succeeds": (model(fails), True),
}


@pytest.mark.parametrize(("model", "mixes"), CASES.values(), ids=CASES)
def test_a_signature_that_mixes_rows_is_found(model: Model, mixes: bool) -> None:
    checked, names = find_mixed(model, 32)
    assert names == (["s"] if mixes else [])
    assert checked.signatures["s"].batches == (not mixes)


def test_the_rows_of_one_client_do_not_change_the_answer_of_another(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    mixed = CASES["mean of the batch"][0]
    settings = ServeSettings(tmp_path, "m", max_batch=8, max_delay_ms=50)
    reports: list[str] = []
    versions = Versions(settings, lambda _: mixed, ServingMetrics(), reports.append)

    async def work() -> list[Any]:
        await versions.look()
        batcher = versions.get(None).batchers["s"]
        rows = [np.full((1, 4), value, np.float32) for value in (1, 100)]
        answers = await asyncio.gather(*(batcher.predict({"x": row}) for row in rows))
        return [each["y"].tolist() for each in answers]

    assert asyncio.run(asyncio.wait_for(work(), 20)) == [[0.0], [0.0]]
    assert sum("signature s:" in line for line in reports) == 1
