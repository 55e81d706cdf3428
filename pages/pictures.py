"""The pictures of the README, from the recorded run of `make demo` in docs/pictures/demo.

`make pictures` draws them again, `make pictures RUN=results/ID` from another run. A test fails if
they are not what the code draws now.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bootstrap.report.write import composed, read_runs
from bootstrap.runs.metrics.plots import curves

from .marked import DOCS

PICTURES = DOCS / "pictures"
DEMO = PICTURES / "demo"
RECORDED = ("run.json", "result.json", "evaluation.json", "metrics.jsonl")
CURVES = PICTURES / "demo.svg"
REPORT = PICTURES / "report.png"
REPORT_DIGEST = PICTURES / "report.sha256"  # of the page that the picture shows
SIZE = "1000,1150"  # pixels


def record(results: Path) -> None:
    """Keep another run: the files of its results from which the pictures are drawn."""
    DEMO.mkdir(parents=True, exist_ok=True)
    for name in RECORDED:
        shutil.copy(results / name, DEMO / name)


def drawn_curves() -> str:
    """The curves of the recorded run as SVG."""
    return curves(DEMO / "metrics.jsonl", "")


def report_page() -> str:
    """The report of the recorded run as HTML."""
    return composed(read_runs([str(DEMO)])).html


def digest(page: str) -> str:
    """What stands in REPORT_DIGEST for this page."""
    return hashlib.sha256(page.encode()).hexdigest() + "\n"


def draw() -> None:
    """Write all pictures; chromium makes that of the report."""
    CURVES.write_text(drawn_curves())
    page = report_page()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        file.write_text(page)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += [f"--screenshot={REPORT}", f"--window-size={SIZE}"]
        subprocess.run(["chromium", *options, file.as_uri()], check=True, capture_output=True)
    REPORT_DIGEST.write_text(digest(page))


if __name__ == "__main__":
    if sys.argv[1:]:
        record(Path(sys.argv[1]))
    draw()
