"""A rank runs a script as `python script` would, in one process with what we prepared."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hosts.ranks import beating_rank, lay_out, rank, script, started
from standins.runs.run_documents import run_document, run_json

from bootstrap.console.wait import wait_until
from bootstrap.host.base.programs import NAME
from bootstrap.host.output.mpirun_output import ALIVE, ENDED, FRAME, NOT_TEXT, STAMPS, framed
from bootstrap.host.rank import rank as rank_module
from bootstrap.runs.start import rank_starter
from railhead.documents.codec import decode
from railhead.documents.runs.run import BuiltIn, RunDocument, Runtime, Script

RECORD = "@railhead "


def test_variables_of_a_run_are_set_before_its_python_starts(tmp_path: Path) -> None:
    """PYTHONPATH, LD_PRELOAD and others count only then."""
    values = {"PYTHONPATH": "src", "PYTHONHASHSEED": "0", "LD_PRELOAD": "", "A": "it's $HOME"}
    document = run_document(run_id="r", runtime=Runtime("r", "d"), env=values)
    folder = tmp_path / ".railhead/runs/r"
    (folder / "work").mkdir(parents=True)
    python = tmp_path / ".railhead/envs/d/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    look = "import json, os, sys; print(json.dumps([sys.path, sys.flags.hash_randomization,"
    look += "os.getcwd(), open('/proc/self/environ').read().split(chr(0))]))"
    (folder / NAME).write_text(look)
    (folder / "rank.sh").write_text(rank_starter(document))
    for_another_python = {"PYTHONHOME": "/opt/conda"}  # of the host's ~/.bashrc
    done = started(["sh", str(folder / "rank.sh")], tmp_path, for_another_python)
    path, random, cwd, environment = json.loads(done.stdout)
    assert {f"{name}={value}" for name, value in values.items()} <= {*environment}
    assert str(folder / "work/src") in path and cwd == str(folder / "work") and not random


POOL = """
import multiprocessing, pickle
class Thing:
    def __init__(self, x): self.x = x
def double(thing): return Thing(thing.x * 2)
if __name__ == "__main__":
    with multiprocessing.get_context("{how}").Pool(2) as pool:
        print([t.x for t in pool.map(double, [Thing(1), Thing(2)])])
    print(type(pickle.loads(pickle.dumps(Thing(1)))), Thing.__module__)
