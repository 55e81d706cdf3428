"""The record of a run on the computer that started it: clusters/<name>/runs/<id>.json there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railhead.documents.codec import Malformed, decode, key
from railhead.documents.lazy import dataclass
from railhead.documents.names import NAME
from railhead.documents.runs.run import RunDocument


@dataclass(frozen=True)
class GivenOptions:
    """The options of a command as they were given, and the folder where their paths start."""

    folder: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class RunRecord:
    """A run that was started here, or `elsewhere`: on another computer.

    `results` is the folder for its results. `document` (its run document) and `given` are JSON,
    decoded where they are used: without them the results can still be fetched. `stops`: when the
    cloud reported each machine as stopped, by host, such as 2026-11-22 10:22:43 UTC.
    `ended_early`: a sweep has cancelled the run.
    """

    run_id: str = key(check=NAME)
    cluster: str = key(check=NAME)
    results: str = key(pattern=r"/[^\0]*")
    document: Any = None
    given: Any = None
    stops: Mapping[str, str] = key({})
    ended_early: bool = False
    elsewhere: bool = False

    @property
    def run(self) -> RunDocument | None:
        """The run document; None if it is missing or damaged."""
        try:
            return decode(RunDocument, self.document)
        except Malformed:
            return None

    @property
    def options(self) -> Mapping[str, Any]:
        """The options as they were given; {} if they are missing or damaged."""
        try:
            return decode(GivenOptions, self.given).options
        except Malformed:
            return {}
