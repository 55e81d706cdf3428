"""TensorBoard, which answers no web pages of other sites; run by the Python of its environment
with -I: modules beside this one would hide others.

It ends when its standard input closes: also when `fab tensorboard` is killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bootstrap.remote.serve import local_requests
else:  # TensorBoard's environment does not have the package
    sys.path.insert(0, str(Path(__file__).parents[1] / "remote/serve"))
    import local_requests

    del sys.path[0]

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]  # of WSGI


def checked(application: Application) -> Application:
    """The application; it has no option for that itself."""

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


def end_with_parent() -> None:
    """End this process when its standard input closes."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Serve by the options of TensorBoard."""
    from absl import app
    from tensorboard import default, main_lib, program

    threading.Thread(target=end_with_parent, daemon=True).start()
    main_lib.global_init()
    tensorboard = program.TensorBoard(
        plugins=default.get_plugins(),
        server_class=lambda application, flags: program.WerkzeugServer(checked(application), flags),
    )
    app.run(tensorboard.main, flags_parser=tensorboard.configure)


if __name__ == "__main__":
    main()
