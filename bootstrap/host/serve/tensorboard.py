"""Runs TensorBoard, and refuses requests from web pages of other sites. The Python of TensorBoard's
environment runs this program.

It ends when its standard input closes, so also when `fab tensorboard` is killed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from railhead.documents.serving import local_requests

from .server import end_with_parent

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]  # of WSGI


def checked(application: Application) -> Application:
    """The application with this check; TensorBoard has no option for it."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        def header(name: str) -> str | None:
            return environ.get(f"HTTP_{name.upper().replace('-', '_')}")

        why = local_requests.refusal(header)
        if not why:
            return application(environ, start_response)
        start_response(
            f"{local_requests.FORBIDDEN} Forbidden", [("Content-Type", "application/json")]
        )
        return [json.dumps({"error": why}).encode()]

    return answer


def main(*options: str) -> None:
    """Serve with these options of TensorBoard."""
    from absl import app
    from tensorboard import default, main_lib, program

    end_with_parent()
    sys.argv = ["tensorboard", *options]
    main_lib.global_init()
    tensorboard = program.TensorBoard(
        plugins=default.get_plugins(),
        server_class=lambda application, flags: program.WerkzeugServer(checked(application), flags),
    )
    app.run(tensorboard.main, flags_parser=tensorboard.configure)
