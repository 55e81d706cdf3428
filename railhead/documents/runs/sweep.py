"""sweep.json, in the folder of a sweep's results: which run each trial has."""

from __future__ import annotations

from collections.abc import Mapping

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass


@dataclass(frozen=True)
class SweepDocument:
    """`runs`: {name of a trial, such as "learning_rate=0.1 batch_size=32": id of its run}."""

    schema: int = key(choices=(1,))
    runs: Mapping[str, str] = key({})
