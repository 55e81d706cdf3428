"""The data sets that Keras fetches."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("numpy")

from training.data.formats.download import fetched


@pytest.mark.parametrize("moved", [True, False])
def test_all_that_is_written_is_where_keras_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    for name in ("keras", "keras.datasets"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    known = SimpleNamespace(load_data=lambda: "the data")
    monkeypatch.setitem(sys.modules, "keras.datasets.known", known)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "ours") if moved else "")
    assert fetched("known") == "the data"
    assert [path.name for path in tmp_path.iterdir()] == ["ours" if moved else ".keras"]
