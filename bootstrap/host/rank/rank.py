"""One rank: mpirun starts this module on every slot; it runs the user's program in the same
process.

The program's folder is first on sys.path, without our modules. Arguments, working directory and
`__main__` are the same as with `python train.py ...`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import importlib.machinery
import importlib.util
import json
import os
import re
import runpy
import select
import signal
import sys
import time
import traceback
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from railhead.documents.codec import encode
from railhead.documents.lazy import replace
from railhead.documents.runs.run import BuiltIn, RunDocument, Script
from railhead.keras_patches import patch

from ..attempts import cgroups
from ..base import json_file, programs
from ..output.kept_output import KeptOutput
from ..output.mpirun_output import ALIVE, ENDED, FRAME, STEPPED, framed, stamp
from ..stall import counter, dump
from . import groups, keras_2, quick_import, rank_launcher, rank_link, stand_in

if TYPE_CHECKING:
    from ..energy.sampler import Sampler
    from . import spare_start

BEAT = 5.0  # seconds between two heartbeats
LINGER = 2.0  # seconds to forward the last output after the rank has ended
GRACE = 5.0  # seconds between TERM and KILL, for a rank whose launcher has gone
STEPS = 1.0  # seconds between two STEPPED
MEASURED = 60.0  # seconds between two records of the energy so far
KEPT: list[KeptOutput] = []  # in a helper: also keeps everything that it sends
GONE = b'@railhead {"kind": "gone"}\n'  # the process has ended, even if it could not report that


def main(folder: str) -> int:
    """Run the program of the run in `folder` as one rank; returns the exit code that Python would
    return."""
    run = json_file.read(os.path.join(folder, "run.json"), RunDocument)
    code = stand_in.outcome(run, int(os.environ["OMPI_COMM_WORLD_RANK"]))
    return be_rank(run, folder, os.getppid(), Imports(run)) if code is None else code


def be_rank(run: RunDocument, folder: str, orted: int, imports: Imports) -> int:
    """Be a rank; returns its exit code. `imports`: how the program's imports are changed."""
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    cgroups.note_start(folder, rank)
    chief = run.role_of(rank) == "chief"  # the others end when it has ended
    host = run.host_of(rank)
    check = link_check(run, folder, orted) if host else None
    imports.begin(run)
    first = os.environ["OMPI_COMM_WORLD_LOCAL_RANK"] == "0"
    spare = None
    if first and run.retries:
        from . import spare_start

        spare = spare_start.SpareStart(run, folder, host, imports.steps)
    kept = None if host else KeptOutput(folder, rank)
    heartbeat = Heartbeat(check, imports.steps, spare, measures=first)
    redirect_output(GONE if chief else b"", heartbeat, kept)
    dump.register()
    counter.provide(imports.steps.tick)
    set_environment(run, rank, folder)
    if os.geteuid() == 0:
        from ..run import ports

        ports.close(run, orted)
    if run.tf_cluster:
        from . import listen_address

        listen_address.install(run, rank)
    imports.at_end.append(lambda: good_end(chief))
    code = outcome(lambda: prepare_data(run, rank, folder)) or run_program(run, folder, imports)
    if code:
        imports.at_end.clear()
        report_end(code)
    return code


def good_end(chief: bool) -> None:
    """Report that a rank ended without an error, if others wait for it."""
    if chief or "horovod" in sys.modules:
        report_end(0)


