"""Brings a run's results home, and judges how it ended."""

from __future__ import annotations

import glob
import hashlib
import json
import tarfile
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from bootstrap.errors import BelowThreshold, RailheadError, RunFailed
from bootstrap.picture import curves
from bootstrap.run import Run, read_json
from bootstrap.session import Session
from bootstrap.show import clean, count, duration, number, size

OUTPUT_LIMIT = 1_000_000_000  # bytes fetched at once; what is more stays on the host, listed

SCORES = ("accuracy", "threshold", "loss")  # of an evaluation
LEFT = "left-on-host.txt"  # beside the results: what was too large
OURS = ("results/.keep", "logs/.keep", "results/outputs.json", "results/manifest.json")

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


def fetch(session: Session, run: Run) -> dict[str, Any]:
    """Bring a run's results into its folder here; returns result.json ({} while it still runs).

    Once the run has ended, each file is compared by sha256, and the chief gets the word that its
    machines need not be kept for them.

    Raises:
        RailheadError: a file here is not what the chief has.
    """
    manifest = read_json(session, f"{run.folder}/results/manifest.json")
    outputs = read_json(session, f"{run.folder}/results/outputs.json") or {"files": []}
    run.results.mkdir(parents=True, exist_ok=True)
    packed = run.results / ".fetch.tar.gz"
    chosen = [
        "run.json",
        "results/*",
        "logs/*",
        *(f"work/{_literal(p)}" for p, _ in outputs["files"]),
    ]
    told = session.get(run.folder, chosen, packed, limit=OUTPUT_LIMIT)
    _unpack(packed, run.results)
    packed.unlink()
    if told["left"]:
        left = "".join(f"{size(count):>9}  {path}\n" for path, count in told["left"])
        (run.results / LEFT).write_text(left)
    if manifest:
        verify(run.results, manifest["files"], {path for path, _ in told["left"]})
        word = json.dumps({"left": len(told["left"])})
        session.ask("write", files=[[f"{run.folder}/fetched", 0o644, word]])
    metrics = run.results / "metrics.jsonl"
    if metrics.exists():
        curves(metrics, run.results / "curves.png", run.run_id)
    result = run.results / "result.json"
    return json.loads(result.read_text()) if result.exists() else {}


def verify(here: Path, files: Sequence[Mapping[str, Any]], left: AbstractSet[str]) -> None:
    """RailheadError when a file of a manifest, but for those that were left, is not here whole."""
    wrong = [f["path"] for f in files if f["path"] not in left and not _same(here, f)]
    if wrong:
        (here / "result.json").unlink(missing_ok=True)  # a run with it counts as fetched
        raise RailheadError(
            f"{count(len(wrong), 'file')} came with another content than the chief has: "
            + ", ".join(wrong[:5]),
            hint="fab fetch   # once more; the machines keep them",
        )


def _same(here: Path, entry: Mapping[str, Any]) -> bool:
    """Whether a file is here with the bytes and the sha256 that the manifest says."""
    try:
        with (here / home_name(entry["path"])).open("rb") as file:
            digest = hashlib.sha256()
            while data := file.read(1 << 20):
                digest.update(data)
            return digest.hexdigest() == str(entry["sha256"])
    except OSError:
        return False


def home_name(path: str) -> str:
    """Where a file of the run's folder lies here: results/ comes to the top, work/ is outputs/."""
    path = path.removeprefix("results/")
    return "outputs/" + path.removeprefix("work/") if path.startswith("work/") else path


def _literal(path: str) -> str:
    return glob.escape(path)


def _unpack(packed: Path, into: Path) -> None:
    """Every file to where it belongs; nothing leaves the folder."""
    with tarfile.open(packed) as tar:
        for member in tar:
            if member.name in OURS:
                continue
            member.name = home_name(member.name)
            tar.extract(member, into, filter="data")


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