"""

# Of a module that is run, not imported; the value is None or empty.
UNSEEN = ("__cached__", "__annotations__")

SCRIPTS = {
    "what it is": "import sys; print(__name__, __file__, sys.argv, __doc__, __spec__, __package__)",
    "where it is": "import os, sys; print(os.getcwd(), sys.path[0], len(sys.path))",
    "what is defined": f"print(sorted(x for x in globals() if x not in {UNSEEN}))",
    "main is itself": "import __main__; x = 1; print(__main__.x, vars(__main__) is globals())",
    "a neighbour": "import beside; print(beside.WHO, beside.__name__)",
    "its folder is not work": "import above",
    "names of our packages": "import bootstrap, host, railhead\n"
    "print(bootstrap.WHO, railhead.WHO, host.WHO)",
    "no future of ours": "def f(x: undefined_name): ...",
    "its own future": "from __future__ import annotations\ndef f(x: anything): ...\nprint('ok')",
    "exit": "import sys; sys.exit(7)",
    "exit without code": "import sys; sys.exit()",
    "exit true": "import sys; sys.exit(True)",
    "exit beyond a byte": "import sys; sys.exit(-1)",
    "exit 256": "import sys; sys.exit(256)",
    "exit with a text": "import sys; sys.exit('no data here')",
    "exit with a tuple": "raise SystemExit((1, 'a'))",
    "os._exit": "import os; print('printed', flush=True); os._exit(9)",
    "a killed one": "import os; os.kill(os.getpid(), 9)",
    "an error": "def f():\n    raise ValueError('wrong')\nf()",
    "an error with a cause": "try: 1 / 0\nexcept Exception as e: raise KeyError(1) from e",
    "an error while handling": "try:\n    1 / 0\nexcept Exception:\n    {}['x']",
    "an error in a neighbour": "import beside; beside.fail()",
    "a syntax error": "print('never')\nif True\n    pass\n",
    "a syntax error in a neighbour": "import broken",
    "a wrong indent": "def f():\npass\n",
    "another encoding": "# -*- coding: latin-1 -*-\nprint(ascii('\u00e9'))",
    "a mark at its begin": "\ufeffprint('ok')",
    "its own excepthook": "import sys; sys.excepthook = lambda *a: print('mine', a[0]); 1 / 0",
    "at exit": "import atexit; atexit.register(print, 'bye'); print('hello')",
    "a thread that continues": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()",
    "inspect": "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))",
    "a dataclass": "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int\nprint(A(1))",
    "a warning": "import warnings; warnings.warn('careful')",
    "spawn": POOL.replace("{how}", "spawn"),
    "fork": POOL.replace("{how}", "fork"),
    "forkserver": POOL.replace("{how}", "forkserver"),
}


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_cannot_report_the_difference(tmp_path: Path, text: str) -> None:
    program = script(tmp_path, text, "models/train.py", "--epochs", "3")
    (tmp_path / "work" / "models" / "beside.py").write_text(
        "WHO = 'beside'\ndef fail():\n    raise OSError(WHO)\n"
    )
    for name in ("bootstrap", "railhead", "host"):
        (tmp_path / "work" / "models" / f"{name}.py").write_text(f"WHO = 'my {name}'\n")
    (tmp_path / "work" / "models" / "broken.py").write_text("x = (\n")
    (tmp_path / "work" / "above.py").write_text("")
    lay_out(tmp_path, program)
    ours = rank(tmp_path)
    path = tmp_path / "work" / "models" / "train.py"
    theirs = started([sys.executable, str(path), "--epochs", "3"], tmp_path / "work")
    lines = [line for line in ours.stdout.splitlines() if not line.startswith(RECORD)]
    expected = theirs.stdout.replace(f"['{path}'", "['models/train.py'").splitlines()
    assert (ours.returncode, without_marks(lines)) == (theirs.returncode, without_marks(expected))


@pytest.mark.parametrize("launcher", ["jax", "torch"])
def test_a_script_of_launchers_with_a_coordinator_ends_well(tmp_path: Path, launcher: str) -> None:
    """What waits for the other ranks comes after the script, where our modules cannot be imported:
    with torch, each run failed at its very end."""
    program = script(tmp_path, "print('ok')")
    lay_out(tmp_path, program, launcher=launcher, coordinator="127.0.0.1:1")
    done = rank(tmp_path)
    lines = [line for line in done.stdout.splitlines() if not line.startswith(RECORD)]
    assert (done.returncode, lines) == (0, ["ok"])


def without_marks(lines: list[str]) -> list[str]:
    """Lines but those that underline code: Python itself marks files and texts differently."""
    return [line for line in lines if not line or line.strip("^~ ")]


ENDINGS = {
    "well": ("print('ok')", None),
    "an error": ("1 / 0", 1),
    "a code": ("raise SystemExit(5)", 5),
    "a code that is 0 to the system": ("raise SystemExit(256)", None),
    "its output closed": ("import sys; sys.stdout.close(); sys.exit(4)", 4),
}


@pytest.mark.parametrize("text, output", ENDINGS.values(), ids=ENDINGS)
def test_a_rank_reports_that_it_fails(tmp_path: Path, text: str, output: int | None) -> None:
    lay_out(tmp_path, script(tmp_path, text))
    ended = rank(tmp_path)
    records = [x.split(RECORD)[1] for x in ended.stdout.splitlines() if RECORD in x]
    assert [json.loads(x) for x in records] == (
        [{"kind": "ended", "exit": output}] if output else []
    )
    assert ended.returncode == (output or 0)


CHIEF = [{"type": "chief", "index": 0}, {"type": "worker", "index": 0}]


def test_a_chief_reports_its_good_end_after_its_threads_and_exit_handlers(tmp_path: Path) -> None:
    text = "import atexit, threading, time\natexit.register(print, 'handler')\n"
    text += "threading.Thread(target=lambda: (time.sleep(0.3), print('thread'))).start()\n"
    hosts = [{"name": "h1", "slots": 2}]
    lay_out(tmp_path, script(tmp_path, text), roles=CHIEF, size=2, hosts=hosts)
    end, gone = '@railhead {"kind": "ended", "exit": 0}', '@railhead {"kind": "gone"}'
    assert rank(tmp_path).stdout.splitlines() == ["thread", "handler", end, gone]
    assert rank(tmp_path, number=1).stdout.splitlines() == ["thread", "handler"], "a worker"
    script(tmp_path, "import sys; sys.exit(3)")
    assert rank(tmp_path).stdout.splitlines() == [end.replace("0}", "3}"), gone]


CHIEF_ENDS = {"at once": "import os; os._exit(0)", "killed": "import os; os.kill(os.getpid(), 9)"}


@pytest.mark.parametrize("text", CHIEF_ENDS.values(), ids=CHIEF_ENDS)
def test_the_end_of_a_chief_that_cannot_report_it_is_seen(tmp_path: Path, text: str) -> None:
    lay_out(tmp_path, script(tmp_path, text), roles=CHIEF[:1])
    assert rank(tmp_path).stdout.splitlines() == ['@railhead {"kind": "gone"}']


def test_a_chief_that_closed_its_output_is_not_gone_yet(tmp_path: Path) -> None:
    text = "import os, time\nos.closerange(1, 3)\nopen('closed', 'w')\n"
    text += "while not os.path.exists('over'): time.sleep(0.02)"
    lay_out(tmp_path, script(tmp_path, text), roles=CHIEF[:1])
    with beating_rank(tmp_path) as process:
        assert process.stdout
        assert wait_until((tmp_path / "work" / "closed").exists, seconds=60, every=0.01)
        beats = [process.stdout.read(FRAME) for _ in range(10)]  # the helper still watches it
        (tmp_path / "work" / "over").touch()
        assert beats == [framed(ALIVE)] * 10
        rest = process.stdout.read().replace(framed(ALIVE), b"")
    assert rest.endswith(framed(rank_module.encoded(rank_module.GONE) + ENDED))


PLACES = [("chief", "-1"), ("ps", "-1"), ("worker", "0"), ("worker", "1"), ("worker", None)]


def environment(home: Path, number: int = 0, **changes: Any) -> dict[str, str]:
    """The variables of a rank of a run, at home in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        variables = {"HOME": str(home), "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
        patch.setattr(os, "environ", variables)
        run = decode(RunDocument, run_json(**changes))
        rank_module.set_environment(run, number, str(home))
    return variables


@pytest.mark.parametrize(("number", "role", "devices"), [(n, *p) for n, p in enumerate(PLACES)])
def test_workers_of_one_host_have_a_gpu_each_and_the_others_none(
    tmp_path: Path, number: int, role: str, devices: str | None
) -> None:
    roles = [{"type": role, "index": 0} for role, _ in PLACES]
    hosts = [{"name": "h1", "slots": 4}, {"name": "h2", "slots": 1}]
    variables = environment(tmp_path, number, roles=roles, size=5, hosts=hosts)
    assert variables.get("CUDA_VISIBLE_DEVICES") == devices, role


BACKGROUND = {
    "a silent one": "while [ -e going ]; do sleep 0.1; done &",
    "a loud one": "while [ -e going ]; do sleep 0.01; echo x; done &",
}


@pytest.mark.parametrize("text", BACKGROUND.values(), ids=BACKGROUND)
def test_what_a_rank_leaves_behind_does_not_hold_its_output(tmp_path: Path, text: str) -> None:
    (going := tmp_path / "going").touch()  # it also ends when this folder is removed
    command = text.replace("going", str(going))
    program = f"import os; print('hello', flush=True); os.system({command!r})"
    lay_out(tmp_path, script(tmp_path, program))
    try:
        ended = rank(tmp_path)
    finally:
        going.unlink()
    assert (ended.returncode, ended.stdout[:5]) == (0, "hello")


def test_a_part_that_mpiruns_pipe_took_is_continued_where_it_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full pipe takes only a part of a write: nothing is lost, nothing comes twice."""
    source, sink = os.pipe()
    text = b"".join(b"line %d]\n" % number for number in range(100))
    os.write(sink, text)
    os.close(sink)
    written: list[bytes] = []

    def takes_a_part(descriptor: int, data: memoryview) -> int:
        assert descriptor == 1
        written.append(bytes(data[:7]))
        return len(written[-1])

    monkeypatch.setattr(os, "write", takes_a_part)
    begun = time.time()
    rank_module.forward_output(source, os.getpid(), rank_module.Heartbeat())
    monkeypatch.undo()
    os.close(source)
    sent = b"".join(written)
    assert len(sent) % FRAME == 0
    stamped = NOT_TEXT.sub(b"", sent)
    (printed,) = STAMPS.findall(stamped)
    assert begun <= int(printed) / 1e6 <= time.time()
    assert STAMPS.sub(b"", stamped) == rank_module.encoded(text).replace(b"\x1f", b"")


def test_keras_writes_into_our_folder_unless_the_user_has_one(tmp_path: Path) -> None:
    assert environment(tmp_path)["KERAS_HOME"] == f"{tmp_path}/.railhead/keras"
    (tmp_path / ".keras").mkdir()
    assert "KERAS_HOME" not in environment(tmp_path)


# Python 3.12 starts with frozen objects.
IMPORTED = "import gc\nprint('collects', gc.isenabled(), gc.get_freeze_count() > 1000)\n"
IMPORTS = """import gc
print("collects", gc.isenabled(), gc.get_freeze_count() > 1000)
try:
    import {name}
except ImportError:
    print("not there")
print("collects", gc.isenabled(), gc.get_freeze_count() > 1000)
"""


@pytest.mark.parametrize(
    ("there", "name", "printed"),
    [
        (True, "tensorflow", [(True, False), (False, False), (True, True)]),
        (False, "tensorflow", [(True, False), (True, False)]),
        (True, "small", [(True, False), (True, False), (True, False)]),
    ],
)
def test_no_garbage_is_sought_while_tensorflow_is_imported_nor_later_in_it(
    tmp_path: Path, there: bool, name: str, printed: list[tuple[bool, bool]]
) -> None:
    lay_out(tmp_path, script(tmp_path, IMPORTS.format(name=name)))
    if there:
        (tmp_path / f"work/{name}.py").write_text(IMPORTED)
    lines = [line for line in rank(tmp_path).stdout.splitlines() if line.startswith("collects")]
    assert lines == [f"collects {collects} {frozen}" for collects, frozen in printed]


def test_a_script_can_wait_for_all_its_children(tmp_path: Path) -> None:
    text = "import os\nos.fork() or os._exit(3)\nwhile True:\n"
    text += "    try: print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    text += "    except ChildProcessError: break\n"
    lay_out(tmp_path, script(tmp_path, text))
    assert rank(tmp_path).stdout == "3\n"


def test_the_last_lines_of_a_killed_rank_are_passed_on(tmp_path: Path) -> None:
    text = "import os\nfor n in range(20000): print(n)\nos.kill(os.getpid(), 9)"
    lay_out(tmp_path, script(tmp_path, text))
    ended = rank(tmp_path)
    assert ended.returncode == -9
    assert ended.stdout.splitlines() == [str(n) for n in range(20000)]


def test_what_a_program_receives(tmp_path: Path) -> None:
    names = "RANK", "LOCAL_RANK", "SIZE", "HOST", "RUN_FILE", "RESULTS"
    text = f"import os\nfor n in {names}: print(os.environ['RAILHEAD_' + n])\n"
    text += "for n in ('A', 'TOKEN', 'TF_CONFIG', 'NCCL_SOCKET_IFNAME'): print(os.environ[n])\n"
    hosts = [{"name": "h1", "slots": 2}, {"name": "h2", "slots": 1, "interface": "ens5"}]
    cluster = {"chief": ["h1:1"], "worker": ["h1:2", "h2:3"]}
    roles = [{"type": "chief", "index": 0}, *({"type": "worker", "index": i} for i in (0, 1))]
    changes = {"env": {"A": "b"}, "secrets": ["TOKEN"], "tf_cluster": cluster, "roles": roles}
    lay_out(tmp_path, script(tmp_path, text), hosts=hosts, size=3, **changes)
    (tmp_path / "memory").mkdir()
    for name in ("secrets-1.json", "secrets-2.json"):
        (tmp_path / "memory" / name).write_text('{"TOKEN": "s3"}')
    output = rank(tmp_path, number=2).stdout.splitlines()
    assert output[:4] == ["2", "0", "3", "h2"]
    assert [path.name for path in (tmp_path / "memory").iterdir()] == ["secrets-1.json"]
    assert output[4:8] == [f"{tmp_path}/run.json", f"{tmp_path}/results", "b", "s3"]
    assert json.loads(output[8]) == {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    assert output[9] == "=ens5"


@pytest.mark.parametrize(
    ("interface", "env", "output"),
    [
        ("ens5", {}, "=ens5"),
        (None, {}, None),
        ("ens5", {"NCCL_SOCKET_IFNAME": "^docker"}, "^docker"),
    ],
)
def test_nccl_goes_by_the_interface_of_this_ranks_host(
    tmp_path: Path, interface: str | None, env: dict[str, str], output: str | None
) -> None:
    hosts = [{"name": "h1", "slots": 1, "interface": "eth9"}]
    hosts += [{"name": "h2", "slots": 1, "interface": interface}]
    assert (
        environment(tmp_path, 1, hosts=hosts, size=2, env=env).get("NCCL_SOCKET_IFNAME") == output
    )


JOINED = {
    "horovod, several ranks": ("horovod", 2, 1),
    "horovod, alone": ("horovod", 1, 0),
    "tensorflow, several ranks": ("tensorflow", 2, 1),
    "tensorflow, alone": ("tensorflow", 1, 0),
}


@pytest.mark.parametrize("launcher, size, code", JOINED.values(), ids=JOINED)
def test_a_script_that_never_joins_is_refused(
    tmp_path: Path, launcher: str, size: int, code: int
) -> None:
    hosts = [{"name": "h1", "slots": size}]
    how = {"launcher": launcher, "size": size, "hosts": hosts, "independent": False}
    lay_out(tmp_path, script(tmp_path, ""), **how)
    ended = rank(tmp_path)
    assert ended.returncode == code
    assert ("never joined each other" in ended.stdout) == bool(code)


def test_our_training_is_a_module_of_the_bundle(tmp_path: Path) -> None:
    folder = tmp_path / "work" / "training"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    text = "import sys; from training import x; print(sys.argv[1:], __name__, x.X); sys.exit(2)"
    (folder / "__main__.py").write_text(text)
    (folder / "x.py").write_text("X = 1")
    lay_out(tmp_path, {"kind": "training", "settings": {}})
    ended = rank(tmp_path)
    assert ended.stdout.splitlines()[0] == "[] __main__ 1"
    assert (ended.returncode, len(ended.stdout.splitlines())) == (2, 2)
    (folder / "__main__.py").write_text("1 / 0")
    lines = rank(tmp_path).stdout.splitlines()
    assert lines[0].startswith("Traceback") and "training/__main__.py" in lines[1]


KERAS_2 = """
import tensorflow as tf
import keras, keras.layers, keras.backend, keras.preprocessing.image
from keras.layers import Dense
from keras.models import Sequential
import tf_keras, tf_keras.layers, tf_keras.backend, tf_keras.preprocessing.image
import sys
import time
from dataclasses import replace
assert keras is tf_keras and keras.layers is tf_keras.layers
assert keras.backend is tf_keras.backend and sys.modules["keras.layers"] is tf_keras.layers
assert sys.modules["keras.preprocessing.image"] is tf_keras.preprocessing.image
assert Dense is tf_keras.layers.Dense is tf.keras.layers.Dense
assert Sequential is tf.keras.models.Sequential is tf_keras.Sequential
assert tf_keras.layers.__spec__.name == "tf_keras.layers", tf_keras.layers.__spec__
assert keras.__version__ == tf.keras.__version__ == tf.compat.v1.keras.__version__
assert keras.__version__.startswith("2."), keras.__version__
try:
    import keras.ops
except ModuleNotFoundError as error:
    print(error)
import horovod.tensorflow.keras as hvd
hvd.init()
model = Sequential([Dense(1, input_shape=(2,))])
model.compile(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), "mse")
x = tf.random.normal((64, 2), seed=1)
y = tf.reduce_sum(x, axis=1, keepdims=True)
call = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
losses = model.fit(x, y, epochs=5, verbose=0, callbacks=call).history["loss"]
assert losses[-1] < losses[0] / 2, losses
print("trained", hvd.size())
"""


@pytest.mark.slow
def test_keras_is_tf_keras_and_horovod_trains_with_it(tmp_path: Path, runtime_python: str) -> None:
    lay_out(tmp_path, script(tmp_path, KERAS_2), keras=2, launcher="horovod")
    ended = rank(tmp_path, python=runtime_python)
    assert ended.returncode == 0, ended.stdout
    *lines, last, end = ended.stdout.splitlines()
    assert "No module named 'tf_keras.ops'" in lines and last == "trained 1"
    assert end == '@railhead {"kind": "ended", "exit": 0}', "others may wait for a rank of Horovod"


@pytest.mark.parametrize(("eager", "count"), [(True, 3), (False, 0)])
def test_an_allreduce_outside_of_a_graph_is_a_step(tmp_path: Path, eager: bool, count: int) -> None:
    """Of a plain loop; those of a graph count while it is made, and never again."""
    text = "import horovod.tensorflow as hvd, railhead_ticks\n"
    text += "print([hvd.allreduce(n) for n in range(3)], railhead_ticks.tick.__self__.count)"
    lay_out(tmp_path, script(tmp_path, text))
    operations = tmp_path / "work/horovod/tensorflow/mpi_ops.py"
    operations.parent.mkdir(parents=True)
    (tmp_path / "work/horovod/__init__.py").write_text("__version__ = '0'\n")
    operations.write_text("import tensorflow\ndef _allreduce(x): return x\n")
    operations.with_name("__init__.py").write_text("from .mpi_ops import _allreduce as allreduce\n")
    (tmp_path / "work/tensorflow.py").write_text(f"def executing_eagerly(): return {eager}\n")
    assert rank(tmp_path).stdout.splitlines()[0] == f"[0, 1, 2] {count}"


def test_keras_stays_3_where_2_was_not_requested(tmp_path: Path) -> None:
    text = "import os, sys\nprint('TF_USE_LEGACY_KERAS' in os.environ)\n"
    text += "print([finder for finder in sys.meta_path if 'Keras' in repr(finder)])"
    for keras, lines in ((2, ["True", "[<host.rank.keras_2.Keras2"]), (3, ["False", "[]"])):
        lay_out(tmp_path, script(tmp_path, text), keras=keras)
        printed = rank(tmp_path).stdout.splitlines()
        assert [line.partition(" object")[0] for line in printed] == lines


OF_PACKAGE = "from . import near\nimport sys, __main__, pickle\nclass A: pass\n" + (
    "print(near.WHO, __name__, __package__, __spec__.name, sys.argv, sys.path[0])\n"
    "print(__main__.A is A, type(pickle.loads(pickle.dumps(A()))), __file__)\n"
)


@pytest.mark.parametrize("module", ["pack.task", "pack", "pack.nowhere"])
def test_a_module_runs_as_python_m_runs_it(tmp_path: Path, module: str) -> None:
    for name, text in {"__init__": "", "near": "WHO = 'near'\n"}.items():
        script(tmp_path, text, f"pack/{name}.py")
    for name in ("task", "__main__"):
        program = script(tmp_path, OF_PACKAGE, f"pack/{name}.py", "--a", "b c")
    expected = started([sys.executable, "-m", module, "--a", "b c"], tmp_path / "work")
    lay_out(tmp_path, {**program, "module": module})
    done = rank(tmp_path)
    lines = [line for line in done.stdout.splitlines() if not line.startswith(RECORD)]
    assert done.returncode == expected.returncode
    if done.returncode:
        assert lines[-1] == "ImportError: No module named pack.nowhere"
    else:
        assert lines == expected.stdout.splitlines()


def test_a_module_finds_others_from_its_package_on_and_a_script_beside_itself() -> None:
    """As `python -m trainer.task` and `python trainer/task.py` do."""
    script = Script("script", "trainer/task.py")
    programs = (script, replace(script, module="trainer.task"), BuiltIn("training", {}))
    folders = [rank_module.first_path(program, "/work") for program in programs]
    assert folders == ["/work/trainer", "/work", "/work"]