class Imports:
    """Changes the imports of a program, and notes what they show. The spare of a host imports
    before its rank is known: `begin` sets the rank."""

    def __init__(self, run: RunDocument) -> None:
        self.run, self.steps, self.group = run, counter.Counter(), groups.Group(run)
        self.are_watched = self.is_rank = False
        self.lines: list[str] = []  # lines that rank 0 prints before its program starts
        self.at_end: list[Callable[[], None]] = []
        # Registered before any import of the program, so it runs after the handlers of these
        # imports.
        atexit.register(lambda: [call() for call in self.at_end])

    def begin(self, run: RunDocument) -> None:
        """From now on this process is a rank of this run."""
        self.run, self.is_rank = run, True
        self.steps.renew()
        self.group.begin(run)

    def watch(self, place: str = "", changed: Callable[[], None] = lambda: None) -> None:
        """From now on, change the imports; `place`, `changed`: as in quick_import."""
        run, self.are_watched = self.run, True
        quick_import.install(self.note, place, changed)
        if not isinstance(run.program, Script):
            return
        if run.keras == 2:
            keras_2.install()
        elif run.keras_patches:
            patch.install(patches_of(run), self.say, also_unknown=not run.keras_auto)
        if run.keras_patches:
            counter.count_steps_of_keras(self.steps.tick)
        self.group.watch(steps=run.keras_patches)
        counter.count_allreduces(self.steps.tick)

    def note(self, name: str) -> None:
        """Note that a large package is imported."""
        self.steps.note(quick_import.LARGE.index(name))

    def say(self, line: str) -> None:
        """Print a line about the run, as soon as the rank of this process is known."""
        self.lines.append(line)
        if self.is_rank:
            self.print_lines()

    def print_lines(self) -> None:
        """Print the lines so far, on rank 0 only."""
        while self.lines:
            line = self.lines.pop(0)
            if os.environ["RAILHEAD_RANK"] == "0":
                print(line, flush=True)


def run_program(run: RunDocument, folder: str, imports: Imports) -> int:
    """Run the built-in training or evaluation, or the script; returns the exit code."""
    program, work = run.program, os.path.join(folder, "work")
    rank = int(os.environ["RAILHEAD_RANK"])
    if not imports.are_watched:
        none = functools.partial(stand_in.let_be_none, folder, run.host_of(rank))
        imports.watch(first_path(program, work), none)
    imports.print_lines()
    if not isinstance(program, Script):
        programs.leave()
        return outcome(lambda: run_training(work))
    args = arguments_of(program, folder)
    rank_launcher.use_peer_address(run, rank)
    programs.leave()
    start, name = (run_module, program.module) if program.module else (run_script, program.path)
    code = outcome(lambda: start(work, name, args))
    if code == 0 and (alone := imports.group.alone_at_end()):
        print(alone, file=sys.stderr, flush=True)
        return 1
    return code or outcome(lambda: rank_launcher.leave_together(run))


def first_path(program: BuiltIn | Script, work: str) -> str:
    """Where the program finds its own modules: the first entry of sys.path."""
    if isinstance(program, Script) and not program.module:
        return os.path.dirname(os.path.join(work, program.path))
    return work


def arguments_of(program: Script, folder: str) -> tuple[str, ...]:
    """The arguments of the script."""
    if not program.sagemaker:
        return program.args
    from . import rank_sagemaker

    return rank_sagemaker.arguments(program, folder)


def patches_of(run: RunDocument) -> tuple[patch.Patch, ...]:
    """The patches of Keras that a script may need."""
    if run.keras == 2 or not run.keras_patches:
        return ()
    from railhead.keras_patches import rows

    return rows.patches_for(run.strategy)


def redirect_output(last_line: bytes, heartbeat: Heartbeat, kept: KeptOutput | None = None) -> None:
    """Send the output of this process and its children through a helper that marks line ends.

    The helper also sends heartbeats, which do not depend on what this process does. When this
    process has ended, for any reason, it adds `last_line`. It also writes the output to `kept`.

    mpirun receives frames (see mpirun_output). The helper is not in a process group that mpirun
    kills, so it still forwards the last output of a killed rank. It is not a child of this process,
    because a script may wait for all its children. If nobody reads its output any more, the
    launcher has left this rank (Open MPI 5 does this), and the helper ends the rank.
    """
    rank = os.getpid()
    source, sink = os.pipe()
    if child := os.fork():
        os.waitpid(child, 0)
        os.close(source)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os.close(sink)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            os.close(sink)
            KEPT[:] = [kept] if kept else []
            signal.signal(signal.SIGTERM, lambda *_: None)  # it ends when its rank has ended
            heartbeat.begin()
            try:
                forward_output(source, rank, heartbeat)
                wait_for_end(rank, heartbeat)
                if heartbeat.sampler:
                    send(encoded(heartbeat.sampler.end()))
                send(encoded(last_line) + ENDED)
            except OSError:
                end_left(rank, functools.partial(keep_output, source))
    finally:
        os._exit(0)


