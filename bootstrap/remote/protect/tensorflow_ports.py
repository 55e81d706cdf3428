"""Closes the ports of TensorFlow's servers to the other users of the hosts, where a rank is root.

They have no authentication: whoever reaches one can read and write all files of the run's user.
Standard library only, Python 3.10.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable

from railhead.documents.runs.run import RunDocument

PLACES = "/usr/sbin:/sbin:/usr/bin:/bin"
SECONDS = 10.0
TABLE = "railhead_"  # and the id of the run


def close(run: RunDocument) -> None:
    """Close the ports of this run on this host: each of its ranks replaces the same rules. Does
    nothing for a user who is not root, or without nft."""
    nft = shutil.which("nft", path=PLACES)
    if run.tf_cluster is None or os.geteuid() != 0 or nft is None:
        return
    addresses = [name for names in run.tf_cluster.values() for name in names]
    change(nft, rules(table_of(run.run_id), addresses))


def open_again(run_id: str) -> None:
    """Remove the rules of a run on this host, if there are any."""
    nft = shutil.which("nft", path=PLACES)
    if os.geteuid() == 0 and nft is not None:
        tables = all_tables(nft) if run_id == "all" else [table_of(run_id)]
        change(nft, "".join(map(removal, tables)))


def all_tables(nft: str) -> list[str]:
    """The tables of all runs."""
    listed = subprocess.run([nft, "list", "tables"], capture_output=True, timeout=SECONDS)
    names = [line.rpartition(" ")[2] for line in listed.stdout.decode().splitlines()]
    return [name for name in names if name.startswith(TABLE)]


def change(nft: str, text: str) -> None:
    """Apply a script of nft, if the kernel lets us."""
    subprocess.run([nft, "-f", "-"], input=text.encode(), capture_output=True, timeout=SECONDS)


def table_of(run_id: str) -> str:
    """The name of the table of a run."""
    return TABLE + "".join(char if char.isalnum() else "_" for char in run_id)


def removal(table: str) -> str:
    """The script that removes a table, also where there is none."""
    return f"table inet {table} {{}}\ndelete table inet {table}\n"


def rules(table: str, addresses: Iterable[str]) -> str:
    """The script of nft. Pure.

    Args:
        addresses: of all ranks of the run, ADDRESS:PORT or [ADDRESS]:PORT.
    """
    ports = ", ".join(sorted({address.rpartition(":")[2] for address in addresses}))
    chain = " chain out {\n  type filter hook output priority 0; policy accept;\n"
    rule = f"  tcp dport {{ {ports} }} meta skuid != 0 reject with tcp reset\n"
    return f"{removal(table)}table inet {table} {{\n{chain}{rule} }}\n}}\n"
