"""The carbon of a run: our formula beside measured machines, and beside codecarbon's functions."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from datetime import date, timedelta

import pytest
from standins.environments import Unfetched, python_of

from railhead.documents.carbon import cpus, energy
from railhead.documents.carbon.energy import Grid, HostEnergy, carbon_of, two_digits

CASCADE_LAKE, BROADWELL = (6, 85, 7), (6, 79, 1)
HOUR = 3600.0
GRID = Grid(418, 1.135, "US-MIDA-PJM", 2025, "Electricity Maps")
HOST = HostEnergy("a", "boot-a", 1e9, HOUR, CASCADE_LAKE, 4, 0.25, 16, 1, 180_000, 190_000)


def watts(cpu: tuple[int, int, int], vcpus: int, gib: float, gpu: float, load: float) -> float:
    """The power of a machine by the formula, with so many watts of its GPUs."""
    joules = gpu * HOUR
    host = replace(HOST, cpu=cpu, vcpus=vcpus, load=load, memory_gib=gib)
    carbon = carbon_of([replace(host, gpu_counter=joules, gpu_power=joules)], None)
    assert carbon
    return carbon.kwh * 1000


# What Teads measured, idle and at full load, and the watts of a GPU there (Cloud Carbon Footprint).
MEASURED = {
    "g4dn.xlarge": (CASCADE_LAKE, 4, 16, 1, (8, 71), (16.4, 104)),
    "p3.2xlarge": (BROADWELL, 8, 61, 1, (35, 306), (57, 380)),
    "p3.16xlarge": (BROADWELL, 64, 488, 8, (35, 306), (459, 3039)),
    "p4d.24xlarge": (CASCADE_LAKE, 96, 1152, 8, (46, 407), (745, 5245)),
}


@pytest.mark.parametrize("name", MEASURED)
def test_whole_machines_are_within_a_quarter_of_what_was_measured(name: str) -> None:
    cpu, vcpus, gib, gpus, per_gpu, measured = MEASURED[name]
    for load, gpu, whole in zip((0.0, 1.0), per_gpu, measured, strict=True):
        assert watts(cpu, vcpus, gib, gpus * gpu, load) == pytest.approx(whole, rel=0.25), load


# codecarbon's own functions, with our watts and our intensity.
THEIRS = """
import json, sys
from codecarbon.core.emissions import Emissions
from codecarbon.core.units import Energy, Power, Time
from codecarbon.external.geography import CloudMetadata
given = json.load(sys.stdin)
energy = Energy.from_millijoules(given["millijoules"])
energy += Energy.from_power_and_time(
    power=Power.from_watts(given["watts"]), time=Time.from_seconds(given["seconds"]))
