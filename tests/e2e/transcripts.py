"""What the pages show: their transcripts, and whether a command still prints what they say."""

from __future__ import annotations

import re

from places import ROOT

BLOCK = re.compile(r"^```console (\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = {path.name: path.read_text() for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")]}

VOLATILE = (
    (r"\d{8}-\d{6}-[0-9a-f]{4}", "RUN"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "TIME"),
    (r"SHA256:[A-Za-z0-9+/]{43}", "FINGERPRINT"),
    (r"(?:[\w.-]+@)?\[?127\.\d+\.\d+\.\d+\]?(?::\d+)?", "ADDRESS"),
    (r"(?<!\d\.)\b[0-9a-f]{16}\b", "DIGEST"),  # not the digits of a number
    (r"Python 3\.\d+(?:\.\d+)?", "PYTHON"),
    (r"horovod: (?:no wheel for this system|install the wheel).*", "horovod: WHEEL"),
    (r"[\d.,]+ (?:s|ms|min|h|B|kB|MB|GB|samples/s|GFLOP/s)\b(?: \d+ s\b)?", "QUANTITY"),
    (r"QUANTITY (?:ahead|behind)", "SKEW"),
    (r"the slowest host is \w+", "the slowest host is SOME-HOST"),
    (r"\d+\.\d+(?:e-\d+)?", "DECIMAL"),
    (r"\d+ process(?:es)?\b", "PROCESSES"),
    # Of two that fail at once, either.
    (r"rank \d on \w+|\| no data on rank \d|--rank \d", "SOME-RANK"),
    (r"[ \t]+", " "),
)


def blocks(page: str, *worlds: str) -> list[str]:
    return [body for world, body in BLOCK.findall(PAGES[page]) if world in worlds]


def steady(text: str, places: dict[str, str]) -> list[str]:
    """The lines without what differs from run to run and from machine to machine."""
    for place, name in places.items():
        text = re.sub(place, name, text)
    lines = text.splitlines()
    for pattern, name in VOLATILE:
        lines = [re.sub(pattern, name, line) for line in lines]
    return [line.rstrip() for line in lines]


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether what was printed is what was expected, `...` standing for any lines."""
    parts = [r"(?:.*\n)*?" if x == "..." else re.escape(x) + r"\n" for x in expected]
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in printed)) is not None
