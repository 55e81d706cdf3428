from __future__ import annotations

import math
import time
from types import SimpleNamespace
from typing import Any

import pytest

from bootstrap.console import progress
from bootstrap.console.progress import Done, Transfer, training_done
from bootstrap.console.text import (
    bar,
    clean,
    columns_of,
    count,
    duration,
    fit,
    last_state,
    percent,
    size,
)
from bootstrap.console.text import record_line as line_of
from railhead.documents.codec import decode
from railhead.documents.runs.records import Record

PROGRESS = {
    "kind": "progress", "epoch": 1, "epochs": 5, "step": 12, "steps": 100, "loss": 2.1,
    "samples_per_s": 900.0, "seconds_left": 12.5,
}  # fmt: skip
EPOCH = {
    "kind": "epoch", "epoch": 2, "epochs": 10, "loss": 0.31234, "accuracy": 0.9,
    "val_loss": 0.00012, "val_accuracy": 0.95, "samples_per_s": 12345.6,
}  # fmt: skip


def record_line(record: dict[str, Any]) -> str:
    return line_of(decode(Record, record))


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (PROGRESS, "epoch 1/5  step  12/100  loss 2.100  900 samples/s"),
        ({"kind": "stall", "text": "rank 1 \x1b[1mon b"}, "no progress: rank 1 on b"),
        ({"kind": "long_step", "text": "rank 1 on b\n"}, "a long step: rank 1 on b "),
        (
            EPOCH,
            "epoch  2/10  loss 0.312  accuracy 0.900  held-out loss 1.2e-04"
            "  held-out accuracy 0.950  12,346 samples/s",
        ),
        (
            {"kind": "evaluation", "accuracy": 0.97, "loss": 0.1, "samples": 360},
            "evaluation  loss 0.100  accuracy 0.970  on 360 held-out samples",
        ),
        ({"kind": "message", "text": "weights\x1b[2J equal\n"}, "weights equal "),
        ({"kind": "progress", "loss": math.nan}, "loss nan"),
        ({"kind": "progress", "epoch": 3, "step": "x", "loss": None}, "epoch 3"),
        ({"kind": "progress", "step": 0, "steps": 0}, "step 0/0"),
        ({"kind": "progress", "step": 10**400, "loss": True}, ""),
        ({"kind": "progress", "samples_per_s": 1.25}, "1.2 samples/s"),
        ({"kind": "evaluation"}, "evaluation"),
        (
            {"kind": "evaluation", "loss": "0.25", "accuracy": "half", "samples": [360]},
            "evaluation  loss 0.250",
        ),
        (
            {"kind": "epoch", "epoch": "2", "epochs": "10", "loss": " 1e-4 "},
            "epoch  2/10  loss 1.0e-04",
        ),
        ({"kind": "epoch", "epoch": math.nan, "samples_per_s": math.inf}, "inf samples/s"),
        ({"kind": "progress", "step": math.inf, "steps": math.nan}, ""),
        ({"kind": "progress", "text": "half of it"}, "half of it"),
        ({"kind": "message"}, ""),
        ({"kind": "message", "text": None}, ""),
        ({"kind": "message", "text": ["a", 1]}, "['a', 1]"),
        ({"kind": ["message"], "text": "x"}, ""),
        ({"kind": "something else", "loss": 1.0}, ""),
        ({}, ""),
    ],
)
def test_a_record_becomes_one_line(record: dict[str, Any], line: str) -> None:
    assert record_line(record) == line


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        (PROGRESS, "[#...........]  12 %  12 s left"),
        ({"step": 100, "steps": 100}, "[############] 100 %"),
        ({"step": 300, "steps": 100, "seconds_left": -1}, "[############] 100 %  ? left"),
        ({"step": 1, "steps": 0, "seconds_left": 75}, "1 min 15 s left"),
        ({"step": math.inf, "steps": 3}, ""),
        ({"step": 1e300, "steps": 1e-300}, ""),
        ({}, ""),
    ],
)
def test_progress_is_a_bar_with_the_time_left(record: dict[str, Any], shown: str) -> None:
    assert training_done(decode(Record, record)).bar == shown


def test_a_transfer_has_bytes_and_a_rate() -> None:
    transfer = Transfer(1000, started=time.monotonic() - 1e6)
    text, done = transfer.add(200)
    assert (text, done.fraction) == ("200 B of 1.0 kB, 0 B/s", 0.2)
    assert transfer.reach(1000)[1] == Done(1.0)
    assert Transfer(0).add(0)[1] == Done()


@pytest.mark.parametrize(("seconds", "has_time_left"), [(8_000, True), (12_000, False)])
def test_what_hardly_moves_has_no_time_left(seconds: int, has_time_left: bool) -> None:
    """As the bytes of other programs while packages are copied from the host's own cache."""
    _, done = Transfer(1000, started=time.monotonic() - seconds).reach(100)
    assert (done.seconds_left is not None) is has_time_left


