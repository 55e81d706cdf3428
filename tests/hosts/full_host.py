"""A full host: its own disk, network, pids and name, with sshd on port 22, and its faults.

    network = Network(internet=True)
    h1, h2 = start_hosts(network, "h1", "h2")
    ssh -i network.key root@h1.address
    h2.stop(); h2.start(); h1.partition(); h1.heal()
    network.close()

It is not a security boundary: its root is the machine's root.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hosts import cleanup
from hosts.disk import Disk
from hosts.namespace import Namespace
from hosts.network import Network
from hosts.process import Process, child_of, processes_of

BOOT = Path(__file__).with_name("boot.sh")
START_SECONDS = 20.0
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


class FullHost:
    """A host in a network, created but not started.

    `disk_mb`: a disk of this size (see `Disk.leave`). `python`: "3.11", "3.8" (one that says so),
    or "" for none. `layers`: disks of retired hosts that this one starts from.
    `binds`: folders of the machine -> where they appear on the host. `key`: the private key that
    it accepts, by default the network's. `base`: another system than that of `base_image`.
    """

    def __init__(
        self,
        network: Network,
        name: str,
        *,
        disk_mb: int = 0,
        python: str = "3.11",
        layers: Sequence[Path] = (),
        binds: Mapping[Path, str] | None = None,
        key: Path | None = None,
        base: Path | None = None,
    ) -> None:
        self.network = network
        self.name = name
        self.key = key or network.key
        self.legs = Namespace(network)
        self.address = self.legs.address
        self.folder = network.folder / self.legs.namespace
        self._binds = {str(source): target for source, target in (binds or {}).items()}
        self._retired = False
        self._outer: subprocess.Popen[bytes] | None = None
        self.init = 0
        self.disk = Disk(self.folder, mb=disk_mb, layers=layers, base=base)
        self._furnish(python)

    def _furnish(self, python: str) -> None:
        self.disk.identify(self.name, self.address)
        self.disk.accept(self.key.with_suffix(".pub").read_text())
        if self.network.internet:
            self.disk.give_internet()
        else:
            (self.disk.root / "etc/resolv.conf").write_text("")
        if python == "3.8":
            self.disk.age_python()
        elif not python:
            self.disk.remove_python()

    def join(self, network: Network) -> str:
        """Connect the host to another network too; returns its address there."""
        return self.legs.add(network)

    @property
    def host_key(self) -> str:
        """The public key that its sshd presents: "ssh-ed25519 AAAA..."."""
        text = (self.disk.root / "etc/ssh/ssh_host_ed25519_key.pub").read_text()
        return " ".join(text.split()[:2])

    def known_hosts_line(self, *names: str) -> str:
        """The line of known_hosts that pins it, by default under its address."""
        return f"{','.join(names or (self.address,))} {self.host_key}\n"

    def ssh_config(self, alias: str = "", *, user: str = "root", jump: str = "") -> str:
        """Its block of an ssh config; `jump` is the alias of a jump host."""
        through = f"  ProxyJump {jump}\n" if jump else ""
        return (
            f"Host {alias or self.name}\n  HostName {self.address}\n  User {user}\n"
            f"  IdentityFile {self.key}\n  IdentitiesOnly yes\n{through}"
        )

    def start(self, *, wait: bool = True) -> None:
        """Boot with the present disk. Raises RuntimeError if no sshd listens within 20 s."""
        if self._retired:
            raise RuntimeError(f"{self.name} is retired: others use its disk")
        self.legs.turn("up")
        binds = [word for pair in self._binds.items() for word in pair]
        enter = [
            "nsenter",
            f"--net=/run/netns/{self.legs.namespace}",
            "unshare",
            "--mount",
            "--pid",
        ]
        apart = ["--uts", "--ipc", "--fork", "--kill-child", "--propagation", "private"]
        boot = ["bash", str(BOOT), str(self.disk.root), self.name, *binds]
        with (self.folder / "console").open("ab") as console:
            self._outer = subprocess.Popen(
                [*enter, *apart, *boot],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Wait until its sshd listens."""
        if self._outer is None:
            raise RuntimeError(f"{self.name} was not started")
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._outer.poll() is None:
            self.init = self.init or child_of(self._outer.pid)
            # sshd writes this file once it listens.
            if self.init and Path(f"/proc/{self.init}/root/run/sshd.pid").exists():
                return
            time.sleep(0.01)
        console = (self.folder / "console").read_text()
        raise RuntimeError(f"{self.name} did not start:\n{console[-2000:]}")

    def stop(self, *, silent: bool = False) -> None:
        """Terminate it at once, as kill -9 of its init does; disk and address stay.

        Its peers see their connections close; with `silent`, as after a power cut, they do not.
        """
        if silent:
            self.legs.turn("down")
        if self._outer is not None:
            if self.init:
                os.kill(self.init, signal.SIGKILL)
            else:
                self._outer.kill()
            self._outer.wait()
        self._outer, self.init = None, 0
        self.legs.turn("down")

    def restart(self) -> None:
        """Stop it and start it again."""
        self.stop()
        self.start()

    def retire(self) -> Path:
        """Stop it for good; returns its disk, for the `layers` of other hosts."""
        self.stop()
        self._retired = True
        return self.disk.upper

    def keep_disk(self, path: Path) -> None:
        """Stop it for good and move its disk, for the `layers` of other hosts."""
        self.retire()
        self.disk.move(path)

    def remove(self) -> None:
        """Stop it, and delete its disk and its network."""
        self.stop()
        cleanup.remove_host(self.folder)

    def partition(self) -> None:
        """Drop all packets in both directions silently; a restart does not end it."""
        self.legs.block(None, None)

    def block(
        self,
        peer: FullHost | None = None,
        port: int | None = None,
        *,
        refuse: bool = False,
        calls: bool = False,
    ) -> None:
        """Drop what a peer (without one: everybody) sends, to one port or to all, until `heal`.

        Without a port, packets to that peer are dropped too. `refuse`: answer with a reset.
        `calls`: drop only new connections, so that this host still reaches the peer.
        """
        self.legs.block(peer.address if peer else None, port, refuse=refuse, calls=calls)

    def far(self, *, rtt_ms: int = 0, lossy: int = 0) -> None:
        """Give all its connections a round trip of `rtt_ms` ms, and a packet loss of `lossy` % in
        each direction, until it is removed."""
        self.legs.lengthen(rtt_ms, lossy)

    def slow(self, peer: FullHost, mbit: int) -> None:
        """Limit what it sends to a peer to so many Mbit/s, until it is removed."""
        self.legs.slow(peer.address, mbit)

    def heal(self) -> None:
        """End every partition and block."""
        self.legs.unblock()

    def freeze(self, *, whole: bool = False) -> None:
        """Stop its sshd (or all its processes), as on a hung machine: it accepts connections, but
        never answers."""
        self._signal(signal.SIGSTOP, whole=whole)

    def thaw(self) -> None:
        """Continue all frozen processes."""
        self._signal(signal.SIGCONT, whole=True)

    def _signal(self, number: signal.Signals, *, whole: bool) -> None:
        for process in self.processes():
            if whole or "sshd" in process.argv[0]:
                with contextlib.suppress(ProcessLookupError):  # it has ended since it was listed
                    os.kill(process.pid, number)

    def swap_host_key(self) -> None:
        """Replace the host key, as a reinstallation or a stranger at its address would."""
        self.disk.new_host_key()
        self.restart()

    def processes(self) -> list[Process]:
        """All its processes, as seen from outside."""
        return list(processes_of(self.init))

    def busy(self, seconds: float = 0.0) -> list[Process]:
        """Its processes beyond those of an idle host; waits up to `seconds` for their end."""
        end = time.monotonic() + seconds
        while True:
            running = [process for process in self.processes() if not process.is_idle]
            if not running or time.monotonic() >= end:
                return running
            time.sleep(0.02)

    def calls(self) -> int:
        """How many TCP connections its kernel has accepted since its creation, from anybody."""
        names, values = (
            line.split()[1:]
            for line in self.exec("cat", "/proc/net/snmp").stdout.splitlines()
            if line.startswith("Tcp:")
        )
        return int(dict(zip(names, values, strict=True))["PassiveOpens"])

    def read(self, path: str) -> str:
        """The text of a file on its disk, by absolute path; also while it is stopped."""
        return (self.disk.root / path.lstrip("/")).read_text()

    def write(self, path: str, text: str) -> None:
        """Write a file on its disk, and its folders."""
        file = self.disk.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def exec(self, *argv: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        """Run a command on it without ssh, so also with sshd frozen or the network cut."""
        enter = ["nsenter", f"--target={self.init}", "--all", "--root", "--wd"]
        home = "/root" if user == "root" else f"/home/{user}"
        as_user = ["runuser", "-u", user, "--"] if user != "root" else []
        return subprocess.run(
            [*enter, *as_user, *argv],
            text=True,
            capture_output=True,
            timeout=60,
            env={**ENVIRONMENT, "HOME": home, "LC_ALL": "C"},
        )


def start_hosts(network: Network, *names: str) -> list[FullHost]:
    """Create plain hosts and boot them at the same time."""
    hosts = [FullHost(network, name) for name in names]
    for host in hosts:
        host.start(wait=False)
    for host in hosts:
        host.wait()
    return hosts
