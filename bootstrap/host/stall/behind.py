"""The table of the ranks behind: which ranks the others wait for, and how certain that is. Pure.

The first row that applies decides. The less certain it is, the later it is called a stall: a false
alarm costs more than a late one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from railhead.documents.lazy import dataclass
from railhead.documents.runs.stall import Place

# A stall is reported after so many times the limit.
SURE = 1  # a rank is stopped, or idle outside every collective while others wait in one
LIKELY = 5  # all wait for each other, or for input; or no rank is seen to wait for the idle one
CROWDED = 2  # at least, on a host with more work than CPUs: an idle rank may wait for a CPU
POSSIBLE = 15  # a rank that the others wait for computes, reads or writes
PARTNERS = ("collective", "tensorflow")
OWN_CODE = ("call", "silent")  # in a call of the program; a silent rank may be in one, too


@dataclass(frozen=True)
class Rank:
    """What a rank does. `idle`: it only waits, at the same place as before; `moves`: it reads or
    writes much; `crowded`: its host has more work than CPUs, so it may only look idle."""

    place: Place
    idle: bool = False
    moves: bool = False
    crowded: bool = False

    @property
    def position(self) -> tuple[str | None, int | None, str]:
        """The place of a rank; equal for ranks at the same place."""
        return self.place.file, self.place.line, self.place.doing


class Ranks(list[Rank]):
    """The ranks of a run without parameter servers, which always wait for others."""

    @property
    def waiting(self) -> list[Rank]:
        """The ranks that wait for others in a collective."""
        return [rank for rank in self if rank.place.doing in PARTNERS and rank.idle]

    @property
    def busy(self) -> list[Rank]:
        """The ranks that compute."""
        return [rank for rank in self if rank.place.busy]

    def doing(self, *kinds: str) -> list[Rank]:
        """The ranks that do one of these."""
        return [rank for rank in self if rank.place.doing in kinds]


Found = Sequence[Rank] | None  # the ranks behind, maybe none; None: the row does not apply


@dataclass(frozen=True)
class Row:
    """A situation: `behind` finds the ranks behind, `why` says why, `factor` how certain that
    is."""

    why: str
    behind: Callable[[Ranks], Found]
    factor: Callable[[Ranks, Sequence[Rank]], int]


def judged(ranks: Sequence[Rank]) -> tuple[Sequence[Rank], int, str]:
    """The ranks that the others wait for, the factor of the limit, and why."""
    stopped = [rank for rank in ranks if rank.place.doing == "stopped"]  # also a server
    if stopped:
        return stopped, _if_idle(stopped, SURE), STOPPED
    active = Ranks(rank for rank in ranks if rank.place.doing != "serves")
    for row in ROWS:
        ranks_behind = row.behind(active)
        if ranks_behind is not None:
            return ranks_behind, row.factor(active, ranks_behind), row.why
    raise AssertionError("the last row applies always")


def _some(ranks_behind: Sequence[Rank], ranks: Ranks) -> Found:
    """These ranks, if there are some, and others."""
    return ranks_behind if 0 < len(ranks_behind) < len(ranks) else None


def _only(*kinds: str) -> Callable[[Ranks], Found]:
    """The ranks that do one of these, while others do something else."""
    return lambda ranks: _some(ranks.doing(*kinds), ranks)


def _odd(*kinds: str) -> Callable[[Ranks], Found]:
    """If all ranks do one of these: the ranks at the rarest place."""
    return lambda ranks: (
        _smallest(ranks) if ranks and len(ranks.doing(*kinds)) == len(ranks) else None
    )


def _ended(ranks: Ranks) -> Found:
    return _some(ranks.doing("ended"), ranks) if ranks.waiting else None


def _computing(ranks: Ranks) -> Found:
    return (_smallest(ranks) or _some(ranks.busy, ranks) or []) if ranks.busy else None


def _by_waiting(ranks: Ranks, behind: Sequence[Rank]) -> int:
    """Sure if they are idle outside every collective while others wait in one."""
    if any(rank.place.busy for rank in behind):
        return POSSIBLE
    outside = all(rank.idle and rank.place.doing in ("call", "ended") for rank in behind)
    return SURE if ranks.waiting and outside else LIKELY


def _if_idle(ranks: Sequence[Rank], factor: int) -> int:
    return factor if all(rank.idle for rank in ranks) else POSSIBLE


def _by_all(ranks: Ranks, _behind: Sequence[Rank]) -> int:
    return _if_idle(ranks, LIKELY)


def _possible(_ranks: Ranks, _behind: Sequence[Rank]) -> int:
    return POSSIBLE


def _by_odd(ranks: Ranks, behind: Sequence[Rank]) -> int:
    return SURE if behind and all(rank.idle for rank in ranks) else LIKELY


def _smallest(ranks: Sequence[Rank]) -> list[Rank]:
    """The ranks at the place with the fewest ranks; in a tie at the last line: they have left the
    loop of the others. Empty if all are at the same place."""
    counts = Counter(rank.position for rank in ranks)
    if len(counts) < 2:
        return []
    rarest = min(counts, key=lambda position: (counts[position], -(position[1] or 0)))
    return [rank for rank in ranks if rank.position == rarest]


STOPPED = "a stopped rank does nothing until somebody continues it"
ROWS = (
    Row(
        "it reads or writes much, as one that saves a model; the others wait for the file",
        lambda ranks: _some([rank for rank in ranks if rank.moves], ranks),
        _possible,
    ),
    Row("it has ended, and others wait for it in a collective", _ended, _by_waiting),
    Row("it is in its own code, and others are not", _only(*OWN_CODE), _by_waiting),
    Row("all are in their own code: it has left the loop of the others", _odd(*OWN_CODE), _by_all),
    Row("its host does not answer, and others do", _only("unreachable"), _by_waiting),
    Row("no host answers", _odd("unreachable"), _by_all),
    Row("it waits for its input, and others do not", _only("input"), _by_waiting),
    Row("all wait for input: it does at another line", _odd("input"), _by_all),
    Row("all are in collectives: it is in another one, or computes", _computing, _possible),
    Row("all wait for each other: it does in another collective", _smallest, _by_odd),
)
