"""The parts of a campaign, in order. Each types commands, asserts, and returns figures."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from campaigns.cloud.clean_up import clean_up, typed
from campaigns.cloud.record import Record

STACK = "cloud-test"
FIRST = ("--preset", "smoke", "--no-stop")
# Long enough for a rank to be killed in it; it starts again by itself from its checkpoint.
KILLED = (
    *("--preset", "smoke", "--strategy", "multiworker", "--no-stop", "--detach"),
    *("--retries", "1", "--set"),
)
# On the chief, which has the hostfile: until the run has a checkpoint.
SAVED = """[ ! -f ~/.railhead/runs/{0}/hostfile ] || timeout 900 sh -c '
until grep -qs checkpoint ~/.railhead/runs/{0}/results/metrics.jsonl; do sleep 0.2; done'"""
# The second rank of a run, by its environment: hosts may run other programs.
KILL = """for p in /proc/[0-9]*; do
  e=$(tr '\\0' '\\n' <$p/environ) 2>/dev/null || continue
  case $e in *RAILHEAD_RUN={0}*) ;; *) continue ;; esac
  case $e in *OMPI_COMM_WORLD_RANK=1*) kill -9 ${{p#/proc/}} && echo killed ;; esac
done; true"""
LOST_HOURS = 0.1  # `fab extend` moves the deadline here; then nobody types anything
STOPPED = ("stopped", "terminated")
MINUTES = 12  # after a deadline, in which the cloud stops the machines


@dataclass
class Campaign:
    """What the parts share. `stack` is in `folder`, a clone; results go to a folder in it."""

    record: Record
    folder: Path
    poll_seconds: float = 20.0
    bounded: bool = True  # by the budget
    launcher: str = "horovod"  # of the first and the second run
    epochs: int = 1000  # of the run in which a rank is killed

    def fab(self, *args: str, codes: tuple[int, ...] = (0,), merged: bool = True) -> str:
        """Type `fab ARGS`; an error when the budget is spent."""
        return self._type("fab", *args, codes=codes, merged=merged)

    def on_stack(self, *args: str, codes: tuple[int, ...] = (0,)) -> str:
        """Type `fab ARGS` for the stack."""
        return self.fab(*args, "--stack", STACK, codes=codes)

    def pulumi(self, *args: str) -> str:
        """Type `pulumi ARGS`."""
        return self._type("pulumi", *args, merged=False)

    def _type(self, *argv: str, codes: tuple[int, ...] = (0,), merged: bool = True) -> str:
        seconds = self.record.seconds_left() if self.bounded else None
        return typed(*argv, codes=codes, folder=self.folder, seconds=seconds, merged=merged)

    def answer(self, *args: str, codes: tuple[int, ...] = (0,)) -> Any:
        """The document that `fab ARGS --json` prints."""
        return json.loads(self.fab(*args, "--json", codes=codes, merged=False))

    def states(self) -> set[str | None]:
        """The states of the machines at their cloud."""
        return {
            h["machine"] for h in self.answer("status", "--stack", STACK, codes=(0, 1))["hosts"]
        }


def doctor(campaign: Campaign) -> dict[str, Any]:
    """Whether the stack can be created."""
    checks = campaign.answer("doctor", "--stack", STACK, codes=(0, 1))["checks"]
    blocked = [f"{c['name']}: {c['evidence']}" for c in checks if c["state"] == "blocks"]
    assert not blocked, "; ".join(blocked)
    unknown = [c["name"] for c in checks if c["state"] == "unknown"]
    return {"checks": len(checks), "unknown": unknown}


def up(campaign: Campaign) -> dict[str, Any]:
    """Machines, until ssh answers."""
    begun = time.monotonic()
    campaign.on_stack("up", "--yes")
    created = time.monotonic()
    output = campaign.pulumi("stack", "output", "cluster", "--json", "--stack", STACK)
    document = json.loads(output)
    campaign.on_stack("start")
    campaign.on_stack("exec", "--cmd", "true")
    return {
        "hosts": len(document["hosts"]),
        "up_s": round(created - begun, 1),
        "boot_s": round(time.monotonic() - created, 1),
    }


def bootstrap(campaign: Campaign) -> dict[str, Any]:
    """Drivers, runtime and wheel; then the links between the hosts."""
    begun = time.monotonic()
    campaign.on_stack("bootstrap", "--launcher", campaign.launcher)
    seconds = round(time.monotonic() - begun, 1)
    links = re.search(
        r"^all-reduce of .*$", campaign.on_stack("health", codes=(0, 1)), re.MULTILINE
    )
    return {"bootstrap_s": seconds, "between_hosts": links[0] if links else None}


def train(campaign: Campaign) -> dict[str, Any]:
    """The first run: Horovod, unless a test takes another launcher."""
    run = campaign.answer("train", "--stack", STACK, *FIRST, "--launcher", campaign.launcher)
    assert run["state"] == "succeeded", run
    return {"run_s": run["seconds"], "ranks": run["size"], "first_step_s": _first_step(run)}


