"""The script for system changes: its text for each change, and what apt's output means.

The script itself is run on whole hosts in tests/e2e/provision/test_system_*.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import paramiko
import pytest
from hosts.operator import Cluster, make_key
from paramiko.ssh_exception import ChannelException

from bootstrap.console.wait import wait_until
from bootstrap.errors import RailheadError, UsageError
from bootstrap.facts.host import HostFacts
from bootstrap.host.base import locks
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan.drivers import DriverRow
from bootstrap.plan.system_changes import Changes
from bootstrap.provision import reboot as reboot_module
from bootstrap.provision import system_script as o
from bootstrap.provision.reboot import (
    OUR_BOOT,
    RebootWait,
    _refuse_this_machine,
    _wait_for_host,
    reboot,
)
from bootstrap.ssh import connect
from bootstrap.ssh.session import ConnectionLost

# The output of apt and dpkg on hosts that were made to fail, and in reports of others; whether that
# mostly passes by itself, and whether it was a lock.
APT_OUTPUT = {
    "no name server": (
        "Err:1 http://mirror.example/debian bookworm InRelease\n"
        "  Temporary failure resolving 'mirror.example'\n"
        "E: Unable to locate package openmpi-bin",
        True,
        False,
    ),
    "no such name": (
        "W: Failed to fetch http://mirror.invalid/InRelease  Could not resolve 'mirror.invalid'",
        True,
        False,
    ),
    "mirror's bad minute": (
        "E: Failed to fetch http://10.77.0.1:8000/./quick_1_all.deb  503  Service Unavailable [IP:"
        " 10.77.0.1 8000]\nE: Unable to fetch some archives, maybe run apt-get update or try with "
        "--fix-missing?",
        True,
        False,
    ),
    "refused": (
        "E: Failed to fetch http://10.0.0.1/pool/a.deb  Could not connect to 10.0.0.1:80 "
        "(10.0.0.1). - connect (111: Connection refused)",
        True,
        False,
    ),
    "dropped": ("Err:3 http://a/b c [1 kB]\n  Connection timed out [IP: 10.0.0.1 80]", True, False),
    "in the middle of an update": (
        "E: Failed to fetch http://a/dists/x/Packages.gz  Hash Sum mismatch",
        True,
        False,
    ),
    "lists too old": (
        "E: Failed to fetch http://a/pool/main/p/python3.11_3.11.2-6_amd64.deb  404  Not Found",
        True,
        False,
    ),
    "no such suite": (
        "Err:5 http://a/debian nosuch Release\n  404  Not Found [IP: 10.0.0.1 80]\n"
        "E: The repository 'http://a/debian nosuch Release' does not have a Release file.",
        False,
        False,
    ),
    "no such package": ("E: Unable to locate package no-such", False, False),
    "unmet": (
        "The following packages have unmet dependencies:\n needs-more : Depends: no-such-package "
        "(>= 2) but it is not installable\nE: Unable to correct problems, you have held broken "
        "packages.",
        False,
        False,
    ),
    "unmet, and a mirror away": (
        "W: Failed to fetch http://b/InRelease  Could not connect to b:80\n"
        "E: Unable to correct problems, you have held broken packages.",
        False,
        False,
    ),
    "a script of the package failed": (
        "dpkg: error processing package fails (--configure):\n installed fails package "
        "post-installation script subprocess returned error exit status 7\n"
        "E: Sub-process /usr/bin/dpkg returned an error code (1)",
        False,
        False,
    ),
    "disk full": ("E: You don't have enough free space in /var/cache/apt/archives/.", False, False),
    "another apt": (
        "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 123 (apt-get)\n"
        "E: Unable to lock directory /var/lib/apt/lists/",
        False,
        True,
    ),
    "another dpkg": (
        "dpkg: error: dpkg frontend lock was locked by another process with pid 42",
        False,
        True,
    ),
    "nothing": ("", False, False),
}


@pytest.mark.parametrize(("text", "passes", "locked"), APT_OUTPUT.values(), ids=APT_OUTPUT)
def test_what_apt_reports_is_distinguished(text: str, passes: bool, locked: bool) -> None:
    assert (o.transient(text), o.locked(text)) == (passes, locked)


@pytest.mark.parametrize(("args", "passes", "locked"), APT_OUTPUT.values(), ids=APT_OUTPUT)
def test_grep_on_a_host_reads_the_text_as_we_do(args: str, passes: bool, locked: bool) -> None:
    def matches(pattern: str) -> bool:
        argv = ["grep", "-Eq", "-e", pattern]
        return subprocess.run(argv, input=args, text=True, check=False).returncode == 0

    assert matches(o.LOCKED) == locked
    assert (matches(o.TRANSIENT) and not matches(o.FINAL)) == passes


# What the script is given

ROW = DriverRow(
    580, "proprietary", ("cuda-drivers-580", "linux-headers-amd64"), "",
    repository=True, pin="nvidia-driver-pinning-580", hold=("*nvidia*",),
)  # fmt: skip
KEYRING = o.KEYRINGS["debian-12"]
VARIABLES = [
    (Changes(), {}),
    (Changes(wait_cloud_init=True), {"FIRST_BOOT": "yes"}),
    (Changes(mend_dpkg=True), {"MEND": "yes"}),
    (Changes(packages=("python3", "g++")), {"PACKAGES": "python3 g++"}),
    (Changes(hold=("linux-aws",)), {"HOLD": "linux-aws"}),
    (Changes(reboot=True), {"REBOOT": "yes"}),
    (
        Changes(driver=ROW, hold=("*nvidia*", "linux-aws"), reboot=True),
        {
            "KEYRING": KEYRING.url, "KEYRING_SHA256": KEYRING.sha256, "REBOOT": "yes",
            "PIN": "nvidia-driver-pinning-580", "DRIVER": "cuda-drivers-580 linux-headers-amd64",
            "HOLD": "*nvidia* linux-aws",
        },
    ),
    (
        Changes(driver=DriverRow(580, "either", (), "", installer="/opt/x.sh")),
        {"INSTALLER": "/opt/x.sh"},
    ),
]  # fmt: skip
PARTS: tuple[str, ...] = ("FIRST_BOOT", "MEND", "PACKAGES", "KEYRING", "KEYRING_SHA256")
PARTS += ("PIN", "DRIVER", "INSTALLER", "HOLD", "REBOOT")


@pytest.mark.parametrize(("changes", "output"), VARIABLES, ids=range(len(VARIABLES)))
def test_changes_become_variables(changes: Changes, output: dict[str, str]) -> None:
    ring = KEYRING if changes.driver and changes.driver.repository else None
    text = o.variables(changes, ring, o.RetryPolicy())
    assert {name: text[name] for name in PARTS} == dict.fromkeys(PARTS, "") | output


def test_every_word_reaches_the_shell_as_it_is() -> None:
    text = o.script(Changes(driver=ROW), "debian-12").replace(o.SCRIPT.read_text(), "")
    echo = 'printf "%s|" "$DRIVER" "$TRANSIENT" "$WAIT_SECONDS"'
    argv = ["sh", "-c", f"{text}\n{echo}"]
    process = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert process == f"cuda-drivers-580 linux-headers-amd64|{o.TRANSIENT}|600|"


def test_the_script_uses_every_word_and_no_other() -> None:
    text = o.SCRIPT.read_text()
    used = set(re.findall(r"\$\{?([A-Z][A-Z_0-9]+)", text)) - {"PATH"}
    used -= set(re.findall(r"\$\(([A-Z]+)\)", text))  # apt's, in a format
    assert used == set(o.variables(Changes(), None, o.RetryPolicy()))


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck here")
def test_shellcheck_finds_nothing() -> None:
    argv = ["shellcheck", "-s", "dash", "-e", "SC2154", str(o.SCRIPT)]
    assert subprocess.run(argv, capture_output=True, text=True, check=False).stdout == ""


def test_unattended_upgrades_leave_alone_what_is_held() -> None:
    text = o.blacklist(("*nvidia*", "linux-aws"))
    names = re.findall(r'Unattended-Upgrade::Package-Blacklist:: "(.*)";', text)
    held = [n for n in ("linux-aws", "linux-modules-nvidia-580-server-aws", "cuda-drivers-580",
            "libnvidia-compute-580-server", "linux-aws-headers", "openssh-server")
            if any(re.match(name, n) for name in names)]  # fmt: skip
    assert held == ["linux-aws", "linux-modules-nvidia-580-server-aws", "cuda-drivers-580",
                    "libnvidia-compute-580-server"]  # fmt: skip


# How its output is read


def parse(text: str) -> tuple[list[str], o._ScriptOutput]:
    lines: list[str] = []
    listener = o._ScriptOutput(lines.append, {"system": "x missing"})
    for line in text.splitlines():
        listener.line(line)
    return lines, listener


def test_lines_become_progress_and_the_last_command_is_kept() -> None:
    output, listener = parse(
        "| an earlier bootstrap still runs here: waiting for it\n@alive\n@step system\n"
        "@try\n| Hit:1 http://a\n@alive\n|  \n| .....\n@try\n| (Reading database ... 5%\n"
        "| E: it fails\n@failed apt\n\n"
    )
    assert output == [
        "an earlier bootstrap still runs here: waiting for it",
        "system: x missing",
        "system: Hit:1 http://a",
        "system: E: it fails",
    ]
    assert (listener.step, listener.end) == ("system", "@failed apt")
    assert listener.output == ["(Reading database ... 5%", "E: it fails"]


ENDS = [
    ("@failed busy", [], "an earlier bootstrap is still running there after 10 minutes"),
    ("@failed cloud-init", ["status: error"], "cloud-init failed.*\nstatus: error"),
    ("@failed cloud-init-late", [], "cloud-init has not finished within 10 minutes"),
    ("@failed mend", ["x", "dpkg: error: y"], "could not be repaired\ndpkg: error: y$"),
    ("@failed module", ["modprobe: FATAL"], "kernel module does not load\nmodprobe: FATAL"),
    ("@failed installer", ["no"], "the image's own installer of the driver failed\nno"),
    ("@failed keyring", ["E: Hash Sum mismatch"], "key of NVIDIA's repository"),
    ("", ["sudo: a password is required"], "without a message\nsudo: a password is required"),
    (
        "@failed apt",
        APT_OUTPUT["mirror's bad minute"][0].splitlines(),
        r"apt gets no packages from http://10.77.0.1:8000: .*503  Service Unavailable",
    ),
    (
        "@failed apt",
        APT_OUTPUT["no name server"][0].splitlines(),
        r"from http://mirror.example/debian: Temporary failure resolving 'mirror.example'",
    ),
    (
        "@failed mend",
        APT_OUTPUT["another dpkg"][0].splitlines(),
        "apt's lock has been held for more than 10 minutes: .*pid 42",
    ),
    (
        "@failed apt",
        [
            "Err:1 http://m.example/d b InRelease",
            "  403  http://n.example is not a mirror of this host",
        ],
        "apt is redirected to http://n.example, which the host's lists did not name",
    ),
    ("@failed apt", APT_OUTPUT["unmet"][0].splitlines(), r"apt failed\n.*\n needs-more : Depends"),
]


@pytest.mark.parametrize(
    ("cause", "who"),
    [("503  Service Unavailable", "that host"),
     ("502  This computer gets no answer either: timed out", "this computer")],
)  # fmt: skip
def test_the_next_command_waits_for_the_one_that_gets_no_answer(cause: str, who: str) -> None:
    lines = [f"Err:1 http://m.example/d b InRelease {cause}", f"  {cause}"]
    assert o.why("@failed apt", "system", lines, o.RetryPolicy()).hint.endswith(
        f"answers from {who}"
    )


@pytest.mark.parametrize(("end", "output", "message"), ENDS)
def test_an_end_becomes_an_error(end: str, output: list[str], message: str) -> None:
    assert re.search(message, o.why(end, "system", output, o.RetryPolicy()).message)


@pytest.mark.parametrize(
    ("address", "mirror"),
    [
        ("http://mirror.example/debian", "http://mirror.example/debian"),
        ("http://a/debian/dists/bookworm/main/Packages.gz", "http://a/debian"),
        ("http://a/debian/pool/main/a/a_1.deb", "http://a/debian"),
        ("http://10.77.0.1:8000/./quick_1_all.deb", "http://10.77.0.1:8000"),
        ("http://a/repos/debian12/x86_64/./Packages", "http://a/repos/debian12/x86_64"),
    ],
)
def test_the_mirror_of_an_address(address: str, mirror: str) -> None:
    assert o.mirror(address) == mirror


# The script's own loops, without a host

SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$LOG"
"""


