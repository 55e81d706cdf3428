"""Carries out a plan on all hosts in parallel. After an interruption, the next call continues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from railhead.documents.agent.files import TextFile

from ..console.live import Board
from ..console.text import clean
from ..errors import HostsFailed, RailheadError
from ..facts.host import HostFacts
from ..inventory import caches
from ..plan.cluster import SurveyedCluster
from ..plan.decide import leader_line
from ..plan.hostfile import Peer
from ..plan.internet import CA
from ..plan.steps import Plan, Step
from ..plan.system_changes import changes
from ..ssh import traffic
from ..ssh.authorized_keys import authorize
from ..ssh.bundle import pack_file
from ..ssh.cluster import ConnectedCluster
from ..ssh.connect import everywhere
from ..ssh.session import Session
from ..untrusted import unpack
from . import uv, wheel_store, wheels
from .horovod_wheel import build
from .host_step import QUIET, HostStep
from .survey import with_new_facts
from .system import STEPS, WHAT, change_system

KEY = "~/.railhead/cluster/key"
# After a power loss a machine may have half of the pair, or empty files.
MAKE_KEY = """mkdir -p -m 700 ~/.railhead/cluster
ssh-keygen -y -P '' -f {key} >{key}.pub 2>/dev/null && exit
rm -f {key}
ssh-keygen -q -t ed25519 -N '' -C {comment} -f {key}"""
SOURCES = "~/.railhead/sources"
# For projects that take their version from the tags of their repository, which a host lacks.
BUILDS = {"SETUPTOOLS_SCM_PRETEND_VERSION": "0"}
IMPORTS_HOROVOD = "import tensorflow, horovod.tensorflow; assert horovod.tensorflow.mpi_built()"


def apply(cluster: ConnectedCluster, plan: Plan, board: Board) -> ConnectedCluster:
    """Carry out the plan on all hosts in parallel; returns the cluster with its new facts. System
    changes come first. A host that rebooted has a new session afterwards."""
    cluster = apply_system_changes(cluster, plan, board)
    _Installation(cluster, plan, board).go()
    return cluster


def apply_system_changes(cluster: ConnectedCluster, plan: Plan, board: Board) -> ConnectedCluster:
    """Make the system changes of the plan, if it has any, and read the facts again."""
    system_changes = {
        name: changes(cluster, name) for name in cluster.sessions if _parts(plan, name)[0]
    }
    if not system_changes:
        return cluster
    seen = change_system(cluster.sessions, cluster.facts, system_changes, board)
    return check_changed(cluster, list(system_changes), seen)


def check_changed(
    cluster: ConnectedCluster, changed: Sequence[str], seen: Mapping[str, HostFacts]
) -> ConnectedCluster:
    """The cluster with the facts that were read after system changes on the hosts `changed`.
    HostsFailed: a host still needs a change."""
    # The plan already chose which downloads go over SSH: keep that choice.
    seen = {n: replace(host, egress=cluster.facts[n].egress) for n, host in seen.items()}
    cluster = with_new_facts(cluster, {**cluster.facts, **seen})
    if needed := {name: text for name in changed if (text := _still_needed(cluster, name))}:
        outcomes = {name: needed.get(name, "ok") for name in cluster.sessions}
        message = (
            f"{WHAT} on {len(needed)} of {len(outcomes)} hosts did not have the expected effect"
        )
        raise HostsFailed(message, outcomes)
    return cluster


def _parts(plan: Plan, name: str) -> tuple[list[Step], list[Step]]:
    """A host's steps: (system changes, other steps)."""
    steps = plan.of(name)
    others = [step for step in steps if step.name not in STEPS]
    return [step for step in steps if step.name in STEPS], others


def _is_complete(step_host: HostStep, folder: str) -> bool:
    """Whether another bootstrap has completed an environment since the facts were read. A run may
    use it: installing it again would first remove Horovod, which is not in the lock."""
    marked = step_host.session.read(f"{folder}/.ok")
    return marked is not None and marked.strip() == folder.rpartition("/")[2]


def _still_needed(cluster: SurveyedCluster, name: str) -> str:
    """The system change that is still needed; empty if there is none."""
    try:
        remaining = changes(cluster, name)
    except RailheadError as error:
        return str(error)
    if remaining.packages:
        return f"still missing: {' '.join(remaining.packages)}"
    if remaining.driver:
        return f"the driver is not there: {remaining.reasons['driver']}"
    return remaining.reasons["reboot"] if remaining.reboot else ""


