"""`fab status --watch`: it shows again until Ctrl-C, whatever cannot be shown."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from standins.forks import FAB

from bootstrap.console.output import print_lines
from bootstrap.console.refresh import refreshed
from bootstrap.errors import HostsFailed, HostsNotReady, RailheadError, UsageError


def shows(*errors: BaseException) -> Callable[[], float]:
    """Prints a line each time, then raises the next of these errors."""
    remaining = [*errors]

    def show() -> float:
        print_lines(f"{len(remaining)} left")
        raise remaining.pop(0)

    return show


@pytest.mark.parametrize(
    "error",
    [
        RailheadError("no answer", hint="wait"),
        HostsFailed("no answer", {"h1": "lost"}),
        HostsNotReady("no answer", {"h1": "refused"}),
    ],
)
def test_an_error_is_shown_below_the_lines_and_does_not_end_it(
    error: RailheadError, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bootstrap.console.refresh.SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        refreshed(shows(error, UsageError("gone now"), KeyboardInterrupt()))
    first, *rest = capsys.readouterr().out.split("3 left\n")[1].split("2 left\n")
    assert first.startswith(f"{error}\nat ") and rest[0].startswith("gone now\nat ")


def test_a_wrong_command_ends_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="no such run"):
        refreshed(shows(UsageError("no such run")))
    assert capsys.readouterr().out == "1 left\n"


def test_ctrl_c_ends_it_with_130(tmp_path: Path) -> None:
    argv = [str(FAB), "status", "--watch", "--hosts", "127.0.0.1:9"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as fab:
        try:
            assert fab.stdout
            assert any(line.startswith("at ") for line in fab.stdout), "it has shown all"
            fab.send_signal(signal.SIGINT)
            assert fab.wait(60) == 130
        finally:
            fab.kill()
