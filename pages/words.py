"""How many words of the pages were written by hand: `make words`. Generated parts and blocks of
code do not count."""

from __future__ import annotations

import re
from pathlib import Path

from .marked import DOCS, ROOT, by_hand


def words(text: str) -> int:
    """The words of a page, without its marks."""
    return sum(bool(re.search(r"\w", word)) for word in re.split(r"[\s|]+", by_hand(text)))


def counts() -> dict[Path, int]:
    """The words of the README and of each page."""
    return {
        path: words(path.read_text()) for path in (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
    }


if __name__ == "__main__":
    for path, number in (counted := counts()).items():
        print(f"{number:6,}  {path.relative_to(ROOT)}")
    print(f"{sum(counted.values()):6,}  in all")
