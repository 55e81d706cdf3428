"""The pages beside their text: pictures, words, examples."""

from __future__ import annotations

import re

import pytest
from places import ROOT

from pages import pictures, words
from pages.marked import DOCS

# Shorten before you raise it: nobody reads more.
MOST_WORDS = 33_100
MOST_WORDS_OF = {"README.md": 900, "troubleshooting.md": 3_200}


def test_the_pictures_are_what_the_code_draws() -> None:
    """`make pictures` draws them."""
    assert pictures.CURVES.read_text() == pictures.drawn_curves()
    assert pictures.REPORT_DIGEST.read_text() == pictures.digest(pictures.report_page())
    assert pictures.REPORT.read_bytes().startswith(b"\x89PNG")


def test_the_pages_stay_short_enough_to_be_read() -> None:
    counted = words.counts()
    assert sum(counted.values()) <= MOST_WORDS
    for path, number in counted.items():
        assert number <= MOST_WORDS_OF.get(path.name, MOST_WORDS), path.name


def test_words_of_tables_count_and_those_of_code_and_generated_parts_do_not() -> None:
    page = "One two.\n\n```sh\nfab train\n```\n\n| a `b` | c |\n|---|---|\n"
    generated = "<!-- generated: x -->\n| many words |\n<!-- end -->\n"
    assert words.words(page + generated) == 5


def blocks(page: str) -> list[str]:
    """The Python of a page."""
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)


def test_every_example_is_on_its_page() -> None:
    listed = re.findall(r"^\| \[`([\w.]+)`\]", (DOCS / "examples.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "examples").iterdir())


@pytest.mark.parametrize(
    ("page", "example"),
    [
        ("getting-started.md", "horovod_fit.py"),
        ("coming-from.md", "sagemaker.py"),
        ("training.md", "own_model.py"),
    ],
)
def test_a_program_of_a_page_is_an_example(page: str, example: str) -> None:
    """Without the docstrings, which say where the page is."""
    code = without_docstrings((ROOT / "examples" / example).read_text())
    assert code in map(without_docstrings, blocks(page))


def test_the_reader_of_streams_is_in_its_example() -> None:
    example = (ROOT / "examples/streaming_reader.py").read_text()
    (reader,) = (code for code in blocks("data.md") if "def segments" in code)
    functions = reader.partition("def segments")[2]
    assert functions in example


def without_docstrings(code: str) -> str:
    return re.sub(r'^ *""".*?"""\n+', "", code, flags=re.M | re.S)
