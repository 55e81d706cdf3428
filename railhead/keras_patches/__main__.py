"""Run a script, or a module with -m, with the patches of Keras 3, under any launcher.

    python -m railhead.keras_patches [--strategy NAME] SCRIPT [ARGUMENT ...]
    python -m railhead.keras_patches [--strategy NAME] -m MODULE [ARGUMENT ...]

Without --strategy: `parameter-server` or `multiworker` by TF_CONFIG, `horovod` below mpirun and
horovodrun, otherwise `multiworker`; versions of Keras without tests are patched only with it. The
exit code is that of the script.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import runpy
import sys
from collections.abc import Mapping, Sequence

from .patch import install
from .rows import PATCHES, patches_for

STRATEGIES = sorted({name for patch in PATCHES for name in patch.strategies})
OF_MPI = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "HOROVOD_RANK")
RANKS = (*OF_MPI, "SLURM_PROCID", "RANK")  # the launchers' variables with the process's number


def main(argv: Sequence[str]) -> None:
    """Install the patches of the strategy, then run the program as `python` would."""
    parser = argparse.ArgumentParser(prog="python -m railhead.keras_patches", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--strategy", choices=STRATEGIES, help="whose patches are installed")
    parser.add_argument("-m", action="store_true", dest="is_module", help="run a module")
    parser.add_argument("program", help="a script, or with -m a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(argv)
    strategy = options.strategy or strategy_of(os.environ)

    def announce(text: str) -> None:  # without the options of `fab train`
        if is_first(os.environ):
            shown = f"{text.partition(' (')[0]} (--strategy {strategy})"
            print(shown, file=sys.stderr, flush=True)

    folder = (
        os.getcwd() if options.is_module else os.path.dirname(os.path.realpath(options.program))
    )
    if sys.path[0] in ("", os.getcwd()):  # that of this command
        del sys.path[0]
    sys.path.insert(0, folder)
    if not (_is_module(options.program) if options.is_module else os.path.isfile(options.program)):
        parser.error(f"{options.program} is not there: name a script, or a module with -m")
    install(patches_for(strategy), announce, also_unknown=bool(options.strategy))
    sys.argv = [options.program, *options.arguments]
    if options.is_module:
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(options.program, run_name="__main__")


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # of a package around it
        return False


def strategy_of(environ: Mapping[str, str]) -> str:
    """The strategy that a launcher has prepared with its variables."""
    if cluster := _tf_config(environ).get("cluster"):
        return "parameter-server" if "ps" in cluster else "multiworker"
    names = [name for name in OF_MPI if name in environ]
    if "SLURM_PROCID" in environ:  # srun may set it for every program
        names = [name for name in names if name != "PMI_RANK"]
    return "horovod" if names else "multiworker"


def is_first(environ: Mapping[str, str]) -> bool:
    """Whether this is the first process of a launcher, or the only one: it prints the notice."""
    config = _tf_config(environ)
    chief = "chief" if "chief" in config.get("cluster", {}) else "worker"
    task = {"type": chief, "index": 0, **config.get("task", {})}
    numbers = [environ[name] for name in RANKS if name in environ]
    return (task["type"], str(task["index"])) == (chief, "0") and {*numbers} <= {"0"}


def _tf_config(environ: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """The parts of TF_CONFIG; TensorFlow reports what is wrong in it."""
    try:
        config = json.loads(environ.get("TF_CONFIG", "{}"))
    except ValueError:
        return {}
    parts = config.items() if isinstance(config, dict) else ()
    return {name: section for name, section in parts if isinstance(section, dict)}


if __name__ == "__main__":
    main(sys.argv[1:])
