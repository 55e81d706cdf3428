"""Faults put into the product on purpose, each with the tests that must fail for it.

`python -m tests.mutants` applies one after the other to a copy of the tree and runs its tests. They
are kept as pairs of texts, not as diffs: lines around them may change. tests/test_mutants.py
verifies that each still applies.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass


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
    """The modules of mutants, by name."""
    return sorted(
        module.name for module in pkgutil.iter_modules(__path__) if module.name != "__main__"
    )


def mutants(room: str) -> list[Mutant]:
    """The mutants of one module."""
    found = importlib.import_module(f"{__name__}.{room}").MUTANTS
    return list(found)