class _Installation:
    """The steps of a plan on all hosts. `installers` says which method carries out which step. One
    host builds the Horovod wheel; the others wait for it (`built`)."""

    def __init__(self, cluster: ConnectedCluster, plan: Plan, board: Board) -> None:
        self.cluster, self.plan, self.board = cluster, plan, board
        self.wheel = cluster.wheel
        self.built = threading.Event()
        self.building = Path()  # a folder for a wheel that is built now
        self.environment = cluster.environment
        if self.wheel:
            self.built.set()

    def go(self) -> None:
        """Carry out all steps. A wheel is kept only if the host that built it is ready."""
        with unpack.stage(caches.cache("wheels")) as self.building:
            try:
                self._go()
            except HostsFailed as error:
                if error.outcomes.get(self.cluster.builder) == "ok":
                    self._keep_wheel()
                raise
            self._keep_wheel()

    def _go(self) -> None:
        sessions = self.cluster.sessions
        working = {n: s for n, s in sessions.items() if _parts(self.plan, n)[1]}
        for name in sessions:
            if self.plan.of(name) and name not in working:
                self._mark_ready(name)
        self.cluster.start_agents(working)
        everywhere(working, self._install, what="making hosts ready")
        if waiting := [name for name in working if self.plan.needs(name, "key")]:
            self._exchange_keys(working)
            for name in waiting:
                self._mark_ready(name)

    def _install(self, session: Session) -> None:
        name, step_host = session.host.name, self._host_step(session)
        try:
            if ca := self.cluster.internet.ca:
                session.write(TextFile(CA, ca))
            for step in _parts(self.plan, name)[1]:
                self.board.line(name, f"{step.name}: {step.why}")
                if step.name in self.installers:
                    self.installers[step.name](self, step_host)
            if not self.plan.needs(name, "key"):
                self._mark_ready(name)
        except RailheadError:
            self.board.line(name, "failed", state="failed")
            raise
        finally:
            if name == self.cluster.builder:
                self.built.set()

    def _mark_ready(self, name: str) -> None:
        self.board.line(name, f"ready in {traffic.host_traffic(name).summary()}", state="ready")

    def _install_uv(self, step_host: HostStep) -> None:
        step_host.send_folder("uv", uv.uv_for_hosts(), uv.FOLDER)

    def _install_runtime(self, step_host: HostStep) -> None:
        folder = self.environment.folder
        locks = {f"{folder}.lock.txt": self.environment.runtime.lock.read_text()}
        if self.environment.extra:
            locks[f"{folder}.extra.txt"] = self.environment.extra
        if self._create_environment(step_host, "runtime", folder, locks):
            self._build_sources(step_host)
        imports = self.environment.runtime.framework.imports
        if not self.environment.horovod:
            self._mark_complete(step_host, "runtime", imports)
        elif step_host.waits_for_wheel:  # compile Python files while the wheel is built
            self._check(step_host, "runtime", imports)

    def _build_sources(self, step_host: HostStep) -> None:
        """Build and install the packages that come as source, and check what they require: uv
        installs them alone, so that nothing of the lock is replaced."""
        if not self.environment.sources:
            return
        from .requirements.sources import packed

        before = self._unmet(step_host)
        install = [uv.PROGRAM, "pip", "install", "--no-deps"]
        install += ["--python", self.environment.interpreter]
        for source in self.environment.sources:
            folder = f"{SOURCES}/{source.digest}"
            step_host.send_folder("runtime", packed(source), folder)
            step_host.reporter("runtime")(f"builds {source.text}")
            project = f"{folder}/{source.inside}".rstrip("/")
            step_host.run("runtime", [*install, project], env=uv.ENVIRONMENT | BUILDS)
        if unmet := sorted(self._unmet(step_host) - before):
            raise RailheadError(
                "packages that come as source require what is not there:\n" + "\n".join(unmet),
                hint="add it to the file of --requirements",
            )

    def _unmet(self, step_host: HostStep) -> set[str]:
        """The missing requirements of the environment's packages, from uv's output."""
        check = [uv.PROGRAM, "pip", "check", "--python", self.environment.interpreter]
        reply = step_host.session.run(check, env=uv.ENVIRONMENT)
        return {clean(line) for line in reply.tail if line.startswith("The package")}

    def _mark_complete(self, step_host: HostStep, step: str, imports: str) -> None:
        """Check that the environment can be imported, and mark it as complete."""
        folder = self.environment.folder
        self._check(step_host, step, imports)
        step_host.session.write(TextFile(f"{folder}/.ok", self.environment.digest + "\n"))

    def _check(self, step_host: HostStep, step: str, imports: str) -> None:
        """Import what the environment is for; shown, because it takes long the first time."""
        shown = imports.rpartition("import ")[2].partition(";")[0]
        step_host.reporter(step)(f"checking: import {shown}")
        step_host.run(step, [self.environment.interpreter, "-c", imports], env=QUIET)

    def _install_bucket_client(self, step_host: HostStep) -> None:
        client = self.cluster.bucket_client
        assert client is not None
        folder = client.folder
        locks = {f"{folder}.lock.txt": client.lock.read_text()}
        self._create_environment(step_host, "bucket", folder, locks)
        step_host.session.write(TextFile(f"{folder}/.ok", client.digest + "\n"))

    def _create_environment(
        self, step_host: HostStep, step: str, folder: str, locks: Mapping[str, str]
    ) -> bool:
        """Create an environment on a host with exactly the packages of `locks` {path: text}; False
        if it was complete already."""
        if _is_complete(step_host, folder):
            return False
        step_host.session.write(*(TextFile(path, text) for path, text in locks.items()))
        python = step_host.facts.pythons[self.environment.python]
        venv = [uv.PROGRAM, "venv", "--quiet", "--allow-existing", "--python", python]
        step_host.run(step, [*venv, folder], env=uv.ENVIRONMENT)
        # sync, because a lock is complete: tf_keras requires the TensorFlow build that we exclude.
        argv = [uv.PROGRAM, "pip", "sync", "--require-hashes", "--python", f"{folder}/bin/python"]
        with self._deliver_wheels(step_host, step, list(locks.values())) as options:
            step_host.run(step, [*argv, *options, *locks], env=uv.ENVIRONMENT, fetches=True)
        return True

    @contextmanager
    def _deliver_wheels(
        self, step_host: HostStep, step: str, locks: list[str]
    ) -> Iterator[Sequence[str]]:
        """uv's options for wheels that this computer sends; empty if the host downloads them."""
        planned = [s for s in self.plan.of(step_host.name) if s.name == step and s.sends]
        if not planned:
            yield ()
            return
        total, fetched = planned[0].sends * 10**6, step_host.meter(step, "fetched here")
        interpreter = step_host.facts.pythons[self.environment.python]
        python = wheels.python_version(step_host.session, interpreter)
        folder = wheels.fetch(locks, python, lambda count: fetched(count, total))
        with wheels.deliver(step_host.session, folder, step_host.meter(step)):
            yield wheels.FOR_UV

    def _install_horovod(self, step_host: HostStep) -> None:
        builder = step_host.name == self.cluster.builder
        if builder and not self.wheel:
            self.wheel = build(step_host, self.building)
            self.built.set()
        while not self.built.wait(timeout=1):
            self.board.line(step_host.name, f"horovod: {self.cluster.builder} builds the wheel")
        if _is_complete(step_host, self.environment.folder):
            return
        if not self.wheel:
            raise RailheadError(f"no Horovod wheel: its build on {self.cluster.builder} failed")
        step_host.send("horovod", pack_file(self.wheel), "~/.railhead/wheels")
        step_host.install_wheel(f"~/.railhead/wheels/{self.wheel.name}")
        self._mark_complete(step_host, "horovod", IMPORTS_HOROVOD)

    def _keep_wheel(self) -> None:
        """Keep the wheel that was installed: in the cache if it was built now, and in the stack's
        bucket if this has none. A failure of the bucket is only reported: the hosts are ready
        without it."""
        if self.wheel is None or not self.plan.needs(self.cluster.builder, "horovod"):
            return
        folder = wheel_store.wheel_folder(self.cluster)
        if self.cluster.wheel is None:
            wheel_store.keep_wheel(self.wheel, folder)
        cached = self.cluster.cached_wheel
        if cached is None or cached.in_bucket is not False:
            return
        try:
            wheel_store.store_wheel(self.cluster.inventory, self.wheel, folder.name)
        except (RailheadError, OSError) as error:
            reason = str(error).splitlines()[0]
            self.board.print_lines(f"the wheel was not kept in {cached.url}: {reason}")

    installers: Mapping[str, Callable[[_Installation, HostStep], None]] = {
        "uv": _install_uv,
        "runtime": _install_runtime,
        "horovod": _install_horovod,
        "bucket": _install_bucket_client,
    }

    def _host_step(self, session: Session) -> HostStep:
        return HostStep(session, self.cluster, self.board)

    def _exchange_keys(self, working: Mapping[str, Session]) -> None:
        """Create a key pair on each leader, where its private key stays; authorize them
        everywhere. Other leaders keep their rights during a run, and if these hosts are only a part
        of their cluster."""
        lines = [self._line_of(leader) for leader in self.cluster.leaders]
        name, facts = self.cluster.inventory.name, self.cluster.facts.values()
        in_progress = any(host.run_processes or host.standbys for host in facts)
        keep = in_progress or self.cluster.inventory.is_part
        everywhere(
            working,
            lambda session: authorize(session, name, lines, keep=keep),
            what="authorizing the chief's key",
        )

    def _line_of(self, leader: Peer) -> str:
        """The line that authorizes the key of a leader, which is created if there is none."""
        public = self.cluster.facts[leader.name].cluster_key
        if public is None:
            session = self.cluster.sessions[leader.name]
            comment = f"railhead:{self.cluster.inventory.name}"
            make = MAKE_KEY.format(key=KEY, comment=comment)
            self._host_step(session).run("key", ["sh", "-c", make])
            public = (session.read(f"{KEY}.pub") or "").strip()
        return leader_line(self.cluster, leader, public)
