"""paramiko's transport; it also queries keys as ssh does, and keeps the host's messages."""

from __future__ import annotations

import threading
from typing import Any

import paramiko
from paramiko import auth_handler
from paramiko.common import (
    MSG_USERAUTH_INFO_REQUEST,
    cMSG_SERVICE_REQUEST,
    cMSG_USERAUTH_REQUEST,
)

SERVICE = "ssh-userauth"
AuthHandler: Any = auth_handler.AuthHandler  # its stubs lack internal methods


class Transport(paramiko.Transport):
    """A transport that keeps the lines that the host sends before its banner (`greeting`), and its
    reason when it ends the connection (`farewell`)."""

    farewell = greeting = ""
    _is_requested = False
    _banner: Any = None

    def ask(self, user: str, key: paramiko.PKey) -> None:
        """Ask whether a key would be accepted, without a signature: a signature may need a touch,
        and sshd of OpenSSH 10.6 does not count the question as an attempt.

        Raises:
            AuthenticationException: it would not be accepted.
        """
        handler, answered = _Question(self), threading.Event()
        self.auth_handler: Any = handler
        try:
            handler.auth_publickey(user, key, answered)
            handler.wait_for_response(answered)
        finally:  # a host sends its banner only once
            self._banner = handler.banner or self._banner

    def get_banner(self) -> bytes | None:
        """The banner of the host."""
        return super().get_banner() or self._banner

    def _send_message(self, data: paramiko.Message) -> None:
        """Request the service only once: paramiko requests it for each key, which asyncssh's server
        refuses."""
        if data.asbytes()[:1] == cMSG_SERVICE_REQUEST:
            if self._is_requested:
                accepted = paramiko.Message()
                accepted.add_string(SERVICE)
                accepted.rewind()
                self.auth_handler._parse_service_accept(accepted)
                return
            self._is_requested = True
        super()._send_message(data)  # type: ignore[misc]

    def _check_banner(self) -> None:
        readline = self.packetizer.readline

        def noted(timeout: float) -> str:
            line = str(readline(timeout))
            if not line.startswith("SSH-"):
                self.greeting = f"{self.greeting}{line}\n"[-600:]
            return line

        self.packetizer.readline = noted  # type: ignore[method-assign]
        super()._check_banner()  # type: ignore[misc]

    def _parse_disconnect(self, message: paramiko.Message) -> None:
        message.get_int()
        self.farewell = message.get_text()


class _Question(AuthHandler):  # type: ignore[misc]
    """A login that only learns whether the key would be accepted."""

    def _parse_service_accept(self, message: paramiko.Message) -> None:
        name, public = self._get_key_type_and_bits(self.private_key)
        algorithm = self._finalize_pubkey_algorithm(name)
        question = paramiko.Message()
        question.add_byte(cMSG_USERAUTH_REQUEST)
        for text in (self.username, "ssh-connection", "publickey"):
            question.add_string(text)
        question.add_boolean(False)  # no signature follows
        question.add_string(algorithm)
        question.add_string(public)
        self.transport._send_message(question)

    def _accepted(self, message: paramiko.Message) -> None:
        self.authenticated = True  # ends the wait; the next handler logs in
        self.auth_event.set()

    @property
    def _client_handler_table(self) -> dict[int, Any]:
        own = {MSG_USERAUTH_INFO_REQUEST: self._accepted}  # USERAUTH_PK_OK has the same number
        return {**super()._client_handler_table, **own}
