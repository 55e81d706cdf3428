"""Makes hosts ready: facts are read, a plan is decided, the plan is applied. The second time
there is nothing to do, and that is said.
"""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bootstrap import facts as fact
from bootstrap import hostfile, record, runtimes
from bootstrap.board import Board
from bootstrap.connect import all_facts, everywhere
from bootstrap.errors import RailheadError, UsageError
from bootstrap.facts import HostFacts
from bootstrap.hostfile import Peer
from bootstrap.inventory import Inventory
from bootstrap.package import Bundle, pack_folder
from bootstrap.plan import MINUTES, Plan, Step
from bootstrap.runtimes import Environment
from bootstrap.session import Reply, Session
from bootstrap.show import clean, size

KEY = "~/.railhead/cluster/key"
IMPORTS = "import tensorflow, horovod.tensorflow as h; assert h.mpi_built()"


@dataclass(frozen=True)
class Options:
    """What a person may choose about making hosts ready."""

    system: bool = False
    requirements: Path | None = None
    peer_addresses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cluster:
    """Hosts whose facts are known: what to make of them, and how they see each other."""

    inventory: Inventory
    facts: Mapping[str, HostFacts]
    environment: Environment
    peers: tuple[Peer, ...]
    wheel: Path | None

    @property
    def chief(self) -> str:
        """The chief's name."""
        return self.inventory.chief.name

    @property
    def builder(self) -> str:
        """The host that builds the Horovod wheel if it has to be built: one that can, if any."""
        able = [name for name, host in self.facts.items() if host.libc_tools]
        return able[0] if able else self.chief


def survey(inventory: Inventory, opened: Mapping[str, Session], options: Options) -> Cluster:
    """Read all facts and settle what follows from them; writes nothing on any host."""
    facts = all_facts(opened)
    _refuse_one_machine_twice(facts)
    python = fact.common_python(facts)
    runtime, why = runtimes.choose_runtime(facts)
    environment = Environment(runtime, python, why)
    if options.requirements:
        extra = runtimes.resolve_extra(runtime, python, options.requirements, uv_here())
        environment = replace(environment, extra=extra)
    peers = see_peers(inventory, facts, opened, options.peer_addresses)
    cluster = Cluster(inventory, facts, environment, peers, None)
    return replace(cluster, wheel=cached_wheel(cluster))


