"""Opens the machines to the person who debugs: ssh, a command on every host, a file to Include."""

from __future__ import annotations

import shlex
from pathlib import Path

from bootstrap.errors import HostsFailed
from bootstrap.inventory import local_state
from bootstrap.inventory.files import atomic_write
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import reach
from bootstrap.runs.launch import choose
from bootstrap.ssh import connect
from bootstrap.ssh.host_keys import host_key_alias


def known(inventory: Inventory, name: str) -> str:
    """The name, if the config that `write_config` writes has it; UsageError with the choices."""
    return choose(name, [h.name for h in inventory.hosts], "host")


def write_config(inventory: Inventory) -> Path:
    """Write what ~/.ssh/config may Include for the cluster's hosts; returns its path."""
    path = local_state.cluster_folder(inventory.name) / "ssh_config"
    stanzas = []
    for host in inventory.hosts:
        lines = [f"Host {host.name}"]
        if host.name != host.address:
            lines.append(f"  HostName {host.address}")
        lines += [f"  User {host.user}"] if host.user else []
        lines += [f"  Port {host.port}"] if host.port else []
        lines += _pins(host, inventory)
        if inventory.key_file:
            lines += [f'  IdentityFile "{inventory.key_file}"', "  IdentitiesOnly yes"]
        stanzas.append("\n".join(lines) + "\n")
    atomic_write(path, "\n".join(stanzas))
    return path


def _pins(host: Host, inventory: Inventory) -> list[str]:
    files, name = local_state.known_hosts_files(inventory.name), host_key_alias(host, inventory)
    listed = " ".join(f'"{file}"' for file in (files[:1] if name else files))
    lines = [f"  UserKnownHostsFile {listed}", "  StrictHostKeyChecking yes"]
    return [*lines, f"  HostKeyAlias {name}"] if name else lines


def write_own(inventory: Inventory) -> Path:
    """Write a config for `ssh -F` that has both ours and the user's settings, ours first."""
    path = local_state.cluster_folder(inventory.name) / "ssh_config.own"
    ours = write_config(inventory)
    atomic_write(path, f'Include "{ours}"\nHost *\n  Include ~/.ssh/config\n')
    return path


def execute(inventory: Inventory, command: str) -> None:
    """Run a shell command on all hosts and print each one's lines behind its name.

    Raises:
        HostsFailed: it ended with another code than 0 on some host.
    """
    with reach.sessions(inventory) as opened:
        said = connect.everywhere(opened, lambda s: s.shell(command), what="the command")
    for name, (lines, _) in said.items():
        for line in lines:
            print(f"[{name}] {line}")
    if any(code for _, code in said.values()):
        told = {name: f"exit {code}" if code else "ok" for name, (_, code) in said.items()}
        raise HostsFailed(f"{shlex.quote(command)} failed", told)