emissions = Emissions(None, force_carbon_intensity_g_co2e_kwh=given["intensity"])
cloud = CloudMetadata(provider="aws", region="us-east-1")
kwh = (energy * given["pue"]).kWh
print(json.dumps([kwh, emissions.get_cloud_emissions(Energy(kwh), cloud) * 1000]))
"""


def test_codecarbon_says_the_same_of_our_watts_and_our_intensity() -> None:
    try:
        python = python_of("codecarbon")
    except Unfetched as error:
        pytest.skip(f"codecarbon cannot be fetched: {error}")
    ours = carbon_of([HOST], GRID)
    assert ours
    figures = {
        "millijoules": 180_000_000,
        "watts": 4 * (0.69 + 0.25 * (4.06 - 0.69)) + 0.392 * 16,
        "seconds": HOUR,
        "intensity": 418.0,
        "pue": 1.135,
    }
    argv = [str(python), "-c", THEIRS]
    done = subprocess.run(argv, input=json.dumps(figures), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kwh, grams = json.loads(done.stdout)
    assert ours.kwh == pytest.approx(kwh, rel=0.01)
    assert ours.grams(ours.kwh) == pytest.approx(grams, rel=0.01)


def test_the_counter_counts_unless_the_integral_says_otherwise_by_a_fifth() -> None:
    near = replace(HOST, gpu_counter=100.0, gpu_power=119.0)
    far = replace(HOST, gpu_counter=100.0, gpu_power=121.0)
    assert (near.gpu_joules, near.note) == (100.0, "")
    assert far.gpu_joules == 121.0 and "100 J" in far.note and "121 J" in far.note
    assert replace(HOST, gpu_counter=None, gpu_power=7.0).gpu_joules == 7.0
    assert replace(HOST, gpu_counter=7.0, gpu_power=None).gpu_joules == 7.0


def test_what_was_not_measured_is_noted_and_never_guessed() -> None:
    blind = replace(HOST, host="b", boot="boot-b", gpu_counter=None, gpu_power=None)
    both = carbon_of([HOST, blind], GRID)
    alone = carbon_of([HOST], GRID)
    assert both and alone and both.gpu_kwh == alone.gpu_kwh
    assert both.other_kwh == pytest.approx(2 * alone.other_kwh, rel=1e-5)
    assert [note for note in both.notes if " b " in note and "left out" in note]
    assert carbon_of([], GRID) is None
    other = carbon_of([replace(HOST, cpu=(0, 0, 0))], GRID)
    assert other and "average" in other.notes[0]


def test_hosts_of_one_computer_are_counted_once_and_attempts_each() -> None:
    """Two ranks' hosts on this computer measured all of it, each for itself. Between two attempts
    its clock was set back."""
    second = replace(HOST, host="b", seconds=HOUR - 1)
    later = replace(HOST, since=HOST.since + HOUR - 1)
    other = replace(HOST, host="c", boot="boot-c")
    carbon = carbon_of([HOST], GRID)
    same = carbon_of([second, HOST], GRID)
    three = carbon_of([HOST, second, later, other], GRID)
    assert carbon and same and three and same == carbon
    assert three.kwh == pytest.approx(3 * carbon.kwh, rel=1e-5) and three.seconds == 3 * HOUR
    assert three.machines == 2


def test_the_boots_of_a_host_are_one_machine() -> None:
    """An epoch of a run in which a host was restarted costs two hosts' energy, not three's."""
    half = replace(HOST, seconds=HOUR / 2)
    restarted = replace(half, boot="boot-a2", since=HOST.since + HOUR / 2)
    other = replace(HOST, host="b", boot="boot-b")
    carbon, steady = carbon_of([half, restarted, other], GRID), carbon_of([HOST, other], GRID)
    assert carbon and steady and carbon.machines == steady.machines == 2
    assert carbon.of(60).other_kwh == pytest.approx(steady.of(60).other_kwh, rel=1e-5)


def test_the_text_has_both_parts_the_method_and_the_source() -> None:
    carbon = carbon_of([HOST], GRID)
    assert carbon
    # 180 kJ = 0.05 kWh of the GPU, 12.402 Wh of the others; both x 1.135 x 418 g.
    assert carbon.text.startswith("30 gCO2e: measured 24 (GPUs), estimated 5.9 (CPUs, memory); ")
    for text in ("PUE 1.135", "418 g/kWh", "Electricity Maps 2025", energy.METHOD):
        assert text in carbon.text
    unknown = carbon_of([HOST], None)
    assert unknown and unknown.grams(unknown.kwh) is None and "gCO2e" not in unknown.text
    assert unknown.text.startswith("0.062 kWh: measured 0.05 (GPUs), estimated 0.012 ")


def test_the_energy_of_a_short_run_is_in_wh() -> None:
    """A second of 10 W is 0.0000028 kWh."""
    texts = {0.0: "0 kWh", 2.8e-6: "0.0028 Wh", 0.0043: "4.3 Wh", 0.01: "0.01 kWh", 3.0: "3 kWh"}
    assert {kwh: energy.energy_text(kwh) for kwh in texts} == texts
    short = replace(HOST, seconds=36.0, gpu_counter=1800.0, gpu_power=1800.0)
    unknown, known = carbon_of([short], None), carbon_of([short], GRID)
    assert unknown and known
    assert unknown.text.startswith("0.62 Wh: measured 0.5 (GPUs), estimated 0.12 ")
    assert unknown.total == "0.62 Wh" and "; 0.71 Wh with PUE" in known.text


def test_two_digits() -> None:
    values = {
        0.000434: "0.00043",
        0.0: "0",
        1.249: "1.2",
        9.96: "10",
        348.0: "350",
        12345: "12,000",
    }
    assert {value: two_digits(value) for value in values} == values


def test_a_cpu_is_found_by_its_numbers() -> None:
    assert cpus.cpu_of(6, 85, 4).name == "Skylake" and cpus.cpu_of(6, 85, 7).name == "Cascade Lake"
    assert cpus.cpu_of(6, 85, 11) is cpus.AVERAGE and cpus.cpu_of(25, 1, 1).idle == 0.46


def test_the_coefficients_are_younger_than_a_year() -> None:
    """Read them again, and write the day."""
    for source in {row.source for row in (*cpus.CPUS, cpus.AVERAGE)}:
        year, month, day = re.search(r"read (\d{4})-(\d\d)(?:-(\d\d))?$", source).groups()  # type: ignore[union-attr]
        assert date.today() - date(int(year), int(month), int(day or 1)) < timedelta(366), source
