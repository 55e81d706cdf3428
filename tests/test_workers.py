"""Which tests run in one worker."""

from __future__ import annotations

from pathlib import Path

import pytest
import workers
from places import TESTS

pytest_plugins = ["pytester"]


@pytest.mark.parametrize(
    ("files", "together"),
    [
        (("training/cases_fit.py", "training/data/cases_tables.py"), True),
        (("e2e/serving/test_serving.py", "e2e/runs/test_resume.py"), True),
        (("engine/test_aws_host_keys.py", "engine/test_broken_up.py"), True),
        (("engine/test_broken_up_gcp.py", "engine/test_broken_up.py"), False),
        (("e2e/serving/test_serving.py", "e2e/runs/test_sweep.py"), False),
    ],
)
def test_files_that_share_something_are_a_unit(files: tuple[str, str], together: bool) -> None:
    assert all((TESTS / file).exists() for file in files)
    one, other = (workers.unit(f"tests/{file}::test_1[a::b]") for file in files)
    assert (one == other) == together


def test_two_workers_run_the_files_of_a_unit_in_one(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = "import os, pathlib\ndef test_one():\n    path = pathlib.Path(os.environ['NOTES'])\n"
    note += (
        "    (path / pathlib.Path(__file__).stem).write_text(os.environ['PYTEST_XDIST_WORKER'])\n"
    )
    notes = pytester.mkdir("notes")
    monkeypatch.setenv("NOTES", str(notes))
    folder = pytester.mkdir("tests")
    for name in ("a", "b"):
        (folder / f"test_{name}.py").write_text(note)
    plugin = Path(workers.__file__).read_text()
    plugin = plugin.replace("tests/training/*cases_*.py", "tests/test_[ab].py")
    pytester.makepyfile(own_workers=plugin)
    done = pytester.runpytest_subprocess("-p", "own_workers", "-n", "2", "--dist", "loadfile")
    done.assert_outcomes(passed=2)
    assert len({path.read_text() for path in notes.iterdir()}) == 1
