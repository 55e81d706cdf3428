"""Root's work on hosts that boot a real systemd, with real apt and dpkg: what is brought, waited
for and mended, and what becomes of it when the controller or a host dies in the middle.

Only drivers are stand-ins, as packages of their names: there is no card to drive here.
"""

from __future__ import annotations

import http.server
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from e2e.local import wait_until
from hosts import systemd
from hosts.network import Network
from hosts.packages import Repository, sha256
from hosts.systemd import SystemdHost

from bootstrap import connect, hops, runtimes, teardown
from bootstrap.board import Board
from bootstrap.changes import Changes, changes
from bootstrap.drivers import DriverRow
from bootstrap.errors import HostsFailed, RailheadError
from bootstrap.facts import HostFacts
from bootstrap.groundwork import groundwork
from bootstrap.hostfile import Peer
from bootstrap.inventory import Host, Inventory
from bootstrap.overhaul import KEYRINGS, Keyring, Pace, overhaul
from bootstrap.reboot import Patience, reboot
from bootstrap.session import Session
from bootstrap.survey import Cluster

pytestmark = [pytest.mark.root, pytest.mark.slow]

TIMERS = ("apt-daily.timer", "apt-daily-upgrade.timer")
OURS = "/srv/ours"  # the repository's folder on each host
REAL = "/etc/apt/sources.real"  # Debian's own: to read its lists takes seconds
BRIEF_APT = 'Acquire::Languages "none"; Acquire::Retries::Delay "false";'
RAN = "/var/log/ran"  # each stand-in's postinst adds a line, so that we see who ran how often
BRIEF = Pace(patience=20, retries=2, pause=1)
NOTE = f"echo $DPKG_MAINTSCRIPT_PACKAGE >>{RAN}"
SMI = '#!/bin/sh\n[ "$1" = -pm ] || echo Tesla T4\n'
UNIT = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"
UNIT += "[Install]\nWantedBy=multi-user.target\n"
# The hardware, at the outermost seam: a card on the bus, and a driver that is there from the boot
# after its installation on.
BUS, LOADED = "/srv/pci", "/opt/driver"
MODULES = {
    "cuda-drivers-580": "x86_64 Kernel Module",
    "nvidia-open-580": "Open Kernel Module for x86_64",
}
LOADED_SMI = """#!/bin/sh
if [ ! -e /proc/driver/nvidia/version ]; then
  echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."; exit 9
fi
[ "$1" = -L ] && echo "GPU 0: Tesla T4 (UUID: GPU-0)" || echo "Tesla T4"
"""
HARDWARE = f"""[Unit]
Before=ssh.service
[Service]
Type=oneshot
ExecStart=/bin/mount --bind {BUS} /sys/bus/pci/devices
ExecStart=/bin/sh -c '[ ! -e {LOADED} ] || mount --bind {LOADED} /proc/driver'
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Packages of ours: quick ones, ones that take their time, and a driver's."""
    made = Repository(tmp_path_factory.mktemp("packages") / "ours")
    made.add("quick", postinst=NOTE)
    made.add("slow", postinst=f"sleep 3\n{NOTE}")
    made.add("slow-to-unpack", preinst="sleep 3", postinst=NOTE, files={"/opt/torn": "whole"})
    made.add("fails", postinst="echo this cannot be; exit 7")
    made.add("needs-more", depends="no-such-package (>= 2)")
    made.add("nvidia-driver-pinning-580", postinst=NOTE, files={
        "/etc/apt/preferences.d/nvidia-580": "Package: cuda-drivers*\nPin: version 580*\n"
                                             "Pin-Priority: 1000\n"})  # fmt: skip
    for version in ("580.1", "610.1"):
        made.add("cuda-drivers", version=version, postinst=NOTE, files={
            "/usr/bin/nvidia-smi": SMI, "/lib/systemd/system/nvidia-persistenced.service": UNIT,
            "/usr/sbin/modprobe": f'#!/bin/sh\necho "$@" >>{RAN}\n'})  # fmt: skip
    for name, kind in MODULES.items():
        version = f"NVRM version: NVIDIA UNIX {kind}  580.95.05  Tue Sep 23\n"
        made.add(name, postinst=NOTE, files={
            "/usr/bin/nvidia-smi": LOADED_SMI, f"{LOADED}/nvidia/version": version,
            "/lib/systemd/system/nvidia-persistenced.service": UNIT})  # fmt: skip
    return made