class Heartbeat:
    """Sends ALIVE, at most every BEAT seconds, and calls `check` each time. Sends STEPPED, at most
    every STEPS seconds, if `steps` has counted. Between two lines it sends the energy of this host
    so far, at most every MEASURED seconds, if it `measures`, and the line of `spare`."""

    def __init__(
        self,
        check: Callable[[], None] | None = None,
        steps: counter.Counter | None = None,
        spare: spare_start.SpareStart | None = None,
        *,
        measures: bool = False,
    ) -> None:
        self.due, self.check, self.spare = 0.0, check, spare
        self.steps, self.count, self.steps_due = steps, 0, 0.0
        self.measures, self.energy_due = measures, time.monotonic() + MEASURED
        self.sampler: Sampler | None = None

    def begin(self) -> None:
        """Called in the helper: start the process that measures the energy."""
        if self.measures:
            from ..energy.sampler import Sampler  # loaded only on one rank of each host

            with contextlib.suppress(OSError):  # it cannot be started
                self.sampler = Sampler()

    def beat(self, *, in_line: bool = False) -> None:
        """Send what is due; `in_line`: the rank has begun a line."""
        if self.sampler and not in_line and time.monotonic() >= self.energy_due:
            self.energy_due = time.monotonic() + MEASURED
            send(encoded(self.sampler.record()))
        if self.spare and not in_line and (line := self.spare.look()):
            send(encoded(line))
        if self.steps and self.steps.count != self.count and time.monotonic() >= self.steps_due:
            self.count, self.steps_due = self.steps.count, time.monotonic() + STEPS
            send(STEPPED)
        if time.monotonic() >= self.due:
            self.due = time.monotonic() + BEAT
            send(ALIVE)
            if self.check:
                self.check()


def link_check(run: RunDocument, folder: str, orted: int) -> Callable[[], None]:
    """A check, called every BEAT seconds, that ends the run on this host if the chief is cut
    off."""
    link = rank_link.Link(orted)

    def check() -> None:
        if link.is_cut(BEAT):
            rank_link.end_run_here(folder, run.run_id)

    return check


def keep(data: bytes) -> None:
    """Keep output of the rank, in a form that mpirun_output.py expects."""
    for kept in KEPT:
        kept.add(data)


def send(data: bytes) -> None:
    """Write all data to mpirun; OSError if nobody reads it any more."""
    keep(data)
    rest = memoryview(framed(data))
    while rest:
        rest = rest[os.write(1, rest[:FRAME]) :]


def keep_output(source: int) -> None:
    """Keep output of a rank that nobody reads any more, at most 1 MB of it."""
    for _ in range(16):
        ready, _, _ = select.select([source], [], [], 0)
        data = os.read(source, 1 << 16) if ready else b""
        if data:
            keep(stamp() + encoded(data))


