"""Carries a plan out on all hosts at once. Killed anywhere, the next time does what is missing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bootstrap.console.live import Board
from bootstrap.console.text import size
from bootstrap.errors import HostsFailed, RailheadError
from bootstrap.plan.cluster import Cluster
from bootstrap.plan.decide import cluster_line
from bootstrap.plan.runtimes import uv_digest
from bootstrap.plan.steps import Plan, Step
from bootstrap.plan.system_changes import changes
from bootstrap.provision import uv, wheel_delivery, wheel_store, wheels
from bootstrap.provision.horovod_wheel import build
from bootstrap.provision.host_step import QUIET, UV, HostStep
from bootstrap.provision.survey import with_new_facts
from bootstrap.provision.system import STEPS, WHAT, change_system
from bootstrap.ssh import traffic
from bootstrap.ssh.agents import start_agents
from bootstrap.ssh.authorized_keys import authorize
from bootstrap.ssh.bundle import pack_file
from bootstrap.ssh.connect import everywhere
from bootstrap.ssh.session import Session

KEY = "~/.railhead/cluster/key"
IMPORTS = "import tensorflow, keras, tf_keras"
IMPORTS_HOROVOD = "import tensorflow, horovod.tensorflow as h; assert h.mpi_built()"


def apply(cluster: Cluster, plan: Plan, opened: dict[str, Session], board: Board) -> Cluster:
    """Carry the plan out, all hosts at once; returns the cluster with what is now there.

    Root's work comes first. A host that rebooted for it has another session in `opened` then.
    """
    cluster = rooted(cluster, plan, opened, board)
    _Work(cluster, plan, opened, board).go()
    return cluster


def rooted(cluster: Cluster, plan: Plan, opened: dict[str, Session], board: Board) -> Cluster:
    """Do root's part of the plan, and look again; without one, nothing is asked of any host."""
    wanted = {name: changes(cluster, name) for name in opened if _parts(plan, name)[0]}
    if not wanted:
        return cluster
    seen = change_system(cluster.inventory, cluster.facts, wanted, opened, board)
    # Which ways go through the connection stays as the plan said it.
    seen = {n: replace(host, egress=cluster.facts[n].egress) for n, host in seen.items()}
    cluster = with_new_facts(cluster, {**cluster.facts, **seen})
    if left := {name: text for name in wanted if (text := _left(cluster, name))}:
        told = {name: left.get(name, "ok") for name in opened}
        what = f"{WHAT} on {len(left)} of {len(told)} hosts do not serve"
        raise HostsFailed(what, told)
    return cluster


def _parts(plan: Plan, name: str) -> tuple[list[Step], list[Step]]:
    """A host's steps: root's, and ours."""
    steps = plan.of(name)
    ours = [step for step in steps if step.name not in STEPS]
    return [step for step in steps if step.name in STEPS], ours


def _left(cluster: Cluster, name: str) -> str:
    """What the system changes were to install and did not; empty where all is well."""
    try:
        left = changes(cluster, name)
    except RailheadError as wrong:
        return str(wrong)
    if left.packages:
        return f"still missing: {' '.join(left.packages)}"
    if left.driver:
        return f"the driver is not there: {left.whys['driver']}"
    return left.whys["reboot"] if left.reboot else ""


