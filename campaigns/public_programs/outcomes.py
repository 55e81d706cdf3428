"""How public programs ended, and the table of all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

SUCCEEDED, FAILED, REFUSED, NOT_FETCHED = "succeeded", "failed", "refused", "not fetched"
LIMITS = {"auto": 1.0, "3": 0.9, "2": 0.0}  # the least part of the programs that must run
Seed = tuple[str, str]  # a row of the runtimes, and the value of --keras


@dataclass(frozen=True)
class Outcome:
    """How a program ended. `keras`: the last one that it ran with; `retried`: it failed with the
    other one first. `why`: the sentence with which a run that did not succeed ended."""

    name: str
    state: str
    keras: int = 0
    retried: bool = False
    why: str = ""

    @property
    def line(self) -> str:
        """One line for the screen."""
        keras = f", Keras {self.keras}" if self.keras else ""
        again = ", at the second attempt" if self.retried else ""
        why = f": {self.why}" if self.why else ""
        return f"{self.name}: {self.state}{keras}{again}{why}"


def outcome_of(name: str, output: str, folder: Path) -> Outcome:
    """The outcome of a `fab train` by what it printed and the results that it fetched."""
    results = sorted(folder.glob("results/*/result.json"))
    if not results:
        errors = [line for line in output.splitlines() if line.startswith("fab train: ")]
        return Outcome(name, REFUSED, why="".join(errors[-1:]).removeprefix("fab train: "))
    result = json.loads(results[-1].read_text())
    run = json.loads(results[-1].with_name("run.json").read_text())
    why = (result.get("cause") or {}).get("evidence", "")
    retried, state = bool(result.get("attempts")), result["state"]
    return Outcome(name, state, run["keras"], retried, "" if state == SUCCEEDED else why)


def limit_of(keras: str) -> float:
    """The least part of the programs that must run with this --keras."""
    return LIMITS[keras]


def write(records: Path, seed: Seed, outcome: Outcome) -> None:
    """Keep an outcome, in place of an earlier one of the same program."""
    kept = {each.name: each for each in read(records, seed)} | {outcome.name: outcome}
    records.mkdir(parents=True, exist_ok=True)
    text = json.dumps([asdict(each) for each in kept.values()], indent=1)
    file_of(records, seed).write_text(text)


def read(records: Path, seed: Seed) -> list[Outcome]:
    """The outcomes that were kept."""
    file = file_of(records, seed)
    return [Outcome(**each) for each in json.loads(file.read_text())] if file.exists() else []


def file_of(records: Path, seed: Seed) -> Path:
    """The file with the outcomes of a seed."""
    return records / f"{'-'.join(seed)}.json"


def table(outcomes: Mapping[Seed, Sequence[Outcome]]) -> str:
    """The number of programs that ran, by seed, and the sentence of each that did not."""
    lines = ["| TensorFlow | `--keras` | programs | ran | at the second attempt |"]
    lines += ["|---|---|---|---|---|"]
    for (runtime, keras), kept in outcomes.items():
        tried = [each for each in kept if each.state != NOT_FETCHED]
        ran = [each for each in tried if each.state == SUCCEEDED]
        again = sum(each.retried for each in ran)
        version = runtime.removeprefix("tf")
        lines.append(f"| {version} | `{keras}` | {len(tried)} | {len(ran)} | {again} |")
    for seed, kept in outcomes.items():
        lines += [
            f"- {' '.join(seed)}: {each.line}" for each in kept if each.state in (FAILED, REFUSED)
        ]
    return "\n".join(lines)
