"""Which ranks the others wait for, from the samples of all ranks. Pure.

The less certain it is, the later it is called a stall: a false alarm costs more than a late one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from railhead.documents.lazy import dataclass, replace
from railhead.documents.runs.run import RunDocument
from railhead.documents.runs.stall import MOST_PLACES, Place, Stall

from . import frames
from .behind import CROWDED, PARTNERS, Rank, judged
from .collect import Sample
from .frames import Source

IDLE = 0.02  # share of a CPU: a main thread that waits uses less
BUSY = 0.5  # CPUs: a process that computes uses at least so many
MOVES = 100_000  # bytes a second: a rank that saves or loads a model moves at least so many
WAITS = 2  # how often a waiting main thread begins to wait in a pause, at most
LINE = 160  # characters of the text of a line
# Horovod's warning: "Missing ranks:\n1: [name, ...]", here in the line of its log.
MISSING = re.compile(r"^(?P<rank>\d+): \[(?P<name>[^\],]{1,200})")
OPERATION = re.compile(r"(?i)(allreduce|allgather|broadcast|alltoall|reducescatter|barrier)")
CERTAIN = ("stopped", "ended")  # also on a host with more work than CPUs


@dataclass(frozen=True)
class Diagnosis:
    """A stall, if the run makes no progress for `factor` times the limit. `why`: why its ranks are
    behind."""

    stall: Stall
    factor: int
    why: str = ""


def diagnosed(
    run: RunDocument,
    samples: Mapping[int, Sample],
    *,
    seconds: float,
    ended: Iterable[int] = (),
    unreachable: Mapping[str, str] | None = None,
    source: Source = lambda file, line: "",
    warnings: Sequence[str] = (),
) -> Diagnosis:
    """The ranks that the others wait for.

    Args:
        samples: by rank; a rank that has changed its command line has none.
        seconds: since the last progress.
        ended: the ranks whose process has ended.
        unreachable: hosts that did not answer, and why.
        source: the text of a line of the program.
        warnings: the last lines of the ranks, which may have Horovod's warning.
    """
    gone, hosts = set(ended), unreachable or {}
    ranks = []
    for number in range(run.size):
        host = run.hosts[run.host_of(number)].name
        if number in samples and number not in gone:
            rank = _rank(samples[number], host, run.run_id, source)
            ranks.append(replace(rank, crowded=samples[number].crowded))
        elif host in hosts and number not in gone:
            ranks.append(Rank(Place(number, host, "unreachable", detail=hosts[host][:LINE])))
        elif number in gone:
            ranks.append(Rank(Place(number, host, "ended"), idle=True))
        else:
            ranks.append(Rank(Place(number, host, "silent", detail="its process was not found")))
    behind, factor, why = judged(ranks)
    if any(rank.crowded and rank.place.doing not in CERTAIN for rank in behind):
        factor = max(factor, CROWDED)
    waiting = [rank for rank in ranks if rank not in behind]
    text = _sentence(behind, waiting, seconds, _operation(warnings))
    places = tuple(rank.place for rank in (*behind, *waiting))[:MOST_PLACES]
    numbers = tuple(rank.place.rank for rank in behind)[:MOST_PLACES]
    return Diagnosis(Stall(text, round(seconds, 1), numbers, places), factor, why)


def _rank(sample: Sample, host: str, run_id: str, source: Source) -> Rank:
    """What one rank does."""
    place = Place(sample.rank, host, "silent", detail=sample.wait[:LINE])
    if sample.state in "Tt":
        detail = "by a debugger" if sample.state == "t" else "SIGSTOP, or a debugger"
        return Rank(replace(place, doing="stopped", detail=detail), idle=sample.state == "T")
    seconds = sample.seconds or 1.0
    uses, computes = sample.cpu / seconds, sample.process_cpu / seconds >= BUSY
    work = f"/runs/{run_id}/work/"
    before, after = (
        frames.doing_of(stacks, work, source) if (stacks := frames.parsed(text)) else None
        for text in sample.stacks
    )
    if after is None:
        return Rank(replace(place, busy=computes), idle=uses < IDLE and not computes)
    doing, frame = after.kind, after.frame
    detail = after.detail or (sample.child and f"its child: {sample.child}")
    place = replace(place, doing=doing, detail=detail[:LINE], busy=computes)
    if frame:
        file = frame.file.partition(work)[2] or frame.file
        text = source(file, frame.line)[:LINE]
        place = replace(place, file=file[:LINE], line=frame.line, text=text or None)
    moved = before is None or (before.kind, before.frame) != (doing, frame)
    works = moved or computes or sample.child_cpu / seconds >= IDLE
    if doing == "call":
        # A loop of short sleeps waits for something; other short waits are for data that arrives.
        waits = sample.switches <= WAITS or "nanosleep" in sample.wait
        works = works or uses >= IDLE or sample.bytes != 0
        return Rank(replace(place, busy=works), idle=waits and not works and sample.state != "D")
    moves = sample.bytes / seconds >= MOVES
    return Rank(replace(place, busy=works or moves), not works and sample.state != "D", moves)


def _operation(warnings: Sequence[str]) -> str:
    """The collective that Horovod's last warning names; "" without one."""
    for line in reversed(warnings):
        if (missing := MISSING.match(line)) and (name := OPERATION.search(missing["name"])):
            return name[1].lower()
    return ""


