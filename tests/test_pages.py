"""The pages beside their text: pictures, words, examples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from places import ROOT

from pages import pictures, terminal, words
from pages.marked import DOCS, by_hand

# Shorten before you raise it: nobody reads more.
MOST_WORDS = 26_500
MOST_WORDS_OF = {"README.md": 900, "troubleshooting.md": 2_500}
LONGEST_CELL = 25  # words
# Figures that are wrong some day, in the sentences of a page. A table names its command and date.
AGEING = re.compile(
    r"\b20\d\d-\d\d-\d\d\b|\bof 20\d\d\b|\bin 20\d\d\b"
    r"|\b(?:\d[\d,]*|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty) (?:of the )?"
    r"(?:tests|tasks|options|settings|models|presets|programs|examples|journeys|campaigns)\b"
)


def test_the_pictures_are_what_the_code_draws() -> None:
    """`make pictures` draws them."""
    assert pictures.CURVES.read_text() == pictures.drawn_curves()
    assert pictures.REPORT_DIGEST.read_text() == pictures.digest(pictures.report_page())
    assert pictures.REPORT.read_bytes().startswith(b"\x89PNG")
    assert terminal.PICTURE.read_text() == terminal.drawn(terminal.RECORDING.read_text())


def test_a_recording_keeps_its_commands_and_marks_what_it_leaves_out() -> None:
    printed = ["$ fab train", "plan", "more", "\x1b[2m[h1]\x1b[0m ready in 2 s", "[run] step 3"]
    assert terminal.shortened(printed) == [printed[0], "...", printed[3], "..."]
    assert terminal.drawn("$ a  <b>\n").count("a\u00a0\u00a0&lt;b&gt;") == 1


def test_the_pages_stay_short_enough_to_be_read() -> None:
    counted = words.counts()
    assert sum(counted.values()) <= MOST_WORDS
    for path, number in counted.items():
        assert number <= MOST_WORDS_OF.get(path.name, MOST_WORDS), path.name


def test_words_of_tables_count_and_those_of_code_and_generated_parts_do_not() -> None:
    page = "One two.\n\n```sh\nfab train\n```\n\n| a `b` | c |\n|---|---|\n"
    generated = "<!-- generated: x -->\n| many words |\n<!-- end -->\n"
    assert words.words(page + generated) == 5


def pages() -> list[Path]:
    """The README, the changelog and the pages."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]


def long_cells(text: str) -> list[str]:
    """The cells of tables with more words than people read in one."""
    rows = [line for line in text.splitlines() if line.lstrip().startswith("|")]
    cells = [cell for row in rows for cell in re.split(r"(?<!\\)\|", row)]
    return [cell for cell in cells if len(re.findall(r"\S*\w\S*", cell)) > LONGEST_CELL]


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_no_cell_of_a_table_is_a_paragraph(path: Path) -> None:
    assert long_cells(path.read_text()) == []


def test_a_long_cell_is_noticed() -> None:
    fits, too_long = "word " * LONGEST_CELL, "word " * (LONGEST_CELL + 1)
    assert long_cells(f"| a \\| b {fits[15:]}| {fits}|\n") == []
    assert len(long_cells(f"| {too_long}| {fits}|\n")) == 1


def ageing(text: str) -> list[str]:
    """The figures of a page that will be wrong, without its tables and blocks of code."""
    prose = [line for line in by_hand(text).splitlines() if not line.lstrip().startswith("|")]
    return [match[0] for match in AGEING.finditer(re.sub(r"`[^`]*`", "", " ".join(prose)))]


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_no_sentence_has_a_figure_that_ages(path: Path) -> None:
    assert ageing(path.read_text()) == []


def test_a_figure_that_ages_is_noticed() -> None:
    for text in ("It has 4,350 of the tests.", "Read on 2026-11-22:", "all eight programs run"):
        assert len(ageing(text)) == 1, text
    for text in (
        "| 2026-11-22 | 12 tests |",
        "`20261122-052802`, 16 files",
        "```\n2026-11-22\n```",
    ):
        assert ageing(text) == [], text


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