def kill_a_rank(campaign: Campaign) -> dict[str, Any]:
    """Multiworker: a rank dies, all stop, and the run starts again and succeeds."""
    run = campaign.answer("train", "--stack", STACK, *KILLED, f"epochs={campaign.epochs}")
    id = run["run_id"]
    campaign.on_stack("exec", "--cmd", SAVED.format(id))
    assert "] killed" in campaign.on_stack("exec", "--cmd", KILL.format(id))
    begun = time.monotonic()
    campaign.fab("attach", "--run", id)
    result = json.loads((Path(run["results"]) / "result.json").read_text())
    assert result["state"] == "succeeded" and result["attempts"], "no rank died"
    first = result["attempts"][0]
    return {
        "named": first["culprit"] and first["culprit"]["rank"],
        "cause": first.get("cause"),
        "after_kill_s": round(time.monotonic() - begun, 1),
    }


def extend(campaign: Campaign) -> dict[str, Any]:
    """The deadline moves, and a second reading shows it."""
    before = _deadlines(campaign)
    if not before:
        return {"deadlines": 0}
    campaign.on_stack("extend", "--hours", "+0.5", codes=(0, 2))
    after = _deadlines(campaign)
    moved = min(after[n] - before[n] for n in before).total_seconds()
    return {"deadlines": len(after), "moved_min": round(moved / 60, 1)}


def lost_laptop(campaign: Campaign) -> dict[str, Any]:
    """An early deadline, then silence: the machines stop by themselves."""
    if not _deadlines(campaign):
        return {"deadlines": 0}
    campaign.on_stack("extend", "--hours", str(LOST_HOURS), "--yes")
    ends = time.time() + LOST_HOURS * 3600
    time.sleep(max(0.0, ends - time.time()))
    _wait("the stop", lambda: campaign.states() <= {*STOPPED}, campaign, MINUTES * 60)
    return {"stop_after_deadline_s": round(time.time() - ends, 1)}


def start(campaign: Campaign) -> dict[str, Any]:
    """Stopped machines run again."""
    campaign.on_stack("stop", "--yes", "--discard-results")
    begun = time.monotonic()
    campaign.on_stack("start")
    return {"start_s": round(time.monotonic() - begun, 1)}


def second_run(campaign: Campaign) -> dict[str, Any]:
    """On hosts that are ready; the machines stop after it."""
    run = campaign.answer(
        "train", "--stack", STACK, "--preset", "smoke", "--launcher", campaign.launcher
    )
    assert run["state"] == "succeeded", run
    assert campaign.states() <= {*STOPPED}, "the machines run after the run"
    return {"run_s": run["seconds"], "first_step_s": _first_step(run)}


def destroy(campaign: Campaign) -> dict[str, Any]:
    """All of it, with the receipt of the cloud."""
    begun = time.monotonic()
    clean_up(STACK, campaign.folder)
    return {"destroy_s": round(time.monotonic() - begun, 1)}


def leaks(campaign: Campaign) -> dict[str, Any]:
    """Nothing in the account has the stack's tags."""
    if campaign.record.cloud == "local":
        return {"leaks": 0}
    report = campaign.answer("leaks", codes=(0, 1))
    ours = [resource["id"] for resource in report["resources"] if resource["cluster"] == STACK]
    assert not ours, f"NOT REMOVED: {', '.join(ours)}"
    return {"leaks": len(ours)}


Run = Callable[[Campaign], Mapping[str, Any]]
WITH_MACHINES: tuple[Run, ...] = (
    *(up, bootstrap, train, kill_a_rank, extend, lost_laptop, start, second_run),
)
AT_THE_END: tuple[Run, ...] = (destroy, leaks)


def _wait(about: str, done: Callable[[], bool], campaign: Campaign, seconds: float = 900) -> None:
    until = time.monotonic() + min(seconds, campaign.record.seconds_left())
    while not done():
        assert time.monotonic() < until, f"{about} did not come in {seconds:.0f} s"
        time.sleep(campaign.poll_seconds)


def _first_step(run: Mapping[str, Any]) -> float | None:
    """Seconds from the request of a run to its first record of a step."""
    file = Path(run["results"]) / "metrics.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    times = [record["time"] for record in records if record["kind"] in ("progress", "epoch")]
    begun = datetime.strptime(run["run_id"][:15], "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc)
    return round(min(times) - begun.timestamp(), 1) if times else None


def _deadlines(campaign: Campaign) -> dict[str, datetime]:
    """The cloud's deadlines by host; none for local hosts."""
    deadlines = campaign.answer("status", "--stack", STACK, codes=(0, 1))["deadlines"]
    return {d["host"]: datetime.fromisoformat(d["at"]) for d in deadlines if d["at"]}
