"""Faults put into the product on purpose, each with the tests that must fail for it.

`python -m tests.mutants` applies one after the other to a copy of the tree and runs its tests. They
are in ROOM.txt, after an empty line each: what a user would suffer, the file, the arguments of
pytest, the text with `- ` before each line, and with `+ ` what replaces it. No line of the file
around the text is given: it may change. tests/test_mutants.py verifies that each still applies.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Mutant:
    """One fault: in `file`, `old` (which occurs there once) becomes `new`."""

    what: str  # what a user would suffer
    file: str  # relative to the repository's root
    old: str
    new: str
    caught_by: tuple[str, ...]  # arguments of pytest: files or node ids; one of them must fail

    def apply(self, text: str) -> str:
        """The file's text with the fault; ValueError if `old` does not occur exactly once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has the text {text.count(self.old)} times: {self.old!r}")
        return text.replace(self.old, self.new)


def rooms() -> list[str]:
    """The files of mutants, by name."""
    return sorted(file.stem for file in FOLDER.glob("*.txt"))


def mutants(room: str) -> list[Mutant]:
    """The mutants of one file."""
    _, *blocks = (FOLDER / f"{room}.txt").read_text().split("\n\n")
    return [_read(block) for block in blocks]


def _read(block: str) -> Mutant:
    what, file, arguments, *changes = block.splitlines()
    old, new = (
        "\n".join(line[2:] for line in changes if line.startswith(sign)) for sign in ("-", "+")
    )
    return Mutant(what, file, old, new, tuple(shlex.split(arguments)))
