"""The part of the files that one of several hosts reads. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from railhead.documents.names import is_manifest

from ..config import ConfigError
from . import DataError
from .store import Item


@dataclass(frozen=True)
class Part:
    """Part `index` of `count`: file number k goes to part k % count. All files by default."""

    index: int = 0
    count: int = 1

    @staticmethod
    def parse(text: str) -> Part:
        """The part that `I/N` names; ConfigError for any other text."""
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if not match or not int(match[1]) < int(match[2]):
            raise ConfigError(f"a part is written I/N with I below N, as in 0/2, not {text!r}")
        return Part(int(match[1]), int(match[2]))

    def of(self, items: Sequence[Item]) -> list[Item]:
        """The files of this part. A manifest goes to every part.

        Raises:
            DataError: there are fewer files than parts, so that a part is empty.
        """
        shared = [item for item in items if is_manifest(item.name)]
        selected = [item for item in items if not is_manifest(item.name)][self.index :: self.count]
        if not selected:
            raise DataError(f"part {self.index}/{self.count} is empty: {len(items)} files")
        return selected + shared
