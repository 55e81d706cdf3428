"""Tables as people have them: which columns become inputs, and what is refused with a way out."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from training.config import TrainConfig
from training.data import DataError, splits
from training.data.arrays import Arrays
from training.data.formats import csv_files
from training.data.uri import DataSource


def column(folder: Path, *values: str, **settings: Any) -> Any:
    """The inputs that these values make, as the second column after one of numbers."""
    rows = [f'{number},"{value}",{"xy"[number % 2]}' for number, value in enumerate(values)]
    (folder / "train.csv").write_text("\n".join(["n,b,label", *rows]))
    return read(folder, **settings)["train"]


def read(folder: Path, **settings: Any) -> dict[str, Any]:
    return csv_files.read(folder, TrainConfig(data="csv", **settings))


def reported(folder: Path, **settings: Any) -> tuple[Any, list[str]]:
    texts: list[str] = []
    config = TrainConfig(data="csv", **settings)
    return splits.load(config, {"train": DataSource(str(folder))}, texts.append), texts


@pytest.mark.parametrize(
    ("values", "settings", "names", "numbers"),
    [
        (["1", " 2.5", "3e1"], {}, ["b"], [[1], [2.5], [30]]),
        (["12%", "3.5 %", "0%"], {}, ["b in %"], [[12], [3.5], [0]]),
        (["True", "false", "TRUE"], {}, ["b is true"], [[1], [0], [1]]),
        (["1970-01-02", "1970-01-03T12:00"], {}, ["b in days"], [[1], [2.5]]),
        (
            ["red", "blue", "red"],
            {"categories": "onehot"},
            ["b=blue", "b=red"],
            [[0, 1], [1, 0], [0, 1]],
        ),
        (["L", "S", "M", "S"], {"categories": "index"}, ["b=L|M|S"], [[0], [2], [1], [2]]),
        (["1", "NA", "3"], {"missing": "mean"}, ["b"], [[1], [2], [3]]),
        (["1", "?", "n/a", "", "3"], {"missing": "drop"}, ["b"], [[1], [3]]),
        (
            ["red", "", "blue"],
            {"missing": "mean", "categories": "onehot"},
            ["b=blue", "b=red"],
            [[0, 1], [0, 0], [1, 0]],
        ),
    ],
)
def test_each_kind_of_column_becomes_numbers(
    tmp_path: Path, values: list[str], settings: Any, names: list[str], numbers: list[list[float]]
) -> None:
    values_read = column(tmp_path, *values, **settings)
    assert values_read.columns == ("n", *names)
    np.testing.assert_allclose(values_read.values[:, 1:], numbers, rtol=1e-6)


@pytest.mark.parametrize(
    ("values", "settings", "line", "parts"),
    [
        (["red", "blue"], {}, 2, ["'red'", "categories=onehot", "categories=index", "unused=b"]),
        (["1", "2", "x", "4"], {"categories": "onehot"}, 4, ["'x' is not a number"]),
        (["12%", "3%", "0.3"], {}, 4, ["'0.3' is not a number with %"]),
        (["1", "NA", "3"], {}, 3, ["'NA', a missing value", "b 1 of 3 rows", "missing=mean"]),
        (["", "", ""], {"missing": "mean"}, 2, ["no row has a value", "unused=b"]),
        ([f"name {n}" for n in range(30)], {"categories": "onehot"}, 2, ["30 different texts"]),
        (["a|b", "c", "c"], {"categories": "index"}, 2, ["without |"]),
    ],
)
def test_other_columns_are_refused_with_line_and_setting(
    tmp_path: Path, values: list[str], settings: Any, line: int, parts: list[str]
) -> None:
    with pytest.raises(DataError) as refused:
        column(tmp_path, *values, **settings)
    assert f"train.csv line {line}, column 'b'" in str(refused.value)
    assert [text for text in parts if text not in str(refused.value)] == []


@pytest.mark.parametrize(
    ("separator", "values", "names", "numbers"),
    [
        (",", ["1,000", "2,500,000", "999", "1,250.5"], ["b"], [1000, 2.5e6, 999, 1250.5]),
        (";", ["1,000", "2,500", "999"], ["b"], [1000, 2500, 999]),
        (",", ["1,5", "-2,25", "3"], ["b"], [1.5, -2.25, 3]),
        (";", ["1,5", "-2,25", "3"], ["b"], [1.5, -2.25, 3]),
        (",", ["31/01/1970", "02/01/1970"], ["b in days"], [30, 1]),
    ],
)
def test_the_command_of_a_message_converts_the_file(
    tmp_path: Path, separator: str, values: list[str], names: list[str], numbers: list[float]
) -> None:
    rows = [f'{n}{separator}"{value}"{separator}{"xy"[n % 2]}' for n, value in enumerate(values)]
    header = separator.join(["n", "b", "label"])
    (tmp_path / "train.csv").write_text("\n".join([header, *rows]))
    with pytest.raises(DataError) as refused:
        read(tmp_path)
    assert "'1.000'" not in str(refused.value) and "write 1.000," not in str(refused.value)
    command = re.search(r"Convert it: (.*) > NEW\.csv", str(refused.value))
    assert command, refused.value
    (tmp_path / "new").mkdir()
    converted = subprocess.run(command[1], shell=True, check=True, capture_output=True)
    (tmp_path / "new/train.csv").write_bytes(converted.stdout)
    loaded = read(tmp_path / "new")["train"]
    assert loaded.columns == ("n", *names)
    np.testing.assert_allclose(loaded.values[:, 1], numbers)


def test_other_data_is_read_as_the_training_data_was(tmp_path: Path) -> None:
    """Its categories and means are those of the training data, whatever it has itself."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    rows = "red,1,x\nblue,3,y\n" * 10
    (tmp_path / "a/train.csv").write_text("c,n,label\n" + rows)
    (tmp_path / "a/test.csv").write_text("n,c,label\n,blue,x\n7,blue,y\n")
    (tmp_path / "b/test.csv").write_bytes((tmp_path / "a/test.csv").read_bytes())
    settings: dict[str, Any] = dict(data="csv", categories="onehot", missing="mean")
    for test in ({}, {"test": DataSource(str(tmp_path / "b"))}):
        sources = {"train": DataSource(str(tmp_path / "a")), **test}
        loaded = splits.load(TrainConfig(**settings), sources, lambda text: None)
        assert loaded.test.columns == loaded.train.columns == ("c=blue", "c=red", "n")
        assert loaded.test.values.tolist() == [[1, 0, 2], [1, 0, 7]]
    names = ("x", "y")
    held = splits.held_out(
        TrainConfig(**settings),
        {"test": DataSource(str(tmp_path / "b"))},
        names,
        lambda text: None,
        ("n", "c=red", "c=blue"),
        (5.0, 0.5, 0.5),
    )
    assert held.samples.values.tolist() == [[5, 0, 1], [7, 0, 1]], "as the model has them"
    (tmp_path / "a/test.csv").unlink()
    (tmp_path / "b/test.csv").write_text("n,c,label\n1,green,x\n")
    with pytest.raises(DataError, match=r"line 2, column 'c': 'green' is none of .* blue, red"):
        splits.load(
            TrainConfig(data="csv", categories="onehot"),
            {"train": DataSource(str(tmp_path / "a")), "test": DataSource(str(tmp_path / "b"))},
            lambda text: None,
        )


