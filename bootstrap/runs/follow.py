"""Watches a run: its records become the board's lines, through connections that break."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bootstrap.console import log
from bootstrap.console.live import Board
from bootstrap.console.text import clean, progress_line
from bootstrap.inventory.hosts import Inventory
from bootstrap.runs.start import Run
from bootstrap.ssh.connect import open_sessions
from bootstrap.ssh.session import ConnectionLost, Session


@dataclass
class FollowState:
    """What `follow` has seen so far; kept across a connection that breaks."""

    offset: int = 0
    lost: bool = False
    done: bool = False


def follow(session: Session, run: Run, board: Board, watch: FollowState) -> None:
    """Show the run until it ends. A broken connection raises ConnectionLost; the run goes on."""
    mark_controller_here(session, run)
    hosts = _first_ranks(session, run)
    shown: set[str] = set()  # hosts whose records show progress; the others show their last line

    def told(event: Mapping[str, Any]) -> None:
        if "metrics" in event:
            watch.offset = event["offset"]
            show_record(event["metrics"], board, shown)
        for rank, host in hosts.items():
            line = (event.get("last") or {}).get(rank)
            if line and host not in shown:
                board.line(host, clean(line))

    answer = session.call("follow", on_event=told, folder=run.folder, offset=watch.offset)
    watch.lost, watch.done = answer["lost"], True
    log.event(f"run {run.run_id}: {'lost' if watch.lost else 'ended'}")


def mark_controller_here(session: Session, run: Run) -> None:
    """Leave our agent's pid with the run: while it lives, results are waited for."""
    session.run(["sh", "-c", "echo $PPID >attached"], cwd=run.folder)


def _first_ranks(session: Session, run: Run) -> dict[str, str]:
    """{rank: host} for the first rank of each host."""
    document = json.loads(
        session.call("read", paths=[f"{run.folder}/run.json"])[f"{run.folder}/run.json"]
    )
    first, found = 0, {}
    for host in document["hosts"]:
        found[str(first)] = host["name"]
        first += host["slots"]
    return found


def show_record(line: str, board: Board, shown: set[str]) -> None:
    """Show a line of metrics.jsonl: progress and messages in their host's line, the rest above.

    A line that is no record, or whose host the board does not have, is shown nowhere: the run's
    program can write into that file too. `shown` gets the hosts that show progress.
    """
    try:
        entry = json.loads(line)
        text = progress_line(entry) if isinstance(entry, dict) else ""
    except (ValueError, RecursionError):
        return
    if not text:
        return
    kind, host = entry.get("kind"), entry.get("host")
    if kind not in ("progress", "message"):
        board.print_lines(text)
    elif host in board.names:
        board.line(host, text)
        if kind == "progress":
            shown.add(host)


def follow_to_end(inventory: Inventory, session: Session, run: Run, board: Board) -> None:
    """Follow a run to its end, through broken connections: five tries, then the word to attach."""
    watch = FollowState()
    for pause in (1, 2, 4, 8, 16, None):
        try:
            follow(session, run, board, watch)
            return
        except ConnectionLost as lost:
            if pause is None:
                raise
            board.print_lines(f"{lost}; the run goes on, trying again in {pause} s")
            time.sleep(pause)
            session = reconnect(inventory) or session
    raise AssertionError("unreachable")


def reconnect(inventory: Inventory) -> Session | None:
    """A new session with the chief, its agent started; None when it cannot be reached now."""
    alone = replace(inventory, hosts=inventory.hosts[:1])
    opened, _ = open_sessions(alone)
    for session in opened.values():
        facts = session.facts()
        if facts.python:
            session.start_agent(facts.python)
            return session
        session.close()
    return None
