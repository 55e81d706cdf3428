"""What a campaign has spent and seen: tested-on/<cloud>.json, written after each part."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from places import ROOT

from bootstrap.gpu_tools import tested_on

PRIVATE = ("ssh_cidrs", "project", "contact_email")  # of the config; not recorded
Figures = Mapping[str, Any]


class NothingLeft(Exception):
    """The budget is spent."""


@dataclass
class Part:
    """A part that has ended: how long it took, its figures, and the error that ended it."""

    name: str
    seconds: float
    figures: Figures = field(default_factory=dict)
    error: str = ""


@dataclass
class Record:
    """A campaign. `began` is when its machines were requested, `ended` when they were gone: as
    seconds since 1970, None before. `usd_per_hour` is the price of all machines while they run, so
    the cost is an upper bound."""

    cloud: str
    config: dict[str, str]
    budget_usd: float
    usd_per_hour: float | None = None
    began: float | None = None
    ended: float | None = None
    parts: list[Part] = field(default_factory=list)

    @property
    def passed(self) -> set[str]:
        """The names of the parts that need not run again."""
        return {part.name for part in self.parts if not part.error}

    @property
    def failed(self) -> list[Part]:
        """The parts that failed."""
        return [part for part in self.parts if part.error]

    @property
    def hours(self) -> float:
        """From the request of the machines to their end, or to now."""
        return ((self.ended or time.time()) - self.began) / 3600 if self.began else 0.0

    @property
    def usd(self) -> float:
        """What it has cost at most."""
        return self.hours * (self.usd_per_hour or 0.0)

    def seconds_left(self) -> float:
        """How long all machines may run until the budget is spent.

        Raises:
            NothingLeft: it is spent.
        """
        if not self.usd_per_hour:
            return 24 * 3600.0
        seconds = (self.budget_usd - self.usd) / self.usd_per_hour * 3600
        if seconds <= 0:
            raise NothingLeft(f"the budget of {self.budget_usd:g} USD is spent")
        return seconds

    def save(self, root: Path = ROOT) -> None:
        """Write the file. What is private in the config is left out."""
        public = {key: value for key, value in self.config.items() if key not in PRIVATE}
        content = {
            **asdict(self),
            "config": public,
            "date": f"{datetime.fromtimestamp(self.began or time.time(), timezone.utc):%Y-%m-%d}",
            "minutes": round(self.hours * 60, 1),
            "usd_at_most": round(self.usd, 2),
        }
        tested_on.write(f"{self.cloud}.json", tested_on.CLOUD, content, root)


def unfinished(cloud: str, config: dict[str, str], root: Path = ROOT) -> Record | None:
    """The campaign that was interrupted while its machines exist; None if there is none."""
    path = root / tested_on.FOLDER / f"{cloud}.json"
    if not path.exists():
        return None
    content = dict(tested_on.record(path).content)
    if content.get("began") is None or content.get("ended") is not None:
        return None
    ended = [Part(**part) for part in content["parts"]]
    known = {each.name: content[each.name] for each in fields(Record)}
    return Record(**{**known, "parts": ended, "config": {**config, **content["config"]}})
