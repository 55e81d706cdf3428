"""Becomes one rank: mpirun starts this on every slot, and it runs the program in this process.

The program finds its own folder first on sys.path and nothing of ours; its arguments, its
working directory and `__main__` are what `python train.py ...` would give it.
"""

import ctypes
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import runpy
import sys
import traceback
import types

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.path.join(HERE, "work")
NEVER_JOINED = """railhead: this script never called hvd.init(): it ran as {size} separate worlds of
size 1, each over all of its data. Call hvd.init() (docs/tasks.md, "Your own script"), or run
it under --launcher tensorflow."""


def main():
    with open(os.path.join(HERE, "run.json")) as f:
        run = json.load(f)
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    set_environment(run, rank)
    program = run["program"]
    if program["kind"] == "training":
        sys.path[0] = WORK
        sys.argv = ["training"]
        runpy.run_module("training", run_name="__main__", alter_sys=True)
        return 0
    if run["keras"] == 2:
        use_keras_2()
    code = run_script(program["path"], program["args"])
    if code == 0 and run["launcher"] == "horovod" and run["size"] > 1 and not joined_mpi():
        print(NEVER_JOINED.format(size=run["size"]), file=sys.stderr, flush=True)
        return 1
    return code


def set_environment(run, rank):
    """Every variable that a program receives; docs/tasks.md lists them."""
    host = host_of(run, rank)
    os.environ.update(run["env"])
    if run["secrets"]:
        with open(os.path.join(HERE, "secrets.json")) as f:
            os.environ.update(json.load(f))
    os.environ.update(
        RAILHEAD_RUN_FILE=os.path.join(HERE, "run.json"),
        RAILHEAD_RESULTS=os.path.join(HERE, "results"),
        RAILHEAD_RANK=str(rank),
        RAILHEAD_LOCAL_RANK=os.environ["OMPI_COMM_WORLD_LOCAL_RANK"],
        RAILHEAD_SIZE=str(run["size"]),
        RAILHEAD_HOST=run["hosts"][host]["name"],
    )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    if run["tf_cluster"]:
        task = {"type": "worker", "index": host}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": run["tf_cluster"], "task": task})
    if run["keras"] == 2:
        os.environ["TF_USE_LEGACY_KERAS"] = "1"


def host_of(run, rank):
    """Ranks fill the hosts' slots in order: the index of the host that `rank` is on."""
    for index, host in enumerate(run["hosts"]):
        rank -= host["slots"]
        if rank < 0:
            return index
    raise SystemExit("railhead: more ranks than slots")


class Keras2(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers every `import keras...` with the same module of tf_keras, once it is asked for."""

    def find_spec(self, name, path=None, target=None):
        if name == "keras" or name.startswith("keras."):
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec):
        module = importlib.import_module("tf_" + spec.name)
        self.own = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self.own  # the import machinery has just put ours there


def use_keras_2():
    sys.meta_path.insert(0, Keras2())


def run_script(path, args):
    """Run the script as `__main__`; returns the exit code that Python would end with."""
    script = os.path.join(WORK, path)
    sys.path[0] = os.path.dirname(script)
    sys.argv = [path, *args]
    main_module = types.ModuleType("__main__")
    main_module.__file__ = script
    main_module.__loader__ = importlib.machinery.SourceFileLoader("__main__", script)
    main_module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main_module
    try:
        with open(script, "rb") as f:
            code = compile(f.read(), script, "exec", dont_inherit=True)
        exec(code, main_module.__dict__)
    except SystemExit as ending:
        return exit_code(ending.code)
    except BaseException as error:
        show(error)
        return 1
    return 0


def exit_code(code):
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


def show(error):
    """The script's own traceback: the frames above it are ours and help nobody."""
    trace = error.__traceback__
    while trace and os.path.abspath(trace.tb_frame.f_code.co_filename) == os.path.abspath(__file__):
        trace = trace.tb_next
    if sys.excepthook is sys.__excepthook__:
        traceback.print_exception(type(error), error, trace)
    else:
        sys.excepthook(type(error), error, trace)


def joined_mpi():
    """Whether this process ever called MPI_Init: it stays true after MPI_Finalize."""
    flag = ctypes.c_int(0)
    try:
        ctypes.CDLL("libmpi.so.40").MPI_Initialized(ctypes.byref(flag))
    except OSError:
        return False
    return bool(flag.value)


if __name__ == "__main__":
    sys.exit(main())