def end_left(pid: int, look: Callable[[], None]) -> None:
    """End a rank whose launcher has gone, with its process group; `look` is called meanwhile."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            leads_group = os.getpgid(pid) == pid
            (os.killpg if leads_group else os.kill)(pid, number)
        until = time.monotonic() + GRACE
        while not is_gone(pid) and time.monotonic() < until:
            look()
            time.sleep(0.05)
    look()


def forward_output(source: int, rank: int, heartbeat: Heartbeat) -> None:
    """Forward output until all writers have ended, or until LINGER seconds after the rank's end.
    Without LINGER, a background process of the rank would keep mpirun, and so the run, alive."""
    last, in_line = None, False
    while last is None or time.monotonic() < last:
        heartbeat.beat(in_line=in_line)
        ready, _, _ = select.select([source], [], [], 0.5)
        data = os.read(source, 1 << 16) if ready else None
        if data == b"" or (last and not data):
            return
        if data:
            send(stamp() + encoded(data))
            in_line = not data.endswith(b"\n")
        if last is None and is_gone(rank):
            last = time.monotonic() + LINGER


def wait_for_end(pid: int, heartbeat: Heartbeat) -> None:
    """Wait until a process has ended; it may have closed its output long before."""
    while not is_gone(pid):
        heartbeat.beat()
        time.sleep(0.05)


def encoded(data: bytes) -> bytes:
    """Output as mpirun_output.py expects it: line ends as END, and GUARD after each "]". The four
    separators of ASCII, STEPPED and STAMP are removed from it, so a program cannot send a
    heartbeat."""
    plain = re.sub(b"[\x19\x1a\x1c-\x1f]", b"?", data)
    return plain.replace(b"\n", b"\x1e").replace(b"]", b"]\x1f")


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie counts as ended."""
    return programs.state_of(pid) in (b"", b"Z", b"X")


def set_environment(run: RunDocument, rank: int, folder: str) -> None:
    """Set all variables for the program; docs/own-script.md lists them."""
    host = run.hosts[run.host_of(rank)]
    os.environ.pop("RAILHEAD_KEY_AGENT", None)
    os.environ.update(run.env)
    if run.secrets:
        secrets = os.path.join(folder, "memory", f"secrets-{rank}.json")  # a file for each rank
        os.environ.update(json_file.take(secrets))
    os.environ.update(
        RAILHEAD_RUN_FILE=os.path.join(folder, "run.json"),
        RAILHEAD_RESULTS=os.path.join(folder, "results"),
        RAILHEAD_CHECKPOINT_DIR=os.path.join(folder, "checkpoints"),
        RAILHEAD_RESUME="required" if run.resumes else "auto",
        RAILHEAD_RANK=str(rank),
        RAILHEAD_LOCAL_RANK=os.environ["OMPI_COMM_WORLD_LOCAL_RANK"],
        RAILHEAD_SIZE=str(run.size),
        RAILHEAD_HOST=host.name,
    )
    if device := host.interface:
        # The interface that mpirun uses. "=": NCCL takes exactly this name, not a prefix.
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={device}")
    if run.roles:
        config = {"cluster": run.tf_cluster, "task": run.roles[rank]}
        os.environ["TF_CONFIG"] = json.dumps(encode(config))
        if (devices := visible_devices(run, rank)) is not None:
            os.environ.setdefault("CUDA_VISIBLE_DEVICES", devices)
    os.environ.update(rank_launcher.variables(run, rank))
    if run.tf_cluster or run.launcher == "jax":
        os.environ.update(no_grpc_proxy=rank_launcher.without_proxy(run, os.environ))
    set_for_imports(run)


def set_for_imports(run: RunDocument) -> None:
    """Set the variables that TensorFlow and Keras read when they are imported."""
    # Keras writes into our folder, which --purge removes; a user's own settings stay in use.
    home = os.path.expanduser("~")
    if not os.path.isdir(os.path.join(home, ".keras")):
        os.environ.setdefault("KERAS_HOME", os.path.join(home, ".railhead", "keras"))
    # Hide TensorFlow's INFO lines; in the built-in training also its warnings.
    if isinstance(run.program, Script):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    else:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        os.environ["KERAS_BACKEND"] = "tensorflow"  # as the training does
    if run.keras == 2:
        os.environ["TF_USE_LEGACY_KERAS"] = "1"


