"""An sshd over paramiko that wants what a real one can want only with accounts of this computer: a
code after the key, a password, or nothing. Each command runs in sh, as the user of the test."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko.common import AUTH_FAILED, AUTH_PARTIALLY_SUCCESSFUL, AUTH_SUCCESSFUL, OPEN_SUCCEEDED
from paramiko.server import InteractiveQuery

CODE = "123456"


@dataclass
class Wanted(paramiko.ServerInterface):
    """What a login needs: `key`, `code` or `password`, all of them, or `none`."""

    wants: Sequence[str]
    home: Path
    banner: str = ""
    logins: list[str] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)

    def get_banner(self) -> tuple[str | None, str | None]:
        return (self.banner, "en") if self.banner else (None, None)

    def get_allowed_auths(self, username: str) -> str:
        names = {"key": "publickey", "code": "keyboard-interactive", "password": "password"}
        rest = [names[want] for want in self.wants if want in names and want not in self.passed]
        return ",".join(rest[:1] if "key" in self.wants else rest)

    def _result(self, want: str) -> int:
        self.passed.add(want)
        if self.passed >= {*self.wants}:
            self.logins.append(want)
            return AUTH_SUCCESSFUL
        return AUTH_PARTIALLY_SUCCESSFUL

    def check_auth_none(self, username: str) -> int:
        return self._result("none") if "none" in self.wants else AUTH_FAILED

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return self._result("key") if "key" in self.wants else AUTH_FAILED

    def check_auth_password(self, username: str, password: str) -> int:
        return self._result("password") if password == CODE else AUTH_FAILED

    def check_auth_interactive(self, username: str, submethods: str) -> InteractiveQuery:
        return InteractiveQuery("", "", ("Code: ", False))

    def check_auth_interactive_response(self, responses: list[str]) -> int:
        return self._result("code") if responses == [CODE] else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._run, args=(channel, command), daemon=True).start()
        return True

    def _run(self, channel: paramiko.Channel, command: bytes) -> None:
        process = subprocess.Popen(
            ["sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin"},
            bufsize=0,
        )
        assert process.stdin and process.stdout
        stdin = process.stdin

        def feed() -> None:
            with contextlib.suppress(OSError), stdin as sink:
                while data := channel.recv(1 << 16):
                    sink.write(data)

        threading.Thread(target=feed, daemon=True).start()
        with contextlib.suppress(OSError):
            while data := process.stdout.read(1 << 16):
                channel.sendall(data)
            channel.send_exit_status(process.wait())
            channel.close()


@dataclass
class Sshd:
    """A running server: its port, its host key, and how each login ended."""

    port: int
    key: paramiko.PKey
    logins: list[str]

    @property
    def known(self) -> str:
        """Its line of known_hosts."""
        return f"[127.0.0.1]:{self.port} {self.key.get_name()} {self.key.get_base64()}\n"


@contextlib.contextmanager
def sshd(home: Path, *wants: str, banner: str = "", ciphers: Sequence[str] = ()) -> Iterator[Sshd]:
    """A server on a port of 127.0.0.1."""
    key = paramiko.ECDSAKey.generate()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Sshd(listener.getsockname()[1], key, [])

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=talk, args=(connection,), daemon=True).start()

        def talk(connection: socket.socket) -> None:
            with contextlib.suppress(Exception):
                transport = paramiko.Transport(connection)
                transport.add_server_key(key)
                if ciphers:
                    transport.get_security_options().ciphers = ciphers
                transport.start_server(server=Wanted(wants, home, banner, server.logins))
                channels = []  # one that nobody holds is closed
                while channel := transport.accept(600):
                    channels.append(channel)

        threading.Thread(target=serve, daemon=True).start()
        yield server
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
