"""Access to hosts: `fab ssh`, `fab exec`, `fab ssh-key`, and the OpenSSH config file."""

from __future__ import annotations

import shlex
from pathlib import Path

from railhead.documents.agent.request import LONG
from railhead.documents.options.hosts import KeyOptions

from ..console.output import print_lines
from ..errors import HostsFailed
from ..inventory import local_state
from ..inventory.files import atomic_write
from ..inventory.hosts import Host, Inventory
from ..lifecycle import cloud_host_keys, power, reach
from ..runs.strategies import choose
from ..ssh import authorized_keys, connect
from ..ssh.login.route import key_file_here, pins_of
from ..ssh.session import Session


def known(inventory: Inventory, name: str) -> str:
    """Return `name` if it is a host's name; else UsageError with the choices."""
    return choose(name, inventory.names, "host")


def write_config(inventory: Inventory) -> Path:
    """Write an OpenSSH config file for the cluster's hosts; returns its path."""
    path = local_state.cluster_folder(inventory.name) / "ssh_config"
    stanzas = []
    for host in inventory.hosts:
        lines = [f"Host {host.name}"]
        if host.name != host.address:
            lines.append(f"  HostName {host.address}")
        lines += [f"  User {host.user}"] if host.user else []
        lines += [f"  Port {host.port}"] if host.port else []
        lines += _host_key_lines(host, inventory)
        if key_file := key_file_here(inventory):
            lines += [f'  IdentityFile "{key_file}"', "  IdentitiesOnly yes"]
        stanzas.append("\n".join(lines) + "\n")
    atomic_write(path, "\n".join(stanzas))
    return path


def _host_key_lines(host: Host, inventory: Inventory) -> list[str]:
    pins = pins_of(host, inventory)
    ours = local_state.home()
    used = [file for file in pins.files if file.is_relative_to(ours) or file.exists()]
    files = " ".join(f'"{file}"' for file in used)
    lines = [f"  UserKnownHostsFile {files}", "  StrictHostKeyChecking yes"]
    return [*lines, f"  HostKeyAlias {pins.name}"] if pins.name else lines


def write_own(inventory: Inventory) -> Path:
    """Write a config file for `ssh -F`: the cluster's settings first, then the user's own."""
    path = local_state.cluster_folder(inventory.name) / "ssh_config.own"
    ours = write_config(inventory)
    atomic_write(path, f'Include "{ours}"\nHost *\n  Include ~/.ssh/config\n')
    return path


def change_key(inventory: Inventory, options: KeyOptions) -> None:
    """Add a person's public key to all hosts, or remove it.

    Raises:
        UsageError: the file does not have one public key.
        HostsFailed: a host could not be changed.
    """
    key = authorized_keys.read_public_key(Path(options.key))
    change = authorized_keys.remove if options.remove else authorized_keys.add
    with reach.agents(inventory) as (sessions, _):
        outcomes = connect.everywhere(
            sessions, lambda session: change(session, key), what="changing authorized_keys"
        )
    print_lines(*(f"[{name}] {outcome}: {key.comment}" for name, outcome in outcomes.items()))
    if not options.remove and (store := power.host_key_store(inventory)):
        cloud_host_keys.share(inventory, store, print_lines)


def outputs(inventory: Inventory, command: str) -> dict[str, str]:
    """What a shell command prints on each host.

    Raises:
        HostsFailed: it failed on a host; `outcomes` has the output of each.
    """
    with reach.sessions(inventory) as sessions:
        results = connect.everywhere(
            sessions, lambda s: s.shell(command, silence=LONG.silence), what="the command"
        )
    texts = {name: "\n".join(lines) for name, (lines, _) in results.items()}
    if any(code for _, code in results.values()):
        raise HostsFailed(f"{shlex.quote(command)} failed", texts)
    return texts


def execute(inventory: Inventory, command: str) -> None:
    """Run a shell command on all hosts; print each line with its host's name, as it comes.

    Raises:
        HostsFailed: the command failed on some host, or its connection was lost.
    """
    with reach.sessions(inventory) as sessions:

        def run_command(session: Session) -> int:
            def show(line: str) -> None:
                print_lines(f"[{session.host.name}] {line}")

            try:
                return session.shell(command, silence=LONG.silence, report=show)[1]
            except BrokenPipeError:  # nobody reads what the others would print, as after `| head`
                for other in sessions.values():
                    other.close()
                raise

        codes, failed = connect.attempts(sessions, run_command)
        outcomes = {
            name: str(failed.get(name, "")) or (f"exit {codes[name]}" if codes[name] else "ok")
            for name in sessions
        }
    if failed or any(codes.values()):
        raise HostsFailed(f"{shlex.quote(command)} failed", outcomes)


def include_line(path: Path) -> str:
    """The line that includes a file in ssh_config, which takes a blank for the end of a name."""
    return f'Include "{path}"' if " " in str(path) else f"Include {path}"
