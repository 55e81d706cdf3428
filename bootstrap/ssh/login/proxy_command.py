"""Runs a ProxyCommand of ssh_config in the user's shell, as ssh does; its input and output are the
connection."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile

from ...errors import RailheadError

END_SECONDS = 1.0


class ProxyCommandFailed(RailheadError):
    """The command has ended with an error."""


class ProxyCommand:
    """A running command; `socket` is its input and output."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.socket, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 # until close
        with theirs:
            self._process = subprocess.Popen(
                [os.environ.get("SHELL") or "/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._errors,
                start_new_session=True,  # Ctrl-C must not end it
            )

    def check(self) -> None:
        """Raise ProxyCommandFailed, with its last output, if it has failed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if code := self._process.wait(END_SECONDS):
                self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 600))
                words = self._errors.read().decode(errors="replace").strip() or f"exit {code}"
                raise ProxyCommandFailed(f"its ProxyCommand has failed: {words}", hint=self.command)

    def close(self) -> None:
        """End the command and the processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()
