"""What is only on hosts is not removed without consent: results that are not all here."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.console.output import quiet
from bootstrap.errors import UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory, parse_hosts
from bootstrap.lifecycle import teardown
from bootstrap.lifecycle.consent import confirm_by_name, not_all_here, refuse_unfetched
from bootstrap.ssh import connect
from bootstrap.ssh.connect import Sessions
from railhead.documents.runs.run_record import RunRecord

# By the files of the results here: whether all results are, and the command that a refusal names.
CASES = {
    "never fetched": ((), False, "fab fetch --run r1 "),
    "fetched before its end": (("left-on-host.txt",), False, "fab fetch --run r1 "),
    "too large for a fetch": (("result.json", "left-on-host.txt"), False, "fab ssh-config "),
    "fetched": (("result.json",), True, ""),
}


@pytest.mark.parametrize(("files", "all_here", "hint"), CASES.values(), ids=CASES)
def test_a_purge_is_refused_while_results_are_not_all_here(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: tuple[str, ...],
    all_here: bool,
    hint: str,
) -> None:
    inventory, entered = parse_hosts("h1"), list[Inventory]()
    local_state.save_run(RunRecord("r1", inventory.name, str(tmp_path / "r1")))
    (tmp_path / "r1").mkdir()
    for name in files:
        (tmp_path / "r1" / name).write_text("2.0 GB  work/model.bin\n")

    def open_sessions(inventory: Inventory) -> Sessions:
        entered.append(inventory)
        return Sessions(inventory, {})

    monkeypatch.setattr(connect, "open_sessions", open_sessions)
    assert not_all_here(inventory) == ([] if all_here else ["r1"])
    if not all_here:
        for refused in (
            lambda: teardown.remove_from_hosts(inventory, purge=True),
            lambda: refuse_unfetched(inventory, discard=False, with_bucket=False),
        ):
            with pytest.raises(UsageError) as caught:
                refused()
            assert caught.value.hint.startswith(hint)
            assert "--discard-results" in caught.value.hint and not entered
    lines = teardown.remove_from_hosts(inventory).lines
    assert any("r1" in line.text for line in lines) != all_here
    teardown.remove_from_hosts(inventory, purge=True, discard=not all_here)
    assert len(entered) == 2


def test_what_a_question_is_about_is_shown_with_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with quiet():
        confirm_by_name("dev", yes=True)("destroys all")
        assert capsys.readouterr().out == "", "there is no question"
        with pytest.raises(UsageError, match="Type the stack's name"):
            confirm_by_name("dev", yes=False)("destroys all")
    assert capsys.readouterr().out == "destroys all\n"
