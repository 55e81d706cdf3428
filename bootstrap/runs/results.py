"""Fetches a run's results from its chief, and converts the result to a message or an error."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from railhead.documents.agent.files import TextFile
from railhead.documents.codec import encode
from railhead.documents.runs.evaluation import Evaluation
from railhead.documents.runs.manifest import Fetched, Skipped
from railhead.documents.runs.result import Culprit, Result
from railhead.documents.runs.swept import NotSwept

from ..console.output import Reporter
from ..console.text import clean, count, duration, size
from ..errors import BelowThreshold, Command, Hint, RailheadError, RunFailed, UsageError
from ..ssh.session import DiskFull, Session
from ..untrusted import unpack
from ..untrusted.manifest import (
    homes,
    is_same,
    read_manifest,
    refuse_changed,
    renamed,
    renamed_line,
    skipped_line,
)
from ..untrusted.run_files import read_result, read_run_document
from ..untrusted.unpack import Hostile
from .metrics.options import MOST_METRICS
from .run import Run

SHOWN_ATTEMPTS = 5
OUTPUT_LIMIT = 1_000_000_000  # bytes per fetch; further files stay on the host and are listed

LONGEST_REASON = 1000  # characters
SCORES = ("accuracy", "threshold", "loss")  # keys of an evaluation
LEFT = "left-on-host.txt"  # list of the files that were not fetched, in the results folder
RENAMED = "renamed.txt"  # list of the files that have another name than on the host
# For files that are too large for any fetch.
BY_HAND = Hint(Command("ssh-config"), "   # to copy them with scp")
RESULT = "results/result.json"
ELSEWHERE = "cd FOLDER   # a writable one; then the same command"


def fetch(session: Session, run: Run, report: Reporter = lambda _: None) -> Result | None:
    """Fetch a run's results into its local folder; returns result.json (None before its end).

    Files are received in a temporary folder and moved when all are complete. If the run has ended,
    each file is verified by its sha256, and the chief is notified that the machines may stop.

    Args:
        report: receives a line for each kind of file that was not fetched.

    Raises:
        Hostile: the host violated the transfer protocol; the folder is unchanged.
        RailheadError: a fetched file differs from the one on the chief, or the folder cannot be
            written, as on a full disk.
    """
    try:
        return _fetch(session, run, report)
    except OSError as error:
        raise RailheadError(
            f"the results of run {run.run_id} cannot be written to {run.results}: "
            f"{error.strerror or error}; they are still on the chief",
            hint=Hint(
                Command("fetch", run=run.run_id, to="FOLDER"), "   # or here again, without --to"
            ),
        ) from error


def _fetch(session: Session, run: Run, report: Reporter) -> Result | None:
    with unpack.stage(run.results) as stage:
        packed, files = stage / "packed", stage / "files"
        reply = session.collect(run.folder, packed, limit=OUTPUT_LIMIT)
        too_large, not_sent = unpack.pairs(reply.left), reply.skipped
        torn = {unpack.checked(name) for name in reply.changed}
        received = [p for p in unpack.unpack(packed, files, OUTPUT_LIMIT) if p not in torn]
        ended = RESULT in received
        if ended:
            _verify(session, run, files, {path for path, _ in too_large})
        changed = accept(files, run.results, received)
        _note_left(too_large, not_sent, stage, run.results)
        not_drawn = undrawn(stage, run)
    count_left = left_files(run.results)
    left_line = [_left_line(run, session.host.name)] if count_left else []
    for line in [*skipped_line(not_sent), *_torn_line(torn), *left_line, *changed, *not_drawn]:
        report(line)
    if ended:
        for line in _notify(session, run, count_left):
            report(line)
    return result_of(run.results)


def _notify(session: Session, run: Run, left: int) -> list[str]:
    """Notify the chief that the results are here; returns a line if the chief's disk is full."""
    try:
        session.write(TextFile(f"{run.folder}/fetched", json.dumps(encode(Fetched(left)))))
    except DiskFull as error:
        what = f"the results are here, and {session.host.name} cannot note it: {error.message}"
        return [what, f"next: {error.next}"]
    return []


