"""Copies the checkpoints of an earlier run into the folder of a new run, before the new one
starts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from railhead.documents.agent.commands import CommandResult
from railhead.documents.lazy import dataclass
from railhead.documents.runs.manifest import Restored

from ..console.live import board_of
from ..console.output import print_lines
from ..data import folders
from ..data.folders import LocalData
from ..data.send import find_missing, host_folder_of, send_missing
from ..errors import HostsFailed, RailheadError
from ..host.base.programs import NAME, RESTORE_CHECKPOINTS
from ..host.run import checkpoint_files
from ..host.run.checkpoint_files import FOLDER
from ..plan import hostfile
from ..ssh.cluster import ConnectedCluster
from ..ssh.connect import everywhere
from ..ssh.session import Session
from ..untrusted.decode import parsed
from .checkpoints import Checkpoints, here, on_host
from .run import Run

HOURS = 6 * 3600.0  # seconds for one copy: many GB over a slow network

# Copies one folder of a host to another, if there is space.
COPY = """need=$(du -sk "$1" | cut -f1); free=$(df -Pk "$2" | awk 'NR == 2 { print $4 }')
if [ "$need" -ge "$free" ]; then
  echo "disk full: the checkpoints have $need kB, $free kB are free"; exit 1
fi
cp -Rp "$1/." "$2/" && chmod -R u+w "$2" &&
find "$2" -mindepth 1 -name '.*' -prune -exec rm -rf {} +"""

# Copies from the chief to all other hosts at once; their sizes reveal incomplete files. A login to
# a local host does not start in its home.
SPREAD = """folder=$1; shift
for name in "$@"; do
  tar -C checkpoints -cf - . | ssh -F ssh_config "$name" "cd && tar -C $folder -xf -" &
done; wait"""
COLLECT = 'ssh -n -F ssh_config "$1" "cd && tar -C $2 -cf - ." | tar -C checkpoints -xf -'


@dataclass(frozen=True)
class CheckpointSource:
    """The checkpoints that a run continues from. `kind`: `host` (then `host` is its name), `bucket`
    or `here`."""

    earlier: Run
    checkpoints: Checkpoints
    kind: str
    host: str = ""


def newest(sources: Sequence[CheckpointSource]) -> CheckpointSource | None:
    """The source with the highest step, of equal ones the first. Files that a program names itself
    have no step: if a source has such files, the first source."""
    if not all(source.checkpoints.newest for source in sources):
        return sources[0]
    return max(sources, key=lambda s: checkpoint_files.step_of(s.checkpoints.newest), default=None)


def place(
    cluster: ConnectedCluster, run: Run, source: CheckpointSource, *, everywhere_needed: bool
) -> None:
    """Copy the checkpoints to the chief; with `everywhere_needed`, to all hosts.

    A script may read them on each rank; the built-in training reads them on rank 0 only.

    Raises:
        RailheadError: there is not enough space, or a file did not arrive.
    """
    print_lines(f"resuming run {source.earlier.run_id} from {source.checkpoints}")
    chief = cluster.sessions.chief
    if source.kind == "bucket":
        _from_bucket(cluster, run, source)
    elif source.kind == "here":
        _from_here(chief, run, source)
    elif source.host == chief.host.name:
        old = f"{source.earlier.folder}/{FOLDER}"
        _refuse_failure(_shell(chief, run, COPY, old, f"{run.folder}/{FOLDER}"))
    else:
        alias = hostfile.alias(cluster.inventory.names.index(source.host))
        _refuse_failure(_shell(chief, run, COLLECT, alias, _relative(source.earlier)))
    needed = dict(cluster.sessions) if everywhere_needed else {chief.host.name: chief}
    if len(needed) > 1:
        aliases = [hostfile.alias(i) for i in range(1, len(cluster.peers))]
        _shell(chief, run, SPREAD, _relative(run), *aliases)
    _refuse_lost(needed, run, source)


def _relative(run: Run) -> str:
    """The checkpoint folder of a run, relative to the home on a host."""
    return shlex.quote(f".railhead/runs/{run.run_id}/{FOLDER}")


def _shell(chief: Session, run: Run, script: str, *args: str) -> CommandResult:
    return chief.run(["sh", "-c", script, "restore", *args], cwd=run.folder, timeout=HOURS)


def _refuse_failure(reply: CommandResult) -> None:
    if reply.rc:
        raise RailheadError("the checkpoints could not be copied: " + "\n".join(reply.tail[-3:]))


def _from_bucket(cluster: ConnectedCluster, run: Run, source: CheckpointSource) -> None:
    """Make the chief download them, with the Python of its uploader; it verifies each file."""
    client = cluster.bucket_client
    assert client is not None, "the source was found in the bucket of this inventory"
    url = f"{cluster.inventory.bucket}/runs/{source.earlier.run_id}"
    start = [f"{client.folder}/bin/python", "-I", f"{run.folder}/{NAME}", RESTORE_CHECKPOINTS]
    argv = [*start, url, f"{run.folder}/{FOLDER}"]
    reply = cluster.sessions.chief.run(argv, timeout=HOURS)
    _refuse_failure(reply)
    if damaged := _damaged(reply):
        print_lines(
            f"these files differ from their upload and are ignored: {', '.join(damaged[:5])}"
        )


def _damaged(reply: CommandResult) -> tuple[str, ...]:
    """The files that restore_checkpoints ignored, from the last line of its output."""
    outcome = "".join(reply.tail[-1:])
    return parsed(Restored, outcome, "an outcome of the download").damaged


def _from_here(chief: Session, run: Run, source: CheckpointSource) -> None:
    """Send them over the connection, like data, and move them into place."""
    root = source.earlier.results / FOLDER
    names = {path for path, _ in here(source.earlier).files}
    listed = folders.listed(root, "checkpoints")
    wanted = tuple(file for file in listed.files if file.path in names)
    data = folders.hashed(LocalData(listed.root, wanted), lambda _: None)
    share = {chief.host.name: {FOLDER: data}}
    opened = {chief.host.name: chief}
    with board_of((chief.host.name,)) as board:
        send_missing(share, opened, find_missing(share, opened), board)
    sent, folder = host_folder_of(data), f"{run.folder}/{FOLDER}"
    _refuse_failure(_shell(chief, run, COPY, sent, folder))
    chief.remove(sent, f"{sent}.json", f"{sent}.lock")


def _refuse_lost(sessions: Mapping[str, Session], run: Run, source: CheckpointSource) -> None:
    """HostsFailed if a file of the source is not in the run's folder on a host.

    The chief has verified its downloads and ignored damaged files.
    """
    placed = everywhere(sessions, lambda s: on_host(s, run), what="looking for the checkpoints")
    first = next(iter(placed.values()))
    wanted = {*(first if source.kind == "bucket" else source.checkpoints).files}
    lost = {name: len(wanted - {*checkpoints.files}) for name, checkpoints in placed.items()}
    if not wanted or any(lost.values()):
        outcomes = {name: f"{n} files are missing" if n else "ok" for name, n in lost.items()}
        raise HostsFailed("the checkpoints did not reach all hosts", outcomes)