@pytest.mark.parametrize(
    ("given", "split"), [(("validation", "test"), "test"), (("validation",), "validation")]
)
def test_a_model_is_evaluated_on_test_data_and_without_it_on_validation_data(
    tmp_path: Path, given: tuple[str, ...], split: str
) -> None:
    """Of the training data nothing is read: there is none."""
    for number, name in enumerate(given, 1):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.csv").write_text(f"n,label\n{number},x\n{number},y\n")
    sources = {name: DataSource(str(tmp_path / name)) for name in ("train", *given)}
    held = splits.held_out(TrainConfig(data="csv"), sources, ("x", "y"), columns=("n",))
    assert (held.split, held.samples.values.tolist()) == (split, [[len(given)]] * 2)


def test_ids_and_unused_columns_are_named(tmp_path: Path) -> None:
    rows = [f"{n},u{n},{n % 3},{n},{'xy'[n % 2]}" for n in range(20)]
    (tmp_path / "train.csv").write_text("\n".join(["id,name,store_id,paid,label", *rows]))
    loaded, texts = reported(tmp_path, unused="name")
    assert loaded.train.columns == ("store_id", "paid")
    assert "column 'id' (an id: each row has another)" in texts[0] and "'name'" in texts[0]


@pytest.mark.parametrize(
    ("files", "counts"),
    [
        ({"TRAIN.CSV": 20, "Test.csv": 4}, {"train": 20, "test": 4}),
        ({"train.csv.gz": 20, "test.csv.gz": 4}, {"train": 20, "test": 4}),
        ({"titanic_train.csv": 20, "titanic_test.csv": 4}, {"train": 20, "test": 4}),
        ({"train.csv": 20, "old_train.csv": 4, "a-test.csv": 3}, {"train": 20}),
        ({"only.csv": 20}, {"train": 20}),
    ],
)
def test_files_are_known_by_their_names(
    tmp_path: Path, files: dict[str, int], counts: dict[str, int]
) -> None:
    for name, count in files.items():
        text = "a,label\n" + "".join(f"{n},{'xy'[n % 2]}\n" for n in range(count))
        content = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
        (tmp_path / name).write_bytes(content)
    assert {split: len(samples) for split, samples in read(tmp_path).items()} == counts


