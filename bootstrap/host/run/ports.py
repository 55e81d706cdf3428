"""Closes the ports of a run to other users of its hosts, if its ranks run as root.

The ports of TensorFlow's servers and of Open MPI's daemons have no authentication. Anyone who
reaches one can read and write all files of the run's user, or at least end the run.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable

from railhead.documents.runs.run import RunDocument

from ..base import sockets

PLACES = "/usr/sbin:/sbin:/usr/bin:/bin"
SECONDS = 10.0
TABLE = "railhead_"  # the run id follows


def close(run: RunDocument, daemon: int) -> None:
    """Close the ports of this run on this host: each of its ranks replaces the same rules. Does
    nothing for a user who is not root, or without nft. `daemon`: the Open MPI process that has
    started this rank."""
    nft = program()
    if os.geteuid() != 0 or nft is None:
        return
    addresses = [name for names in (run.tf_cluster or {}).values() for name in names]
    ports = {int(address.rpartition(":")[2]) for address in addresses} | listening(daemon)
    if ports:
        # Local hosts share one kernel, but have a daemon each.
        change(nft, rules(f"{table_of(run.run_id)}_{daemon}", ports))


def program() -> str | None:
    """The path of nft, if it is installed."""
    paths = [os.path.join(folder, "nft") for folder in PLACES.split(":")]
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def listening(pid: int) -> set[int]:
    """The TCP ports on which a process of this user listens."""
    rows = (row for row in sockets.rows_of(pid) if row[3] == sockets.LISTENS)
    return {int(row[1].rpartition(":")[2], 16) for row in rows}


def open_again(run_id: str) -> None:
    """Remove the rules of a run on this host, if there are any."""
    nft = program()
    if os.geteuid() == 0 and nft is not None:
        change(nft, "".join(map(removal, tables_of(run_id, nft))))


def tables_of(run_id: str, nft: str) -> list[str]:
    """The tables of a run, one for each daemon; "all": the tables of all runs."""
    listed = subprocess.run([nft, "list", "tables"], capture_output=True, timeout=SECONDS)
    names = [line.rpartition(" ")[2] for line in listed.stdout.decode().splitlines()]
    # Another run's id may begin with this id, but then more than a pid follows.
    of_run = re.compile(TABLE + r"\w+" if run_id == "all" else table_of(run_id) + r"_\d+")
    return list(filter(of_run.fullmatch, names))


def change(nft: str, text: str) -> None:
    """Apply a script of nft, if the kernel lets us."""
    subprocess.run([nft, "-f", "-"], input=text.encode(), capture_output=True, timeout=SECONDS)


def table_of(run_id: str) -> str:
    """The name of the table of a run."""
    return TABLE + "".join(char if char.isalnum() else "_" for char in run_id)


def removal(table: str) -> str:
    """The script that removes a table, even if it does not exist."""
    return f"table inet {table} {{}}\ndelete table inet {table}\n"


def rules(table: str, ports: Iterable[int]) -> str:
    """The nft script that replaces the table. Pure."""
    listed = ", ".join(map(str, sorted(ports)))
    chain = " chain out {\n  type filter hook output priority 0; policy accept;\n"
    rule = f"  tcp dport {{ {listed} }} meta skuid != 0 reject with tcp reset\n"
    return f"{removal(table)}table inet {table} {{\n{chain}{rule} }}\n}}\n"
