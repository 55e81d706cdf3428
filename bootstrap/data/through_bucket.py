"""Local data of a stack goes through its bucket: uploaded once from here, downloaded by each host.

The hosts read it with the rights of their role. If anything fails, the data goes over the
connections instead; what a host downloaded is not sent again.
"""

from __future__ import annotations

from collections.abc import Mapping

from railhead.documents.agent.commands import Grown, Line
from railhead.documents.agent.request import LONG
from railhead.documents.lazy import dataclass

from ..clouds import bucket
from ..console.live import Board
from ..console.output import print_lines
from ..console.text import clean, size
from ..errors import RailheadError
from ..plan.runtimes import REPO
from ..ssh.bundle import Bundle, pack_training
from ..ssh.cluster import ConnectedCluster
from ..ssh.session import Session
from .folders import LocalData
from .send import Missing, Shares, host_folder_of
from .upload import upload_to_stack

MIN_BYTES = 16_000_000  # less is sent faster than a download is started
READER = "~/.railhead/reader"  # the package `training`, which downloads


@dataclass(frozen=True)
class Downloads:
    """Downloads from the stack's bucket: their URIs by digest. `python` is the path of
    the runtime's Python on a host, `variables` those of the download."""

    uris: Mapping[str, str]
    python: str
    variables: Mapping[str, str]
    reader: Bundle

    def fetch(self, session: Session, data: LocalData, board: Board) -> None:
        """Let a host download data; reports a failure, because the data can be sent instead."""
        if data.digest not in self.uris:
            return
        session.send_tree(self.reader, READER)
        uri = self.uris[data.digest]
        argv = [self.python, "-m", "training.data", "download", uri, f"{host_folder_of(data)}.part"]

        def show(event: Line | Grown) -> None:
            if isinstance(event, Line) and event.line:
                board.line(session.host.name, f"data: {clean(event.line)}")

        reply = session.run(
            argv, on_event=show, silence=LONG.silence, cwd=READER, env=self.variables
        )
        if reply.rc:
            reason = clean(reply.tail[-1]) if reply.tail else f"exit {reply.rc}"
            board.print_lines(f"[{session.host.name}] {uri} is not used: {reason}")


def upload_missing(
    shares: Shares, lacks: Mapping[str, Missing], cluster: ConnectedCluster
) -> Downloads:
    """Upload the data that hosts lack to the stack's bucket, if there is one and the data is large
    enough; a failure is reported."""
    inventory = cluster.inventory
    uris: dict[str, str] = {}
    needed = max((lack.needed for lack in lacks.values()), default=0)
    try:
        if inventory.bucket and needed >= MIN_BYTES:
            store = bucket.bucket_of(inventory).store
            missing = {
                data.digest: data
                for host, lack in lacks.items()
                for name, data in shares[host].items()
                if name in lack.names
            }
            for digest, data in missing.items():
                uris[digest], uploaded = upload_to_stack(data, store)
                count = size(data.total_bytes)
                print_lines(f"{uris[digest]}: {count}, {uploaded.sent} files uploaded")
    except RailheadError as error:
        reason = str(error).splitlines()[0]
        print_lines(f"{inventory.bucket} is not used for the data: {reason}")
    variables = {"AWS_REGION": inventory.region} if inventory.region else {}
    return Downloads(uris, cluster.environment.interpreter, variables, pack_training(REPO))
