"""The terms of a run in its bucket: chief/TERM, which one host creates, and beat/TERM, which this
host writes again and again. Standard library only, Python 3.10.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from railhead.documents.codec import decode, encode
from railhead.documents.runs.takeover import Beat, Claim

from .lease import Standby

if TYPE_CHECKING:
    from ..run.upload import Destination

T = TypeVar("T")
RESULTS = "manifest.json"  # of a run that has ended


@dataclass(frozen=True)
class Terms:
    """The terms of the run whose folder in the bucket this is. Every method may raise an error of
    the cloud's library."""

    bucket: Destination

    def claim(self, number: int, claim: Claim) -> bool:
        """Try to get a term; True also where this claim has it already. Of several hosts that try,
        one gets it. False also where the run is over: it may have ended meanwhile."""
        key, data = self.bucket.uri.key(f"chief/{number}"), _packed(claim)
        if not self.bucket.objects.create(key, data):
            stored = self.bucket.objects.look(key)
            if stored is None or stored.data != data:
                return False
        last = self.beat(number - 1) if number > 1 else None
        return not (self.has_results() or (last and last.ended))

    def exists(self, number: int) -> bool:
        """Whether a host has had this term."""
        return self._look(f"chief/{number}") is not None

    def newest(self, known: int = 1) -> int:
        """The newest term; `known` is one that exists."""
        while self.exists(known + 1):
            known += 1
        return known

    def chief(self, number: int) -> Claim | None:
        """Who has a term; ValueError if that is damaged."""
        return self._read(f"chief/{number}", Claim)

    def beat(self, number: int) -> Beat | None:
        """The last beat of a term; ValueError if it is damaged."""
        return self._read(f"beat/{number}", Beat)

    def write_beat(self, number: int, beat: Beat) -> None:
        """Write a beat of a term that this host has."""
        key = self.bucket.uri.key(f"beat/{number}")
        self.bucket.objects.write(key, _packed(beat), short_lived=True)

    def has_results(self) -> bool:
        """Whether the results of the run are complete in the bucket."""
        return self._look(RESULTS) is not None

    def _look(self, name: str) -> bytes | None:
        stored = self.bucket.objects.look(self.bucket.uri.key(name))
        return stored.data if stored else None

    def _read(self, name: str, kind: type[T]) -> T | None:
        data = self._look(name)
        return None if data is None else decode(kind, json.loads(data), what=name)


@dataclass
class Watch:
    """What a standby sees of the newest term. Times are of CLOCK_BOOTTIME; `seen` and `read` begin
    with the time of its start."""

    terms: Terms
    seen: float
    read: float
    term: int = 1
    beat: Beat | None = None
    looks: int = 0
    over: bool = False  # the run has ended, or its results are in the bucket
    led: bool = False  # a host has had term 1

    def look(self, now: float) -> None:
        """Read the bucket, at the time `now`; an error of the cloud's library changes nothing."""
        term = self.terms.newest(self.term)
        beat = self.terms.beat(term)
        is_new = (term, beat) != (self.term, self.beat)
        led = self.led or beat is not None or self.terms.exists(1)
        over = bool(beat and beat.ended) or (not is_new and self.terms.has_results())
        self.read, self.looks, self.over, self.led = now, self.looks + 1, over, led
        if is_new:
            self.term, self.beat = term, beat
            self.seen, self.looks = now, 0

    def facts(self, now: float) -> Standby:
        """What the decision of a standby needs."""
        return Standby(now, self.seen, self.read, self.looks, self.over, self.led)


def _packed(document: Claim | Beat) -> bytes:
    return json.dumps(encode(document)).encode()