def _refuse_one_machine_twice(facts: Mapping[str, HostFacts]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for name, host in facts.items():
        first = seen.setdefault((host.boot_id, host.home), name)
        if first != name:
            raise UsageError(f"{first} and {name} are one and the same machine; name it once")


def see_peers(
    inventory: Inventory,
    facts: Mapping[str, HostFacts],
    opened: Mapping[str, Session],
    overrides: tuple[str, ...],
) -> tuple[Peer, ...]:
    """How each host goes inside the cluster: as told, else its address on the route to a peer."""
    if overrides and len(overrides) != len(inventory.hosts):
        raise UsageError(
            f"--peer-address has {len(overrides)} addresses for {len(inventory.hosts)} hosts: "
            "one for each, in the hosts' order"
        )
    names = [h.name for h in inventory.hosts]
    peers = []
    for index, host in enumerate(inventory.hosts):
        other = names[1 if index == 0 else 0] if len(names) > 1 else None
        told = overrides[index] if overrides else host.peer_address
        address = told or _routed(
            facts[host.name], facts[other] if other else None, opened[host.name]
        )
        peers.append(_peer(host.name, address, host.slots, facts[host.name], opened[host.name]))
    return tuple(peers)


def _routed(own: HostFacts, other: HostFacts | None, session: Session) -> str:
    """The source address on the route to a peer; the address that we reached it on otherwise."""
    routed = None
    if other and other.inside[0]:
        routed = fact.parse_route(session.sh(fact.route_script(other.inside[0])))
    return routed or own.inside[0]


def _peer(name: str, address: str, slots: int | None, facts: HostFacts, session: Session) -> Peer:
    key = session.host_key
    return Peer(
        name=name,
        address=address,
        port=facts.inside[1],
        user=facts.user,
        slots=slots or len(facts.gpus) or 1,
        host_key=f"{key.get_name()} {key.get_base64()}",
    )


def cached_wheel(cluster: Cluster) -> Path | None:
    """The Horovod wheel for these hosts, if it was built before."""
    found = sorted(_wheel_folder(cluster).glob("horovod-*.whl"))
    return found[0] if found else None


def _wheel_folder(cluster: Cluster) -> Path:
    key = cluster.environment.wheel_key(cluster.facts[cluster.builder])
    return record.cache("wheels") / key


def decide(cluster: Cluster, options: Options) -> Plan:
    """The plan for these hosts. Pure but for the size of the uv binary's lock.

    Raises:
        UsageError: a host needs a system change that was not allowed, or has too little room.
    """
    steps = [step for peer in cluster.peers for step in _steps(cluster, peer.name)]
    plan = Plan(tuple(p.name for p in cluster.peers), tuple(steps), _notes(cluster))
    _refuse_system_changes(cluster, plan, options)
    _refuse_little_room(cluster, plan)
    return plan


def _notes(cluster: Cluster) -> tuple[str, ...]:
    environment = cluster.environment
    return (
        f"runtime {environment.runtime.name} on Python {environment.python}: {environment.why}",
        "inside the cluster: " + ", ".join(f"{p.name} = {p.address}" for p in cluster.peers),
    )


def _steps(cluster: Cluster, name: str) -> list[Step]:
    facts, environment = cluster.facts[name], cluster.environment
    runtime_missing = environment.digest not in facts.envs
    steps = []
    if parts := _missing(cluster, name):
        packages = " ".join(sorted(set(parts.values())))
        steps.append(Step(name, "system", f"{', '.join(parts)} missing: apt {packages}", MINUTES))
    if runtime_missing and uv_digest() not in facts.uvs:
        steps.append(Step(name, "uv", "the installer is not there; goes through this channel"))
    if runtime_missing:
        why = f"environment {environment.digest} is not there"
        steps.append(Step(name, "runtime", why, MINUTES, environment.megabytes))
        steps.append(_horovod_step(cluster, name))
    if not _let_in(cluster, name):
        steps.append(Step(name, "key", "the chief cannot start ranks here yet"))
    return steps


def _horovod_step(cluster: Cluster, name: str) -> Step:
    if cluster.wheel:
        return Step(name, "horovod", f"install the wheel built before ({cluster.wheel.name})")
    if name == cluster.builder:
        return Step(name, "horovod", "no wheel for this system yet: built here, once", MINUTES)
    return Step(name, "horovod", f"install the wheel that {cluster.builder} builds")


def _missing(cluster: Cluster, name: str) -> dict[str, str]:
    needs_wheel = any(cluster.environment.digest not in f.envs for f in cluster.facts.values())
    builds = needs_wheel and not cluster.wheel and name == cluster.builder
    facts = cluster.facts[name]
    return runtimes.missing_parts(facts, chief=name == cluster.chief, builds=builds)


def _let_in(cluster: Cluster, name: str) -> bool:
    public = cluster.facts[cluster.chief].cluster_key
    return public is not None and _line(cluster, public) in cluster.facts[name].authorized


def _line(cluster: Cluster, public: str) -> str:
    return hostfile.authorized_line(public, cluster.peers[0].address, cluster.inventory.name)


def _refuse_system_changes(cluster: Cluster, plan: Plan, options: Options) -> None:
    steps = [step for step in plan.steps if step.name == "system"]
    if not steps:
        return
    told = "\n".join(f"  [{step.host}] {step.why}" for step in steps)
    if not options.system and cluster.inventory.cloud in ("hosts", "local"):
        raise UsageError(
            f"system changes are needed, and these machines were only named:\n{told}",
            hint="add --system to allow them, or install the packages on the hosts yourself",
        )
    for step in steps:
        facts = cluster.facts[step.host]
        if not facts.sudo or not facts.apt:
            lack = "sudo without a password" if facts.apt else "apt-get"
            raise UsageError(
                f"system changes are needed and {step.host} has no {lack}:\n{told}",
                hint=f"ssh {step.host}, then as root: apt-get install {step.why.split('apt ')[-1]}",
            )


def _refuse_little_room(cluster: Cluster, plan: Plan) -> None:
    """A runtime takes on disk five times what it fetches: wheels, files, the cache."""
    short = []
    for step in plan.steps:
        need, free = step.fetches * 5 * 1_000_000, cluster.facts[step.host].disk_free
        if free < need:
            short.append(f"  [{step.host}] {step.name} needs {size(need)}, {size(free)} are free")
    if short:
        raise UsageError("disk full: too little room on the hosts' home\n" + "\n".join(short))


def apply(cluster: Cluster, plan: Plan, opened: Mapping[str, Session], board: Board) -> Cluster:
    """Carry the plan out, all hosts at once; returns the cluster with what is now there."""
    for name, session in opened.items():
        if plan.of(name):
            session.start_agent(cluster.facts[name].pythons[cluster.environment.python])
    _Work(cluster, plan, opened, board).go()
    return cluster


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
        busy = {n: s for n, s in self.opened.items() if self.plan.of(n)}
        everywhere(busy, self._install, what="making hosts ready")
        if any(self.plan.needs(name, "key") for name in busy):
            self._exchange_keys(busy)

    def _install(self, session: Session) -> None:
        name = session.host.name
        try:
            for step in self.plan.of(name):
                self.board.line(name, f"{step.name}: {step.why}")
                if step.name in self.doing:
                    self.doing[step.name](self, session)
            self.board.line(name, "ready", state="ready")
        except RailheadError:
            self.board.line(name, "failed", state="failed")
            raise
        finally:
            if name == self.cluster.builder:
                self.built.set()

    def _system(self, session: Session) -> None:
        name = session.host.name
        packages = sorted(set(_missing(self.cluster, name).values()))
        apt = "apt-get -o DPkg::Lock::Timeout=600"
        install = f"{apt} install -y --no-install-recommends {shlex.join(packages)}"
        root = [] if self.cluster.facts[name].root else ["sudo", "-n"]
        script = f"export DEBIAN_FRONTEND=noninteractive; {apt} update && {install}"
        self._run(session, "system", [*root, "sh", "-c", script])

    def _uv(self, session: Session) -> None:
        session.send_tree(uv_for_hosts(), f"~/.railhead/uv/{uv_digest()}")

    def _runtime(self, session: Session) -> None:
        folder, python = self.environment.folder, self.environment.python
        facts = self.cluster.facts[session.host.name]
        locks = [f"{folder}.lock.txt"]
        texts = [self.environment.runtime.lock.read_text()]
        if self.environment.extra:
            locks, texts = [*locks, f"{folder}.extra.txt"], [*texts, self.environment.extra]
        session.ask("write", files=[[p, 0o644, t] for p, t in zip(locks, texts, strict=True)])
        uv = f"~/.railhead/uv/{uv_digest()}/uv"
        venv = [uv, "venv", "--quiet", "--allow-existing", "--python", facts.pythons[python]]
        self._run(session, "runtime", [*venv, folder], env=UV_ENVIRONMENT)
        # sync, because a lock is complete: tf_keras asks for the TensorFlow that we keep out.
        words = [uv, "pip", "sync", "--require-hashes", "--python", f"{folder}/bin/python"]
        self._run(session, "runtime", [*words, *locks], env=UV_ENVIRONMENT, fetches=True)

    def _horovod(self, session: Session) -> None:
        if session.host.name == self.cluster.builder and not self.wheel:
            self.wheel = self._build(session)
            self.built.set()
        while not self.built.wait(timeout=1):
            self.board.line(session.host.name, f"horovod: {self.cluster.builder} builds the wheel")
        if not self.wheel:
            raise RailheadError(f"no Horovod wheel: its build on {self.cluster.builder} failed")
        folder = self.environment.folder
        session.send_tree(one_file(self.wheel), "~/.railhead/wheels", prune=False)
        words = [f"~/.railhead/uv/{uv_digest()}/uv", "pip", "install", "--no-deps", "--python"]
        words += [f"{folder}/bin/python", f"~/.railhead/wheels/{self.wheel.name}"]
        self._run(session, "horovod", words, env=UV_ENVIRONMENT)
        self._run(session, "horovod", [f"{folder}/bin/python", "-c", IMPORTS])
        session.ask("write", files=[[f"{folder}/.ok", 0o644, self.environment.digest + "\n"]])

    def _build(self, session: Session) -> Path:
        lock = (runtimes.LOCKS / "horovod.txt").read_text()
        files = [["~/.railhead/build/horovod.sh", 0o755, runtimes.BUILD_HOROVOD.read_text()]]
        session.ask("write", files=[*files, ["~/.railhead/build/horovod.txt", 0o644, lock]])
        words = ["sh", "~/.railhead/build/horovod.sh", self.environment.folder]
        words += ["~/.railhead/build/out", "~/.railhead/build/horovod.txt"]
        self._run(session, "horovod", words)
        folder = _wheel_folder(self.cluster)
        folder.mkdir(parents=True, exist_ok=True)
        packed = folder / "wheel.tar.gz"
        session.get("~/.railhead/build/out", ["horovod-*.whl"], packed, limit=1 << 30)
        with tarfile.open(packed) as tar:
            tar.extractall(folder, filter="data")
        packed.unlink()
        session.ask("remove", paths=["~/.railhead/build"])
        wheel = cached_wheel(self.cluster)
        assert wheel is not None, "the build ended well and left no wheel"
        return wheel

    doing: Mapping[str, Callable[[_Work, Session], None]] = {
        "system": _system,
        "uv": _uv,
        "runtime": _runtime,
        "horovod": _horovod,
    }

    def _run(self, session: Session, step: str, argv: list[str], **options: Any) -> Reply:
        name = session.host.name

        def told(event: Mapping[str, Any]) -> None:
            if "grown" in event:
                about = f" of about {self.environment.megabytes} MB fetched and unpacked"
                self.board.line(name, f"{step}: {size(event['grown'])} on disk,{about}")
            elif event.get("line"):
                self.board.line(name, f"{step}: {clean(event['line'])}")

        reply = session.run(argv, told=told, **options)
        if reply.rc:
            tail = "\n".join(clean(line) for line in reply.tail[-8:])
            raise RailheadError(f"{step}: {Path(argv[0]).name} ended with {reply.rc}\n{tail}")
        return reply

    def _exchange_keys(self, busy: Mapping[str, Session]) -> None:
        """A key pair made on the chief: its private half never leaves it."""
        chief = self.opened[self.cluster.chief]
        public = self.cluster.facts[self.cluster.chief].cluster_key
        if public is None:
            comment = f"railhead:{self.cluster.inventory.name}"
            make = f"ssh-keygen -q -t ed25519 -N '' -C {comment} -f {KEY}"
            folder = "mkdir -p -m 700 ~/.railhead/cluster"
            self._run(chief, "key", ["sh", "-c", f"{folder} && {make}"])
            public = chief.ask("read", paths=[f"{KEY}.pub"])[f"{KEY}.pub"].strip()
        line = _line(self.cluster, public)
        everywhere(busy, lambda session: authorize(session, [line]), what="letting the chief in")


def authorize(session: Session, lines: list[str]) -> None:
    """Make exactly `lines` the ones of ours in authorized_keys; the user's own stay as they are."""
    path = "~/.ssh/authorized_keys"
    text = session.ask("read", paths=[path])[path] or ""
    kept = [line for line in text.splitlines() if " railhead:" not in line]
    wanted = "".join(f"{line}\n" for line in [*kept, *lines])
    if wanted != text:
        session.ask("write", files=[[path, 0o600, wanted]])


UV_ENVIRONMENT = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_CONFIG": "1", "NO_COLOR": "1"}


def uv_here() -> str:
    """The uv of the control environment."""
    return str(Path(sys.executable).parent / "uv")


def uv_digest() -> str:
    """Names the uv binary on a host."""
    return hashlib.sha256((runtimes.LOCKS / "uv.txt").read_bytes()).hexdigest()[:16]


def uv_for_hosts() -> Bundle:
    """The uv binary for Linux on x86_64, whatever this machine is; fetched once, by hash."""
    with _FETCHING_UV:
        return _uv_for_hosts()


_FETCHING_UV = threading.Lock()


def _uv_for_hosts() -> Bundle:
    folder = record.cache("uv-for-hosts") / uv_digest()
    if not (folder / "uv").exists():
        part = folder.with_name(f"{folder.name}.part")
        argv = [uv_here(), "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        argv += ["--python-platform", "x86_64-manylinux_2_28", "--no-config"]
        argv += ["--target", str(part), "-r", str(runtimes.LOCKS / "uv.txt")]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode:
            raise RailheadError(f"uv for the hosts could not be fetched:\n{done.stderr.strip()}")
        folder.mkdir(parents=True, exist_ok=True)
        (part / "bin" / "uv").replace(folder / "uv")
    return pack_folder(folder)


def one_file(path: Path) -> Bundle:
    """A bundle of one file."""
    whole = pack_folder(path.parent)
    return Bundle(whole.root, tuple(f for f in whole.files if f.path == path.name))
