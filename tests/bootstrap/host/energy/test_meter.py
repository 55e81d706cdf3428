"""What a host has used, from samples."""

from __future__ import annotations

import json

import pytest
from places import CASES

from bootstrap.host.energy.meter import Meter, Sample
from bootstrap.host.energy.sampler import PERIOD


def metered(*samples: Sample) -> Meter:
    meter = Meter(samples[0])
    for sample in samples[1:]:
        meter.add(sample)
    return meter


def gpu(clock: float, counter: int | None, power: int | None) -> Sample:
    return Sample(clock, [counter], [power], 0, 0)


def test_the_counter_is_a_difference_and_the_power_an_integral() -> None:
    meter = metered(gpu(10, 5000, 100_000), gpu(11, 105_000, 300_000), gpu(13, 500_000, 300_000))
    assert meter.counted == 495.0
    assert meter.integral == pytest.approx((100 + 300) / 2 * 1 + 300 * 2)
    assert meter.seconds == 3


def test_all_gpus_are_added_and_one_without_makes_the_sum_unknown() -> None:
    two = metered(
        Sample(0, [0, 10], [1000, 2000], 0, 0), Sample(1, [7000, 3010], [1000, 2000], 0, 0)
    )
    assert (two.counted, two.integral) == (10.0, 3.0)
    lacking = metered(
        Sample(0, [0, None], [1000, 2000], 0, 0), Sample(1, [7, None], [1000, 2000], 0, 0)
    )
    assert (lacking.counted, lacking.integral) == (None, 3.0)
    none = metered(Sample(0, [], [], 0, 0), Sample(1, [], [], 0, 0))
    assert (none.counted, none.integral) == (None, None)


def test_a_counter_that_starts_again_with_its_driver_counts_no_more() -> None:
    meter = metered(gpu(0, 900, 1000), gpu(1, 100, 1000), gpu(2, 300, 1000))
    assert meter.counted is None and meter.integral == 2.0


def test_the_integral_goes_over_a_gap() -> None:
    meter = metered(gpu(0, None, 1000), gpu(1, None, None), gpu(2, None, 3000))
    assert meter.integral == 4.0


def test_the_load_is_the_busy_part_of_the_ticks() -> None:
    samples = (
        Sample(0, [], [], 500, 1000),
        Sample(1, [], [], 600, 1100),
        Sample(2, [], [], 600, 1400),
    )
    assert metered(*samples).load == 0.25
    assert metered(samples[0]).load == 0.0
    back = Sample(1, [], [], 100, 1100)  # some kernels count back after a CPU was removed
    assert metered(samples[0], back).load == 0.0


def test_the_counter_and_the_power_of_an_h200_agree() -> None:
    """Idle, 8 s of matrix products, idle, as driver 580.159.04 says each 0.1 s: the power is a mean
    of the last second, so that it rises and falls later than the counter."""
    readings = json.loads((CASES / "gpu/h200-energy.json").read_text())
    each_second = [readings[0]]
    for reading in readings:
        if reading[0] - each_second[-1][0] >= PERIOD:
            each_second.append(reading)
    assert 15 < len(each_second) < 22
    for taken in (readings, each_second):
        meter = metered(*(gpu(*reading) for reading in taken))
        assert meter.counted == (taken[-1][1] - taken[0][1]) / 1000 > 6000
        assert meter.integral == pytest.approx(meter.counted, rel=0.01)
