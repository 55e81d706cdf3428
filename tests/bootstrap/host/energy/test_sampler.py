"""The process that measures a host, with a library in place of NVIDIA's."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from hosts.ranks import command, lay_out, script, started
from standins.waiting import wait_until

from bootstrap.host.energy import nvml
from bootstrap.host.energy.meter import Meter, Sample
from bootstrap.host.energy.sampler import HALF, LAST, Page, measured_by
from railhead.documents.carbon.energy import HostEnergy, carbon_of
from railhead.documents.codec import decode

SOURCE = Path(__file__).with_name("nvml.c")
WORLD = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nvml") / nvml.LIBRARY
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(path), str(SOURCE)], check=True)
    return path


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVML_ENERGY", "70000000000")  # more than 32 bits
    monkeypatch.setenv("FAKE_NVML_POWER", "-")


def test_each_gpu_has_its_counter_and_what_one_lacks_is_none(library: Path, numbers: None) -> None:
    gpus = nvml.Gpus(str(library))
    assert gpus.millijoules() == [70_000_000_000, 70_000_000_001]
    assert gpus.milliwatts() == [None, None]


def test_without_library_driver_or_functions_there_are_no_gpus(
    library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = tmp_path / "old.so"
    subprocess.run(["cc", "-shared", "-o", str(old), "-x", "c", "/dev/null"], check=True)
    for name in (str(tmp_path / "no.so"), str(old)):
        gpus = nvml.Gpus(name)
        assert (gpus.millijoules(), gpus.milliwatts()) == ([], [])
    monkeypatch.setenv("FAKE_NVML_INIT", "9")  # NVML_ERROR_DRIVER_NOT_LOADED
    assert nvml.Gpus(str(library)).millijoules() == []


def test_cards_without_a_library_are_known_and_their_energy_is_not(tmp_path: Path) -> None:
    """Of four devices two are NVIDIA's GPUs; one is the sound of a card, one another vendor's."""
    for name, vendor, kind in (
        ("0", "0x10de", "0x030200"),
        ("1", "0x10de", "0x030000"),
        ("2", "0x10de", "0x040300"),
        ("3", "0x1002", "0x030000"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(f"{vendor}\n")
        (tmp_path / name / "class").write_text(f"{kind}\n")
    (tmp_path / "4").mkdir()
    cards = nvml.cards(str(tmp_path))
    assert cards == 2
    meter = Meter(Sample(0, [0], [1000], 0, 0))
    meter.add(Sample(10, [5000], [1000], 5, 10))
    assert measured_by(meter, 1)["gpu_counter"] == 5.0
    lacking = measured_by(meter, cards)
    assert (lacking["gpus"], lacking["gpu_counter"], lacking["gpu_power"]) == (2, None, None)
    machine = {"boot": "b", "cpu": [0, 0, 0], "vcpus": 1, "memory_gib": 1.0, "since": 1.0}
    carbon = carbon_of([decode(HostEnergy, {"host": "h1", **machine, **lacking})], None)
    assert carbon and carbon.gpu_kwh == 0 and "GPUs of h1 is not known" in carbon.notes[0]


def test_a_reader_of_the_page_sees_a_whole_text() -> None:
    page = Page()
    assert page.read() == b""
    for text in (b"a" * 900, b"b", b"c" * (HALF - 1)):
        page.write(text)
        assert page.read() == text


def ranked(folder: Path, text: str, **environment: str) -> HostEnergy | None:
    """What the helper of a rank that runs a script reported."""
    lay_out(folder, script(folder, text))
    done = started(command(folder), folder / "work", WORLD | environment)
    assert done.returncode == 0, done.stdout
    lines = "".join(done.stdout.split("\n")).replace("\x1f", "").split("\x1e")
    records = [line.partition('@railhead {"kind": "energy", ')[2] for line in lines]
    measured = [json.loads("{" + record) for record in records if record]
    assert len(measured) <= 1
    return decode(HostEnergy, {"host": "h1", **measured[0]}) if measured else None


def test_a_rank_reports_what_its_host_used(tmp_path: Path, library: Path) -> None:
    """The library counts on while the script runs: here it stands still, and the power does not."""
    paths = {"LD_LIBRARY_PATH": str(library.parent)}
    numbers = {"FAKE_NVML_ENERGY": "5", "FAKE_NVML_POWER": "50000"}
    begun = time.time()
    measured = ranked(
        tmp_path, "import time\ntime.sleep(1.2)\nprint('over', end='')", **paths, **numbers
    )
    assert measured and measured.gpus == 2 and measured.gpu_counter == 0
    assert 1.2 <= measured.seconds < time.time() - begun
    assert measured.gpu_power == pytest.approx(2 * 50 * measured.seconds, rel=0.05)
    assert (
        measured.vcpus == os.cpu_count() and measured.memory_gib > 0.1 and 0 <= measured.load <= 1
    )
    carbon = carbon_of([measured], None)
    assert carbon and carbon.gpu_kwh > 0 and carbon.other_kwh > 0
    assert "the integral of power, which counts" in carbon.notes[0]


def test_a_driver_that_never_answers_holds_no_rank(tmp_path: Path, library: Path) -> None:
    begun = time.monotonic()
    paths = {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML_INIT": "hangs"}
    assert ranked(tmp_path, "print('ok')", **paths) is None
    assert time.monotonic() - begun < LAST + 20
    folder = str(tmp_path).encode()
    wait_until(lambda: not any(folder in text for text in commands()), 10)


def commands() -> list[bytes]:
    """The command lines of all processes."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:
            continue
    return lines