def prepare_data(run: RunDocument, rank: int, folder: str) -> None:
    """Make the data of the run available to this rank, and set the variables with its paths."""
    program = run.program
    if not run.data and not (isinstance(program, Script) and program.sagemaker):
        return
    from . import rank_data, rank_sagemaker

    host = run.host_of(rank)
    place = rank_data.RankPlace(folder, *parts_of(run, rank), (host, len(run.hosts)))
    data = rank_data.prepare(run, place)
    os.environ.update(data)
    if isinstance(program, Script) and program.sagemaker:
        channels = {item.name: data[f"RAILHEAD_DATA_{item.name.upper()}"] for item in run.data}
        program = replace(program, args=arguments_of(program, folder))
        os.environ.update(rank_sagemaker.variables(run, program, place, channels))


def parts_of(run: RunDocument, rank: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(number, count) of a rank among all ranks that share data, and among those of its host. If
    ranks have roles, the workers share the data: a chief and a parameter server see the first
    part."""
    sharing = [r for r in range(run.size) if run.role_of(r) == "worker"]
    on_host = [r for r in sharing if run.host_of(r) == run.host_of(rank)]

    def place_in(ranks: list[int]) -> tuple[int, int]:
        return ranks.index(rank) if rank in ranks else 0, len(ranks)

    return place_in(sharing), place_in(on_host)


def visible_devices(run: RunDocument, rank: int) -> str | None:
    """CUDA_VISIBLE_DEVICES: none for a chief and a parameter server, one for a worker that shares
    its host with other workers; None for all of the host."""
    if run.role_of(rank) != "worker":
        return "-1"
    number, count = parts_of(run, rank)[1]
    return str(number) if count > 1 else None


def run_training(work: str) -> None:
    """Run the built-in training, as `python -m training` would."""
    sys.path.insert(0, work)
    sys.argv = ["training"]
    runpy.run_module("training", run_name="__main__", alter_sys=True)


def run_module(work: str, name: str, args: Sequence[str]) -> None:
    """Run a module as `python -m` would, with relative imports; a package by its `__main__`."""
    sys.path.insert(0, work)
    spec = importlib.util.find_spec(name)
    if spec and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
        raise ImportError(f"No module named {name}")
    code = spec.loader.get_code(spec.name)
    module = types.ModuleType("__main__")
    module.__file__, module.__loader__, module.__spec__ = spec.origin, spec.loader, spec
    module.__package__ = spec.parent
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"], sys.argv = module, [str(spec.origin), *args]
    assert code
    exec(code, module.__dict__)


def run_script(work: str, path: str, args: Sequence[str]) -> None:
    """Run the script as a new `__main__` module, so that its definitions can be pickled."""
    script = os.path.join(work, path)
    sys.path.insert(0, os.path.dirname(script))
    sys.argv = [path, *args]
    module = types.ModuleType("__main__")
    module.__file__ = script
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", script)
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec", dont_inherit=True)
    exec(code, module.__dict__)


def outcome(program: Callable[[], None]) -> int:
    """Run the program; returns the exit code, and prints what Python would print at its end."""
    try:
        program()
    except SystemExit as end:
        return exit_code(end.code)
    except BaseException as error:
        print_traceback(error)
        return 1
    return 0


def exit_code(code: Any) -> int:
    """The exit code of sys.exit(code); a text is printed and means 1."""
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1


def print_traceback(error: BaseException) -> None:
    """Print the program's traceback without our own frames above it."""
    trace = error.__traceback__
    while trace and is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    if sys.excepthook is sys.__excepthook__:
        traceback.print_exception(type(error), error, trace)
    else:
        sys.excepthook(type(error), error, trace)


def is_ours(file: str) -> bool:
    """Whether a file, as named in bytecode, belongs to the code that starts the program."""
    return file in (is_ours.__code__.co_filename, runpy.__file__, "<frozen runpy>")


def report_end(code: int) -> None:
    """Report this rank's end to the supervisor: mpirun does not always name the first failure."""
    with contextlib.suppress(Exception):  # the program may have closed or replaced stdout
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        os.write(1, b'@railhead {"kind": "ended", "exit": %d}\n' % code)
