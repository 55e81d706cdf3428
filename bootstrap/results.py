"""Brings a run's results home, and judges how it ended."""

from __future__ import annotations

import glob
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bootstrap.errors import BelowThreshold, RunFailed
from bootstrap.picture import curves
from bootstrap.run import Run, read_json
from bootstrap.session import Session
from bootstrap.show import clean, count, duration, size

OUTPUT_LIMIT = 1_000_000_000  # bytes fetched at once; what is more stays on the host, listed

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
    """Bring a run's results into its folder here; returns result.json ({} while it still runs)."""
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
        (run.results / "left-on-host.txt").write_text(left)
    metrics = run.results / "metrics.jsonl"
    if metrics.exists():
        curves(metrics, run.results / "curves.png", run.run_id)
    result = run.results / "result.json"
    return json.loads(result.read_text()) if result.exists() else {}


def _literal(path: str) -> str:
    return glob.escape(path)


def _unpack(packed: Path, into: Path) -> None:
    """results/ comes to the top, work/ becomes outputs/; nothing leaves the folder."""
    with tarfile.open(packed) as tar:
        for member in tar:
            if member.name.endswith((".keep", "outputs.json")):
                continue
            member.name = member.name.removeprefix("results/")
            if member.name.startswith("work/"):
                member.name = "outputs/" + member.name.removeprefix("work/")
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
        raise RunFailed(f"run {run.run_id} was cancelled after {duration(result['seconds'])}")
    if result["state"] == "failed":
        raise RunFailed(_failure(run, result), hint=_mend(result) or f"fab logs --run {run.run_id}")
    evaluation = result["evaluation"] or {}
    if evaluation.get("passed") is False:
        raise BelowThreshold(
            f"accuracy {evaluation['accuracy']:.4f} is below min_accuracy {evaluation['threshold']}"
        )
    ranks = count(result["size"], "rank")
    return f"run {run.run_id} succeeded in {duration(result['seconds'])} on {ranks}"


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
