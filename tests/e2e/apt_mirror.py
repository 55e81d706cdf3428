"""Our repository over HTTP, from a mirror that can fail. It is also a proxy: a request for another
host is answered from the repository too."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from hosts.packages import Repository
from hosts.systemd import SystemdHost


class Mirror(http.server.SimpleHTTPRequestHandler):
    """Answers 503 to what ends in the first of `bad`, which is dropped until one is left."""

    bad: list[str] = []

    def do_GET(self) -> None:
        self.path = urlsplit(self.path).path
        if self.bad and self.path.endswith(self.bad[0]):
            if len(self.bad) > 1:
                self.bad.pop(0)
            self.send_error(503)
        else:
            super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(address: str, repository: Repository) -> Iterator[str]:
    """The address of a mirror that serves the repository; it does not fail yet."""
    Mirror.bad = []

    def handler(*args: Any) -> Mirror:
        return Mirror(*args, directory=str(repository.folder))

    server = http.server.ThreadingHTTPServer((address, 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{address}:{server.server_port}"
    server.shutdown()


def use_mirror(host: SystemdHost, address: str) -> None:
    """Make it the host's only additional source."""
    host.write("/etc/apt/sources.list.d/ours.list", Repository.source(address))
