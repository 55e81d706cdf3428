"""An endpoint of this machine, kept by the supervisor that is sent to hosts."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.local_hosts import wait_until
from standins import programs
from standins.stores.servers import free_port

from bootstrap.host.base.programs import ENDPOINT


class SupervisedEndpoint:
    """Its home is the endpoint's own; `bin` there comes first on the PATH. `prefix` comes before
    the command of the supervisor."""

    def __init__(self, home: Path, name: str = "m", *, prefix: Sequence[str] = ()) -> None:
        self.home, self.prefix, self.port = home, prefix, free_port()
        self.folder = home / ".railhead/endpoints" / name
        self.folder.mkdir(parents=True)
        programs.place(self.folder)

    def serve_with(self, argv: Sequence[str], **changes: Any) -> None:
        """Write endpoint.json: the command of the server, and what differs from the usual."""
        until = time.time() + 600
        document = {"port": self.port, "until": until, "argv": list(argv), "stop": None}
        self.write({**document, **changes})

    def write(self, document: dict[str, Any]) -> None:
        """Write endpoint.json."""
        self.document = document
        (self.folder / "endpoint.json").write_text(json.dumps(document))

    @contextmanager
    def runs(self) -> Iterator[subprocess.Popen[bytes]]:
        """Its supervisor runs while the block does."""
        path = f"{self.home}/bin{os.pathsep}{os.environ['PATH']}"
        process = subprocess.Popen(
            [*self.prefix, *programs.command(self.folder, ENDPOINT)],
            cwd=self.folder,
            env={**os.environ, "HOME": str(self.home), "PATH": path},
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)

    @property
    def state(self) -> dict[str, Any]:
        """state.json."""
        try:
            document: dict[str, Any] = json.loads((self.folder / "state.json").read_text())
        except FileNotFoundError:
            return {"state": "not there"}
        return document

    def wait(self, state: str, **fields: Any) -> dict[str, Any]:
        """Wait for a state with these fields; returns all of it."""
        expected = {"state": state, **fields}
        wait_until(lambda: expected.items() <= self.state.items(), 60, f"it is {expected}")
        return self.state
