"""State on this computer, under ~/.railhead: clusters, host keys, runs, the last cluster.

It is written before the first process starts, so that `fab teardown` works after a crash.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from railhead.documents.codec import decode, encode
from railhead.documents.names import is_name
from railhead.documents.runs.run_record import RunRecord

from ..console.output import print_lines
from ..errors import Command, Hint, UsageError
from ..host.base import locks
from .document import from_document, to_document
from .files import atomic_folder, atomic_write, set_aside
from .hosts import Inventory, check_name

DEMO = "demo"  # the cluster of `fab demo`
NAME_HOSTS = "the same command with --hosts user@first,user@second   # or with --stack NAME"


def home() -> Path:
    """The current user's ~/.railhead."""
    return Path.home() / ".railhead"


def cluster_folder(name: str) -> Path:
    """The folder of one cluster: cluster.json, known_hosts, key, runs/."""
    return home() / "clusters" / check_name(name, "a cluster's name")


def filled_once(folder: Path, fill: Callable[[Path], None]) -> Path:
    """A folder of the cache; `fill` fills it unless it is there. It appears whole or not at all,
    and commands that need it at the same time fill it once."""
    with locks.wait_lock(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            with atomic_folder(folder) as temporary:
                fill(temporary)
    return folder


@contextmanager
def alone_in(cluster: str) -> Iterator[Path]:
    """The cluster's folder, locked: no other process changes its hosts or keys meanwhile."""
    folder = cluster_folder(cluster)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locks.wait_lock(folder / "lock"):
        yield folder


def known_hosts_files(name: str) -> tuple[Path, ...]:
    """The known_hosts files in lookup order: the cluster's, that of `fab trust`, the user's."""
    return (
        cluster_folder(name) / "known_hosts",
        home() / "known_hosts",
        Path.home() / ".ssh/known_hosts",
    )


def save_cluster(inventory: Inventory) -> None:
    """Record a cluster, also as the last one used."""
    folder = cluster_folder(inventory.name)
    atomic_write(folder / "cluster.json", json.dumps(to_document(inventory), indent=1) + "\n")
    if inventory.stack:  # otherwise keep the file: restarted local hosts do not know their stack
        atomic_write(folder / "stack", inventory.stack + "\n")
    atomic_write(home() / "last", inventory.name + "\n")


def load_cluster(name: str) -> Inventory:
    """The cluster recorded under `name`; UsageError when there is none."""
    path = cluster_folder(name) / "cluster.json"
    try:
        inventory = from_document(json.loads(path.read_text()))
        return replace(inventory, stack=_stack_of(path.with_name("stack")))
    except FileNotFoundError:
        raise UsageError(
            f"no cluster {name!r} is recorded here; recorded: {', '.join(clusters()) or 'none'}",
            hint=Command("train", hosts="user@first,user@second"),
        ) from None
    except (OSError, ValueError, RecursionError, UsageError) as error:
        again = Hint(f"rm -r {shlex.quote(str(path))} && ", Command("demo"), "   # recreates it")
        raise UsageError(
            f"the record of cluster {name} is damaged: {path}: {error}",
            hint=again if name == DEMO else NAME_HOSTS,
        ) from None


def _stack_of(path: Path) -> str | None:
    """The stack that a recorded cluster came from; None when it came from none."""
    try:
        return path.read_text(errors="replace").strip() or None
    except FileNotFoundError:
        return None


def recorded_account(name: str) -> str | None:
    """The number of the AWS account in which a cluster's machines were seen; None if unknown."""
    try:
        text = (cluster_folder(name) / "account").read_text(errors="replace")
    except OSError:
        return None
    return text.strip().removeprefix("account ") or None


def clusters() -> list[str]:
    """Names of the recorded clusters, sorted."""
    return sorted(p.parent.name for p in (home() / "clusters").glob("*/cluster.json"))


def adopted(cluster_id: str) -> Inventory | None:
    """The cluster that `fab adopt` recorded under an id; None if there is none."""
    for name in clusters():
        if _stack_of(cluster_folder(name) / "stack") == cluster_id:
            inventory = load_cluster(name)
            return inventory if inventory.is_adopted else None
    return None


def last_cluster() -> Inventory:
    """The cluster of the last command that named one; UsageError when there was none."""
    name = _last_name()
    if name and not is_name(name):
        raise UsageError(
            f"the name of the last cluster is damaged: {home() / 'last'}: {name[:80]!r}",
            hint=NAME_HOSTS,
        )
    if not name:
        raise UsageError(
            "no hosts: none were named, and there is no earlier cluster",
            hint=Hint(
                Command("train", hosts="user@first,user@second"), "   # or: ", Command("demo")
            ),
        )
    return load_cluster(name)


def _last_name() -> str:
    """The name of the last cluster; empty if none is recorded."""
    try:
        return (home() / "last").read_text(errors="replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UsageError(
            f"the name of the last cluster cannot be read: {error}", hint=NAME_HOSTS
        ) from None


def forget_cluster(name: str) -> None:
    """Delete a cluster's record; its host keys and the records of its runs stay."""
    for file in ("cluster.json", "stack"):
        (cluster_folder(name) / file).unlink(missing_ok=True)
    if _last_name() == name:
        (home() / "last").unlink()


def save_run(record: RunRecord) -> None:
    """Record a run of a cluster."""
    _write_record(cluster_folder(record.cluster) / "runs" / f"{record.run_id}.json", record)


def forget_run(run_id: str) -> None:
    """Delete the record of a run that never started: it has nothing to fetch or to cancel."""
    for path in _records(run_id):
        path.unlink(missing_ok=True)


def _write_record(path: Path, record: RunRecord) -> None:
    atomic_write(path, json.dumps(encode(record)) + "\n")


def runs(cluster: str) -> list[Path]:
    """The records of a cluster's runs, oldest first."""
    records = sorted((cluster_folder(cluster) / "runs").glob("*.json"))
    return [path for path in records if is_name(path.stem)]


def cluster_of_run(run_id: str) -> Inventory | None:
    """The recorded cluster on which a run was started; None if it is not recorded here."""
    known = [path for path in _records(run_id) if path.parents[1].name in clusters()]
    return load_cluster(known[0].parents[1].name) if known else None


def is_recorded(run_id: str) -> bool:
    """Whether a run of any cluster is recorded here."""
    return bool(_records(run_id))


def hosts_of_run(run_id: str) -> tuple[str, ...]:
    """The names of the hosts of a recorded run, the chief first; empty if they are not known."""
    document = recorded_run(run_id).run
    return tuple(host.name for host in document.hosts) if document else ()


def change_run(run_id: str, **changes: Any) -> None:
    """Change these fields of the record of a run."""
    for path in _records(run_id):
        _write_record(path, replace(_read_record(path), **changes))


def _records(run_id: str) -> list[Path]:
    check_name(run_id, "a run's id")
    return sorted((home() / "clusters").glob(f"*/runs/{run_id}.json"))


def recorded_run(run_id: str) -> RunRecord:
    """The record of a run of any cluster.

    Raises:
        UsageError: no such run is recorded here.
    """
    records = _records(run_id)
    if not records:
        known = sorted(p.stem for p in (home() / "clusters").glob("*/runs/*.json"))
        last = f"; the last ones are {', '.join(known[-3:])}" if known else ""
        raise UsageError(f"run {run_id!r} is not recorded here{last}", hint=Command("runs"))
    return _read_record(records[0])


def newest_run() -> str:
    """The id of the run that was started last from this computer, on any hosts, without runs that
    evaluate another one.

    Raises:
        UsageError: there is none.
    """
    paths = [p for p in (home() / "clusters").glob("*/runs/*.json") if is_name(p.stem)]
    for path in sorted(paths, key=lambda path: path.stem, reverse=True):
        record = _read_record(path)
        if not record.elsewhere and (record.run is None or record.run.evaluates is None):
            return path.stem
    raise UsageError("no run was started from this computer", hint=Command("train"))


def find_run(inventory: Inventory, run_id: str | None) -> tuple[str, Path]:
    """The run's id and the folder for its results; the last run when `run_id` is None."""
    known = runs(inventory.name)
    if run_id is not None:
        check_name(run_id, "a run's id")
        known = [p for p in known if p.stem == run_id]
    if not known:
        subject = f"run {run_id!r} is not" if run_id else "no run is"
        raise UsageError(f"{subject} recorded for {inventory.name}", hint=Command("runs"))
    return known[-1].stem, Path(_read_record(known[-1]).results)


def _read_record(path: Path) -> RunRecord:
    """The record of a run. A damaged one is set aside, and replaced by one whose results go to the
    current folder."""
    try:
        return decode(RunRecord, json.loads(path.read_text()))
    except PermissionError:  # as after `sudo fab`: nothing is damaged
        raise
    except (OSError, ValueError, RecursionError):
        moved = set_aside(path)
    folder = Path.cwd() / "results" / path.stem
    record = RunRecord(path.stem, path.parents[1].name, str(folder))
    _write_record(path, record)
    print_lines(
        f"the record of run {path.stem} was damaged; it is now {moved}. Its results go to {folder}"
    )
    return record
