"""The part of HashiCorp Vault that gives Pulumi the key of a stack's secrets.

To derive this key from a passphrase takes 0.2 s of CPU time in each command of Pulumi. The tests of
test_stack_lifecycle.py and test_installed.py have a passphrase.
"""

from __future__ import annotations

import json
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROVIDER = "hashivault://railhead"  # of `pulumi stack init --secrets-provider`
MARK = "vault:v1:"


class Transit(BaseHTTPRequestHandler):
    """ "Encrypts" by a mark before the text."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        """Answer a request to encrypt or to decrypt."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "/encrypt/" in self.path:
            data = {"ciphertext": MARK + request["plaintext"]}
        else:
            data = {"plaintext": request["ciphertext"].removeprefix(MARK)}
        body = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@cache
def environment() -> dict[str, str]:
    """The variables that lead Pulumi to the server of this process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Transit)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    return {"VAULT_SERVER_URL": url, "VAULT_SERVER_TOKEN": "of a test"}
