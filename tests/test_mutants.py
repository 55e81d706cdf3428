"""The mutants fit the code, so `make mutants` can apply them."""

from __future__ import annotations

import re

import mutants
import pytest
from mutants import Mutant
from places import ROOT, tree_of

ALL = [
    pytest.param(mutant, id=f"{room}-{number}")
    for room in mutants.rooms()
    for number, mutant in enumerate(mutants.mutants(room), 1)
]


@pytest.mark.parametrize("mutant", ALL)
def test_a_mutant_applies_to_the_code_and_names_tests_that_exist(mutant: Mutant) -> None:
    broken = mutant.apply((ROOT / mutant.file).read_text())
    if mutant.file.endswith(".py"):
        tree_of(broken)
    places = [
        argument
        for before, argument in zip(("", *mutant.caught_by), mutant.caught_by, strict=False)
        if "-k" not in (before, argument)
    ]
    assert places
    for argument in places:
        file, _, name = argument.partition("::")
        assert (ROOT / file).exists(), file
        assert not name or name.partition("[")[0] in (ROOT / file).read_text(), name
    if "-k" in mutant.caught_by:
        words = mutant.caught_by[-1].split(" or ")
        names = re.findall(r"def (test_\w+)", (ROOT / places[0]).read_text())
        assert all(any(word in name for name in names) for word in words), words
