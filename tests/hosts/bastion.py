"""A bastion: `jump` is reachable and in two networks, `inner` is reachable only through it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hosts.full_host import FullHost
from hosts.network import Network


class Bastion:
    """Two started hosts; `jump.address` is for the machine, `jump_inside` for `inner`.

    Both accept the front network's key. `layers`: disks of retired hosts that they start from.
    """

    def __init__(self, front: Network, *, layers: Sequence[Path] = ()) -> None:
        self.back = Network(reachable=False)
        self.jump = FullHost(front, "jump", layers=layers)
        self.jump_inside = self.jump.join(self.back)
        self.inner = FullHost(self.back, "inner", key=front.key, layers=layers)
        for host in (self.jump, self.inner):
            host.start()

    def __enter__(self) -> Bastion:
        return self

    def __exit__(self, *failure: object) -> None:
        self.jump.remove()
        self.back.close()

    def known_hosts(self) -> str:
        """The lines that pin both hosts."""
        return self.jump.known_hosts_line() + self.inner.known_hosts_line()

    def write_ssh_config(self, path: Path, *, user: str = "root") -> None:
        """Aliases `jump` and, behind it, `inner`, with both keys pinned beside the file."""
        pins = path.with_name("known_hosts")
        pins.write_text(self.known_hosts())
        blocks = [
            self.jump.ssh_config(user=user),
            self.inner.ssh_config(user=user, jump="jump"),
            f"Host *\n  UserKnownHostsFile {pins}\n  StrictHostKeyChecking yes\n",
        ]
        path.write_text("".join(blocks))
