"""What the control side remembers: clusters, the last one, runs, caches."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from places import CASES
from standins.runs.run_documents import run_json

from bootstrap.errors import HostsNotReady, UsageError
from bootstrap.inventory import caches, local_state
from bootstrap.inventory.clouds import CLOUDS
from bootstrap.inventory.document import from_document
from bootstrap.inventory.files import atomic_write
from bootstrap.inventory.hosts import Inventory, parse_hosts
from bootstrap.lifecycle.power import ClusterStatus
from bootstrap.workflows import attach
from railhead.documents.runs.run_record import RunRecord

DOCUMENTS = CASES / "documents"
A, B = parse_hosts("ann@a:22*2,[::1]"), parse_hosts("b")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def save_run(cluster: str, run_id: str, results: Path) -> None:
    local_state.save_run(RunRecord(run_id, cluster, str(results)))


@pytest.mark.parametrize("name", ["cluster-hosts", "cluster-local", "cluster-aws", "cluster-gcp"])
def test_a_cluster_comes_back_as_it_was_saved(name: str) -> None:
    inventory = from_document(json.loads((DOCUMENTS / f"{name}.json").read_text()))
    local_state.save_cluster(inventory)
    assert local_state.load_cluster(inventory.name) == inventory
    assert local_state.last_cluster() == inventory


def test_what_is_remembered_is_for_its_owner_alone(home: Path) -> None:
    local_state.save_cluster(A)
    folder = home / ".railhead/clusters" / A.name
    assert mode(folder) == 0o700
    assert mode(folder / "cluster.json") == mode(home / ".railhead/last") == 0o600


def test_the_last_command_that_named_hosts_counts() -> None:
    local_state.save_cluster(A)
    local_state.save_cluster(B)
    assert local_state.last_cluster() == B
    local_state.save_cluster(A)
    assert local_state.last_cluster() == A
    assert local_state.clusters() == sorted([A.name, B.name])


def test_without_an_earlier_command_there_are_no_hosts() -> None:
    with pytest.raises(UsageError, match="^no hosts: none were named") as caught:
        local_state.last_cluster()
    assert "fab train --hosts" in caught.value.hint
    assert local_state.clusters() == []


def test_an_unknown_cluster_is_answered_with_the_known_ones() -> None:
    local_state.save_cluster(A)
    with pytest.raises(UsageError, match=f"no cluster 'other' is recorded here; .*{A.name}"):
        local_state.load_cluster("other")
    with pytest.raises(UsageError, match=r"'\.\./x' is not a cluster's name"):
        local_state.load_cluster("../x")


def test_a_cluster_that_was_forgotten_keeps_its_pins_and_runs(home: Path) -> None:
    local_state.save_cluster(A)
    save_run(A.name, "20260101-000000-aaaa", home / "results")
    pins = local_state.cluster_folder(A.name) / "known_hosts"
    atomic_write(pins, "a ssh-ed25519 AAAA\n")
    local_state.forget_cluster(A.name)
    assert local_state.clusters() == []
    assert pins.exists()
    assert local_state.find_run(A, None)[0] == "20260101-000000-aaaa"
    with pytest.raises(UsageError, match="no hosts"):
        local_state.last_cluster()
    local_state.forget_cluster(A.name)


def test_forgetting_another_cluster_leaves_the_last_one() -> None:
    local_state.save_cluster(A)
    local_state.save_cluster(B)
    local_state.forget_cluster(A.name)
    assert local_state.last_cluster() == B


def test_the_last_run_is_found_and_any_other_by_its_id(home: Path) -> None:
    for run_id in ("20260102-000000-aaaa", "20260101-000000-ffff"):
        save_run(A.name, run_id, home / "results" / run_id)
    save_run(B.name, "20270101-000000-aaaa", home)
    assert local_state.find_run(A, None) == (
        "20260102-000000-aaaa",
        home / "results/20260102-000000-aaaa",
    )
    assert local_state.find_run(A, "20260101-000000-ffff")[0] == "20260101-000000-ffff"


def test_the_newest_run_is_one_that_was_started_here(home: Path) -> None:
    run_ids = ("20260101-000000-aaaa", "20260102-000000-aaaa", "20260103-000000-aaaa")
    for run_id, evaluates, elsewhere in zip(
        run_ids, (None, "r1", None), (False, False, True), strict=True
    ):
        document = run_json(evaluates=evaluates)
        record = RunRecord(run_id, A.name, str(home), document, elsewhere=elsewhere)
        local_state.save_run(record)
    assert local_state.newest_run() == run_ids[0]


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_bare_cancel_asks_before_it_ends_a_run_of_another_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    run_id = "20260101-000000-aaaa"
    questions: list[str] = []
    save_run(A.name, run_id, home / "results" / run_id)
    monkeypatch.chdir(home)
    assert attach.last_run(A) == run_id, "started here: no question"
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)

    def answered(text: str) -> str:
        questions.append(text)
        return answer

    monkeypatch.setattr("builtins.input", answered)
    if answer == "y":
        assert attach.last_run(A) == run_id
    else:
        with pytest.raises(UsageError, match="nothing was cancelled") as refused:
            attach.last_run(A)
        assert refused.value.hint == f"fab cancel --run {run_id}"
    folder = home / "results" / run_id
    question = f"the results of the last run, {run_id}, go to {folder}. Cancel it? [y/N] "
    assert questions == [question]


def test_a_bare_cancel_ends_no_run_of_another_computer(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor the one before it, which was started here."""
    monkeypatch.chdir(home)
    of_ours, of_others = "20260101-000000-aaaa", "20260102-000000-aaaa"
    save_run(A.name, of_ours, home / "results" / of_ours)
    results = home / "results" / of_others
    local_state.save_run(RunRecord(of_others, A.name, str(results), elsewhere=True))
    for cancel in (attach.last_run, partial(attach.cancel, run_id=None)):
        with pytest.raises(UsageError) as refused:
            cancel(A)
        assert refused.value.hint == f"fab cancel --run {of_others}"


