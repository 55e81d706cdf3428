"""Faults in what may be believed of a host."""

from __future__ import annotations

from . import Mutant

MUTANTS = [
    Mutant(
        what="git runs the program of a repository among fetched results",
        file="railhead/documents/runs/local_names.py",
        old="return HIDDEN + part[1:]",
        new="return part",
        caught_by=("tests/bootstrap/untrusted/test_local_names.py",),
    ),
    Mutant(
        what="a host's archive larger than announced fills the disk",
        file="bootstrap/untrusted/unpack.py",
        old="return limit + limit // 1000 + FILES * 4 * BLOCK",
        new="return 1 << 62",
        caught_by=("tests/bootstrap/untrusted/test_unpack.py",),
    ),
]
