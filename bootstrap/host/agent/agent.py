"""The agent's main program, on a host. Its code arrives over the SSH channel and is not written to
disk.

`channel` reads requests and writes replies; MODULES has the module of each operation.
"""

from __future__ import annotations

import contextlib
import glob
import importlib
import os

from .channel import Operation, serve

OPERATIONS = {
    "commands": ("run", "start", "release"),
    "data": ("data_state", "paths_state", "receive_data"),
    "files": ("write", "read", "replace", "remove", "tree", "place_folder"),
    "network": ("listen", "dial", "ports", "free_port"),
    "packing": ("get", "get_file", "collect"),
    "runs": (
        "follow",
        "make_temporary",
        "drop_temporary_of",
        "place_programs",
        "is_running",
        "end_run",
    ),
}
MODULES = {name: module for module, names in OPERATIONS.items() for name in names}


def operation(name: str) -> Operation:
    """An operation by its name. Its module is loaded on first use: a host compiles the loaded
    modules at each start of the agent, and most agents need only one or two."""
    module = importlib.import_module(f"{__package__}.{MODULES[name]}")
    ops: dict[str, Operation] = module.OPS
    return ops[name]


def main(keep: str = "") -> None:
    """Serve until the channel closes. First remove temporary folders that ended runs left. `keep`:
    where to store the archive of this agent; "" if it is there already."""
    runs = glob.escape(os.path.expanduser("~/.railhead/runs"))
    links = (link for name in ("memory", "tmp") for link in glob.iglob(f"{runs}/*/{name}"))
    if any(map(os.path.exists, links)):  # links of ended runs are dangling
        from . import temporary

        with contextlib.suppress(OSError):
            temporary.drop_temporary_of_ended()
    if keep:
        from . import kept_programs

        kept_programs.keep(keep)
    serve(operation)
    os._exit(0)  # Python's own end aborts if a thread sends something at that moment