def test_the_newest_runs_of_other_folders_are_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four, three; the one of this folder is not among them."""
    run_ids = [f"2026010{day}-000000-aaaa" for day in range(1, 6)]
    here = home / "here"
    here.mkdir()
    for run_id in run_ids[:4]:
        save_run(A.name, run_id, home / "results" / run_id)
    save_run(A.name, run_ids[4], here / "results" / run_ids[4])
    monkeypatch.chdir(here)
    (line,) = attach.also_ended(A)
    assert [run_id for run_id in run_ids if run_id in line] == run_ids[1:4]


@pytest.mark.parametrize(
    ("run_id", "says"),
    [
        (None, f"no run is recorded for {A.name}"),
        ("20260101-000000-ffff", "run '20260101-000000-ffff' is not recorded"),
    ],
)
def test_a_run_that_nobody_started_is_not_found(run_id: str | None, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        local_state.find_run(A, run_id)


def test_a_runs_id_is_no_path(home: Path) -> None:
    for _ in ("no run yet", "one run"):
        with pytest.raises(UsageError, match="is not a run's id"):
            local_state.find_run(A, "../../x")
        save_run(A.name, "20260101-000000-ffff", home)


def test_a_file_is_replaced_as_a_whole_and_leaves_nothing_beside_it(home: Path) -> None:
    path = home / "deep/er/file"
    atomic_write(path, "one\n")
    path.chmod(0o644)
    atomic_write(path, "two\n")
    assert path.read_text() == "two\n"
    assert mode(path) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_pins_are_looked_up_in_the_cluster_then_in_ours_then_in_the_users(home: Path) -> None:
    assert [p.relative_to(home).as_posix() for p in local_state.known_hosts_files(A.name)] == [
        f".railhead/clusters/{A.name}/known_hosts",
        ".railhead/known_hosts",
        ".ssh/known_hosts",
    ]


@pytest.mark.parametrize(
    ("output", "place"),
    [
        (None, "{home}/.cache/railhead/wheels"),
        ("", "{home}/.cache/railhead/wheels"),
        ("not/absolute", "{home}/.cache/railhead/wheels"),
        ("{tmp}/caches", "{tmp}/caches/railhead/wheels"),
    ],
)
def test_caches_stand_in_the_users_cache_folder(
    output: str | None, place: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if output is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", output.format(tmp=tmp_path))
    folder = caches.cache("wheels")
    assert str(folder) == place.format(tmp=tmp_path, home=home)
    assert folder.is_dir()


def test_one_inventory_saved_twice_is_recorded_once() -> None:
    local_state.save_cluster(A)
    local_state.save_cluster(replace(A, hosts=A.hosts[:1]))
    assert len(local_state.load_cluster(A.name).hosts) == 1
    assert local_state.clusters() == [A.name]


def test_the_stack_of_a_cluster_is_remembered_until_it_is_forgotten() -> None:
    hosts = parse_hosts("a,b").hosts
    stack = Inventory("dev", hosts, cloud="local", stack="team/dev")
    local_state.save_cluster(stack)
    local_state.save_cluster(
        Inventory("dev", hosts, cloud="local")
    )  # as its hosts are started again
    assert local_state.last_cluster() == stack
    local_state.forget_cluster("dev")
    local_state.save_cluster(Inventory("dev", hosts, cloud="local"))
    assert local_state.last_cluster().stack is None


def test_only_machines_of_a_stack_are_ours_to_stop() -> None:
    hosts = parse_hosts("a,b").hosts
    inventories = {cloud: Inventory("dev", hosts, cloud=cloud) for cloud in CLOUDS}
    assert [c for c, i in inventories.items() if i.is_managed] == ["aws", "gcp"]
    assert Inventory("dev", hosts, cloud="local", stack="dev").is_managed


def test_the_hosts_of_a_run_are_those_of_its_document(home: Path) -> None:
    known = run_json(hosts=[{"name": name} for name in ("h3", "h4")])
    for document, names in ((known, ("h3", "h4")), (run_json(hosts=5), ()), (None, ())):
        local_state.save_run(RunRecord("r-1", "c", str(home), document))
        assert local_state.hosts_of_run("r-1") == names


def test_a_fetch_to_another_folder_that_fails_is_not_recorded(tmp_path: Path) -> None:
    nobody = parse_hosts("127.0.0.1:1")
    local_state.save_run(RunRecord("r1", nobody.name, str(tmp_path / "results/r1")))
    status = ClusterStatus(nobody, {}, "hosts")
    with pytest.raises(HostsNotReady):
        attach.fetch(status, "r1", str(tmp_path / "there"), with_checkpoint=False)
    assert local_state.find_run(nobody, "r1") == ("r1", tmp_path / "results/r1")
