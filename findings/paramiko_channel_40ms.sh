#!/bin/sh
# paramiko 5.1.0 as the client of Debian 12's sshd (OpenSSH 9.2p1) on one machine: the first channel of a
# connection.
#
# Expected: a millisecond, as each further channel. Seen on 2026-11-28: 43 ms, each time, also with
# TCP_NODELAY on the client's socket. After the login sshd sends two packets of its own (its host keys, and
# a debug message) and then holds the confirmation of the channel back until they are acknowledged: it turns
# Nagle's algorithm off only when a session has begun. A client that sends in turns acknowledges 40 ms later
# on Linux. With TCP_QUICKACK after each receive, which the kernel forgets, the channel takes 1 to 2 ms.
# Fabric and pyinfra connect by Paramiko; ssh waits too, and once more during the login. That is not shown
# here.
# Exits 1 if that changes; 2 where there is no sshd (apt-get install openssh-server). Needs no root.
set -eu
sshd=$(command -v sshd || ls /usr/sbin/sshd) || exit 2
work=$(mktemp -d)
trap 'kill "$(cat "$work/pid")" 2>/dev/null; rm -rf "$work"' EXIT
ssh-keygen -q -t ed25519 -N '' -f "$work/host"
ssh-keygen -q -t ed25519 -N '' -f "$work/key"
cat >"$work/config" <<EOF
ListenAddress 127.0.0.1:22022
HostKey $work/host
PidFile $work/pid
AuthorizedKeysFile $work/key.pub
StrictModes no
UsePAM no
EOF
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
"$sshd" -f "$work/config"
cat >"$work/channel.py" <<'PY'
import os
import pwd
import socket
import sys
import time

import paramiko


class Prompt(socket.socket):
    """Acknowledges at once what it receives."""

    def recv(self, *args):
        data = super().recv(*args)
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return data


def milliseconds(kind):
    """Of the first channel and of a second one."""
    with kind() as sock:
        sock.connect(("127.0.0.1", 22022))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = paramiko.Transport(sock)
        transport.start_client(timeout=20)
        key = paramiko.Ed25519Key.from_private_key_file(sys.argv[1])
        transport.auth_publickey(pwd.getpwuid(os.getuid()).pw_name, key)
        times = [time.perf_counter()]
        for _ in range(2):
            transport.open_session(timeout=20)
            times.append(time.perf_counter())
        transport.close()
    return [1000 * (after - before) for before, after in zip(times, times[1:])]


seen = {}
for kind in (socket.socket, Prompt):
    first, second = (min(each) for each in zip(*(milliseconds(kind) for _ in range(9))))
    seen[kind.__name__] = first
    print(f"{kind.__name__}: the first channel {first:.1f} ms, a second one {second:.1f} ms")
sys.exit(not (seen["socket"] > 35 and seen["Prompt"] < seen["socket"] / 2))
PY
python3.11 -m venv "$work/env"
"$work/env/bin/pip" install --quiet paramiko==5.1.0
ssh -V
"$work/env/bin/python" "$work/channel.py" "$work/key"
