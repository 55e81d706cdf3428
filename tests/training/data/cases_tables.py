"""Labels, tables and texts as people write them; and what of a folder is not used."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from samples.files import image_folder, load, mnist_folder, pixels
from samples.trainings import folder_with
from standins.case_runner import case, refused

from training import data
from training.config import TrainConfig
from training.data import splits
from training.data.__main__ import main as data_command
from training.data.formats import decoding, imdb
from training.data.uri import DataSource

# One pixel: what cwebp makes of it, lossless.
WEBP = struct.pack("<4sI8sI", b"RIFF", 26, b"WEBPVP8L", 13) + bytes.fromhex(
    "2f0000001007101111" + "8888fe0700"
)


def reported(name: str, folder: Path, **settings: Any) -> tuple[data.Dataset, list[str]]:
    """A data set, and what was reported while it was read."""
    texts: list[str] = []
    config = TrainConfig(data=name, **settings)
    return splits.load(config, {"train": DataSource(str(folder))}, texts.append), texts


def apart(name: str, folder: Path, other: Path, **settings: Any) -> data.Dataset:
    """Training data, and test data that is given by itself."""
    sources = {"train": DataSource(str(folder)), "test": DataSource(str(other))}
    return splits.load(TrainConfig(data=name, **settings), sources)


def table(path: Path, header: str, rows: str, times: int = 10, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((header + rows * times).encode(encoding))
    return path


@case
def labels_that_are_equal_numbers_are_one_class(folder: Path) -> None:
    table(folder / "a/train.csv", "a,label\n", "1,1\n2,2\n3,10\n")
    table(folder / "a/test.csv", "a,label\n", "1,1.0\n2, 2.00\n3,1.0e+01\n", 1)
    loaded = load("csv", folder / "a")
    assert loaded.names == ("1", "2", "10") and loaded.test.labels.tolist() == [0, 1, 2]
    table(folder / "b/train.csv", "a,label\n", "1,0.0\n2,0.5\n3,-0\n")
    assert load("csv", folder / "b").names == ("0", "0.5")
    table(folder / "c/train.csv", "a,label\n", "1,n\n2,x\n3,12345678901234567890\n")
    assert load("csv", folder / "c").names == ("12345678901234567890", "n", "x")
    table(folder / "d/train.csv", "a,label\n", "1,0e1\n2,0e2\n3,1_1\n4,11\n")
    assert load("csv", folder / "d").names == ("11", "0e1", "0e2", "1_1"), "names, not numbers"


@case
def images_of_a_table_have_classes_by_value_too(folder: Path) -> None:
    image_folder(folder / "made")
    (folder / "made/ant").rename(folder / "images")
    rows = [f"{file.name},{n % 2}{'.0' * (n // 4)}" for n, file in listed(folder / "images")]
    (folder / "train.csv").write_text("\n".join(["image_id,label", *rows]))
    assert load("images", folder, image_size=8).names == ("0", "1")


def listed(folder: Path) -> list[tuple[int, Path]]:
    return list(enumerate(sorted(folder.iterdir())))


@case
def tables_of_other_programs_are_read(folder: Path) -> None:
    for number, (delimiter, encoding) in enumerate([(";", "utf-8-sig"), ("\t", "utf-8")]):
        header, rows = (
            text.replace(",", delimiter) for text in ("label,a,größe\n", "ja,1,2\nnein,3,4\n\n")
        )
        path = table(folder / f"{number}.csv", header, rows, encoding=encoding)
        loaded = load("csv", path)
        assert loaded.names == ("ja", "nein") and loaded.inputs.shape == (2,)
        assert len(loaded.train) + len(loaded.validation) == 20, "empty lines are not samples"


@case
def tables_that_are_not_read_are_refused_with_their_place(folder: Path) -> None:
    header, path = "label,a\n", folder / "train.csv"
    for text, encoding, parts in (
        ("ja,1\nné,2\n", "latin-1", ("train.csv line 3 is not UTF-8", "iconv -f LATIN1 -t UTF-8")),
        ("ja,1\n", "utf-16", ("train.csv is not UTF-8", "iconv -f UTF-16 -t UTF-8")),
        ("ja,1\nja,\n", "utf-8", ("train.csv line 3, column 'a' is empty",)),
        (",1\n", "utf-8", ("train.csv line 2: the label is empty",)),
        ('ja,"1,5"\n', "utf-8", ("line 2, column 'a': '1,5' is not a number", "1.5")),
    ):
        table(path, header, text, 1, encoding)
        with refused(*parts):
            load("csv", folder)
    table(path, "a,b\n", "1,2\n")
    with refused("train.csv has no column 'label': --set label=COLUMN", "columns: a, b"):
        load("csv", folder)
    table(path, "label,a,label\n", "1,2,3\n")
    with refused("train.csv has 2 columns 'label'"):
        load("csv", folder)
    table(path, "label\n", "1\n")
    with refused("train.csv has no column beside 'label'"):
        load("csv", folder)
    table(path, header, "ja,1\n\n\nja,x\n", 1)
    with refused("train.csv line 5, column 'a': 'x' is not a number"):
        load("csv", folder)


@case
def the_columns_of_all_tables_are_the_same(folder: Path) -> None:
    table(folder / "train.csv", "a,b,label\n", "1,2,0\n3,4,1\n")
    table(folder / "test.csv", "b,a,label\n", "2,1,0\n4,3,1\n", 1)
    assert load("csv", folder).test.values.tolist() == [[1, 2], [3, 4]], "in any order"
    table(folder / "test.csv", "b,c,label\n", "2,1,0\n4,3,1\n")
    with refused("test.csv has the columns b, c, but its inputs must be a, b"):
        load("csv", folder)


@case
def shards_of_tables_keep_the_names_of_the_columns(folder: Path) -> None:
    table(folder / "a.csv", "a,b,label\n", "1,2,0\n3,4,1\n")
    table(folder / "b.csv", "b,a,label\n", "2,1,0\n4,3,1\n")
    for name in "ab":
        source = [str(folder / f"{name}.csv"), str(folder / name), "--shards", "1"]
        assert data_command(["shard", *source, "--data", "csv"]) == 0
    assert len(apart("csv", folder / "a", folder / "a.csv").test) == 20
    assert apart("csv", folder / "a", folder / "b.csv").test.values[0].tolist() == [1, 2]
    with refused("test has the columns b, a, but train has a, b"):
        apart("csv", folder / "a", folder / "b")
    document = json.loads((folder / "b/manifest.json").read_text())
    del document["schema"]["columns"]  # as shards were written before
    (folder / "b/manifest.json").write_text(json.dumps(document))
    assert len(apart("csv", folder / "a", folder / "b").test) == 20


@case
def an_index_that_pandas_wrote_is_no_input(folder: Path) -> None:
    table(folder / "train.csv", ",a,label,Unnamed: 0\n", "0,5,x,0\n1,6,y,1\n")
    loaded, texts = reported("csv", folder)
    assert loaded.inputs.shape == (1,) and sorted(set(loaded.train.values.ravel())) == [5, 6]
    assert len(texts) == 1 and "train.csv column 1 without a name" in texts[0]
    assert "column 'Unnamed: 0'" in texts[0] and str(folder) in texts[0]


@case
def words_of_every_alphabet_count(folder: Path) -> None:
    config = TrainConfig(vocabulary=20000, text_length=20)

    def numbers(text: str) -> list[int]:
        return imdb.words(text, config)

    assert numbers("It's GOOD,fine_1") == numbers("it's good fine 1")
    assert len(set(numbers("it's good fine"))) == 3
    assert len(set(numbers("хороший плохой фильм"))) == 3
    assert numbers("Хороший ФИЛЬМ!") == numbers("хороший фильм")
    assert numbers("cafe\u0301 naïve") == numbers("café naïve") != numbers("caf na ve")
    assert len(numbers("हिन्दी में")) == 2, "the marks of a word belong to it"
    assert numbers("好电影") == numbers("好 电 影"), "no spaces: each character is a word"
    assert numbers("… — !") == []


@case
def texts_have_classes_of_any_name(folder: Path) -> None:
    for split in ("train", "val"):
        for name, text in (("спорт", "гол и мяч"), ("Кино", "фильм"), ("unsup", "?")):
            (folder / split / name).mkdir(parents=True)
            for number in range(3):
                (folder / split / name / f"{number}.txt").write_text(text)
    (folder / "train/Кино/0.doc").write_text("")
    loaded, texts = reported("imdb", folder, task="classification", text_length=4)
    assert loaded.names == ("Кино", "спорт") and len(loaded.train) == len(loaded.validation) == 6
    assert len(texts) == 1 and "1 file (.doc), Кино/0.doc" in texts[0]
    assert "the folder unsup (texts without a label)" in texts[0]
    (folder / "val/Кино/0.txt").write_bytes("dé\nja".encode("latin-1"))
    with refused("val/Кино/0.txt line 1 is not UTF-8", "iconv -f LATIN1"):
        load("imdb", folder)


@case
def what_is_not_used_of_a_folder_is_counted_and_named(folder: Path) -> None:
    image_folder(folder / "i")
    (folder / "i/ant/x.WEBP").write_bytes(WEBP)
    (folder / "i/bee/notes.txt").write_text("")
    (folder / "i/readme.md").write_text("")
    loaded, texts = reported("images", folder / "i", image_size=8)
    read = decoding.WEBP or decoding.PILLOW
    assert len(loaded.train) + len(loaded.validation) == 12 + read
    assert {samples.find_fault() for samples in (loaded.train, loaded.validation)} == {""}
    assert loaded.train.reader()(tf.range(len(loaded.train)))[0].shape[1:] == (8, 8, 3)
    count = "2 files (1 .md, 1 .txt)" if read else "3 files (1 .md, 1 .txt, 1 .webp)"
    first = "bee/notes.txt" if read else "ant/x.WEBP"
    assert len(texts) == 1 and texts[0].endswith(f"{count}, such as {first}"), texts

    mnist_folder(folder / "m")
    (folder / "m/extra.bin").write_bytes(b"")
    assert "1 file (.bin), extra.bin" in reported("mnist", folder / "m")[1][0]
    table(folder / "c/train.csv", "a,label\n", "1,0\n2,1\n")
    table(folder / "c/more.csv", "a,label\n", "1,0\n")
    assert "1 file (.csv), more.csv" in reported("csv", folder / "c")[1][0]


@case
def an_image_folder_may_call_its_validation_data_val(folder: Path) -> None:
    image_folder(folder / "train")
    image_folder(folder / "val", count=2)
    image_folder(folder / "other", count=1)
    loaded, texts = reported("images", folder, image_size=8)
    assert (len(loaded.train), len(loaded.validation)) == (12, 4)
    assert len(texts) == 1 and "the folder other" in texts[0]


@case
def arrays_for_validation_are_used_and_others_named(folder: Path) -> None:
    x, y = pixels(20, 4, 4), np.arange(20) % 2
    arrays = dict(x_train=x, y_train=y, x_val=x[:4], y_val=y[:4], x_test=x[:3], y_test=y[:3])
    with folder_with(folder, **arrays, sample_weight=y) as source:
        loaded, texts = reported("numpy", source)
    assert (len(loaded.train), len(loaded.validation), len(loaded.test)) == (20, 4, 3)
    assert len(texts) == 1 and "the array sample_weight" in texts[0]
    (folder / "more.npy").write_bytes(b"")
    np.savez(folder / "d.npz", x=x, y=y)
    assert "1 file (.npy), more.npy" in reported("numpy", folder)[1][0]


@case
def one_hot_labels_are_classes(folder: Path) -> None:
    x, labels = pixels(9, 4), np.arange(9) % 3
    with folder_with(folder, x=x, y=np.eye(3, dtype=np.float32)[labels]) as source:
        loaded = load("numpy", source)
        assert loaded.classes == 3
        taken = dict(zip(map(bytes, x), labels.tolist(), strict=True))
        for samples in (loaded.train, loaded.validation):
            assert samples.labels.tolist() == [taken[bytes(row)] for row in samples.values]
    for wrong in (np.ones((9, 3)), np.eye(3)[labels] * 2, np.zeros((9, 3, 1))):
        with folder_with(folder, x=x, y=wrong) as source, refused("d.npz: y has the shape (9, 3"):
            load("numpy", source)
    with folder_with(folder, x=x, y=np.eye(3)[labels]) as source, refused("one-hot"):
        load("numpy", source, task="regression")


@case
def validation_data_may_lack_a_class(folder: Path) -> None:
    image_folder(folder / "i/train", "ant bee cow")
    image_folder(folder / "i/validation", "cow ant", count=2)
    loaded = load("images", folder / "i", image_size=8)
    assert loaded.validation.labels.tolist() == [0, 0, 2, 2] and loaded.classes == 3
    table(folder / "c/a.csv", "a,label\n", "1,x\n2,y\n3,z\n")
    table(folder / "t/b.csv", "a,label\n", "5,z\n6,y\n", 1)
    loaded = apart("csv", folder / "c", folder / "t")
    assert loaded.test.labels.tolist() == [2, 1] and loaded.test.classes == ("x", "y", "z")
    table(folder / "t/b.csv", "a,label\n", "5,z\n6,q\n", 1)
    with refused("test has the class q, but train has x, y, z"):
        apart("csv", folder / "c", folder / "t")
    held = splits.held_out(
        TrainConfig(data="csv"), {"test": DataSource(str(folder / "t"))}, ("p", "q", "y", "z")
    )
    assert held.samples.labels.tolist() == [3, 1]


@case
def a_class_is_the_one_of_the_same_name_before_one_of_the_same_number(folder: Path) -> None:
    image_folder(folder / "train", "01 1 2")
    image_folder(folder / "validation", "01 2", count=2)
    loaded = load("images", folder, image_size=8)
    assert loaded.names == ("01", "1", "2") and loaded.validation.labels.tolist() == [0, 0, 2, 2]


@case
def one_class_is_nothing_to_learn(folder: Path) -> None:
    table(folder / "train.csv", "a,label\n", "1,x\n2,x\n")
    with refused("train has one class, x: classification needs at least 2"):
        load("csv", folder)
    image_folder(folder / "i/flowers", "ant bee")
    with refused("has one class, flowers"):
        load("images", folder / "i")