@pytest.fixture(scope="session")
def stocked(network: Network, repository: Repository) -> list[Path]:
    """A disk without a Python, whose apt knows our repository and keeps the real one aside."""
    if reason := systemd.missing():
        if os.environ.get("RAILHEAD_FULL_HOSTS") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    seed = SystemdHost(network, "seed", binds={repository.folder: OURS})
    seed.write("/etc/apt/sources.list.d/ours.list", repository.source(f"file:{OURS}"))
    seed.write(REAL, seed.read("/etc/apt/sources.list"))
    seed.write("/etc/apt/sources.list", "")
    seed.write("/etc/apt/apt.conf.d/90brief", BRIEF_APT)
    seed.start()
    assert seed.exec("apt-get", "update", "-q").returncode == 0
    return [seed.retire()]


class Team:
    """Some systemd hosts, and what somebody here does to them."""

    def __init__(self, hosts: list[SystemdHost], user: str) -> None:
        self.hosts = hosts
        key = str(hosts[0].network.key)
        named = tuple(Host(host.name, host.address, user=user) for host in hosts)
        self.inventory = Inventory("team", named, key_file=key)
        self.said = StringIO()

    @contextmanager
    def sessions(self) -> Iterator[dict[str, Session]]:
        opened, failed = connect.reach(self.inventory)
        assert not failed, failed
        try:
            yield opened
        finally:
            for session in opened.values():
                session.close()

    def work(self, **changes: Any) -> dict[str, HostFacts]:
        """All of it, as `fab bootstrap` does it, the same on every host; new facts come back."""
        with self.sessions() as opened:
            return self.work_on(opened, dict.fromkeys(opened, Changes(**changes)))

    def work_on(
        self, opened: dict[str, Session], wanted: Mapping[str, Changes]
    ) -> dict[str, HostFacts]:
        facts = connect.all_facts(opened)
        with Board(self.said, list(opened), every=0) as board:
            return groundwork(self.inventory, facts, wanted, opened, board)

    def overhaul(self, pace: Pace = BRIEF, **kw: Any) -> list[str]:
        """The script alone on the first host; what it told."""
        heard: list[str] = []
        options = {name: kw.pop(name) for name in ("keyrings",) if name in kw}
        with self.sessions() as opened:
            (session, *_) = opened.values()
            changes = Changes(**kw)
            overhaul(session, session.facts(), changes, heard.append, pace=pace, **options)
        return heard

    def killed_at(self, step: str, **changes: Any) -> None:
        """A controller of its own that is killed when this step says its first word."""

        def told(line: str) -> None:
            if line.startswith(f"{step}: "):
                os.kill(os.getpid(), signal.SIGKILL)

        with self.sessions() as opened:
            (session, *_) = opened.values()
            overhaul(session, session.facts(), Changes(**changes), told, pace=BRIEF)

    def killed_in_reboot(self) -> None:
        """The same, as soon as the host has been told to reboot."""
        with self.sessions() as opened:
            (session, *_) = opened.values()
            facts = session.facts()
            reboot(self.inventory, session, facts, lambda _: os.kill(os.getpid(), signal.SIGKILL))


Start = Callable[..., Team]


@pytest.fixture
def team(
    network: Network, stocked: list[Path], repository: Repository, home: Path
) -> Iterator[Start]:
    """Start hosts, `team("a", "b", user="rail")`; removed after the test."""
    started: list[SystemdHost] = []

    def start(*names: str, user: str = "root") -> Team:
        binds = {repository.folder: OURS}
        hosts = [SystemdHost(network, name, binds=binds, layers=stocked) for name in names]
        started.extend(hosts)
        for host in hosts:
            host.start(wait=False)
        for host in hosts:
            host.wait()
        (home / ".ssh").mkdir(mode=0o700, exist_ok=True)
        pins = "".join(host.known_hosts_line() for host in hosts)
        (home / ".ssh/known_hosts").write_text(pins)
        hops._config.cache_clear()
        return Team(hosts, user)

    yield start
    for host in started:
        host.remove()


