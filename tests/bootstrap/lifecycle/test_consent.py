"""What is only on hosts is not removed without consent: results that are not all here."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from standins.runs.run_documents import record_run, run_document

from bootstrap.console.output import quiet
from bootstrap.errors import UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory, parse_hosts
from bootstrap.lifecycle import teardown
from bootstrap.lifecycle.consent import (
    Answers,
    Held,
    confirm_by_name,
    not_all_here,
    only_on_machines,
    refuse_removal,
    refuse_unfetched,
)
from bootstrap.ssh import connect
from bootstrap.ssh.connect import Sessions
from railhead.documents.runs.run import RunHost
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


# The hosts of the run that is not fetched, the chief first; the host that says that it has its
# results; the host that would be removed; whether that is refused.
REMOVALS = {
    "the chief of the run": (("h2", "h1"), None, "h2", True),
    "the chief of the inventory": (("h2", "h1"), None, "h1", False),
    "the first host that is left of the run": (("gone", "h3", "h2"), None, "h3", True),
    "the host that took the run over": (("h2", "h1"), "h3", "h3", True),
    "the lost chief of a run that was taken over": (("h2", "h1"), "h3", "h2", False),
}


@pytest.mark.parametrize(
    ("hosts", "has_it", "removed", "is_refused"), REMOVALS.values(), ids=REMOVALS
)
def test_only_the_host_that_has_the_results_is_not_removed(
    tmp_path: Path, hosts: tuple[str, ...], has_it: str | None, removed: str, is_refused: bool
) -> None:
    """Of three: the other ones have none of them."""
    inventory = parse_hosts("h1,h2,h3")
    machines = tuple(replace(host, id=f"i-{host.name}") for host in inventory.hosts)
    inventory = replace(inventory, hosts=machines)
    places = tuple(RunHost(name, "10.0.0.1", None, 1) for name in hosts)
    document = run_document(cluster=inventory.name, hosts=places, size=len(places))
    record_run(tmp_path / "r1", document)
    answers = Answers({has_it: Held(("r1",))} if has_it else {})
    with pytest.raises(UsageError, match="results of r1") if is_refused else nullcontext():
        refuse_removal(inventory, answers, lambda: [f"i-{removed}"])


def test_results_that_are_here_are_not_lost_though_their_machine_does_not_know(
    tmp_path: Path,
) -> None:
    """As after a fetch from the bucket. Those of another computer's run are not here."""
    inventory = parse_hosts("h1,h2")
    hosts = tuple(RunHost(name, "10.0.0.1", None, 1) for name in inventory.names)
    record_run(tmp_path / "r1", run_document(cluster=inventory.name, hosts=hosts, size=2))
    (tmp_path / "r1").mkdir()
    (tmp_path / "r1/result.json").write_text("{}")
    answers = Answers({"h1": Held(("r1", "r2"))})
    assert only_on_machines(inventory, with_bucket=False, answers=answers) == ["r2"]
