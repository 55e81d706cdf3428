"""`python -m training.serving`: serves one model until it is stopped."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from dataclasses import fields
from pathlib import Path

from .settings import ServeSettings, SettingsError

NO_MODEL = 3  # exit code: the model does not load
LATER = 5.0  # seconds after the answer to a body that has not arrived, until its connection closes


def main() -> int:
    """Serve; the exit code is 0 ended, 2 a wrong value or a port in use, 3 no model."""
    options = vars(parser().parse_args())
    fd = options.pop("fd")
    try:
        settings = ServeSettings(**{k: v for k, v in options.items() if v is not None})
        listener = listen(settings, fd)
    except (SettingsError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read once, when TensorFlow is imported
    os.environ["KERAS_BACKEND"] = "tensorflow"
    return serve(settings, listener)


def listen(settings: ServeSettings, fd: int | None) -> socket.socket:
    """The listening socket: a new one, or the one that a supervisor keeps over restarts."""
    if fd is not None:
        return socket.socket(fileno=fd)
    return socket.create_server((settings.host, settings.port), backlog=1024)


def serve(settings: ServeSettings, listener: socket.socket) -> int:
    """Answer requests until SIGTERM; those in progress are finished."""
    import uvicorn

    from .app import ServedApp, application
    from .connections import punctual
    from .metrics import ServingMetrics
    from .model import load
    from .versions import Versions

    failed: list[Exception] = []

    def stop(error: Exception) -> None:
        failed.append(error)
        server.should_exit = True

    def report(text: str) -> None:
        print(text, flush=True)

    metrics = ServingMetrics()
    endpoint = ServedApp(settings, Versions(settings, load, metrics, report), metrics)
    config = uvicorn.Config(
        application(endpoint, stop),
        http=punctual(settings.timeout_s + LATER),
        log_level="warning",
        access_log=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=10,
    )
    server = uvicorn.Server(config)
    report(f"loading {settings.name} from {settings.model}")
    server.run(sockets=[listener])
    if failed:
        print(failed[0], file=sys.stderr)
        return NO_MODEL
    return 0


def parser() -> argparse.ArgumentParser:
    """An option for each setting, and the socket of a supervisor."""
    options = argparse.ArgumentParser(prog="python -m training.serving", allow_abbrev=False)
    types = {"int": int, "float": float, "str": str, "Path": Path}
    for item in fields(ServeSettings):
        name = f"--{item.name.replace('_', '-')}"
        needed = item.name in ("model", "name")
        options.add_argument(name, type=types[str(item.type)], required=needed)
    options.add_argument("--fd", type=int, help="a socket that listens already")
    return options


if __name__ == "__main__":
    sys.exit(main())
