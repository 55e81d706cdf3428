"""The lease of a run: tables of its decisions, and a model whose hosts freeze and are cut off."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from bootstrap.host.lease.holder import SILENCE
from bootstrap.host.run.lease import (
    CUT_OFF,
    EXPIRED,
    HOLD,
    LAST,
    RENEW,
    holder,
    standby,
)


@pytest.mark.parametrize(
    ("now", "more", "decision"),
    [
        (5, {}, "hold"),
        (RENEW, {}, "beat"),
        (HOLD - 1, {}, "beat"),
        (HOLD, {}, "lost"),
        (1, {"next_term": True}, "lost"),
        (HOLD, {"ended": True}, "lost"),
        (5, {"ended": True}, "done"),
    ],
)
def test_a_holder_beats_and_gives_up_after_silence(
    now: float, more: dict[str, bool], decision: str
) -> None:
    assert holder(now, 0, **more) == decision


@pytest.mark.parametrize(
    ("now", "read", "looks", "more", "decision"),
    [
        (135, 129, 9, {}, "watch"),
        (135, 130, 9, {}, "claim"),
        (135, 130, 2, {}, "watch"),
        (400, 125, 9, {}, "watch"),
        (CUT_OFF, 0, 9, {}, "end"),
        (135, 130, 9, {"over": True}, "end"),
        (135, 130, 9, {"led": False}, "end"),
        (135, 129, 9, {"led": False}, "watch"),
    ],
)
def test_a_standby_claims_the_next_term_after_silence(
    now: float, read: float, looks: int, more: dict[str, bool], decision: str
) -> None:
    assert standby(now, 0, read, looks, **more) == decision


@dataclass
class Bucket:
    """The newest term, the number of its beat, and whether a host has had the first term."""

    term: int = 1
    beats: int = 0
    led: bool = False


@dataclass
class Host:
    """A host of the model. `rate`: of its clock; `frozen` and `cut`: until when; `late`: when a
    beat arrives that is under way, and when it was sent."""

    rate: float
    holds: bool = False
    term: int = 1
    frozen: float = 0.0
    cut: float = 0.0
    sent: float = 0.0
    seen: float = 0.0
    read: float = 0.0
    looks: int = 0
    beat: int = -1
    late: tuple[float, float] | None = None
    led: bool = False
    over: bool = False
    stays: bool = True  # as a standby
    last: bool = False  # no other host takes over from it
    unused: int = 0  # seconds since it gave up

    def supervise(self, bucket: Bucket, t: int, delay: int) -> None:
        """A step of a holder; `delay`: seconds until a beat that it sends now arrives."""
        now = t * self.rate
        if self.late and t >= self.late[0]:
            bucket.beats += self.term == bucket.term
            bucket.led = True
            self.sent, self.late = max(self.sent, self.late[1]), None
        is_due = self.cut <= t and not self.late
        next_term = is_due and bucket.term > self.term
        decision = "hold" if self.last else holder(now, self.sent, next_term=next_term)
        self.holds = decision != "lost"
        if decision == "beat" and is_due:
            self.late = t + delay, now

    def watch(self, bucket: Bucket, t: int) -> bool:
        """A step of a standby; True if it takes over."""
        now = t * self.rate
        if t % 10 == 0 and self.cut <= t:
            self.read, self.looks, self.led = now, self.looks + 1, bucket.led
            self.over = self.last and bucket.term >= LAST
            if (bucket.term, bucket.beats) != (self.term, self.beat):
                self.term, self.beat = bucket.term, bucket.beats
                self.seen, self.looks = now, 0
        step = standby(now, self.seen, self.read, self.looks, over=self.over, led=self.led)
        if step != "claim":
            self.stays = step != "end"
            return False
        if self.cut > t:
            return False
        self.seen, self.looks = now, 0
        if bucket.term > self.term:
            return False
        bucket.term, bucket.beats = bucket.term + 1, 0
        self.term, self.beat, self.sent, self.holds = bucket.term, 0, now, True
        return True

    def reclaim(self, bucket: Bucket, t: int) -> None:
        """A step of a host that gave up: it leads again where no other has taken over. At some time
        it stops only itself."""
        self.unused += 1
        claims = 1200 < self.unused < 1200 + CUT_OFF
        if claims and self.cut <= t and bucket.term == self.term:
            bucket.term, self.term = self.term + 1, self.term + 1
            self.holds = self.last = True


FAULTS = (5, 30, 60, 150, 400)  # seconds


@dataclass
class Model:
    """Three hosts for 1,500 seconds. A host that gave up is a standby again."""

    draw: random.Random
    bucket: Bucket = field(default_factory=Bucket)
    both: int = 0  # seconds in which two hosts were at work
    takeovers: int = 0

    def go(self, *, gives_up: bool = True) -> Model:
        """Run; without `gives_up` a holder never looks at its own clock."""
        hosts = [Host(self.draw.uniform(0.95, 1.05), holds=n == 0) for n in range(3)]
        for t in range(1, 1501):
            at_work = 0
            for host in self.draw.sample(hosts, 3):
                fault = self.draw.random()
                if fault < 0.004:
                    host.frozen = t + self.draw.choice(FAULTS)
                elif fault < 0.008:
                    host.cut = t + self.draw.choice(FAULTS)
                if host.frozen > t:
                    continue
                if host.holds:
                    if not gives_up:
                        host.sent = t * host.rate - RENEW
                    host.supervise(self.bucket, t, self.draw.choice((0, 1, 5, 25)))
                else:
                    self.takeovers += host.watch(self.bucket, t)
                at_work += host.holds
            self.both += at_work > 1
        return self


def test_two_chiefs_are_never_at_work_whatever_freezes_or_is_cut_off() -> None:
    runs = [Model(random.Random(seed)).go() for seed in range(150)]
    assert sum(run.both for run in runs) == 0
    assert sum(run.takeovers for run in runs) > 50


def lead(draw: random.Random, outage: int = 0) -> tuple[int, int]:
    """A chief and its only standby, faults for 1,500 seconds, and an outage of the bucket from
    second 100 on: the seconds in which both led, and how many lead at the end."""
    chief, other, bucket, both = Host(1.05, holds=True), Host(0.95, last=True), Bucket(), 0
    for t in range(1, 3500 + outage):
        for host in draw.sample([chief, other], 2):
            if t == 100:
                host.cut = max(host.cut, t + outage)
            fault = draw.random() if t < 1500 else 1
            if fault < 0.004:
                host.frozen = t + draw.choice(FAULTS)
            elif fault < 0.008:
                host.cut = max(host.cut, t + draw.choice(FAULTS))
            if host.frozen > t:
                continue
            if host.holds:
                host.supervise(bucket, t, draw.choice((0, 1, 5, 25)))
            elif host is chief:
                host.reclaim(bucket, t)
            elif host.stays:
                host.watch(bucket, t)
        both += chief.holds and other.holds and chief.frozen <= t
    return both, chief.holds + other.holds


def test_one_host_is_left_that_stops_the_machines() -> None:
    assert {lead(random.Random(seed)) for seed in range(60)} == {(0, 1)}


@pytest.mark.parametrize(
    ("outage", "leaders"), [(60, 1), (600, 1), (1500, 1), (3000, 1), (4500, 1), (6000, 0)]
)
def test_one_host_stops_the_machines_after_an_outage_of_the_bucket(
    outage: int, leaders: int
) -> None:
    """After a longer one both have left: then the timers of the machines stop them."""
    assert {lead(random.Random(seed), outage) for seed in range(10)} == {(0, leaders)}


def test_a_holder_that_does_not_look_at_its_clock_makes_a_second_chief() -> None:
    assert any(Model(random.Random(seed)).go(gives_up=False).both for seed in range(20))


def test_an_outage_of_the_bucket_for_a_minute_costs_no_lease() -> None:
    """The last beat was sent RENEW before it, and the next one takes SILENCE to fail."""
    assert holder(60 + RENEW + SILENCE, 0) == "beat"


def test_a_holder_gives_up_long_before_a_standby_claims() -> None:
    """With clocks that differ by 5 % and a beat that arrives 25 seconds late."""
    assert EXPIRED * 0.95 - 25 > HOLD * 1.05 + RENEW
