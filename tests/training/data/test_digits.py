"""The digits that are shipped."""

from __future__ import annotations

import hashlib

import pytest

pytest.importorskip("numpy")

from training.config import TrainConfig
from training.data import splits
from training.data.formats import digits


def test_the_file_is_the_one_whose_origin_is_stated() -> None:
    digest = hashlib.sha256(digits.FILE.read_bytes()).hexdigest()
    assert digest in (digits.__doc__ or "")
    assert digits.FILE.with_name("digits.LICENSE").read_text().startswith("BSD 3-Clause License")


def test_the_last_fifth_is_held_out_whatever_the_seed() -> None:
    everything = digits.read_all().values
    for seed in (0, 1):
        loaded = splits.load(TrainConfig(seed=seed), {})
        assert (loaded.train.values.shape, len(loaded.validation)) == ((1437, 8, 8, 1), 360)
        assert (loaded.validation.values == everything[1437:]).all()
        assert (loaded.train.values == everything[:1437]).all()


def test_pixels_are_between_0_and_1_and_all_digits_occur() -> None:
    held_out = digits.read_all()
    assert (held_out.values.min(), held_out.values.max()) == (0, 1)
    assert set(held_out.labels) == set(range(10))