def test_two_files_of_one_split_are_refused_by_name(tmp_path: Path) -> None:
    for name in ("a_train.csv", "b_train.csv"):
        (tmp_path / name).write_text("a,label\n1,x\n")
    with pytest.raises(DataError, match=r"several files of one split: a_train\.csv, b_train\.csv"):
        read(tmp_path)


@pytest.mark.parametrize("folder", [True, False])
def test_a_table_of_another_format_is_refused_with_a_command(tmp_path: Path, folder: bool) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1\0\0PAR1")
    with pytest.raises(DataError, match=r"x\.parquet is Parquet\. Convert it: uv run .*to_csv"):
        read(tmp_path if folder else tmp_path / "x.parquet")


def labelled(folder: Path, labels: list[str]) -> None:
    """Write a table with these labels."""
    rows = [f"{n},{label}" for n, label in enumerate(labels)]
    (folder / "train.csv").write_text("\n".join(["a,label", *rows]))


def some_labels(form: str, classes: int, count: int) -> list[str]:
    return [form.format(number % classes) for number in range(count)]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["nan", "x"] * 5, r"line 2: the label is 'nan', a missing value \(5 of 10 rows\)"),
        (["x", ""] * 5, r"line 3: the label is empty \(5 of 10 rows\): --set missing=drop"),
        (some_labels("{}.5", 21, 104), r"21 classes in 104 samples, .*is it task=regression"),
        (some_labels("id {}", 21, 41), r"21 classes in 41 samples.*is 'label' the column"),
    ],
)
def test_labels_that_are_not_meant_are_refused(
    tmp_path: Path, labels: list[str], message: str
) -> None:
    labelled(tmp_path, labels)
    with pytest.raises(DataError, match=message):
        reported(tmp_path)


