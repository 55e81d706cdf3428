"""The page of one run. Pure, except that it reads the pictures of the worst samples."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from railhead.documents.runs.evaluation import NONE, Evaluation
from railhead.documents.runs.result import LINE
from railhead.documents.runs.run import MOST_RETRIES
from railhead.documents.runs.stall import Stall

from ..console.charts import pictures
from ..console.charts.chart import Curve, Panel
from ..console.markup import Markup, element, joined, text
from ..console.text import clean, count, duration, percent
from ..runs.failures.hints import cause_of
from ..runs.metrics.plots import by_epoch, panels
from .facts import METRICS, RunFacts, ranks
from .html import PAGE, charts, details, page, pairs, picture, section, table, tiles
from .timeline import timeline

PNG = b"\x89PNG\r\n\x1a\n"
PICTURE = 500_000  # bytes
PICTURES = 12
MOST_CLASSES = 100


def run_page(facts: RunFacts, command: str) -> str:
    """The page of a run; `command` repeats it."""
    body = [
        _head(facts),
        _failure(facts),
        section("Attempts", _attempts(facts)),
        section("Curves", charts(panels(facts.records))),
        section("Throughput", _throughput(facts)),
        section("Energy and carbon", _carbon(facts)),
        section("Timeline", timeline(facts)),
        section("Settings", _settings(facts)),
        section("Environment", _environment(facts)),
        section("Evaluation", evaluation(facts.evaluation, facts.folder)),
        *(
            section(f"Evaluation {name}", evaluation(result, facts.folder / "evaluations" / name))
            for name, result in facts.evaluations.items()
        ),
        section("Digests", _digests(facts)),
        section("How to repeat it", element("pre", command)) if command else Markup(""),
    ]
    return page(f"Run {facts.run_id}", body)


def figure(name: str, value: float) -> str:
    """A metric for people: parts of 1 as percent, others with four digits."""
    parts = ("accuracy", "precision", "recall", "f1")
    return percent(value, 2) if name in parts else f"{value:.4g}"


def figures(facts: RunFacts) -> dict[str, str]:
    """The figures of the summary, by label."""
    known = [name for name in METRICS if name in facts.metrics]
    custom = [name for name in facts.metrics if name not in METRICS][:4]
    labels = {name: figure(name, facts.metrics[name]) for name in (*known, *custom)}
    if facts.seconds is not None:
        labels["duration"] = duration(facts.seconds)
    if facts.speed is not None:
        labels["samples/s, median"] = f"{facts.speed:,.0f}"
    if facts.cost is not None:
        labels["machines, during the run"] = str(facts.cost)
    if facts.carbon:
        labels["carbon" if facts.carbon.grid else "energy"] = facts.carbon.total
    return labels


def state_of(facts: RunFacts) -> Markup:
    """The state and whether the evaluation passed."""
    good = facts.state == "succeeded" and facts.evaluation.passed is not False
    missed = facts.state == "succeeded" and not good
    label = "succeeded, below its threshold" if missed else facts.state
    return element("b", label, class_="good" if good else "bad")


def link_to(run: RunFacts, folder: Path) -> Markup:
    """The id of a run, with its page: relative, so that the folders can be moved together."""
    to = os.path.relpath(run.folder / PAGE, folder)
    return element("a", run.run_id, href=quote(to))


def _head(facts: RunFacts) -> Markup:
    line = "".join(f" · {item}" for item in _summary(facts))
    return joined([
        element("h1", "Run ", facts.run_id),
        element("p", state_of(facts), element("span", line, class_="dim")),
        tiles(figures(facts)),
        *(element("p", why, class_="bad") for why in facts.evaluation.failed[:16]),
    ])  # fmt: skip


def _summary(facts: RunFacts) -> tuple[str, ...]:
    """The program, the ranks and the time of a run."""
    if facts.document is None:
        return ()
    run = facts.document
    on = f"{count(run.size, 'rank')} on {count(len(run.hosts), 'host')}"
    return facts.description, on, run.created


def _failure(facts: RunFacts) -> Markup:
    """The cause of a failure, and the rank or host with its last lines."""
    result = facts.result
    culprit = result.culprit if result else None
    if not result or not culprit:
        return Markup("")
    process = "mpirun" if culprit.rank is None else f"rank {culprit.rank}"
    where = f"{process} on {culprit.host}; {cause_of(result) or 'cause not known'}"
    lines = element("pre", Markup("\n".join(text(line) for line in culprit.lines[-12:])))
    if not culprit.stall:
        return section("Failure", element("p", where), lines)
    why = element("p", f"no progress: {culprit.stall.text}")
    return section("Failure", why, _places(culprit.stall), lines)


def _places(stall: Stall) -> Markup:
    """Where each rank was when the run stood still."""
    rows = [
        (place.rank, place.host, place.doing, f"{place.file}:{place.line}" if place.file else "",
         place.text or place.detail)
        for place in stall.places
    ]  # fmt: skip
    return table(("rank", "host", "in", "line", ""), rows)


def _attempts(facts: RunFacts) -> Markup:
    """The attempts that failed, after which the run started again."""
    rows = [
        (
            number,
            clean(str(attempt.cause or attempt.summary))[:LINE],
            attempt.culprit.host,
            duration(attempt.seconds),
            attempt.step,
            attempt.from_step,
            "" if attempt.lost is None else duration(attempt.lost),
        )
        for number, attempt in enumerate(facts.attempts[:MOST_RETRIES], 1)
    ]
    head = ("attempt", "cause", "host", "duration", "last step", "continued from step", "lost")
    return table(head, rows) if rows else Markup("")


def throughput_panels(facts: RunFacts) -> list[Panel]:
    """Samples per second and the learning rate, by epoch."""
    names = {"samples_per_s": "samples/s over all ranks", "learning_rate": "learning rate"}
    drawn = [
        Panel(
            label,
            "epoch",
            (Curve(label, by_epoch(facts.epochs, key)),),
            from_zero=key == "samples_per_s",
        )
        for key, label in names.items()
    ]
    return [panel for panel in drawn if panel.curves[0].points]


def _throughput(facts: RunFacts) -> Markup:
    split, parts = _step_split(facts), ("computation and communication", "waiting for input")
    steps = [pictures.stacked("time of a step", split, parts, "ms")] if split else []
    drawn = charts(throughput_panels(facts), *steps)
    return joined([drawn, _ranks(facts)]) if drawn else drawn


def _ranks(facts: RunFacts) -> Markup:
    """The last record of each rank that reports: its rate, and the parts of its steps. A rank
    only knows the rate of all ranks, because they train in step."""
    size, rows = facts.document and facts.document.size, []
    for rank, records in ranks(facts).items():
        last = records[-1]
        step, waited = last.figure("step_s"), last.figure("input_s")
        if step:
            speed = last.figure("samples_per_s")
            share = f"{speed / size:,.1f}" if speed is not None and size else "unknown"
            rows.append((rank, share, f"{step * 1000:.1f}", percent((waited or 0) / step)))
    head = ("first rank of each host", "samples/s", "ms per step", "waiting for input")
    note = "samples/s: the rate that this rank measured over all ranks, divided by their number"
    return joined([table(head, rows), *([element("p", note, class_="dim")] if rows else [])])


def _step_split(facts: RunFacts) -> dict[str, tuple[float, float]]:
    """Milliseconds of a step without input, and of its input, for at most 12 epochs."""
    epochs = facts.epochs
    split = {}
    for record in epochs[:: -(-len(epochs) // 12) or 1]:
        step, waited = record.figure("step_s"), record.figure("input_s")
        if step and waited is not None and step >= waited >= 0:
            split[f"epoch {record.epoch:.0f}"] = ((step - waited) * 1000, waited * 1000)
    return split


def evaluation(result: Evaluation, folder: Path) -> Markup:
    """An evaluation: thresholds, classes, confusion matrix and the worst pictures."""
    if result == NONE:
        return Markup("")
    of = f"{result.samples:,.0f} samples of {result.split or 'the'} data" if result.samples else ""
    figures = result.figures
    values = {name: figure(name, figures[name]) for name in METRICS if name in figures}
    return joined([
        element("p", of, class_="dim"),
        pairs({**values, **_thresholds(result)}),
        _classes(result),
        _confusion(result),
        _worst(result, folder),
    ])  # fmt: skip


def _thresholds(result: Evaluation) -> dict[str, str]:
    """Each threshold and whether it was reached."""
    failed = " ".join(result.failed)
    options = [item.option for item in result.thresholds[:16]]
    return {option: "missed" if option in failed else "reached" for option in options}


def _classes(result: Evaluation) -> Markup:
    rows = [
        (
            item.class_,
            f"{item.samples or 0:.0f}",
            *(_part(value) for value in (item.precision, item.recall, item.f1)),
        )
        for item in result.per_class[:MOST_CLASSES]
    ]
    return table(("class", "samples", "precision", "recall", "F1"), rows)


def _part(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _confusion(result: Evaluation) -> Markup:
    """The matrix as a picture, which fits a telephone and paper; nothing where it is not square or
    too large."""
    rows = [[value for value in row if value is not None] for row in result.confusion]
    if not 0 < len(rows) <= MOST_CLASSES or any(len(row) != len(rows) for row in rows):
        return Markup("")
    names = [result.classes[n] if n < len(result.classes) else str(n) for n in range(len(rows))]
    return joined([
        element("p", "Confusion matrix: a row for each label, a column for each prediction."),
        pictures.matrix([clean(name) for name in names], rows),
    ])  # fmt: skip


def _worst(result: Evaluation, folder: Path) -> Markup:
    """The wrong predictions with the highest loss."""
    shown = []
    for item in result.worst[:PICTURES]:
        if data := _png(folder / "worst" / Path(clean(item.picture)).name):
            caption = joined([
                text(f"{item.label}, predicted "), element("b", item.prediction),
                text(f", loss {item.loss or 0:.2f}"),
            ])  # fmt: skip
            shown.append(picture(data, caption, f"{item.label}, predicted {item.prediction}"))
    if not shown:
        return Markup("")
    of = f"{result.worst_of or 0:,.0f}"
    note = element("p", f"The wrong predictions with the highest loss, among {of} samples:")
    return joined([note, element("div", *shown, class_="pictures")])


def _png(path: Path) -> bytes:
    """A picture of the results; b"" if it is not a regular, small PNG file."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > PICTURE:
            return b""
        data = path.read_bytes()
    except OSError:  # such as a name that is too long
        return b""
    return data if data.startswith(PNG) else b""


