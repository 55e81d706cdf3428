"""A certificate authority, and a system that trusts it alone."""

from __future__ import annotations

import http.server
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bootstrap.host.buckets.certificates import STORES

# The system trusts what is in $1 alone, for the rest of the command.
_TRUSTING = f"""mount -t tmpfs none /etc/ssl/certs; cp "$1" {STORES[0]}; shift; exec "$@" """


def make(folder: Path) -> None:
    """Make ca.pem, and a server's key.pem and chain.pem signed by it for 127.0.0.1."""
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    _openssl(folder, "req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=A")
    _openssl(folder, "req", *new, "-keyout", "key.pem", "-out", "ask.pem", "-subj", "/CN=here")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signed = ("x509", "-req", "-in", "ask.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2")
    _openssl(folder, *signed, "-CAcreateserial", "-extfile", "names", "-out", "chain.pem")


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def trusted_alone(argv: list[str], authorities: Path) -> list[str]:
    """The command where the system trusts these authorities and no others."""
    apart = ["unshare", "--mount", "--map-root-user", "sh", "-ec", _TRUSTING, "sh"]
    return [*apart, str(authorities), *argv]


@contextmanager
def serve(handler: type[http.server.BaseHTTPRequestHandler], folder: Path) -> Iterator[str]:
    """Serve with the certificate in a folder of `make`; yields the address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "chain.pem", folder / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