def test_the_time_left_is_that_of_the_bytes_that_move_now(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    transfer, shown = Transfer(1000, started=0.0), dict[float, tuple[str, float | None]]()
    for now, arrived in ((10, 500), (20, 505), (30, 510), (40, 510), (50, 610), (60, 1000)):
        text, done = transfer.reach(arrived)
        shown[now] = text.rpartition(", ")[2], done.seconds_left
    assert shown == {
        10: ("50 B/s", 10.0),
        20: ("0 B/s", 990.0),
        30: ("0 B/s", 980.0),
        40: ("0 B/s", None),  # nothing moves
        50: ("10 B/s", 39.0),
        60: ("39 B/s", None),  # what follows is no transfer
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (0.44, "0.4 s"),
        (9.94, "9.9 s"),
        (9.95, "10 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.7, "1 min"),
        (75, "1 min 15 s"),
        (3599.6, "1 h"),
        (7525, "2 h 5 min"),
        (90061, "1 d 1 h"),
        (-1, "?"),
        (math.nan, "?"),
        (math.inf, "?"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (812, "812 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_940, "9.9 kB"),
        (9_950, "10 kB"),
        (10_400, "10 kB"),
        (999_500, "1.0 MB"),
        (21_400_000, "21 MB"),
        (999_999, "1.0 MB"),
        (1_600_000_000, "1.6 GB"),
        (2_500_000_000_000, "2.5 TB"),
    ],
)
def test_sizes_are_in_powers_of_1000(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("fraction", "picture"),
    [
        (0, "[....]"),
        (0.5, "[##..]"),
        (0.99, "[###.]"),
        (1, "[####]"),
        (7, "[####]"),
        (-1, "[....]"),
        (math.nan, "[....]"),
    ],
)
def test_a_bar_is_full_only_at_the_end(fraction: float, picture: str) -> None:
    assert bar(fraction, 4) == picture


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[Hgone", "gone"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]52;c;c2VjcmV0\x1b\\after", "after"),
        ("\x9b2Jafter", "after"),
        ("\x1bcreset", "reset"),
        ("\x1b(0lines", "lines"),
        ("bell\x07 back\b\b null\0", "bell back null"),
        ("a\tb\r\nc\u2028d", "a b  c d"),
        ("user\u202egpj.exe", "usergpj.exe"),
        ("torn \x1b", "torn "),
        ("lone \udc80 surrogate", "lone  surrogate"),
        ("Genauigkeit größer, 精度", "Genauigkeit größer, 精度"),
    ],
)
def test_text_from_a_host_cannot_move_the_cursor(text: str, safe: str) -> None:
    assert clean(text) == safe


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "lo..."),
        ("精度精度", 8, "精度精度"),
        ("精度精度", 7, "精度..."),
        ("e\u0301tude", 5, "e\u0301tude"),
        ("longer", 2, ".."),
        ("longer", 0, ""),
    ],
)
def test_a_line_is_cut_to_the_columns_it_takes(text: str, columns: int, shown: str) -> None:
    assert fit(text, columns) == shown
    assert columns_of(fit(text, columns)) <= columns


@pytest.mark.parametrize(
    ("fraction", "digits", "text"), [(0.5, 0, "50 %"), (0.9724, 1, "97.2 %"), (1.0, 0, "100 %")]
)
def test_a_part_of_1_is_in_percent(fraction: float, digits: int, text: str) -> None:
    assert percent(fraction, digits) == text
    assert percent(fraction) == f"{100 * fraction:.0f} %"


COUNTS = [(0, "rank", "0 ranks"), (1, "rank", "1 rank"), (2, "process", "2 processes")]
COUNTS += [(1, "process", "1 process"), (1000, "file", "1000 files")]


@pytest.mark.parametrize("number, noun, text", COUNTS)
def test_one_or_more_of_a_thing(number: int, noun: str, text: str) -> None:
    assert count(number, noun) == text


@pytest.mark.parametrize(
    "loss, text",
    [(0, "0.000"), (0.001, "0.001"), (0.0009, "9.0e-04"), (999.0, "999.000"), (1000, "1.0e+03")],
)
def test_a_value_is_short_at_any_size(loss: float, text: str) -> None:
    assert f"loss {text}  " in record_line({**EPOCH, "loss": loss})


@pytest.mark.parametrize("speed, text", [(9.9, "9.9 samples/s"), (10.0, "10 samples/s")])
def test_a_slow_speed_has_a_decimal(speed: float, text: str) -> None:
    assert text in record_line({**EPOCH, "samples_per_s": speed})


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("a line\n", "a line"),
        ("1%\r2%\r 3%", " 3%"),
        ("1%\r2%\r\r\n", "2%"),
        ("12/12 [=\b\b=] - done  \n", "=] - done"),
        ("\r\n", ""),
        ("", ""),
    ],
)
def test_of_a_line_that_is_written_over_the_last_state_is_shown(line: str, state: str) -> None:
    assert last_state(line) == state