def _carbon(facts: RunFacts) -> Markup:
    """The measured and the estimated part, the method, and what is left out."""
    if facts.carbon is None:
        return Markup("")
    notes = [element("p", clean(note), class_="dim") for note in facts.carbon.notes[:16]]
    return joined([element("p", clean(facts.carbon.text)), *notes])


def _settings(facts: RunFacts) -> Markup:
    """What the user chose, then all other settings."""
    chosen = facts.chosen
    others = {n: value for n, value in facts.program_settings.items() if n not in chosen}
    return joined([pairs(chosen), details("All other settings", pairs(others))])


def _environment(facts: RunFacts) -> Markup:
    if facts.document is None:
        return pairs({"cluster": facts.cluster})
    run = facts.document
    return pairs({
        "framework": facts.framework,
        "Python": run.runtime.python,
        "processors": facts.processors,
        "git commit of the program": run.commit or "",
        "cluster": facts.cluster,
        "hosts": ", ".join(f"{host.name} ({count(host.slots, 'rank')})" for host in run.hosts),
        "launcher": run.launcher,
        "strategy": run.strategy,
        "Keras": facts.keras,
        "runtime": run.runtime.name,
        "price": facts.price.text("per hour") if facts.price else "",
        "resumes": run.resumes or "",
        "evaluates": run.evaluates or "",
    })  # fmt: skip


def _digests(facts: RunFacts) -> Markup:
    run = facts.document
    values = {
        "program": run.bundle if run else "",
        "runtime": run.runtime.digest if run else "",
        "model.keras": facts.evaluation.model,
        "held-out data": facts.evaluation.data,
    }
    data = {
        f"data {item.name}": " ".join([item.uri, *(item.paths or ())[:1]])
        for item in (run.data if run else ())
    }
    return pairs({**values, **data})
