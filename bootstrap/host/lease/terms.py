"""The terms of a run in its bucket: chief/TERM, which one host creates, and beat/TERM, which that
host rewrites regularly.

One object, that of the last term, decides which host completes the run: a standby that creates it
leads the run; after a chief that creates it, before it publishes the results, no host can take
over.
"""

from __future__ import annotations

import json
from typing import TypeVar

from railhead.documents.codec import decode, encode
from railhead.documents.lazy import dataclass
from railhead.documents.runs.takeover import Beat, Claim, Term

from ..buckets.folder import BucketFolder
from ..run.lease import LAST, standby

T = TypeVar("T")


@dataclass(frozen=True)
class Terms:
    """The terms of a run, in its folder in the bucket. Every method may raise an error of the
    cloud's library."""

    bucket: BucketFolder

    def claim(self, number: int, claim: Claim) -> bool:
        """Try to get a term; True also if this claim has it already. Of several hosts that try, one
        gets it; False: another host has it."""
        key, data = self.bucket.uri.key(f"chief/{number}"), _packed(claim)
        if self.bucket.objects.create(key, data):
            return True
        stored = self._look(key)
        if stored is None:
            raise OSError(f"{key} was not created, and is not there")
        return stored == data

    def close(self, term: Term) -> bool:
        """Try to make a term the last one by claiming the next; False: another host has the
        next."""
        return term.number >= LAST or self.claim(term.number + 1, claim_of(term))

    def is_over(self, term: Term) -> bool:
        """Whether another host has the term after this one."""
        if term.number >= LAST:
            return False
        data = self._look(self.bucket.uri.key(f"chief/{term.number + 1}"))
        return data is not None and data != _packed(claim_of(term))

    def exists(self, number: int) -> bool:
        """Whether a host has this term."""
        return self._look(self.bucket.uri.key(f"chief/{number}")) is not None

    def chief(self, number: int) -> Claim | None:
        """The claim of a term's host, or None; ValueError if it is damaged."""
        return self._read(f"chief/{number}", Claim)

    def beat(self, number: int) -> Beat | None:
        """The last beat of a term; ValueError if it is damaged."""
        return self._read(f"beat/{number}", Beat)

    def write_beat(self, number: int, beat: Beat) -> None:
        """Write a beat of this host's term."""
        key = self.bucket.uri.key(f"beat/{number}")
        self.bucket.objects.write(key, _packed(beat), short_lived=True)

    def _look(self, key: str) -> bytes | None:
        stored = self.bucket.objects.look(key)
        return stored.data if stored else None

    def _read(self, name: str, kind: type[T]) -> T | None:
        data = self._look(self.bucket.uri.key(name))
        return None if data is None else decode(kind, json.loads(data), what=name)


@dataclass
class Watch:
    """A standby's view of the first term. Times are of CLOCK_BOOTTIME; `seen` and `read` are first
    the standby's start."""

    terms: Terms
    seen: float
    read: float
    beat: Beat | None = None
    looks: int = 0
    over: bool = False  # a host has the last term: the chief, or another standby
    led: bool = False  # a host has had term 1

    def look(self, now: float) -> None:
        """Read the bucket, at the time `now`; an error of the cloud's library changes nothing."""
        over, beat = self.terms.exists(LAST), self.terms.beat(1)
        led = self.led or beat is not None or self.terms.exists(1)
        self.read, self.looks, self.over, self.led = now, self.looks + 1, over, led
        if beat != self.beat:
            self.beat, self.seen, self.looks = beat, now, 0

    def decision(self, now: float) -> str:
        """What the standby does, as `lease.standby` says."""
        return standby(now, self.seen, self.read, self.looks, over=self.over, led=self.led)


def claim_of(term: Term) -> Claim:
    """The content of a term's object."""
    return Claim(term.host, term.mark)


def _packed(document: Claim | Beat) -> bytes:
    return json.dumps(encode(document)).encode()
