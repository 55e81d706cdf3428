"""A chief publishes its results while its standby takes the run over: all orders of their requests,
with a bucket in memory. One of the two ends the run, and only what it did is published."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bootstrap.host.buckets.objects import Stored
from bootstrap.host.lease.fence import Fence, LeaseLost
from bootstrap.host.lease.holder import LeaseHolder
from bootstrap.host.lease.terms import Terms, claim_of
from bootstrap.host.run import held
from bootstrap.host.upload.upload import Destination
from railhead.documents.runs.takeover import Term
from railhead.documents.uri import bucket_uri

CHIEF, SECOND = Term(1, "h1", "mark-1"), Term(2, "h2", "mark-2")
LONGEST = 6  # requests of a host, with one that is repeated


class Memory:
    """The objects of a bucket."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def look(self, key: str) -> Stored | None:
        return Stored(self.data[key], "1") if key in self.data else None

    def create(self, key: str, data: bytes, *, short_lived: bool = False) -> str | None:
        return None if self.data.setdefault(key, data) is not data else "1"


class Turns:
    """Lets hosts send requests in the order of `turns`, host by host; one that has ended has none
    any more."""

    def __init__(self, turns: str) -> None:
        self.turns, self.changed, self.ended = [*turns], threading.Condition(), set[str]()

    def wait(self, host: str) -> None:
        """Wait for the next turn of a host."""
        with self.changed:
            self.changed.wait_for(lambda: self._next() in ("", host), timeout=10)

    def _next(self) -> str:
        while self.turns and self.turns[0] in self.ended:
            del self.turns[0]
        return self.turns[0] if self.turns else ""

    def done(self, host: str, *, ended: bool = False) -> None:
        """A host has had its turn; or has no more requests."""
        with self.changed:
            if ended:
                self.ended.add(host)
            elif self._next() == host:
                del self.turns[0]
            self.changed.notify_all()


class InTurn:
    """The bucket as one host has it: the answer of its request number `lost` does not arrive."""

    def __init__(self, memory: Memory, turns: Turns, host: str, lost: int) -> None:
        self.memory, self.turns, self.host, self.lost = memory, turns, host, lost

    def __getattr__(self, name: str) -> Any:
        def request(*args: Any, **named: Any) -> Any:
            self.turns.wait(self.host)
            try:
                answer = getattr(self.memory, name)(*args, **named)
            finally:
                self.turns.done(self.host)
            self.lost -= 1
            if self.lost == 0:
                raise ConnectionError("no answer")
            return answer

        return request


def twice(act: Callable[[], bool]) -> bool:
    """Do it, again if an answer did not arrive."""
    with contextlib.suppress(ConnectionError):
        return act()
    return act()


class Ends:
    """How a chief and its standby end, in one order of requests."""

    def __init__(self, folder: Path, turns: str, lost: tuple[int, int]) -> None:
        self.memory, self.turns = Memory(), Turns(turns)
        self.folders = dict(zip("cs", (folder / "c", folder / "s"), strict=True))
        self.lost = dict(zip("cs", lost, strict=True))
        self.outcomes: dict[str, bool] = {}

    def bucket(self, host: str) -> Destination:
        objects: Any = InTurn(self.memory, self.turns, host, self.lost[host])
        return Destination(bucket_uri("s3://runs/r"), objects)

    def publish(self, host: str, term: Term, bucket: Destination) -> bool:
        """Publish results that say which host wrote them."""
        folder = self.folders[host]
        with contextlib.suppress(LeaseLost):
            Fence(str(folder), term).create(bucket, str(folder / "listed"), "manifest.json")
            return True
        return False

    def chief(self) -> None:
        bucket = self.bucket("c")
        self.outcomes["c"] = twice(lambda: self.publish("c", CHIEF, bucket))

    def chief_without_upload(self) -> None:
        """Its results were not published; it tells so."""
        holder = LeaseHolder(str(self.folders["c"]), CHIEF, Terms(self.bucket("c")))
        self.outcomes["c"] = twice(holder.close)

    def standby(self) -> None:
        bucket = self.bucket("s")
        self.outcomes["s"] = twice(lambda: Terms(bucket).claim(2, claim_of(SECOND)))
        if self.outcomes["s"]:  # it trains
            twice(lambda: self.publish("s", SECOND, bucket))

    def go(self, *programs: Callable[[], None]) -> None:
        """Do them at the same time."""

        def whole(host: str, program: Callable[[], None]) -> None:
            try:
                program()
            finally:
                self.turns.done(host, ended=True)

        pairs = zip("cs", programs, strict=True)
        threads = [threading.Thread(target=whole, args=pair) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)


def orders() -> Iterator[str]:
    """All orders of the requests of both."""
    for places in itertools.combinations(range(2 * LONGEST), LONGEST):
        yield "".join("c" if index in places else "s" for index in range(2 * LONGEST))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of the run on both hosts, with their terms and results."""
    folder = tmp_path_factory.mktemp("hosts")
    for host, term in (("c", CHIEF), ("s", SECOND)):
        (folder / host).mkdir()
        held.begin(str(folder / host), term, held.now())
        (folder / host / "listed").write_text(json.dumps(host))
    return folder


@pytest.mark.parametrize("lost", [(0, 0), (2, 0), (3, 0), (0, 1)])
def test_one_host_ends_the_run_whatever_the_order_of_their_requests(
    folder: Path, lost: tuple[int, int]
) -> None:
    ended = set()
    for turns in orders():
        ends = Ends(folder, turns, lost)
        ends.go(ends.chief, ends.standby)
        of_chief, of_standby = ends.outcomes["c"], ends.outcomes["s"]
        assert of_chief != of_standby, turns
        assert json.loads(ends.memory.data["r/manifest.json"]) == ("c" if of_chief else "s"), turns
        ended.add(of_chief)
    assert ended == {True, False}


def test_a_run_whose_results_are_not_published_ends_on_one_host(folder: Path) -> None:
    for turns in orders():
        held.begin(str(folder / "c"), CHIEF, held.now())
        ends = Ends(folder, turns, (0, 0))
        ends.go(ends.chief_without_upload, ends.standby)
        assert ends.outcomes["c"] != ends.outcomes["s"], turns
        assert ("r/manifest.json" in ends.memory.data) == ends.outcomes["s"]
