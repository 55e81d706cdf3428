"""Whose package `railhead` is: the public index has another one of this name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from places import ROOT

from bootstrap.doctor import package
from railhead.version import VERSION


def test_the_clone_is_named_with_its_folder() -> None:
    check = package.check()
    assert (check.state, check.evidence) == ("ok", f"{VERSION}, the clone {ROOT}")


def test_the_package_of_somebody_else_is_named_with_the_command_that_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "railhead-0.4.0.dist-info"
    info.mkdir()
    text = "Metadata-Version: 2.1\nName: railhead\nVersion: 0.4.0\nSummary: An escrow\n SDK\n"
    (info / "METADATA").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    check = package.check()
    assert check.state == "warns" and "railhead 0.4.0 (An escrow SDK)" in check.evidence
    assert check.next.startswith(f"{sys.executable} -m pip uninstall -y railhead ")