def require_writable(folder: Path) -> None:
    """UsageError if the results folder cannot be created or written; called before a run."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise UsageError(
            f"{place} is not a folder: results cannot be written there", hint=ELSEWHERE
        )
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"{place} cannot be written: results would be lost", hint=ELSEWHERE)


def _verify(session: Session, run: Run, files: Path, too_large: AbstractSet[str]) -> None:
    """RailheadError when a file of the manifest is missing or differs.

    The manifest may be absent if the chief's disk was full.
    """
    if text := session.read(f"{run.folder}/results/manifest.json"):
        wanted = [entry for entry in read_manifest(text).files if entry.path not in too_large]
        refuse_changed([e.path for e in wanted if not is_same(e, unpack.local_path(files, e.path))])


def accept(files: Path, results: Path, paths: Sequence[str]) -> list[str]:
    """Move received files into the results folder; if some are renamed, lists them there and
    returns a line. result.json is moved last: if it exists, the run counts as fetched."""
    named = homes(paths)
    changed = renamed(named.values())
    unpack.refuse_folder(results / "result.json")
    (results / "result.json").unlink(missing_ok=True)
    if changed:
        text = "".join(f"{name}  ->  {here}\n" for name, here in changed)
        unpack.place_text(text, files, results, RENAMED)
    else:
        (results / RENAMED).unlink(missing_ok=True)
    for path in sorted(paths, key=lambda path: path == RESULT):
        unpack.place(unpack.local_path(files, path), results, named[path])
    return renamed_line(changed, results / RENAMED)


def _note_left(
    too_large: Sequence[tuple[str, int]], not_sent: Sequence[Skipped], stage: Path, results: Path
) -> None:
    """Write the list of the files that stayed on the host, in the results folder."""
    lines = [f"{size(count):>9}  {path}\n" for path, count in too_large]
    lines += [f"        -  {clean(s.path)}: {clean(s.kind)}\n" for s in not_sent if s.is_file]
    if lines:
        unpack.place_text("".join(lines), stage, results, LEFT)
    else:
        (results / LEFT).unlink(missing_ok=True)


def left_files(results: Path) -> int:
    """The number of files of a run that stayed on its chief, from the list in its results."""
    try:
        return len((results / LEFT).read_text(errors="replace").splitlines())
    except (FileNotFoundError, IsADirectoryError):
        return 0


def _left_line(run: Run, chief: str) -> str:
    number = left_files(run.results)
    return f"files left on {chief}: {number}, listed in {run.results / LEFT}"


def where(run: Run, chief: str) -> str:
    """A text that says where the results of a run are: fetched, partly fetched or not fetched."""
    if not (run.results / "result.json").exists():
        return "not fetched"
    if left_files(run.results):
        return f"partly fetched to {run.results}; {_left_line(run, chief)}"
    return f"fetched to {run.results}"


def _torn_line(torn: AbstractSet[str]) -> list[str]:
    if not torn:
        return []
    files = count(len(torn), "file")
    return [f"{files} changed during the transfer, not fetched: {Command('fetch')} again"]


def undrawn(stage: Path, run: Run) -> list[str]:
    """Draw the curves of fetched results. If the program has written a file in their place, return
    a line: there is no reason to fetch again."""
    try:
        draw(stage, run)
    except RailheadError as error:
        return [f"the curves were not drawn: {error.message}"]
    return []


def draw(stage: Path, run: Run) -> None:
    """Draw the curves of metrics.jsonl and write its TensorBoard events; replaces older files."""
    from .metrics.events import EVENT_FILE, event_file  # imported late: a run starts without them
    from .metrics.plots import curves

    if picture := curves(run.results / "metrics.jsonl", run.run_id):
        unpack.place_text(picture, stage, run.results, "curves.svg")
    if (events := event_file(run.results)) is not None:
        (stage / "events").write_bytes(events)
        unpack.place(stage / "events", run.results, EVENT_FILE)


def result_of(results: Path) -> Result | None:
    """result.json of a fetched run; None if it does not exist.

    Raises:
        Hostile: the file is not a valid result.
    """
    try:
        return read_result((results / "result.json").read_text(errors="replace"))
    except (FileNotFoundError, IsADirectoryError):
        return None


def trouble_line(result: Result | None) -> list[str]:
    """One line if files of the run could not be written or read on the chief; otherwise none."""
    if result is None or not result.trouble:
        return []
    return [f"not everything could be written: {clean(result.trouble)[:400]}"]


def attempt_lines(result: Result | None) -> list[str]:
    """A line for each of the last failed attempts before the one that ended the run."""
    attempts = result.attempts if result else ()
    shown = attempts[-SHOWN_ATTEMPTS:]  # a host may list any number of them
    return [clean(attempt.summary) for attempt in shown]


def judge(run: Run, result: Result | None) -> str:
    """One line about a run that succeeded.

    Raises:
        RunFailed: it failed or was cancelled. BelowThreshold: its evaluation is too low.
    """
    if result is None:
        raise RunFailed(
            f"run {run.run_id} has no result: its supervisor died, or is stopped",
            hint=Command("logs", run=run.run_id),
        )
    if result.state == "cancelled":
        raise RunFailed(
            f"run {run.run_id} was cancelled after {duration(result.seconds)}"
            + (f": {result.why}" if result.why else "")
        )
    if result.state == "failed":
        from .failures.hints import next_step

        tried = any(attempt.kind == "keras" for attempt in result.attempts)
        keras = None if tried else keras_of(run)
        raise RunFailed(_failure(run, result), hint=next_step(run, result, keras))
    if remaining := left_on_hosts(result):
        raise RailheadError(
            f"run {run.run_id} succeeded, and {remaining}", hint=Command("cancel", run=run.run_id)
        )
    if result.evaluated.passed is False:
        raise BelowThreshold(_below(result.evaluated))
    on = f" on {count(result.size, 'rank')}" if result.size is not None else ""
    return f"run {run.run_id} succeeded in {duration(result.seconds)}{on}"


def keras_of(run: Run) -> int | None:
    """The Keras of a fetched run; None if it is not known."""
    try:
        return read_run_document((run.results / "run.json").read_text(errors="replace")).keras
    except (OSError, Hostile):
        return None


def left_on_hosts(result: Result) -> str:
    """The hosts on which processes of the run are or may be running; empty if there are none."""
    reports = []
    for name, swept in result.swept.items():
        if isinstance(swept, NotSwept):
            why = clean(swept.unknown)[:200]
            reports.append(f"{name} did not report that its processes ended: {why}")
        elif swept.left:
            reports.append(f"its processes {str([*swept.left])[:200]} are still running on {name}")
    return "; ".join(reports)


def _below(evaluation: Evaluation) -> str:
    """Why an evaluation did not pass; a script's record may lack both numbers."""
    if evaluation.failed:
        return "; ".join(clean(why)[:200] for why in evaluation.failed[:MOST_METRICS])
    accuracy, threshold = evaluation.figures.get("accuracy"), evaluation.threshold
    if accuracy is not None and threshold is not None and accuracy < threshold:
        return f"accuracy {accuracy:.4f} is below min_accuracy {threshold}"
    scores = {**evaluation.metrics, **({} if threshold is None else {"threshold": threshold})}
    values = [f"{key} {clean(str(scores[key]))[:80]}" for key in SCORES if key in scores]
    return f"the evaluation did not pass ({', '.join(values) or 'without numbers'})"


def _failure(run: Run, result: Result) -> str:
    from .failures.hints import cause_of  # imported late: most runs do not fail

    culprit = result.culprit or Culprit(None, None, ())
    where = f" on {culprit.host}" if culprit.host else ""
    if culprit.stall:
        what = f"no progress: {clean(culprit.stall.text)[:LONGEST_REASON]}"
    elif culprit.rank is None:
        what = f"lost{where}" if where else "mpirun failed"
    elif culprit.signal is not None:
        what = f"rank {culprit.rank}{where} was killed by signal {culprit.signal}"
    else:
        what = (
            f"rank {culprit.rank}{where} exited with {1 if culprit.exit is None else culprit.exit}"
        )
    lines = "\n".join(f"  | {clean(line)}" for line in culprit.lines[-12:])
    again = f"  not started again: {clean(result.no_restart)}\n" if result.no_restart else ""
    return (
        f"run {run.run_id} failed: {what}\n{lines}\n  cause: {cause_of(result)}\n{again}"
        f"  result.json: exit code {result.exit_code}"
    )
