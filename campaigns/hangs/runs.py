"""Runs programs on two real local hosts with `fab train`, and judges the result."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e import kept_environments, local_hosts
from e2e.local_hosts import Operator

from .kinds import Kind

RANKS = 3  # two on the first host: so most ranks are at the same place
AFTER = 4  # seconds of --stall-after
LONGEST = 400  # seconds of a run


@dataclass(frozen=True)
class Outcome:
    """What a run named. `right`: the rank and, where it can be known, its line, in the result;
    `late`: seconds after the limit when they were shown first."""

    right: bool
    text: str
    late: float = 0.0


@contextlib.contextmanager
def hosts(folder: Path) -> Iterator[Operator]:
    """Somebody with two local hosts that are ready, the first one with two slots."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home, work = folder / "home", folder / "work"
    home.mkdir(parents=True)
    work.mkdir()
    operator = Operator(home, work, caches)
    with local_hosts.cluster(home, "ready", caches):
        kept_environments.give_to_hosts(caches / kept_environments.FOLDER, home)
        done = operator.start("bootstrap")
        out, _ = done.communicate(timeout=1500)
        assert done.returncode == 0, out

        def with_slots(document: Any) -> Any:
            return {"hosts": [{**h, "slots": 2 - i} for i, h in enumerate(document["hosts"])]}

        with local_hosts.changed_cluster(operator, with_slots):
            yield operator


def train(operator: Operator, script: str, *words: str, hangs: int, stops: bool = False) -> str:
    """Run a script, and stop the rank `hangs` when it is ready for that; the output of `fab`."""
    operator.write("project/train.py", script)
    command = ("train", "--script", "project/train.py", "--env", f"HANGS={hangs}")
    process = operator.start(*command, "--stall-after", str(AFTER), *words)
    try:
        out = ""
        if stops:
            assert process.stdout
            for line in process.stdout:
                out += line
                if "ready to stop" in line:
                    time.sleep(1)
                    os.kill(process_of(operator.home, hangs), signal.SIGSTOP)
                    break
        rest, _ = process.communicate(timeout=LONGEST)
        return out + rest
    finally:
        if process.poll() is None:
            process.terminate()
            cancel = operator.start("cancel")
            cancel.communicate(timeout=200)


def process_of(home: Path, rank: int) -> int:
    """The process of a rank: of those with its number and our mark, the one that began first."""
    marks = (f"OMPI_COMM_WORLD_RANK={rank}".encode(), f"RAILHEAD_HOME={home}".encode())
    pids = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and b"rank.rank" in (entry / "cmdline").read_bytes():
                variables = (entry / "environ").read_bytes().split(b"\0")
                if marks[0] in variables and any(v.startswith(marks[1]) for v in variables):
                    pids.append(int(entry.name))
    return min(pids)


def judged(result: Any, records: str, kind: Kind, script: str, hangs: int, out: str) -> Outcome:
    """Whether the result of a run names the rank that hangs, and its line; and since when the
    records of the run do."""
    stall = (result.get("culprit") or {}).get("stall")
    if not stall:
        return Outcome(False, f"no stall was found: {result['state']}\n{out[-2000:]}")
    lines = [n for n, text in enumerate(script.splitlines(), 1) if text.endswith("# here")]
    behind = {place["rank"]: place for place in stall["places"][: len(stall["behind"])]}
    right = set(behind) == {hangs}
    if right and kind.line:
        right = (behind[hangs]["file"], behind[hangs]["line"]) in {("train.py", n) for n in lines}
    places = "|".join(f"train.py:{n}" for n in lines) if kind.line else "stopped"
    named = re.compile(rf"rank {hangs} on \S+ has been \(?(?:in )?(?:{places})\b")
    shown = [
        record["seconds"] - AFTER
        for record in map(json.loads, records.splitlines())
        if record["kind"] in ("stall", "long_step") and named.match(record["text"])
    ]
    return Outcome(right and bool(shown), stall["text"], min(shown, default=0.0))