@pytest.mark.parametrize(
    ("form", "classes", "count"), [("{}.5", 21, 105), ("id {}", 21, 42), ("id {}", 20, 20)]
)
def test_few_classes_or_some_samples_of_each_are_meant(
    tmp_path: Path, form: str, classes: int, count: int
) -> None:
    labelled(tmp_path, some_labels(form, classes, count))
    loaded, _ = reported(tmp_path)
    assert len(loaded.names) == classes


def test_doubtful_labels_are_counted(tmp_path: Path) -> None:
    labelled(tmp_path, ["Yes"] * 10 + ["yes"] * 5 + ["None"] * 5)
    loaded, texts = reported(tmp_path)
    assert loaded.names == ("None", "Yes", "yes"), "None may be the name of a class"
    assert "'Yes' (10) and 'yes' (5)" in texts[0]


def test_the_weight_of_a_row_is_left_out_with_it(tmp_path: Path) -> None:
    rows = ("n,b,w,label", "1,2,0.5,x", "2,,3,y", "3,4,7,y", ",5,9,x", "5,6,1,x")
    (tmp_path / "train.csv").write_text("\n".join(rows))
    found = read(tmp_path, missing="drop", sample_weights="w")["train"]
    assert found.columns == ("n", "b") and found.values.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found.factors.tolist() == [0.5, 7, 1] and found.labels.tolist() == [0, 1, 0]
    (tmp_path / "train.csv").write_text(
        "\n".join(("n,w,label", *(f"{n},0,{n % 2}" for n in range(9))))
    )
    with pytest.raises(DataError, match="sample_weights must be above 0 for some samples"):
        reported(tmp_path, sample_weights="w")


@pytest.mark.parametrize(
    ("labels", "message", "refused"),
    [
        (np.arange(30) % 3 + 1, "1 of 4 classes have no sample: 0", False),
        (np.minimum(np.arange(30), 24) // 2 * 2, "12 of 25 classes have no sample: 1, 3, 5", False),
        (np.arange(30) * 1000 + 500, "and 30 of them occur: is it task=regression?", True),
    ],
)
def test_classes_without_samples_are_named_or_refused(
    tmp_path: Path, labels: Any, message: str, refused: bool
) -> None:
    np.savez(tmp_path / "d.npz", x=np.ones((30, 2), np.float32), y=labels)
    sources = {"train": DataSource(str(tmp_path))}
    texts: list[str] = []
    try:
        splits.load(TrainConfig(data="numpy"), sources, texts.append)
    except DataError as error:
        assert refused and message in str(error)
    else:
        assert not refused and message in texts[0]


@pytest.mark.parametrize(
    ("counts", "held_out", "expected"),
    [
        ([396, 4], 0.1, [39, 1]),
        ([50, 50, 50], 0.1, [5, 5, 5]),
        ([3, 1, 200], 0.2, [1, 0, 40]),
        ([2] * 30, 0.1, None),
        ([1, 1], 0.5, None),
    ],
)
def test_each_class_has_its_part_of_the_held_out_samples(
    counts: list[int], held_out: float, expected: list[int] | None
) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    np.random.RandomState(0).shuffle(labels)
    samples = Arrays(np.arange(len(labels)), labels)
    parts = splits.hold_out(samples, TrainConfig(held_out=held_out))
    whole = sorted([*parts[0].values, *parts[1].values])
    assert whole == list(range(len(labels))), "each sample is in one part"
    held = np.bincount(parts[1].labels, minlength=len(counts)).tolist()
    if expected is None:
        assert sum(held) == max(1, round(held_out * len(labels)))
    else:
        assert abs(np.array(held) - expected).max() <= 1
        assert all(number or count < 2 for number, count in zip(held, counts, strict=True))


def test_a_regression_may_have_higher_labels_in_its_held_out_part(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a,label\n" + "1,3\n2,4\n" * 10)
    (tmp_path / "test.csv").write_text("a,label\n1,70\n")
    loaded, _ = reported(tmp_path, task="regression")
    assert loaded.test.labels.tolist() == [70.0]