def who_ran(host: SystemdHost) -> list[str]:
    """The stand-ins whose postinst has run, each as often as it ran."""
    path = host.disk.root / RAN.lstrip("/")
    return path.read_text().split() if path.exists() else []


def timers(host: SystemdHost) -> set[str]:
    return {host.systemctl("is-active", timer) for timer in TIMERS}


def runs(host: SystemdHost, word: str) -> list[int]:
    """The machine's pids of the host's processes with this among their words."""
    return [process.pid for process in host.processes() if word in process.argv]


def start_apt(host: SystemdHost, package: str, maintainer_script: str) -> threading.Thread:
    """Another apt on the host, at work until that script of the package sleeps."""
    words = ("apt-get", "install", "-y", "-q", package)
    other = threading.Thread(target=host.exec, args=words, daemon=True)
    other.start()
    path = f"/var/lib/dpkg/info/{package}.postinst"
    script = path if maintainer_script == "postinst" else "/var/lib/dpkg/tmp.ci/preinst"
    wait_until(lambda: runs(host, script), 15, f"{script} runs")
    return other


# What is brought


def known_keyring(repository: Repository) -> dict[str, Keyring]:
    """NVIDIA's way to its repository, with ours in its place."""
    package = repository.add("cuda-keyring", postinst=NOTE)
    return {"debian-12": Keyring(f"file:{OURS}/{package.name}", sha256(package))}


def test_bare_hosts_get_each_its_packages_at_once(team: Start, repository: Repository) -> None:
    """Without a Python, by sudo; apt's timers are off meanwhile."""
    both = team("a", "b", user="rail")
    for host in both.hosts:
        host.write("/etc/apt/sources.list", host.read(REAL))
    seen: list[set[str]] = []
    meanwhile = threading.Thread(
        target=lambda: (
            wait_until(lambda: runs(both.hosts[0], "apt-get"), 30, "apt-get runs"),
            seen.append(timers(both.hosts[0])),
        )
    )
    meanwhile.start()
    wanted = {"a": ("python3", "openmpi-bin"), "b": ("quick",)}
    with both.sessions() as opened:
        facts = both.work_on(opened, {n: Changes(packages=p) for n, p in wanted.items()})
    meanwhile.join()
    assert facts["a"].openmpi and "[a] system: Setting up openmpi-bin" in both.said.getvalue()
    assert facts["a"].python and who_ran(both.hosts[1]) == ["quick"]
    for host in both.hosts:
        assert timers(host) == {"active"} and not host.systemctl("--failed", "--quiet")
    assert seen == [{"inactive"}]
    row = DriverRow(580, "open", (), "", repository=True, installer="true", reboot=True)
    both.overhaul(driver=row, keyrings=known_keyring(repository), reboot=True)
    assert both.hosts[0].read("/etc/apt/sources.list").count(" main contrib") == 1
    assert who_ran(both.hosts[0]) == ["cuda-keyring"]


def test_a_driver_comes_pinned_held_and_persistent(team: Start, repository: Repository) -> None:
    one = team("a")
    (host,) = one.hosts
    rings = known_keyring(repository)
    row = DriverRow(
        580, "proprietary", ("cuda-drivers",), "", repository=True, reboot=False,
        pin="nvidia-driver-pinning-580", hold=("*nvidia*", "cuda-drivers*"),
    )  # fmt: skip
    wrong = {"debian-12": Keyring(rings["debian-12"].url, "0" * 64)}
    with pytest.raises(RailheadError, match="key of NVIDIA's repository"):
        one.overhaul(driver=row, keyrings=wrong)
    assert who_ran(host) == []
    one.overhaul(driver=row, keyrings=rings)
    want = ["cuda-keyring", "nvidia-driver-pinning-580", "cuda-drivers", "nvidia"]
    assert who_ran(host) == want
    installed = host.exec("dpkg-query", "-W", "-f", "${Version}", "cuda-drivers").stdout
    assert installed == "580.1"
    held = set(host.exec("apt-mark", "showhold").stdout.split())
    assert held == {"cuda-drivers", "nvidia-driver-pinning-580"}
    assert host.systemctl("is-active", "nvidia-persistenced") == "active"
    settings = host.exec("apt-config", "dump", "Unattended-Upgrade::Package-Blacklist").stdout
    assert '"cuda-drivers.*$"' in settings and '"libnvidia-"' in settings
    one.overhaul(driver=row, keyrings=rings)
    assert who_ran(host) == [*want, "nvidia"], "the second time only the module is asked for"
    with one.sessions() as opened:
        session = opened["a"]
        (line,) = teardown._of_system(session, session.facts())
        assert line.verified and line.text.startswith("52railhead, cuda-drivers, nvidia-driver-pin")
        assert not teardown._of_system(session, session.facts())
    assert host.exec("apt-mark", "showhold").stdout == ""


