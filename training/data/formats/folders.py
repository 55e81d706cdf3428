"""Data in folders and text files of users: which splits exist, and which files are not used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import DataError

# What the splits are called in folders, files and arrays.
SPLIT_OF = {
    "train": "train",
    "validation": "validation",
    "val": "validation",
    "valid": "validation",
    "test": "test",
}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def splits_in(names: Iterable[str]) -> dict[str, str]:
    """Which of these names stands for each split; if several do, the first one in SPLIT_OF."""
    there = set(names)
    split_names: dict[str, str] = {}
    for name, split in SPLIT_OF.items():
        if name in there:
            split_names.setdefault(split, name)
    return split_names


def read_splits(folder: Path, read: Callable[[Path], Any]) -> dict[str, Any]:
    """The samples of each split, from the folder with its name; without such folders all of
    `folder` is training data. The training data also lists what is not used."""
    inside = list(folder.iterdir())
    names = splits_in(item.name for item in inside if item.is_dir())
    if "train" not in names:
        return {"train": read(folder)}
    rest = not_used([item for item in inside if item.name not in names.values()], folder)
    splits = {split: read(folder / name) for split, name in names.items()}
    return {**splits, "train": replace(splits["train"], ignored=(*rest, *splits["train"].ignored))}


def not_used(paths: Iterable[Path], folder: Path) -> tuple[str, ...]:
    """In words, how many files these are, their endings, and the first one; folders by name."""
    folders: list[str] = []
    files: list[str] = []
    for path in sorted(paths):
        (folders if path.is_dir() else files).append(path.relative_to(folder).as_posix())
    texts = [f"the folder {name}" for name in folders]
    if files:
        texts.append(_counted(files))
    return tuple(texts)


def _counted(names: list[str]) -> str:
    endings = Counter(Path(name).suffix.lower() or "without an ending" for name in names)
    if len(names) == 1:
        return f"1 file ({next(iter(endings))}), {names[0]}"
    counts = ", ".join(f"{count} {ending}" for ending, count in sorted(endings.items()))
    return f"{len(names)} files ({counts}), such as {names[0]}"


def read_text(path: Path) -> str:
    """A file of UTF-8, with or without a byte order mark.

    Raises:
        DataError: it cannot be read, or has another encoding; the message has the line.
    """
    try:
        return decoded(path.read_bytes(), path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def decoded(content: bytes, path: Path) -> str:
    """The text of a file; DataError for another encoding than UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wide = content.startswith(UTF_16)
        line = content.count(b"\n", 0, error.start) + 1
        place = str(path) if wide else f"{path} line {line}"
        encoding = "UTF-16" if wide else "LATIN1"
        raise DataError(
            f"{place} is not UTF-8. Convert it: iconv -f {encoding} -t UTF-8 {path} > NEW"
        ) from None
