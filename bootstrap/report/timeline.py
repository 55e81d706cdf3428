"""When the parts of a run happened: a picture, and a table of the events. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime, timezone

from railhead.documents.runs.run import MOST_RETRIES
from railhead.documents.times import seconds

from ..console.charts import pictures
from ..console.charts.pictures import Span
from ..console.markup import Markup, element, joined
from ..console.text import duration
from .facts import RunFacts
from .html import details, table

EVENTS = 40
SPANS = 200  # of the epochs in the picture
LATEST = 250_000_000_000  # seconds since 1970; datetime ends with the year 9999


def events_of(facts: RunFacts) -> list[tuple[float, str]]:
    """(time, event) in the order of time; times in seconds since 1970."""
    created, result = facts.document.created if facts.document else None, facts.result
    events = [
        (seconds(created), "hosts ready; the run is sent to them"),
        (seconds(result.started if result else None), "the supervisor starts the ranks"),
        (seconds(result.ended if result else None), f"the run ends: {facts.state}"),
    ]
    for record in facts.records:
        if record.kind == "epoch":
            events.append((record.time, f"epoch {record.epoch or 0:.0f} ends"))
        elif record.kind == "checkpoint":
            events.append((record.time, f"checkpoint at step {record.step or 0:.0f}"))
        elif record.kind == "evaluation":
            events.append((record.time, "evaluation"))
        elif record.kind == "first_step":
            events.append((record.time, "the first step is complete"))
    return sorted((time, event) for time, event in [*events, *_stops(facts)] if time is not None)


def _stops(facts: RunFacts) -> list[tuple[float | None, str]]:
    """When the machines stopped after the run, where this computer waited for it."""
    hosts: dict[str, list[str]] = {}
    for host in facts.stops:
        hosts.setdefault(facts.stops[host], []).append(host)
    return [
        (seconds(time.replace(" UTC", "Z")), f"stopped, as the cloud reports: {', '.join(names)}")
        for time, names in hosts.items()
    ]


def spans_of(facts: RunFacts) -> list[Span]:
    """The same as spans for the picture, in seconds from the first event."""
    known = [time for time, _ in events_of(facts) if 0 <= time < LATEST]
    return [*_spans(facts, known[0])] if known else []


def _spans(facts: RunFacts, first: float) -> Iterator[Span]:
    def since(time: float | None) -> float | None:
        return max(time - first, 0.0) if time is not None and 0 <= time < LATEST else None

    result = facts.result
    created = since(seconds(facts.document.created if facts.document else None))
    started = since(seconds(result.started if result else None))
    ended = since(seconds(result.ended if result else None))
    if created is not None and started is not None:
        yield Span("start", "the run is sent to the hosts", created, started)
    first_steps = (r.time for r in facts.records if r.kind == "first_step")
    stepped = since(next(first_steps, None))
    if started is not None and stepped is not None and stepped > started:
        yield Span("first step", "until the first step is complete", started, stepped)
    known = [] if started is None else [started]  # when something began
    for number, attempt in enumerate(facts.attempts[:MOST_RETRIES] if known else (), 1):
        known.append(known[-1] + attempt.seconds)
        yield Span("attempts", f"attempt {number} failed", *known[-2:])
    epochs = [(record, end) for record in facts.epochs if (end := since(record.time)) is not None]
    epochs = epochs[:: -(-len(epochs) // SPANS) or 1]
    known = sorted([*known, *(end for _, end in epochs)])
    for record, end in epochs:
        begin = known[max(bisect_left(known, end) - 1, 0)]
        yield Span("epochs", f"epoch {record.epoch:.0f}", min(begin, end), end)
    marks = {"checkpoint": "checkpoints", "evaluation": "evaluation"}
    for record in facts.records:
        if record.kind in marks and (seen := since(record.time)) is not None:
            step = f" at step {record.step:.0f}" if record.step is not None else ""
            yield Span(marks[record.kind], record.kind + step, seen)
    if known and ended is not None and ended > known[-1]:
        yield Span("end", f"until the run ended: {facts.state}", known[-1], ended)
    for stop, event in _stops(facts):
        if ended is not None and (stopped := since(stop)) is not None and stopped >= ended:
            yield Span("machines", event, ended, stopped)


def timeline(facts: RunFacts) -> Markup:
    """The picture and the table."""
    events = events_of(facts)
    hidden = max(0, len(events) - EVENTS)
    shown = [*events[: EVENTS // 2], *events[-(EVENTS // 2) :]] if hidden else events
    rows = [
        (
            datetime.fromtimestamp(time, timezone.utc).strftime("%H:%M:%S"),
            duration(time - events[0][0]),
            event,
        )
        for time, event in shown
        if 0 <= time < LATEST
    ]
    if not rows:
        return Markup("")
    note = [element("p", f"{hidden} events in between are not shown", class_="dim")] * bool(hidden)
    spans = spans_of(facts)
    picture = [element("figure", pictures.timeline("time after the begin", spans))] if spans else []
    return joined([
        *picture, details("All events", table(("UTC", "after", "event"), rows), *note),
    ])  # fmt: skip
