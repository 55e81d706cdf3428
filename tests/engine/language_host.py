#!/usr/bin/env python3
"""A stand-in for Pulumi's Python language host, for tests on machines without Pulumi's installer.

It tells the engine what it asks of a language host, and runs programs by Pulumi's own script,
pulumi-language-python-exec. It installs nothing and knows no virtual environments.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from pulumi.runtime.proto import language_pb2 as messages
from pulumi.runtime.proto import language_pb2_grpc as service
from pulumi.runtime.proto import plugin_pb2 as plugin

FORKED = Path(__file__).resolve().parents[1] / "standins/forked"
REPORTED = 32  # the exit code of a program that has reported the error itself


class Host(service.LanguageRuntimeServicer):
    """What the engine asks; anything else is answered "unimplemented", as gRPC has it."""

    def __init__(self, engine: str) -> None:
        self.engine = engine

    def Handshake(self, request: Any, _: Any) -> Any:
        return messages.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, _: Any) -> Any:
        return plugin.PluginInfo(version=metadata.version("pulumi"))

    def About(self, request: Any, _: Any) -> Any:
        return messages.AboutResponse(executable=sys.executable, version=sys.version.split()[0])

    def RuntimeOptionsPrompts(self, request: Any, _: Any) -> Any:
        return messages.RuntimeOptionsResponse()

    def GetRequiredPackages(self, request: Any, _: Any) -> Any:
        return messages.GetRequiredPackagesResponse()

    def GetProgramDependencies(self, request: Any, _: Any) -> Any:
        return messages.GetProgramDependenciesResponse()

    def Run(self, request: Any, _: Any) -> Any:
        config = {
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }
        done = subprocess.run(
            self.argv(request), env={**os.environ, **config}, stdin=subprocess.DEVNULL
        )
        if done.returncode in (0, REPORTED):
            return messages.RunResponse(bail=done.returncode == REPORTED)
        return messages.RunResponse(
            error=f"Program exited with non-zero exit code: {done.returncode}"
        )

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        """A policy pack, which says on stdout on which port it listens, and runs until it is
        ended. An engine that ends calls the stream off."""
        pack = request.info.program_directory
        argv = [sys.executable, "-u", "-m", "pulumi.policy", *request.args, pack]
        given = dict(pair.split("=", 1) for pair in request.env)
        process = subprocess.Popen(
            argv, cwd=pack, env={**os.environ, **given}, stdout=subprocess.PIPE, text=True
        )
        context.add_callback(process.kill)
        assert process.stdout
        for line in process.stdout:
            yield messages.RunPluginResponse(stdout=line.encode())
        yield messages.RunPluginResponse(exitcode=process.wait())

    def argv(self, request: Any) -> list[str]:
        """The program's process, as the real host starts it."""
        info = request.info
        options = {
            "pwd": request.pwd,
            "project": request.project,
            "stack": request.stack,
            "organization": request.organization,
            "root_directory": info.root_directory,
            "monitor": request.monitor_address,
            "engine": self.engine,
            "parallel": request.parallel,
            "dry_run": str(request.dryRun).lower(),
        }
        run = shutil.which("pulumi-language-python-exec") or sys.exit("Pulumi's own script is gone")
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        program = str(Path(info.program_directory, info.entry_point))
        start = [str(FORKED)] if "RAILHEAD_FORKS" in os.environ else [sys.executable, "-u"]
        return [*start, run, *words, program]


def main(engine: str) -> None:
    """Serve the engine at this address, and say on stdout on which port."""
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: os._exit(0))
    server = grpc.server(ThreadPoolExecutor())
    service.add_LanguageRuntimeServicer_to_server(Host(engine), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main(sys.argv[-1])
