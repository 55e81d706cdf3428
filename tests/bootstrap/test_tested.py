"""tested-on/<gpu>.json and the row of README: nothing else says what was run on which GPU."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bootstrap import tested
from bootstrap.tested import Check, Machine

ROOT = Path(__file__).parents[2]
GOOD = Check("matmul", True, "14.9 TFLOP/s")
BAD = Check("NCCL", False, "0 of 2 ranks joined")
L4 = Machine(
    gpu="NVIDIA L4",
    count=1,
    driver="580.95.05 (open)",
    date="2026-12-01",
    system="debian-12, Linux 6.1.0-40-amd64, Python 3.11",
    versions={"tensorflow": "2.18.1"},
    checks=(GOOD,),
)
V100 = replace(L4, gpu="Tesla V100-SXM2-16GB", count=4, checks=(GOOD, BAD))


def test_the_row_in_readme_is_made_from_the_files() -> None:
    files = [tested.read(path) for path in sorted((ROOT / tested.FOLDER).glob("*.json"))]
    assert tested.row(files) in (ROOT / "README.md").read_text().splitlines(keepends=True)


def test_every_file_has_the_name_of_its_gpu() -> None:
    for path in (ROOT / tested.FOLDER).glob("*.json"):
        assert tested.read(path).file == path.name


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = V100.save(tmp_path)
    assert path == tmp_path / "tested-on" / "tesla-v100-sxm2-16gb.json"
    assert tested.read(path) == V100
    replace(V100, date="2026-12-02").save(tmp_path)
    assert tested.read(path).date == "2026-12-02"


def test_without_a_file_no_gpu_is_claimed() -> None:
    row = tested.row([])
    assert re.fullmatch(r"\| training \| [^|]+ \| on a GPU: [^|]+ \|\n", row)
    assert "GPU" not in row.split("|")[2]


@pytest.mark.parametrize(
    ("files", "ran", "never"),
    [
        (
            [L4],
            "on [NVIDIA L4](tested-on/nvidia-l4.json), 2026-12-01",
            "on any other GPU, and over several hosts with GPUs, or several GPUs of one",
        ),
        (
            [L4, V100],
            "; on 4 x [Tesla V100-SXM2-16GB](tested-on/tesla-v100-sxm2-16gb.json), 2026-12-01 "
            "(failed: NCCL)",
            "on any other GPU, and over several hosts with GPUs",
        ),
    ],
)
def test_a_gpu_is_named_with_what_failed_on_it(files: list[Machine], ran: str, never: str) -> None:
    _, _, has, has_not, _ = tested.row(files).split("|")
    assert ran in has
    assert has_not.strip() == never


def test_a_new_file_changes_that_row_alone(tmp_path: Path) -> None:
    before = "| what | run | never |\n|---|---|---|\n| training | old | older |\n| AWS | x | y |\n"
    (tmp_path / "README.md").write_text(before)
    L4.save(tmp_path)
    tested.write_row(tmp_path)
    after = (tmp_path / "README.md").read_text()
    assert after == before.replace("| training | old | older |\n", tested.row([L4]))
