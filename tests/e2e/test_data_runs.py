"""Data by name, end to end on two local hosts: our training and scripts, folders and buckets."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from e2e.local_hosts import Operator

JOIN = """
import ctypes, json, os, pathlib, sys
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
import atexit
atexit.register(mpi.MPI_Finalize)
"""
# Writes down what each rank found, on every host; rank 0 collects nothing: it is printed.
REPORT = (
    JOIN
    + """
found = {}
for name, value in sorted(os.environ.items()):
    if name.startswith("RAILHEAD_DATA_"):
        folder = pathlib.Path(value)
        found[name] = {p.relative_to(folder).as_posix(): p.read_text()
                       for p in sorted(folder.rglob("*")) if p.is_file()}
print("FOUND", json.dumps(found))
"""
)


def found_by(operator: Operator, rank: int) -> dict[str, dict[str, str]]:
    """What the script of REPORT found on a rank of the last run."""
    log = (operator.last / f"logs/rank-{rank}.log").read_text()
    line = next(line for line in log.splitlines() if "FOUND " in line)
    found: dict[str, dict[str, str]] = json.loads(line.partition("FOUND ")[2])
    return found


def write_files(operator: Operator, folder: str, count: int) -> None:
    for number in range(count):
        operator.write(f"{folder}/part-{number}.txt", f"{folder} {number} {os.urandom(4).hex()}")


def names(numbers: list[int]) -> list[str]:
    return [f"part-{number}.txt" for number in numbers]


def test_our_training_trains_on_a_local_folder_that_is_sent_once(operator: Operator) -> None:
    rows = [f"{i % 7},{i % 3},{i % 5},{(i % 7) > 3:d}" for i in range(200)]
    operator.write("table/train.csv", "\n".join(["a,b,c,label", *rows]) + "\n")
    text = (
        "--data",
        "train=table",
        "--set",
        "data=csv",
        "--set",
        "model=linear",
        "--set",
        "epochs=1",
    )
    first = operator.fab("train", *text).ended(0, ", complete", "succeeded")
    assert "already on all hosts" not in first.out
    (entry,) = json.loads((operator.last / "run.json").read_text())["data"]
    assert entry["name"] == "train" and entry["distribution"] is None
    assert len(set(entry["paths"])) == 1 and len(entry["paths"]) == 2
    again = operator.fab("train", *text).ended(0, "already on all hosts", "succeeded")
    assert ", complete" not in again.out


def test_a_script_finds_each_name_replicated_or_sharded(operator: Operator) -> None:
    write_files(operator, "all", 3)
    write_files(operator, "parts", 5)
    operator.write("code/train.py", REPORT)
    data = ("--data", "whole=all", "--data", "mine=parts,shard", "--data", "one=all/part-1.txt")
    operator.fab("train", "--script", "code/train.py", *data).ended(0)
    ranks = [found_by(operator, rank) for rank in (0, 1)]
    assert [sorted(r["RAILHEAD_DATA_WHOLE"]) for r in ranks] == [names([0, 1, 2])] * 2
    assert [sorted(r["RAILHEAD_DATA_MINE"]) for r in ranks] == [names([0, 2, 4]), names([1, 3])]
    assert [sorted(r["RAILHEAD_DATA_ONE"]) for r in ranks] == [names([1])] * 2
    assert ranks[1]["RAILHEAD_DATA_MINE"]["part-3.txt"].startswith("parts 3 ")


def test_data_that_is_on_the_hosts_is_shared_by_links(operator: Operator, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "there").mkdir(exist_ok=True)
        (tmp_path / f"there/part-{number}.txt").write_text(str(number))
    operator.write("code/train.py", REPORT)
    data = ("--data", f"a=host:{tmp_path}/there", "--data", f"b=host:{tmp_path}/there,shard")
    operator.fab("train", "--script", "code/train.py", *data).ended(0)
    ranks = [found_by(operator, rank) for rank in (0, 1)]
    assert [sorted(r["RAILHEAD_DATA_A"]) for r in ranks] == [names([0, 1, 2])] * 2
    assert [sorted(r["RAILHEAD_DATA_B"]) for r in ranks] == [names([0, 2]), names([1])]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (("--data", "train=nowhere"), "no file or folder nowhere here"),
        (("--data", "train=empty"), "--data train: empty has no files"),
        (("--set", "data=images"), "data=images needs the data itself"),
        (("--data", "train=some"), "data=digits, which takes no files"),
        (("--data", "train=host:/nowhere", "--set", "data=images"), "there is no /nowhere"),
    ],
)
def test_data_that_cannot_be_used_is_exit_2(
    operator: Operator, text: tuple[str, ...], expected: str
) -> None:
    (operator.folder / "empty").mkdir()
    operator.write("some/a.jpg", "x")
    operator.fab("train", *text).ended(2, expected)
    assert not (operator.folder / "results").exists()