def shell(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The script's text with its folders in `folder`, and a systemctl that only notes its use."""
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert path in text and "now=/run/railhead " in text and "/run/systemd/system" in text
    (folder / "bin").mkdir()
    (folder / "bin/systemctl").write_text(SYSTEMCTL)
    (folder / "bin/systemctl").chmod(0o755)
    text = text.replace(path, f"PATH={folder}/bin:/usr/bin:/bin")
    text = text.replace("now=/run/railhead ", f"now={folder} ")
    text = text.replace("/run/systemd/system", str(folder))
    # What still sleeps when the script has ended must not hold its output: the channel would wait.
    assert text.count("sleep 5 ") == 1
    text = text.replace("sleep 5 ", "sleep 90 ")
    environment = {"LOG": str(folder / "systemctl.log")}
    argv = ["sh", "-s"]
    return subprocess.run(
        argv, input=text, env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("ends", ["well", "badly", "terminated"])
def test_apts_timers_are_off_meanwhile_and_on_again_at_any_end(tmp_path: Path, ends: str) -> None:
    text = o.script(Changes(), "debian-12")
    how = {"well": "echo @done", "badly": "fail apt", "terminated": "kill -TERM $$; sleep 1"}[ends]
    assert text.count("echo @done") == 1
    process = shell(text.replace("echo @done", how), tmp_path)
    assert process.returncode == {"well": 0, "badly": 1, "terminated": 143}[ends], process.stderr
    calls = (tmp_path / "systemctl.log").read_text().splitlines()
    both = ["apt-daily-upgrade.timer", "apt-daily.timer"]
    for verb in ("stop", "start"):
        assert sorted(x.removeprefix(f"{verb} ") for x in calls if x.startswith(verb)) == both
    assert max(calls.index(f"stop {x}") for x in both) < calls.index(f"start {both[0]}")
    assert not (tmp_path / "timers").exists()


def test_the_branch_is_pinned_before_the_driver_is_installed(tmp_path: Path) -> None:
    """Else apt installs the newest branch, which may not be for these cards."""
    text = o.script(Changes(), "debian-12")
    ours = "bring() { echo bring $*; }\npersist() { :; }\nPIN=the-pin\nDRIVER=the-driver\n"
    assert text.count("\ntrap '' PIPE\n") == 1
    process = shell(text.replace("\ntrap '' PIPE\n", f"\n{ours}trap '' PIPE\n"), tmp_path)
    assert process.returncode == 0, process.stderr
    lines = [line for line in process.stdout.splitlines() if "bring" in line]
    assert lines == ["| bring the-pin", "| bring the-driver"]


@pytest.mark.parametrize(
    ("output", "tries"),
    [
        ("Could not connect to mirror.example:80", 5),
        ("E: Unable to locate package no-such", 1),
        ("E: Could not get lock /var/lib/dpkg/lock", 7),
    ],
)
def test_apt_is_tried_again_a_bounded_number_of_times(
    tmp_path: Path, output: str, tries: int
) -> None:
    """After four temporary failures, or when a lock was held for WAIT_SECONDS, it is over."""
    changes, policy = Changes(), o.RetryPolicy(wait_seconds=6, retries=4, pause=5)
    functions, _, main = o.script(changes, "debian-12", policy=policy).partition("\ntrap '' PIPE\n")
    assert "patiently()" in functions and main
    text = f"""{functions}
attempt() {{ echo try; echo "{output}" >"$output"; return 100; }}
pause() {{ seconds=$((seconds + 1)); [ $seconds -lt 100 ] || exit 9; }}
date() {{ echo $seconds; }}
seconds=0
patiently apt-get update
echo "ended with $?"
"""
    # date() runs in a subshell, which sees `seconds`: a clock that only the pauses move.
    process = shell(text, tmp_path)
    lines = process.stdout.splitlines()
    assert lines[-1] == "ended with 1", process.stderr
    assert lines.count("try") == tries


def test_a_host_that_freezes_during_system_changes_is_given_up(debian: HostFacts) -> None:
    """The script prints @alive all the time: a minute of silence means that nothing comes."""
    options_of_sh: dict[str, Any] = {}

    class Frozen:
        def sh(self, text: str, **options: Any) -> str:
            options_of_sh.update(options)
            raise ConnectionLost("h1 has been silent")

    with pytest.raises(ConnectionLost):
        o.run_system_script(Frozen(), debian, Changes(), print)  # type: ignore[arg-type]
    assert options_of_sh["silence"] is not None and 15 <= options_of_sh["silence"] <= 120


# Root, and this machine


@pytest.fixture
def inventory(one_host: Cluster, inventory: Inventory) -> Inventory:
    """One SSH host of this machine."""
    return inventory


def open_connections() -> int:
    """How many connections this process has."""
    threads = (each for each in threading.enumerate() if isinstance(each, paramiko.Transport))
    return sum(thread.is_active() for thread in threads)


def test_a_host_with_another_key_after_its_reboot_is_refused_at_once(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is not waited for: the address may belong to another machine now."""
    folder, host, reports = tmp_path / "home", inventory.chief, list[str]()
    monkeypatch.setenv("HOME", str(folder))
    other = " ".join(make_key(tmp_path / "other").with_suffix(".pub").read_text().split()[:2])
    pins = local_state.cluster_folder(inventory.name) / "known_hosts"
    pins.parent.mkdir(parents=True, exist_ok=True)
    pins.write_text(f"[{host.address}]:{host.port} {other}\n")
    wait, before = RebootWait(back=20, every=0.01), open_connections()
    with pytest.raises(RailheadError, match="after its reboot: REFUSED, its host key changed"):
        _wait_for_host(inventory, host, "before", reports.append, wait)
    assert len(reports) == 1 and open_connections() == before


def test_a_connection_to_a_host_that_has_not_gone_down_is_closed(inventory: Inventory) -> None:
    """There is a new one every few seconds, for ten minutes."""
    before, now, opened = open_connections(), OUR_BOOT.read_text().strip(), list[int]()

    def count(_: str) -> None:
        opened.append(open_connections())

    with pytest.raises(RailheadError, match="it did not come back .*: it has not gone down"):
        _wait_for_host(inventory, inventory.chief, now, count, RebootWait(back=0.5, every=0.01))
    assert len(opened) > 1 and {*opened, open_connections()} == {before}


def test_a_connection_whose_host_opens_no_channel_is_closed(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with MaxSessions 0 in its sshd_config."""
    before = open_connections()

    def refused(*_: Any, **__: Any) -> None:
        raise ChannelException(1, "Administratively prohibited")

    monkeypatch.setattr(paramiko.Transport, "open_session", refused)
    with connect.open_sessions(inventory) as sessions:
        assert list(sessions.failed) == list(inventory.names)
    assert open_connections() == before


def test_the_connection_to_a_host_that_came_back_stays_open(inventory: Inventory) -> None:
    session = _wait_for_host(
        inventory, inventory.chief, "another boot", lambda _: None, RebootWait(back=20, every=0.01)
    )
    try:
        assert session.sh("echo here").strip() == "here"
    finally:
        session.close()


def test_a_host_that_came_back_is_used_when_its_services_have_started(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of them may load the driver."""
    started, commands = tmp_path / "started", tmp_path / "bin"
    commands.mkdir()
    # Without `--wait`, systemd answers at once that it is still starting.
    (commands / "systemctl").write_text(
        f'#!/bin/sh\n[ "$*" = "is-system-running --wait" ] && sleep 1 && touch {started}\nfalse\n'
    )
    (commands / "systemctl").chmod(0o755)
    settled = f"PATH={commands}:$PATH; {reboot_module.SETTLED}"
    monkeypatch.setattr(reboot_module, "SETTLED", settled)
    _wait_for_host(
        inventory, inventory.chief, "another boot", lambda _: None, RebootWait(back=20, every=0.01)
    ).close()
    assert started.exists()


def test_a_reboot_waits_for_the_system_changes_of_another_bootstrap(tmp_path: Path) -> None:
    """`flock` notes that it waits; only then does the other one end. No other reboot is in PATH."""
    commands, log, lock = tmp_path / "bin", tmp_path / "log", tmp_path / "lock"
    commands.mkdir()
    for name in ("sh", "sleep", "setsid", "true"):
        (commands / name).symlink_to(str(shutil.which(name)))
    noted = {"systemctl": "", "flock": f'\nexec {shutil.which("flock")} "$@"'}
    for name, then in noted.items():
        (commands / name).write_text(f"#!/bin/sh\necho {name} >>{log}{then}\n")
        (commands / name).chmod(0o755)
    log.touch()
    text = reboot_module.SCRIPT.format(read="echo now", boot="now")
    text = text.replace("/run/railhead/lock", str(lock))
    with locks.wait_lock(lock):
        subprocess.run(["/bin/sh", "-c", text], env={"PATH": str(commands)}, check=True)
        assert wait_until(log.read_text, seconds=60, every=0.01) == "flock\n"
    assert wait_until(lambda: "systemctl" in log.read_text(), seconds=60, every=0.01)


def test_the_machine_that_one_types_on_is_never_rebooted(debian: HostFacts) -> None:
    here, typed = replace(debian, boot_id=OUR_BOOT.read_text().strip()), list[str]()
    session: Any = SimpleNamespace(
        host=Host("h1", "h1"), sh=lambda text, **_: typed.append(text), close=lambda: None
    )
    with pytest.raises(UsageError, match="h1 is the computer that you work on"):
        reboot(cast(Any, None), session, here, lambda _: None)
    assert not typed
    _refuse_this_machine(Host("h1", "h1"), replace(here, boot_id="another"))
