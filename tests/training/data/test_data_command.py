"""`python -m training.data` where there is no TensorFlow."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from places import ROOT

from training.data.__main__ import main


def test_shard_without_tensorflow_names_the_command_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT)])
    assert main(["shard", str(tmp_path), "new", "--data", "images"]) == 2
    expected = f"next: fab data shard {tmp_path} new"
    assert expected in capsys.readouterr().err
