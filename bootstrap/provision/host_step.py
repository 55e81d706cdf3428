"""Runs the commands of a step on one host and shows their output on the live board."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from railhead.documents.agent.commands import CommandResult, Grown, Line
from railhead.documents.agent.request import LONG
from railhead.documents.lazy import dataclass

from ..console.live import Board
from ..console.output import Reporter, TransferReporter
from ..console.progress import Done, Transfer
from ..console.text import clean, size
from ..errors import RailheadError
from ..facts.host import HostFacts
from ..plan.cluster import SurveyedCluster
from ..ssh.bundle import Bundle
from ..ssh.session import Session
from . import uv

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}  # for commands that only import TensorFlow
# Local hosts may share a machine with the host that builds the wheel.
LOW_PRIORITY = ("nice", "-n", "19")
# Caches on a host are in our folder, so that --purge removes them, and on the disk of the
# environments, so that uv makes hard links instead of copies.
CACHES = {"UV_CACHE_DIR": "~/.railhead/cache/uv", "PIP_CACHE_DIR": "~/.railhead/cache/pip"}
MAKE = re.compile(r"\[ *(\d{1,3})%\] ")
LEAST_FETCHED = 1_000_000  # bytes; fewer are other traffic of the host
KERAS = {"KERAS_HOME": "~/.railhead/keras"}


@dataclass(frozen=True)
class HostStep:
    """A host of the cluster, with its session and its line on the board."""

    session: Session
    cluster: SurveyedCluster
    board: Board

    @property
    def name(self) -> str:
        """The host's name."""
        return self.session.host.name

    @property
    def facts(self) -> HostFacts:
        """The host's facts."""
        return self.cluster.facts[self.name]

    @property
    def waits_for_wheel(self) -> bool:
        """Whether this host waits for a wheel that another host builds."""
        cluster = self.cluster
        needs = cluster.environment.horovod and not cluster.wheel
        return needs and self.name != cluster.builder

    @property
    def build_folder(self) -> str:
        """The folder on a host for the wheel of such hosts. All commands that use this home take
        turns in changing it and the environments that get the wheel."""
        builder = self.cluster.facts[self.cluster.builder]
        return f"~/.railhead/build/{self.cluster.environment.wheel_key(builder)}"

    @property
    def variables(self) -> dict[str, str]:
        """Variables of all commands. Local hosts share the cache of this computer."""
        caches = {} if self.cluster.inventory.kind.this_machine else CACHES
        trust = uv.SYSTEM_TRUST if self.facts.system.trusts else {}
        return {**caches, **KERAS, **trust, **self.cluster.internet.variables()}

    def reporter(self, step: str) -> Reporter:
        """A reporter that shows the progress of a step on the board."""
        return lambda text: self.board.line(self.name, f"{step}: {text}")

    def run(
        self,
        step: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        fetches: bool = False,
    ) -> CommandResult:
        """Run a command of a step. RailheadError: its exit code is not 0; the message has its last
        lines."""
        client = self.cluster.bucket_client if step == "bucket" else None
        fetched = Transfer((client or self.cluster.environment).megabytes * 10**6)

        def on_event(event: Line | Grown) -> None:
            if isinstance(event, Grown):
                self.board.line(self.name, *_fetched(step, fetched, event))
            elif event.line:
                line = self.cluster.internet.without_password(clean(event.line))
                text, done = _built(line.removeprefix(f"{step}: "))
                self.board.line(self.name, f"{step}: {text}", done)

        argv = [*(LOW_PRIORITY if self.waits_for_wheel else ()), *argv]
        reply = self.session.run(
            argv,
            env={**self.variables, **(env or {})},
            timeout=timeout,
            fetches=fetches,
            lock=f"{self.build_folder}.lock" if step == "horovod" else "",
            on_event=on_event,
            silence=LONG.silence,  # it may compile, or install without output
        )
        if reply.rc:
            tail = "\n".join(clean(line) for line in reply.tail[-8:])
            tail = self.cluster.internet.without_password(tail)
            raise RailheadError(f"{step}: {Path(argv[0]).name} ended with {reply.rc}\n{tail}")
        return reply

    def send(self, step: str, bundle: Bundle, dest: str) -> None:
        """Add files to a folder under ~/.railhead and show the progress."""
        self.session.send_tree(bundle, dest, prune=False, on_sent=self.meter(step))

    def send_folder(self, step: str, bundle: Bundle, dest: str) -> None:
        """Copy a folder that is named by a digest; it appears complete or not at all."""
        self.session.send_folder(bundle, dest, on_sent=self.meter(step))

    def meter(self, step: str, how: str = "sent over SSH") -> TransferReporter:
        """A reporter that shows the bytes of a transfer of a step on the board."""
        transfer = Transfer(0)

        def show(count: int, total: int) -> None:
            transfer.total = total
            text, done = transfer.reach(count)
            self.board.line(self.name, f"{step}: {how} {text}", done)

        return show

    def install_wheel(self, path: str) -> None:
        """Install a Horovod wheel from a path on the host into the runtime. Without uv's cache: it
        would keep 60 MB, unpacked, for each path that a wheel ever had."""
        python = self.cluster.environment.interpreter
        argv = [uv.PROGRAM, "pip", "install", "--no-cache", "--no-deps", "--python", python, path]
        self.run("horovod", argv, env=uv.ENVIRONMENT)


def _built(line: str) -> tuple[str, Done]:
    """A line of a build, and how far it is: `[ 25%] compiled`."""
    percentage = MAKE.match(line)
    return MAKE.sub("", line), Done(int(percentage[1]) / 100 if percentage else None)


def _fetched(step: str, transfer: Transfer, event: Grown) -> tuple[str, Done]:
    """How far an installation is. If nothing comes from the network, it uses packages that an
    earlier one left on the host; once all have arrived, only the disk use still grows."""
    unpacked = f"the disk has {size(event.grown)} more"
    if event.received < LEAST_FETCHED:
        return f"{step}: installs {size(transfer.total)}; {unpacked}", Done()
    if event.received >= transfer.total:
        return f"{step}: downloaded {size(event.received)}, unpacks; {unpacked}", Done()
    text, done = transfer.reach(event.received)
    return f"{step}: downloaded {text}; {unpacked}", done
