#!/bin/sh
# paramiko 5.1.0 as the client of an sshd of asyncssh 2.24.1: a key that is not accepted, then one that is.
#
# Expected: the second key logs in, as with ssh. Seen on 2026-11-27: paramiko's Transport requests the
# service ssh-userauth once more for each key, and asyncssh ends the connection at the second request
# ("Unexpected service in service request"). OpenSSH's sshd takes both. paramiko.ServiceRequestingTransport
# requests it once, and is not the default.
# paramiko also signs with every key; ssh asks first which one would be accepted. That is not shown here.
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/keys.py" <<'PY'
import asyncio
import socket
import sys
import threading

import asyncssh
import paramiko

keys = [paramiko.ECDSAKey.generate() for _ in range(2)]
accepted = f"{keys[1].get_name()} {keys[1].get_base64()}"
ready = threading.Event()
place = []


class Server(asyncssh.SSHServer):
    def connection_made(self, connection):
        self.connection = connection

    def begin_auth(self, username):
        self.connection.set_authorized_keys(asyncssh.import_authorized_keys(accepted))
        return True


async def serve():
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.listen("127.0.0.1", 0, server_factory=Server, server_host_keys=[host_key])
    place.append(server.get_port())
    ready.set()
    await asyncio.Event().wait()


def outcomes(kind):
    transport = kind(socket.create_connection(("127.0.0.1", place[0])))
    transport.start_client(timeout=20)
    found = []
    for key in keys:
        try:
            transport.auth_publickey("me", key)
            found.append("accepted")
        except paramiko.AuthenticationException:
            found.append("refused" if transport.is_active() else "the connection is closed")
    transport.close()
    return found


threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
ready.wait(20)
seen = {kind.__name__: outcomes(kind) for kind in (paramiko.Transport, paramiko.ServiceRequestingTransport)}
for name, found in seen.items():
    print(f"{name}: the first key {found[0]}, the second: {found[1]}")
expected = {
    "Transport": ["refused", "the connection is closed"],
    "ServiceRequestingTransport": ["refused", "accepted"],
}
sys.exit(seen != expected)
PY
python3.11 -m venv "$work/env"
"$work/env/bin/pip" install --quiet asyncssh==2.24.1 paramiko==5.1.0
"$work/env/bin/python" "$work/keys.py"
