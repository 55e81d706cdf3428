"""Brings a run's results home, and judges how it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from bootstrap.console.output import Reporter
from bootstrap.console.text import clean, count, duration, number, size
from bootstrap.errors import BelowThreshold, RunFailed
from bootstrap.runs.plots import curves
from bootstrap.runs.start import Run
from bootstrap.ssh.session import Session
from bootstrap.untrusted import unpack
from bootstrap.untrusted.manifest import (
    Manifest,
    Skipped,
    homes,
    refuse_changed,
    skipped,
    skipped_line,
)

OUTPUT_LIMIT = 1_000_000_000  # bytes fetched at once; what is more stays on the host, listed

SCORES = ("accuracy", "threshold", "loss")  # of an evaluation
LEFT = "left-on-host.txt"  # beside the results: files that were not brought
RESULT = "results/result.json"

# What a script under the wrong Keras says, and what mends it (docs/troubleshooting.md).
WRONG_KERAS = {
    "3": (
        "'Variable' object has no attribute 'ref'",
        "'list' object is not callable",
        "unexpected keyword argument 'experimental_run_tf_function'",
        "Attempt to convert a value (PerReplica:",
        "optimizers.legacy is not supported in Keras 3",
        "has no attribute 'reset_states'",
    ),
    "2": (
        "No module named 'tf_keras.",
        "No module named 'keras.ops'",
        "tf_keras' has no attribute",
    ),
}


def fetch(session: Session, run: Run, report: Reporter = lambda _: None) -> dict[str, Any]:
    """Bring a run's results into its folder here; returns result.json ({} while it still runs).

    Files lie in a folder of their own until all have come. Once the run has ended, each is compared
    by sha256, and the chief gets the word that its machines need not be kept for them.

    Args:
        report: gets a line on what was not brought.

    Raises:
        Hostile: the host sent what no host of ours sends; nothing of it is in the folder.
        RailheadError: a file here is not what the chief has.
    """
    with unpack.stage(run.results) as stage:
        packed, files = stage / "packed", stage / "files"
        answer = session.collect(run.folder, packed, limit=OUTPUT_LIMIT)
        left, left_out = unpack.pairs(answer["left"]), skipped(answer["skipped"])
        torn = {unpack.checked(name) for name in answer["changed"]}
        came = [p for p in unpack.unpack(packed, files, OUTPUT_LIMIT) if p not in torn]
        ended = RESULT in came
        if ended:
            _verify(session, run, files, {path for path, _ in left})
        accept(files, run.results, came)
        _note_left(left, left_out, stage, run.results)
        _draw(stage, run)
    for line in [*skipped_line(left_out), *_torn_line(torn)]:
        report(line)
    if ended:
        word = json.dumps({"left": len(left)})
        session.call("write", files=[[f"{run.folder}/fetched", 0o644, word]])
    return result_of(run.results)


def _verify(session: Session, run: Run, files: Path, left: AbstractSet[str]) -> None:
    """RailheadError when a file is not what the manifest of the ended run says, or did not come.

    A run whose disk was full may have no manifest.
    """
    path = f"{run.folder}/results/manifest.json"
    if text := session.call("read", paths=[path])[path]:
        entries = Manifest.read(text).files
        refuse_changed(
            [e.path for e in entries if e.path not in left and not e.is_in(files / e.path)]
        )


def accept(files: Path, results: Path, paths: Sequence[str]) -> None:
    """Move files of a run's folder to their places here. The result comes last: where it is, the
    run counts as fetched."""
    (results / "result.json").unlink(missing_ok=True)
    named = homes(paths)
    for path in sorted(paths, key=lambda path: path == RESULT):
        unpack.place(files / path, results, named[path])


def _note_left(
    left: Sequence[tuple[str, int]], left_out: Sequence[Skipped], stage: Path, results: Path
) -> None:
    """List beside the results which files stayed on the host."""
    lines = [f"{size(count):>9}  {path}\n" for path, count in left]
    lines += [f"        -  {clean(s.path)}: {clean(s.kind)}\n" for s in left_out if s.is_file]
    if lines:
        unpack.place_text("".join(lines), stage, results, LEFT)
    else:
        (results / LEFT).unlink(missing_ok=True)


def _torn_line(torn: AbstractSet[str]) -> list[str]:
    if not torn:
        return []
    return [f"{count(len(torn), 'file')} changed while it was read, not brought: fab fetch again"]


def _draw(stage: Path, run: Run) -> None:
    """The curves of metrics.jsonl, in place of an older picture."""
    metrics, picture = run.results / "metrics.jsonl", stage / "curves.png"
    if metrics.is_file() and curves(metrics, picture, run.run_id):
        unpack.place(picture, run.results, picture.name)


def result_of(results: Path) -> dict[str, Any]:
    """result.json of a run that was fetched; {} when it is not there.

    Raises:
        Hostile: it is no result.
    """
    try:
        text = (results / "result.json").read_text()
        result: dict[str, Any] = json.loads(text)
        if isinstance(result["state"], str):
            return result
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise unpack.Hostile("a result.json that is no result")


def judge(run: Run, result: Mapping[str, Any]) -> str:
    """One line on a run that did what it should.

    Raises:
        RunFailed: it failed or was cancelled. BelowThreshold: its evaluation is too low.
    """
    if not result:
        raise RunFailed(
            f"run {run.run_id} ended without a result: its supervisor died",
            hint=f"fab logs --run {run.run_id}",
        )
    if result["state"] == "cancelled":
        raise RunFailed(
            f"run {run.run_id} was cancelled after {duration(result['seconds'])}"
            + (f": {result['why']}" if result.get("why") else "")
        )
    if result["state"] == "failed":
        raise RunFailed(_failure(run, result), hint=_mend(result) or f"fab logs --run {run.run_id}")
    evaluation = result["evaluation"] or {}
    if evaluation.get("passed") is False:
        raise BelowThreshold(_below(evaluation))
    ranks = count(result["size"], "rank")
    return f"run {run.run_id} succeeded in {duration(result['seconds'])} on {ranks}"


def _below(evaluation: Mapping[str, Any]) -> str:
    """How an evaluation missed its threshold; a script's record need not have either number."""
    accuracy, threshold = number(evaluation, "accuracy"), number(evaluation, "threshold")
    if accuracy is not None and threshold is not None and accuracy < threshold:
        return f"accuracy {accuracy:.4f} is below min_accuracy {threshold}"
    told = [f"{key} {clean(str(evaluation[key]))[:80]}" for key in SCORES if key in evaluation]
    return f"the evaluation says that it has not passed ({', '.join(told) or 'and not why'})"


def _failure(run: Run, result: Mapping[str, Any]) -> str:
    culprit = result["culprit"] or {"rank": None, "host": None, "lines": []}
    where = f" on {culprit['host']}" if culprit["host"] else ""
    if culprit["rank"] is None:
        what = f"lost{where}" if where else "mpirun failed"
    elif "signal" in culprit:
        what = f"rank {culprit['rank']}{where} was killed by signal {culprit['signal']}"
    else:
        what = f"rank {culprit['rank']}{where} exited with {culprit.get('exit', 1)}"
    lines = "\n".join(f"  | {clean(line)}" for line in culprit["lines"][-12:])
    return (
        f"run {run.run_id} failed: {what}\n{lines}\n  result.json: exit code {result['exit_code']}"
    )


def _mend(result: Mapping[str, Any]) -> str:
    text = "\n".join((result["culprit"] or {"lines": []})["lines"])
    for keras, signs in WRONG_KERAS.items():
        if any(sign in text for sign in signs):
            other = "2" if keras == "3" else "3"
            return f"this is the error of a script written for Keras {other}: add --keras {other}"
    return ""