def put_card(host: SystemdHost, device: str) -> None:
    """A card on the bus, headers for the kernel that runs, and the units that show them."""
    for name, text in {"vendor": "0x10de", "class": "0x030200", "device": device}.items():
        host.write(f"{BUS}/0000:00:1e.0/{name}", f"{text}\n")
    host.write(f"/lib/modules/{os.uname().release}/build/Makefile", "")
    host.write("/etc/systemd/system/hardware.service", HARDWARE)
    wants = host.disk.root / "etc/systemd/system/multi-user.target.wants"
    (wants / "hardware.service").symlink_to("/etc/systemd/system/hardware.service")
    host.restart()


def lacks(team: Team, facts: Mapping[str, HostFacts]) -> dict[str, Changes]:
    """What these hosts lack for their cards, by the plan; Python and others are left out."""
    runtime = runtimes.RUNTIMES["tf2.18-gpu"]
    environment = runtimes.Environment(runtime, "3.11", "")
    peers = tuple(Peer(h.name, h.address, 22, "root", 1, "") for h in team.hosts)
    cluster = Cluster(team.inventory, facts, environment, peers, Path("a.whl"))
    return {name: replace(changes(cluster, name), packages=()) for name in facts}


def test_cards_without_a_driver_get_theirs_and_are_seen_after_the_reboot(
    team: Start, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From facts to row to packages, hold and reboot, and then nothing: V100 and T4."""
    monkeypatch.setitem(KEYRINGS, "debian-12", known_keyring(repository)["debian-12"])
    both = team("a", "b")
    put_card(both.hosts[0], "0x1db1")
    put_card(both.hosts[1], "0x1eb8")
    with both.sessions() as opened:
        wanted = lacks(both, connect.all_facts(opened))
        assert [todo.names for todo in wanted.values()] == [("driver", "reboot")] * 2
        facts = both.work_on(opened, wanted)
        assert not any(lacks(both, facts).values())
    drivers = {name: host.gpu.driver for name, host in facts.items()}
    assert [d and (d.branch, d.flavour) for d in drivers.values()] == [
        (580, "proprietary"),
        (580, "open"),
    ]
    assert who_ran(both.hosts[0])[1:] == ["nvidia-driver-pinning-580", "cuda-drivers-580"]
    assert who_ran(both.hosts[1])[1:] == ["nvidia-driver-pinning-580", "nvidia-open-580"]
    for host in both.hosts:
        host.wait()
        assert host.systemctl("is-active", "nvidia-persistenced") == "active"


# What is waited for


def test_another_apt_is_waited_for(team: Start) -> None:
    one = team("a")
    other = start_apt(one.hosts[0], "slow", "postinst")
    heard = one.overhaul(packages=("quick",))
    other.join()
    assert who_ran(one.hosts[0]) == ["slow", "quick"]
    assert any("lock" in line for line in heard)


def test_an_apt_that_never_ends_is_told(team: Start) -> None:
    one = team("a")
    other = start_apt(one.hosts[0], "slow", "postinst")
    with pytest.raises(RailheadError, match=r"apt's lock is held .*dpkg/lock-frontend.*process"):
        one.overhaul(Pace(patience=1, retries=0, pause=1), packages=("quick",))
    assert timers(one.hosts[0]) == {"active"}
    other.join()


CLOUD_INIT = """#!/bin/sh
[ "$2" = --wait ] && sleep 1 && exit {code}
echo 'status: {status}'; echo 'errors:'; echo '  - (scripts_user, RuntimeError(1 failed))'
"""


def give_cloud_init(host: SystemdHost, code: int, status: str) -> None:
    """A cloud-init that ends so."""
    host.write("/usr/bin/cloud-init", CLOUD_INIT.format(code=code, status=status))
    (host.disk.root / "usr/bin/cloud-init").chmod(0o755)


def test_the_first_boot_is_waited_for_and_its_end_told(team: Start) -> None:
    """cloud-init's answers are recorded ones: there is no cloud here."""
    one = team("a")
    (host,) = one.hosts
    host.write("/var/log/cloud-init-output.log", "E: the last of it\n")

    give_cloud_init(host, 1, "error")
    with pytest.raises(RailheadError, match=r"cloud-init.*log") as told:
        one.overhaul(wait_cloud_init=True, packages=("quick",))
    assert "scripts_user" in str(told.value) and "the last of it" in str(told.value)
    assert who_ran(host) == []
    give_cloud_init(host, 0, "done")
    assert not any("degraded" in line for line in one.overhaul(wait_cloud_init=True))
    give_cloud_init(host, 2, "done")
    heard = one.overhaul(wait_cloud_init=True, packages=("quick",))
    assert any("degraded" in line for line in heard)
    assert who_ran(host) == ["quick"]


# What is tried again


class Mirror(http.server.SimpleHTTPRequestHandler):
    """Our repository over HTTP, from a mirror that has bad minutes."""

    bad: list[str] = []

    def do_GET(self) -> None:
        if self.bad and self.path.endswith(self.bad[0]):
            if len(self.bad) > 1:
                self.bad.pop(0)
            self.send_error(503)
        else:
            super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def mirror(network: Network, repository: Repository) -> Iterator[str]:
    """Its address."""

    def handler(*args: Any) -> Mirror:
        return Mirror(*args, directory=str(repository.folder))

    server = http.server.ThreadingHTTPServer((network.gateway, 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{network.gateway}:{server.server_port}"
    server.shutdown()


def use_mirror(host: SystemdHost, address: str) -> None:
    """The host has no other source; apt itself tries once."""
    host.write("/etc/apt/sources.list.d/ours.list", Repository.source(address))


def test_a_mirror_that_fails_for_a_while_is_asked_again(team: Start, mirror: str) -> None:
    one = team("a")
    use_mirror(one.hosts[0], mirror)
    Mirror.bad = ["quick_1_all.deb"] * 6 + ["nothing"]
    heard = one.overhaul(packages=("quick",))
    assert any("passes by itself" in line for line in heard)
    assert who_ran(one.hosts[0]) == ["quick"]


def test_a_mirror_that_is_away_is_named(team: Start) -> None:
    one = team("a")
    use_mirror(one.hosts[0], "http://mirror.invalid/debian")
    with pytest.raises(RailheadError, match=r"no packages from http://mirror.invalid/debian"):
        one.overhaul(Pace(patience=20, retries=1, pause=1), packages=("quick",))


def test_what_does_not_pass_is_tried_once(team: Start) -> None:
    one = team("a")
    heard: list[str] = []
    wrong = {
        "no-such": "Unable to locate package no-such",
        "needs-more": "needs-more : Depends: no-such-package",
        "fails": "returned an error code",
    }
    with one.sessions() as opened:
        session = opened["a"]
        facts = session.facts()
        for package, says in wrong.items():
            with pytest.raises(RailheadError, match=says):
                overhaul(session, facts, Changes(packages=(package,)), heard.append, pace=BRIEF)
    assert not any("once more" in line for line in heard)
    assert timers(one.hosts[0]) == {"active"}


# What dies in the middle


@pytest.mark.parametrize("script", ["preinst", "postinst"])
def test_half_finished_packages_are_mended(team: Start, script: str) -> None:
    """dpkg is killed in the middle of unpacking, and of configuring."""
    one = team("a")
    (host,) = one.hosts
    package = "slow" if script == "postinst" else "slow-to-unpack"
    other = start_apt(host, package, script)
    for process in host.processes():
        if {"apt-get", "/usr/bin/dpkg", "sleep"} & set(process.argv[:1]):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
    other.join()
    with one.sessions() as opened:
        assert opened["a"].facts().system.dpkg_broken
    one.overhaul(mend_dpkg=True, packages=("quick",))
    with one.sessions() as opened:
        assert not opened["a"].facts().system.dpkg_broken
    assert sorted(who_ran(host)) == ["quick", package]


def test_the_controller_dies_at_each_step_and_the_next_one_goes_on(team: Start) -> None:
    """The host ends what it was at; the next command finds it done, or waits for its end."""
    one = team("a")
    (host,) = one.hosts
    give_cloud_init(host, 0, "done")
    row = DriverRow(580, "open", ("cuda-drivers",), "", reboot=False, hold=("cuda-drivers",))
    wanted = {"wait_cloud_init": True, "mend_dpkg": True, "packages": ("slow",), "driver": row}
    for step in ("cloud-init", "mend", "system", "driver"):
        killed(one.killed_at, step, **wanted)
    one.overhaul(**wanted)
    ran = who_ran(host)
    assert ran[:2] == ["slow", "cuda-drivers"]
    assert (ran.count("slow"), ran.count("cuda-drivers")) == (1, 1)
    assert timers(host) == {"active"}
    before = host.boot_id()
    killed(one.killed_in_reboot)
    host.wait_for_reboot(before)


def killed(work: Callable[..., Any], *args: Any, **kw: Any) -> None:
    """Do it in a process of its own, which kills itself in the middle."""
    child = os.fork()
    if not child:
        with suppress(BaseException):
            work(*args, **kw)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_a_host_dies_in_the_middle_and_the_others_finish(team: Start) -> None:
    both = team("a", "b")
    dying = both.hosts[1]

    def kill() -> None:
        wait_until(lambda: runs(dying, "/var/lib/dpkg/info/slow.postinst"), 30, "dpkg is at it")
        dying.stop()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(HostsFailed, match="1 of 2 hosts") as told:
        both.work(packages=("slow",))
    killer.join()
    assert told.value.outcomes["a"] == "ok" and "broke" in told.value.outcomes["b"]
    assert who_ran(both.hosts[0]) == ["slow"]
    dying.start()
    with both.sessions() as opened:
        facts = connect.all_facts(opened)
        assert [f.system.dpkg_broken for f in facts.values()] == [False, True]
        both.work_on(opened, {"b": Changes(mend_dpkg=True, packages=("slow",))})
    assert [who_ran(host) for host in both.hosts] == [["slow"], ["slow"]]


def test_timers_come_back_also_after_a_kill(team: Start) -> None:
    """With the next command, where nothing could run a trap."""
    one = team("a")
    (host,) = one.hosts
    at_work = threading.Thread(
        target=ignoring, args=(one.overhaul,), kwargs={"packages": ("slow",)}
    )
    at_work.start()
    wait_until(lambda: runs(host, "/var/lib/dpkg/info/slow.postinst"), 30, "dpkg is at it")
    assert timers(host) == {"inactive"}
    shells = [p for p in host.processes() if p.argv[:2] == ("sh", "-c")]
    # The first of them is the script itself, the others are its own forks.
    os.kill(min(p.pid for p in shells if "FIRST_BOOT=" in p.argv[2]), signal.SIGKILL)
    at_work.join()
    assert timers(host) == {"inactive"}
    wait_until(lambda: not runs(host, "apt-get"), 20, "apt has ended")
    one.overhaul(packages=("quick",))
    assert timers(host) == {"active"} and who_ran(host) == ["slow", "quick"]


def ignoring(work: Callable[..., Any], **kw: Any) -> None:
    with pytest.raises(RailheadError):
        work(**kw)


# Reboots


def test_a_host_reboots_and_comes_back(team: Start) -> None:
    one = team("a", user="rail")
    (host,) = one.hosts
    before = host.boot_id()
    with one.sessions() as opened:
        old = opened["a"]
        facts = one.work_on(opened, {"a": Changes(packages=("quick",), reboot=True)})
        host.wait()
        assert facts["a"].boot_id == host.boot_id() != before
        assert opened["a"] is not old and opened["a"].sh("echo in") == "in\n\n"
    assert "reboot: waiting for it to come back" in one.said.getvalue()
    assert host.boots == 2


def test_a_host_that_does_not_come_back_is_told(team: Start) -> None:
    one = team("a")
    one.hosts[0].comes_back = False
    with one.sessions() as opened, pytest.raises(RailheadError, match="did not come back") as told:
        patience = Patience(back=4, every=0.5)
        session = opened["a"]
        reboot(one.inventory, session, session.facts(), lambda _: None, patience=patience)
    assert told.value.hint
