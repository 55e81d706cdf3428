"""A situation in which somebody types ssh, and we open a session: by the same files, to the same
host."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hosts.operator import Cluster, Operator, make_key, named
from hosts.ssh_servers import NEWER, openssh, run
from standins import newer_debian

from bootstrap.clouds.local.host import LocalHost
from bootstrap.host.run.cluster_key import listens
from bootstrap.inventory.hosts import Host
from bootstrap.ssh import connect


@dataclass
class World:
    """The user's home, three hosts, and what a situation has started. `first`: the host that is
    reached; its keys are those of the first one of the cluster, its server may be another."""

    operator: Operator
    cluster: Cluster
    tmp: Path
    patch: pytest.MonkeyPatch
    first: LocalHost
    ending: ExitStack = field(default_factory=ExitStack)
    typed: Host = field(default_factory=lambda: Host("a", "a"))

    def on(self, name: str, host: LocalHost) -> None:
        """The first host is this one, by the server `name`."""
        self.first = host
        self.operator.knows(host, *self.cluster.machines[1:])
        if name == NEWER:
            self.has_newer_client()

    def has_newer_client(self) -> Path:
        """The user's ssh is a newer one; the folder of its release."""
        newer = newer_debian.here()
        if str(newer) not in os.environ["PATH"]:
            self.patch.setenv("PATH", f"{newer}/bin:{os.environ['PATH']}")
        return newer

    @property
    def values(self) -> dict[str, str]:
        """What {...} stands for in a configuration."""
        found = {"home": str(self.operator.home), "key": str(self.operator.ssh / "id_ed25519")}
        found |= {"user": self.cluster.user, "tmp": str(self.tmp)}
        for number, machine in enumerate((self.first, *self.cluster.machines[1:])):
            found |= {f"h{number}": machine.address, f"p{number}": str(machine.port)}
        return found

    def key(self, kind: str = "ed25519", *, known: bool = True) -> Path:
        """A new key in a file, which the first host accepts."""
        path = make_key(self.tmp / f"key-{len([*self.tmp.iterdir()])}", kind)
        if known:
            self.accepts(path.with_suffix(".pub").read_text())
        return path

    def accepts(self, text: str) -> None:
        """A line more in authorized_keys of the first host, for this situation."""
        file = self.first.home / ".ssh/authorized_keys"
        before = file.read_text()
        self.ending.callback(file.write_text, before)
        file.write_text(before + text)

    def agent(self, *keys: Path) -> None:
        """An ssh-agent with these keys."""
        path = self.tmp / "agent"
        self.patch.setenv("SSH_AUTH_SOCK", str(path))
        run(
            ["ssh-agent", "-D", "-P", "*", "-a", str(path)], lambda: listens(str(path)), self.ending
        )
        for key in keys:
            subprocess.run(["ssh-add", "-q", str(key)], check=True)

    def sshd(self, *settings: str) -> LocalHost:
        """Another sshd of the first host, with other settings."""
        self.first = openssh(self.first, self.tmp / "sshd", self.ending, settings)
        self.operator.knows(*self.cluster.machines, self.first)
        self.typed = Host("a", self.first.address, user=self.cluster.user, port=self.first.port)
        return self.first

    def configures(self, text: str) -> None:
        """The user's ssh_config."""
        self.operator.configures(text.format(**self.values))

    def by_ssh(self) -> bool:
        """Whether the user's ssh runs a command there."""
        options = ["-F", str(self.operator.ssh / "config"), "-o", "BatchMode=yes"]
        options += ["-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=10", "-T"]
        options += ["-p", str(self.typed.port)] if self.typed.port else []
        options += ["-l", self.typed.user] if self.typed.user else []
        argv = ["ssh", *options, self.typed.address, "echo", "in"]
        process = subprocess.run(argv, capture_output=True, text=True, stdin=-3, timeout=60)
        return process.stdout.endswith("in\n")

    def by_us(self) -> str:
        """The same in a session; the reason where there is none."""
        with connect.open_sessions(named(self.typed)) as opened:
            if not opened:
                return opened.reasons["a"]
            return "\n".join(opened["a"].shell("echo in")[0])

    def ends(self, expected: str) -> None:
        """The outcome of both is the same, and ours is `in`, or a refusal with these words."""
        ours = self.by_us()
        assert (ours == "in") is self.by_ssh(), f"not as ssh: {ours}"
        assert (ours == "in") is (expected == "in") and expected in ours, ours
