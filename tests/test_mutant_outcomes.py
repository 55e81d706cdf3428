"""How `make mutants` judges the tests of a fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants import Mutant
from mutants.__main__ import outcome_of


@pytest.mark.parametrize(
    ("test", "outcome"),
    [
        ("assert double(2) == 4", "caught"),
        ("assert double(0) == 0", "LIVED"),
        ("assert double(2) == 5", "broken"),  # it fails without the fault, too
        ("import no_such_module", "broken"),
    ],
)
def test_a_fault_is_caught_by_tests_that_pass_without_it(
    tmp_path: Path, test: str, outcome: str
) -> None:
    product = "def double(number):\n    return 2 * number\n"
    (tmp_path / "product.py").write_text(product)
    (tmp_path / "test_it.py").write_text(
        f"from product import double\n\n\ndef test_it():\n    {test}\n"
    )
    fault = Mutant("it triples", "product.py", "2 *", "3 *", caught_by=("test_it.py",))
    assert outcome_of(fault, tmp_path)[0] == outcome
    assert (tmp_path / "product.py").read_text() == product
