"""The records of tested-on/ and the row of README: nothing else says what was run on which GPU."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from places import ROOT

from bootstrap.errors import RailheadError
from bootstrap.gpu_tools import tested_on
from bootstrap.gpu_tools.tested_on import Check, Machine
from campaigns.cloud.record import Part, Record

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


def test_the_row_in_readme_comes_from_the_records_of_this_clone() -> None:
    """It also fails where a file of tested-on/ is not a record or has another GPU's name."""
    lines = (ROOT / "README.md").read_text().splitlines(True)
    assert tested_on.row(tested_on.machines()) in lines and tested_on.cloud_row() in lines


def test_the_row_of_the_clouds_names_what_passed_and_what_failed(
    tmp_path: Path, cloud_record: Path
) -> None:
    readme = "| what |\n| training | x | y |\n| AWS, Google Cloud | x | y |\n| z |\n"
    (tmp_path / "README.md").write_text(readme)
    tested_on.write_row(tmp_path)
    first, training, clouds, last = (tmp_path / "README.md").read_text().splitlines()
    assert (first, last) == ("| what |", "| z |") and training == tested_on.row([]).strip()
    assert "in an account of AWS ([g4dn.xlarge](tested-on/aws.json), 2026-" in clouds
    assert "passed doctor, up; failed train | an account of Google Cloud |" in clouds


@pytest.fixture
def cloud_record(tmp_path: Path) -> Path:
    """What `make test-cloud` leaves in tested-on/, written by its own code."""
    began = datetime(2026, 12, 1, tzinfo=timezone.utc).timestamp()
    seen = Record("aws", {"machine_type": "g4dn.xlarge"}, 5.0, 1.05, began, began + 3600)
    seen.parts = [Part("doctor", 1.0), Part("up", 2.0), Part("train", 3.0, error="no step")]
    seen.save(tmp_path)
    return tmp_path / "tested-on" / "aws.json"


def test_records_of_both_kinds_live_together(tmp_path: Path, cloud_record: Path) -> None:
    L4.save(tmp_path)
    V100.save(tmp_path)
    assert tested_on.machines(tmp_path) == [L4, V100]
    assert tested_on.record(cloud_record).kind == "cloud"


def test_a_file_of_another_name_than_its_gpus_is_refused(tmp_path: Path) -> None:
    path = L4.save(tmp_path)
    path.rename(path.with_name("nvidia-t4.json"))
    with pytest.raises(RailheadError, match="nvidia-t4.json is the record of NVIDIA L4"):
        tested_on.machines(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not a JSON document"),
        ("[]", "not a record of tested-on"),
        ('{"date": "2026-12-01"}', "keys schema, kind"),
        ('{"schema": 1}', "keys kind"),
        ('{"schema": 1, "kind": ["gpu"]}', "kind"),
        ('{"schema": 1, "kind": "tpu"}', "kind must be one of gpu, cloud, not 'tpu'"),
        ('{"schema": 2, "kind": "gpu"}', "schema must be one of 1, not 2"),
        ('{"schema": 1, "kind": "gpu"}', "is not a complete GPU record: "),
        ('{"schema": 1, "kind": "gpu", "checks": [1]}', "is not a complete GPU record"),
    ],
)
def test_a_file_that_is_not_a_record_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "tested-on" / "x.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(RailheadError) as error:
        tested_on.machines(tmp_path)
    assert str(path) in error.value.message
    assert says in error.value.message


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = V100.save(tmp_path)
    assert path == tmp_path / "tested-on" / "tesla-v100-sxm2-16gb.json"
    assert tested_on.read(path) == V100
    replace(V100, date="2026-12-02").save(tmp_path)
    assert tested_on.read(path).date == "2026-12-02"


def test_without_a_file_no_gpu_is_claimed() -> None:
    row = tested_on.row([])
    assert re.fullmatch(r"\| training \| [^|]+ \| TensorFlow on a GPU: [^|]+ \|\n", row)
    assert "GPU" not in row.split("|")[2]


@pytest.mark.parametrize(
    ("files", "ran", "never"),
    [
        (
            [L4],
            "on [NVIDIA L4](tested-on/nvidia-l4.json), 2026-12-01, "
            "the checks of `make gpu-check` alone (passed: matmul)",
            "`fab train` on a GPU; the checks on any other GPU and over several hosts, "
            "or over several GPUs of one host",
        ),
        (
            [L4, V100],
            "; on 4 x [Tesla V100-SXM2-16GB](tested-on/tesla-v100-sxm2-16gb.json), 2026-12-01, "
            "the checks of `make gpu-check` alone (passed: matmul; failed: NCCL)",
            "`fab train` on a GPU; the checks on any other GPU and over several hosts",
        ),
        ([replace(L4, checks=(BAD,))], "(passed: none; failed: NCCL)", "`fab train` on a GPU"),
    ],
)
def test_of_a_gpu_the_row_names_the_checks_and_no_training(
    files: list[Machine], ran: str, never: str
) -> None:
    _, _, has, has_not, _ = tested_on.row(files).split("|")
    assert ran in has
    assert has_not.strip().startswith(never)


def test_a_new_file_changes_that_row_alone(tmp_path: Path) -> None:
    before = "| what | run | never |\n|---|---|---|\n| training | old | older |\n| AWS | x | y |\n"
    (tmp_path / "README.md").write_text(before)
    L4.save(tmp_path)
    tested_on.write_row(tmp_path)
    after = (tmp_path / "README.md").read_text()
    assert after == before.replace("| training | old | older |\n", tested_on.row([L4]))
