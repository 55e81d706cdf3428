"""`fab train` follows a run to the host that continues it, also while its chief still answers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bootstrap.runs import follow
from bootstrap.runs.run import Run
from bootstrap.ssh.session import ConnectionLost
from railhead.documents.runs.cause import Cause
from railhead.documents.runs.takeover import NO_LEASE

ENDS = {
    "the chief has lost the lease": (Cause("host", f"{NO_LEASE}, because", "h1"), ["h1", "h2"]),
    "the program has failed": (Cause("program", "KeyError: 7", "h1"), ["h1"]),
    "it has succeeded": (None, ["h1"]),
}


class Answering:
    """A host that answers."""

    def __init__(self, name: str) -> None:
        self.host = SimpleNamespace(name=name)

    def run(self, *_: Any, **__: Any) -> Any:
        raise ConnectionLost("no size is needed here")


@pytest.mark.parametrize(("cause", "followed"), ENDS.values(), ids=ENDS)
def test_a_run_is_followed_to_its_standby_only_from_a_chief_without_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: Cause | None, followed: list[str]
) -> None:
    hosts: list[str] = []
    monkeypatch.setattr(follow, "follow", lambda chief, *_: hosts.append(chief.host.name))
    monkeypatch.setattr(follow, "RETRY_PAUSES", (0, 0))
    monkeypatch.setattr("bootstrap.runs.takeover.standby_of", lambda run: "h2")
    monkeypatch.setattr(follow, "read_state", lambda *_: SimpleNamespace(cause=cause))
    connection: Any = SimpleNamespace(
        chief=Answering("h1"), run=Run("r1", tmp_path / "r1"), watch=None
    )
    connection.reopen = lambda is_open: setattr(connection, "chief", Answering("h2"))
    board: Any = SimpleNamespace(print_lines=lambda *_: None)
    follow.follow_to_end(connection, board)
    assert hosts == followed


@pytest.mark.parametrize(
    ("printed", "offsets"),
    [(["7", "30"], (7, 30)), (["7"], (7, 0)), (["?", "30"], (0, 30)), ([], (0, 0))],
)
def test_on_the_next_chief_what_it_has_already_is_not_shown_again(
    printed: list[str], offsets: tuple[int, int]
) -> None:
    """The bytes of its metrics and of its log, in the order in which they are read."""
    requests: list[Any] = []

    def run(argv: list[str], cwd: str) -> Any:
        requests.append((argv[-2:], cwd))
        return SimpleNamespace(tail=printed)

    state, chief = follow.FollowState(1, 2), SimpleNamespace(run=run)
    state.skip_to_end(cast(Any, chief), Run("r1", Path("/results")))
    assert (state.offset, state.log_offset) == offsets
    assert requests == [(["results/metrics.jsonl", "logs/rank-0.log"], "~/.railhead/runs/r1")]