class _Work:
    """One application of a plan. Others wait for the wheel that the builder builds."""

    def __init__(
        self, cluster: Cluster, plan: Plan, opened: Mapping[str, Session], board: Board
    ) -> None:
        self.cluster, self.plan, self.opened, self.board = cluster, plan, opened, board
        self.wheel = cluster.wheel
        self.built = threading.Event()
        self.environment = cluster.environment
        if self.wheel:
            self.built.set()

    def go(self) -> None:
        busy = {n: s for n, s in self.opened.items() if _parts(self.plan, n)[1]}
        for name in self.opened:
            if self.plan.of(name) and name not in busy:
                self._ready(name)
        start_agents(self.cluster, busy)
        everywhere(busy, self._install, what="making hosts ready")
        if late := [name for name in busy if self.plan.needs(name, "key")]:
            self._exchange_keys(busy)
            for name in late:
                self._ready(name)

    def _install(self, session: Session) -> None:
        name, site = session.host.name, self._site(session)
        try:
            for step in _parts(self.plan, name)[1]:
                self.board.line(name, f"{step.name}: {step.why}")
                if step.name in self.doing:
                    self.doing[step.name](self, site)
            if not self.plan.needs(name, "key"):
                self._ready(name)
        except RailheadError:
            self.board.line(name, "failed", state="failed")
            raise
        finally:
            if name == self.cluster.builder:
                self.built.set()

    def _ready(self, name: str) -> None:
        self.board.line(name, f"ready in {traffic.host_traffic(name).summary()}", state="ready")

    def _uv(self, site: HostStep) -> None:
        site.send_folder("uv", uv.uv_for_hosts(), f"~/.railhead/uv/{uv_digest()}")

    def _runtime(self, site: HostStep) -> None:
        folder = self.environment.folder
        locks = {f"{folder}.lock.txt": self.environment.runtime.lock.read_text()}
        if self.environment.extra:
            locks[f"{folder}.extra.txt"] = self.environment.extra
        self._environment(site, "runtime", folder, locks)
        if not self.environment.runtime.horovod:
            self._complete(site, "runtime", IMPORTS)
        elif site.waits:  # what Python compiles now, it has when the wheel comes
            site.run("runtime", self._importing(IMPORTS), env=QUIET)

    def _complete(self, site: HostStep, step: str, imports: str) -> None:
        """See that the environment can be imported, and leave the word that it is whole."""
        folder = self.environment.folder
        site.run(step, self._importing(imports), env=QUIET)
        site.session.call("write", files=[[f"{folder}/.ok", 0o644, self.environment.digest + "\n"]])

    def _importing(self, imports: str) -> list[str]:
        return [f"{self.environment.folder}/bin/python", "-c", imports]

    def _bucket(self, site: HostStep) -> None:
        client = self.cluster.bucket_client
        assert client is not None
        folder = client.folder
        locks = {f"{folder}.lock.txt": client.lock.read_text()}
        self._environment(site, "bucket", folder, locks)
        site.session.call("write", files=[[f"{folder}/.ok", 0o644, client.digest + "\n"]])

    def _environment(
        self, site: HostStep, step: str, folder: str, locks: Mapping[str, str]
    ) -> None:
        """An environment on a host that holds exactly what locks say: path there -> text."""
        site.session.call("write", files=[[path, 0o644, text] for path, text in locks.items()])
        python = site.facts.pythons[self.environment.python]
        venv = [UV, "venv", "--quiet", "--allow-existing", "--python", python]
        site.run(step, [*venv, folder], env=uv.ENVIRONMENT)
        # sync, because a lock is complete: tf_keras asks for the TensorFlow that we keep out.
        words = [UV, "pip", "sync", "--require-hashes", "--python", f"{folder}/bin/python"]
        with self._wheels(site, step, list(locks.values())) as found:
            site.run(step, [*words, *found, *locks], env=uv.ENVIRONMENT, fetches=True)

    @contextmanager
    def _wheels(self, site: HostStep, step: str, locks: list[str]) -> Iterator[Sequence[str]]:
        """What tells uv where wheels are: nothing, unless the plan has them come from here."""
        planned = [s for s in self.plan.of(site.name) if s.name == step and s.sends]
        if not planned:
            yield ()
            return
        report = site.reporter(step)
        fetched = f"of about {planned[0].sends} MB fetched here"
        python = self.environment.python
        house = wheels.fetch(locks, python, lambda count: report(f"{size(count)} {fetched}"))
        with wheel_delivery.delivered(site.session, house, report):
            yield wheel_delivery.FOR_UV

    def _horovod(self, site: HostStep) -> None:
        builder = site.name == self.cluster.builder
        if builder and not self.wheel:
            self.wheel = build(site)
            self.built.set()
        while not self.built.wait(timeout=1):
            self.board.line(site.name, f"horovod: {self.cluster.builder} builds the wheel")
        if not self.wheel:
            raise RailheadError(f"no Horovod wheel: its build on {self.cluster.builder} failed")
        site.send("horovod", pack_file(self.wheel), "~/.railhead/wheels")
        site.install_wheel(f"~/.railhead/wheels/{self.wheel.name}")
        self._complete(site, "horovod", IMPORTS_HOROVOD)
        if builder:
            self._keep(site, self.wheel)

    def _keep(self, site: HostStep, wheel: Path) -> None:
        """Bring a wheel that serves into the stack's bucket, which has none. Where that fails it
        is said: hosts are ready without it."""
        kept = self.cluster.kept
        if kept is None or kept.holds is not False:
            return
        site.reporter("horovod")(f"the wheel goes to {kept.url}")
        try:
            wheel_store.put(self.cluster.inventory, wheel)
        except (RailheadError, OSError) as error:
            said = str(error).splitlines()[0]
            self.board.print_lines(f"the wheel was not kept in {kept.url}: {said}")

    doing: Mapping[str, Callable[[_Work, HostStep], None]] = {
        "uv": _uv,
        "runtime": _runtime,
        "horovod": _horovod,
        "bucket": _bucket,
    }

    def _site(self, session: Session) -> HostStep:
        return HostStep(session, self.cluster, self.board)

    def _exchange_keys(self, busy: Mapping[str, Session]) -> None:
        """A key pair made on the chief: its private half never leaves it."""
        chief = self.opened[self.cluster.chief]
        public = self.cluster.facts[self.cluster.chief].cluster_key
        if public is None:
            comment = f"railhead:{self.cluster.inventory.name}"
            make = f"ssh-keygen -q -t ed25519 -N '' -C {comment} -f {KEY}"
            folder = "mkdir -p -m 700 ~/.railhead/cluster"
            self._site(chief).run("key", ["sh", "-c", f"{folder} && {make}"])
            public = chief.call("read", paths=[f"{KEY}.pub"])[f"{KEY}.pub"].strip()
        line = cluster_line(self.cluster, public)
        name = self.cluster.inventory.name
        everywhere(busy, lambda s: authorize(s, name, [line]), what="letting the chief in")