def _sentence(
    behind: Sequence[Rank], waiting: Sequence[Rank], seconds: float, operation: str
) -> str:
    """The diagnosis for people."""
    time = f"for {seconds:.0f} s"
    if not behind:
        first = waiting[0].place if waiting else Place(0, "", "ended")
        everyone = "the only rank" if len(waiting) == 1 else f"all {len(waiting)} ranks"
        return f"{everyone} {_has(len(waiting))} been {_where(first)} {time}, and none is behind"
    first = behind[0].place
    names = _names([rank.place for rank in behind])
    subject = f"{names} on {first.host}" if len({r.place.host for r in behind}) == 1 else names
    if first.doing == "ended":
        text = f"{subject} {_has(len(behind))} ended"
    else:
        text = f"{subject} {_has(len(behind))} been {_where(first)} {time}"
    partners = [r.place for r in waiting if r.place.doing in PARTNERS]
    if partners:
        pronoun = "it" if len(behind) == 1 else "them"
        name = operation or _common([p.detail for p in partners if p.doing == "collective"])
        partner = partners[0]
        line = f"{partner.file}:{partner.line}" if partner.file else ""
        inside = f"in {name}" if name else "in TensorFlow"
        wait = "waits" if len(partners) == 1 else "wait"
        text += f"; {_names(partners)} {wait} for {pronoun} {inside}"
        text += f" ({line})" if line else ""
    elif waiting:
        other = [rank.place for rank in waiting if rank.position == waiting[0].position]
        does = "ended" if other[0].doing == "ended" else f"been {_where(other[0])}"
        text += f"; {_names(other)} {_has(len(other))} {does}"
    return text


def _has(count: int) -> str:
    return "has" if count == 1 else "have"


def _where(place: Place) -> str:
    line = f"{place.file}:{place.line}" if place.file else ""
    text = f"{line} `{place.text}`" if line and place.text else line
    if place.doing == "stopped":
        return f"stopped ({place.detail})"
    if place.doing == "unreachable":
        return f"on a host that does not answer ({place.detail})"
    if place.doing == "silent":
        return f"without an answer{f' ({place.detail})' if place.detail else ''}"
    if not text:
        return {
            "call": "at the end of its program",
            "input": "waiting for input",
            "tensorflow": "in TensorFlow",
        }.get(place.doing, f"in {place.detail}")
    more = {"collective": f" ({place.detail})", "input": " (input)"}.get(place.doing, "")
    return f"in {text}{more}"


def _common(names: Sequence[str]) -> str:
    return Counter(names).most_common(1)[0][0] if names else ""


def _names(places: Sequence[Place]) -> str:
    """`rank 3`, or `ranks 0-2, 5`."""
    numbers = sorted(place.rank for place in places)
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    shown = ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)
    return f"rank {shown}" if len(numbers) == 1 else f"ranks {shown}"
