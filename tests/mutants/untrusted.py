"""Faults in what may be believed of a host."""

from __future__ import annotations

from . import Mutant

MUTANTS = [
    Mutant(
        what="a fabfile that another user has written is run",
        file="bootstrap/cli/program.py",
        old="    refuse_of_others(chosen / FILE)\n",
        new="",
        caught_by=("tests/bootstrap/project/test_files_of_others.py",),
    ),
    Mutant(
        what="git runs a filter of the repository of a program",
        file="bootstrap/inventory/git.py",
        old='protocol.allow=never", *settings]',
        new='protocol.allow=never"]',
        caught_by=("tests/bootstrap/project/test_files_of_others.py",),
    ),
    Mutant(
        what="git runs the program of a repository among fetched results",
        file="railhead/documents/runs/local_names.py",
        old="return HIDDEN + name[1:]",
        new="return name",
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
