"""scripts/setup on machines that lack something. Everything that it could call is a fake, so no
case needs the network, root, or anything of this machine but its shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from places import ROOT

from bootstrap.host.buckets.certificates import STORES

TOOLS = ["sh", "sed", "awk", "cksum", "tr", "cat", "dirname", "ls", "sort", "rm", "tail", "env"]
PARTS = ["ssh", "ssh-keygen", "sshd", "mpirun", "g++"]

# What pip, uv, apt and sudo were called with stands in $LOG; nothing was fetched if it is empty.
LOGGED = 'echo "${0##*/} $*" >>"$LOG"\n'
UV = (
    LOGGED
    + """case "$*" in
*--quiet*) ;;
*) echo ' + fabric==3.2.3'; echo 'Installed 2 packages' ;;
esac"""
)
PYTHON = (
    """case "$*" in
*ensurepip*) echo "VERSION WHOLE $0" ;;
*"-m venv"*) for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python"
    cp "$UV" "$last/bin/uv"
    : >"$last/bin/railhead" ;;
*"-m pip --version"*) ;;
*"-m pip config list") $SETTINGS ;;
*"-m pip"*) """
    + LOGGED
    + """ ;;
*) echo VERSION ;;
esac"""
)


def python(version: str = "3.11", whole: str = "whole") -> str:
    """A Python that answers what set-up asks it."""
    return PYTHON.replace("VERSION", version).replace("WHOLE", whole)


TOO_NEW = 'case "$*" in *ensurepip*) exit 1 ;; *) echo "; python3 here is 3.14.0" ;; esac'
SHIM = "echo 'command not found' >&2; exit 127"
MPI = 'echo "$INCLUDE"'


@dataclass
class Machine:
    """A clone of the project on a machine whose programs are the given fakes."""

    folder: Path
    system: str = 'ID=debian\nVERSION_ID="12"\n'
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bin, self.clone, self.log = (self.folder / x for x in ("bin", "clone", "log"))
        self.bin.mkdir()
        for name in ("scripts", "locks"):
            shutil.copytree(ROOT / name, self.clone / name)
        shutil.copy(ROOT / "pyproject.toml", self.clone)
        (self.folder / "include").mkdir()
        (self.folder / "include/mpi.h").touch()
        (self.folder / "os-release").write_text(self.system)
        for tool in [*TOOLS, "mkdir", "cp", "chmod"]:
            (self.bin / tool).symlink_to(str(shutil.which(tool)))
        self.have(id="echo 1000", uname='[ "$1" = -s ] && echo Linux || echo x86_64')
        self.place(self.folder / "uv", UV)

    def place(self, path: Path, body: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{self.bin / 'sh'}\n{body}\n")
        path.chmod(0o755)

    def have(self, bodies: Mapping[str, str] | None = None, **named: str) -> None:
        """Put fakes on PATH."""
        for name, body in {**(bodies or {}), **named}.items():
            self.place(self.bin / name, body)

    def setup(self, *options: str) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": str(self.bin), "HOME": str(self.folder), "LOG": str(self.log)}
        variables |= {"OS_RELEASE": str(self.folder / "os-release")}
        variables |= {"UV": str(self.folder / "uv"), "INCLUDE": str(self.folder / "include")}
        return subprocess.run(
            ["sh", "scripts/setup", *options],
            cwd=self.clone,
            env={**variables, **self.variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def requests(self) -> list[str]:
        """What pip, uv, apt and sudo were called with since the last look."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def bare(tmp_path: Path) -> Machine:
    """Neither a Python nor any part; apt, but no sudo."""
    machine = Machine(tmp_path)
    machine.have({"apt-get": LOGGED})
    return machine


@pytest.fixture
def whole(bare: Machine) -> Machine:
    """All calls."""
    bare.have({**dict.fromkeys(PARTS, ":"), "mpicxx": MPI, "python3": python()})
    bare.have(mpirun="echo 'mpirun (Open MPI) 4.1.4'")
    return bare


APT = "sudo apt-get install -y python3 python3-venv"
PYENV = "pyenv install 3.11"


@pytest.mark.parametrize(
    ("system", "there", "says", "command"),
    [
        ('ID=debian\nVERSION_ID="12"\n', "", "there is no python3", APT),
        ('VERSION_ID="22.04"\nID=ubuntu\n', "", "there is no python3", APT),
        ('VERSION_ID="24.04"\nID=ubuntu\n', SHIM, "there is no python3", APT),
        ('ID=debian\nVERSION_ID="13"\n', TOO_NEW, "python3 here is 3.14.0", PYENV),
        ("ID=arch\n", TOO_NEW, "python3 here is 3.14.0", PYENV),
    ],
)
def test_without_a_suitable_python_it_names_those_that_are_before_any_download(
    bare: Machine, system: str, there: str, says: str, command: str
) -> None:
    (bare.folder / "os-release").write_text(system)
    if there:
        bare.have(python3=there)
    process = bare.setup("--yes")
    assert process.returncode == 2
    assert "needs a Python 3.10, 3.11 or 3.12" in process.stderr
    assert says in process.stderr
    assert f"next: {command}" in process.stderr
    assert bare.requests() == []


@pytest.mark.parametrize(
    "place", [".pyenv/versions/3.11.9/bin", ".local/share/uv/python/cpython-3.12.9-linux/bin"]
)
def test_a_python_outside_path_is_used_where_the_shims_on_it_do_not_work(
    whole: Machine, place: str
) -> None:
    whole.have({"python3.11": SHIM, "python3": SHIM})
    whole.place(whole.folder / place / "python", python())
    process = whole.setup()
    assert process.returncode == 0, process.stderr
    assert f"{whole.folder}/{place}/python" in process.stdout


def test_python_3_13_is_for_the_control_side_only(whole: Machine) -> None:
    body = python("3.13").replace("*ensurepip*) ", '*ensurepip*) for m; do :; done; case " $m " in'
                                  ' *" 13 "*) ;; *) exit 1 ;; esac; ')  # fmt: skip
    whole.have(python3=body)
    assert whole.setup().returncode == 2
    assert whole.requests() == []
    assert whole.setup("--control").returncode == 0


def test_a_python_without_ensurepip_is_refused_where_apt_cannot_add_it(whole: Machine) -> None:
    whole.have(python3=python(whole="bare"))
    process = whole.setup()
    assert process.returncode == 2
    assert "can make environments" in process.stderr


def test_debians_python_without_ensurepip_makes_its_package_a_missing_part(
    whole: Machine,
) -> None:
    whole.have(python3=python(whole="bare").replace("$0", "/usr/bin/python3.11", 1))
    process = whole.setup()
    assert process.returncode == 2
    assert "missing here: python3.11-venv;" in process.stderr


@pytest.mark.parametrize(
    ("gone", "package"),
    [
        ("ssh-keygen", "openssh-client"),
        ("mpirun", "openmpi-bin"),
        ("mpicxx", "libopenmpi-dev"),
        ("g++", "g++"),
    ],
)
def test_without_root_and_sudo_the_one_command_is_printed(
    whole: Machine, gone: str, package: str
) -> None:
    (whole.bin / gone).unlink()
    process = whole.setup("--yes", "--compiler")
    assert process.returncode == 2
    assert f"missing here: {package};" in process.stderr
    assert f"next: sh {whole.clone}/scripts/parts {package}   # as root" in process.stderr
    assert whole.requests() == []


def test_another_mpi_on_the_path_does_not_count_as_open_mpi(whole: Machine) -> None:
    system = whole.folder / "system"
    system.mkdir()
    (whole.bin / "mpirun").rename(system / "mpirun")
    whole.have(mpirun="echo 'HYDRA build details: Version: 4.2.0'")
    assert "missing here: openmpi-bin;" in whole.setup().stderr
    whole.variables["PATH"] = f"{whole.bin}:{system}"
    assert whole.setup().returncode == 0


def test_mpi_without_its_header_is_a_missing_part(whole: Machine) -> None:
    (whole.folder / "include/mpi.h").unlink()
    assert "missing here: libopenmpi-dev;" in whole.setup("--compiler").stderr


@pytest.mark.parametrize(
    ("option", "needs"), [("--compiler", True), ("--dev", True), (None, False)]
)
def test_only_what_compiles_needs_a_compiler(
    whole: Machine, option: str | None, needs: bool
) -> None:
    for tool in ("g++", "mpicxx"):
        (whole.bin / tool).unlink()
    process = whole.setup(*([option] if option else []))
    assert ("missing here: libopenmpi-dev g++;" in process.stderr) is needs
    assert process.returncode == (2 if needs else 0)


def test_sudo_is_requested_at_a_terminal_only(whole: Machine) -> None:
    whole.have(sudo=LOGGED)
    (whole.bin / "mpirun").unlink()
    process = whole.setup()
    assert process.returncode == 2
    assert f"to install them: sudo sh {whole.clone}/scripts/parts openmpi-bin" in process.stdout
    assert "no terminal" in process.stderr
    assert f"next: sudo sh {whole.clone}/scripts/parts openmpi-bin" in process.stderr
    assert whole.requests() == []


def test_yes_lets_sudo_install_exactly_what_is_missing(whole: Machine) -> None:
    (whole.bin / "g++").unlink()
    (whole.bin / "mpirun").unlink()
    whole.have(sudo=LOGGED)
    assert whole.setup("--yes", "--compiler").returncode == 0
    parts = f"sudo sh {whole.clone}/scripts/parts openmpi-bin g++"
    assert whole.requests()[:2] == ["sudo -v", parts]


@pytest.mark.parametrize(
    ("sudo", "code", "says"),
    [('[ "$1" != -v ]', 2, "sudo refused"), ('[ "$1" = -v ]', 1, "")],
    ids=["no password", "apt failed"],
)
def test_what_sudo_answers_decides(whole: Machine, sudo: str, code: int, says: str) -> None:
    (whole.bin / "mpirun").unlink()
    whole.have(sudo=sudo)
    process = whole.setup("--yes")
    assert (process.returncode, says in process.stderr) == (code, True)
    assert not (whole.clone / ".venv").exists()


def test_root_installs_without_a_question(whole: Machine) -> None:
    (whole.bin / "mpirun").unlink()
    whole.have(id="echo 0")
    whole.place(whole.clone / "scripts/parts", LOGGED)
    assert whole.setup().returncode == 0
    assert whole.requests()[0] == "parts openmpi-bin"


def test_without_apt_it_names_what_is_missing(whole: Machine) -> None:
    (whole.bin / "mpirun").unlink()
    (whole.bin / "apt-get").unlink()
    process = whole.setup("--yes")
    assert process.returncode == 2
    assert "missing here: openmpi-bin" in process.stderr


@pytest.mark.parametrize("machine", ["Darwin arm64", "Linux aarch64"])
def test_elsewhere_only_the_control_side_is_set_up(whole: Machine, machine: str) -> None:
    system, kind = machine.split()
    whole.have(uname=f'[ "$1" = -s ] && echo {system} || echo {kind}')
    (whole.bin / "apt-get").unlink()
    (whole.bin / "mpirun").unlink()
    process = whole.setup()
    assert process.returncode == 2
    assert f"this is {system} on {kind}" in process.stderr
    assert "scripts/setup --control" in process.stderr
    assert whole.requests() == []
    assert whole.setup("--control").returncode == 0


def test_a_second_run_does_nothing_at_once(whole: Machine) -> None:
    first = whole.setup("--dev")
    output = re.search(r"fetching what locks/dev.txt names, (\d+) MB", first.stdout)
    assert output and f" {output[1]} MB" in (ROOT / "locks/dev.txt").read_text().splitlines()[0]
    assert "Installed 2 packages" in first.stdout
    assert "fabric" not in first.stdout
    pip, sync, project = whole.requests()
    assert pip.startswith("python -m pip install") and "--require-hashes" in pip
    assert sync.startswith("uv pip sync") and sync.endswith("locks/dev.txt")
    assert "--require-hashes" in sync
    assert "--no-deps" in project and "--no-build-isolation" in project
    for options in (["--dev"], [], ["--control"]):
        again = whole.setup(*options)
        assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert whole.requests() == []


@pytest.mark.parametrize("changed", ["locks/control.txt", "pyproject.toml", "scripts/setup"])
def test_what_has_changed_is_installed_again(whole: Machine, changed: str) -> None:
    whole.setup()
    whole.requests()
    with (whole.clone / changed).open("a") as file:
        file.write("# another line\n")
    assert whole.setup().returncode == 0
    assert [line.split()[0] for line in whole.requests()] == ["python", "uv", "uv"]


def test_tools_come_to_an_environment_that_has_none(whole: Machine) -> None:
    whole.setup()
    whole.requests()
    assert whole.setup("--dev").returncode == 0
    assert any(line.endswith("locks/dev.txt") for line in whole.requests())


def test_what_an_environment_has_stays_when_a_lock_changes(whole: Machine) -> None:
    whole.setup("--stacks")
    whole.setup("--dev")
    (whole.clone / "locks/control.txt").open("a").write("# changed")
    whole.requests()
    assert whole.setup("--stacks").returncode == 0
    locks = [Path(line.split()[-1]).name for line in whole.requests() if " sync " in line]
    assert locks == ["dev.txt"]


@pytest.mark.parametrize("fails", ["pip sync", "pip install"])
def test_what_failed_is_not_taken_for_done(whole: Machine, fails: str) -> None:
    whole.setup()
    uv = whole.clone / ".venv/bin/uv"
    whole.place(uv, f'case "$*" in *"{fails}"*) echo no network; exit 1 ;; esac')
    process = whole.setup("--dev")
    assert process.returncode == 1
    assert "uv could not install" in process.stderr
    assert "no network" in process.stdout
    whole.requests()
    whole.place(uv, UV)
    assert whole.setup().returncode == 0
    assert [line.split()[0] for line in whole.requests()] == ["python", "uv", "uv"]


def test_an_unfinished_environment_is_finished(whole: Machine) -> None:
    whole.setup()
    whole.requests()
    (whole.clone / ".venv/.railhead-setup").unlink()
    assert whole.setup().returncode == 0
    assert len(whole.requests()) == 3


def test_pip_and_uv_get_the_index_and_network_of_pip_and_no_other_setting(whole: Machine) -> None:
    """As the real pip lists the settings of its files and variables."""
    logs = (
        'echo "${0##*/} $PIP_INDEX_URL $PIP_CERT $PIP_USER$PIP_TARGET$PIP_CONFIG_FILE" >>"$LOG"\n'
    )
    whole.have(python3=python().replace(LOGGED, logs))
    names = "$UV_DEFAULT_INDEX $SSL_CERT_FILE $ALL_PROXY $UV_INSECURE_HOST$UV_CONSTRAINT"
    whole.place(whole.folder / "uv", f'echo "${{0##*/}} {names}" >>"$LOG"')
    file = whole.folder / ".config/pip/pip.conf"
    file.parent.mkdir(parents=True)
    file.write_text(
        "[global]\nindex-url = file:///a\nuser = true\nproxy = http://proxy:1\n"
        "trusted-host =\n  one\n  two\n[install]\nindex-url = file:///b\ntarget = /target\n"
    )
    whole.variables["SETTINGS"] = f"{sys.executable} -m pip config list"
    whole.variables |= {"PIP_CERT": "/ca.crt", "PIP_USER": "1", "UV_CONSTRAINT": "/constraint"}
    assert whole.setup().returncode == 0
    pip, uv, *_ = whole.requests()
    assert pip.split() == ["python", "file:///b", "/ca.crt", "/dev/null"]
    assert uv.split() == ["uv", "file:///b", "/ca.crt", "http://proxy:1", "one", "two"]


@pytest.mark.parametrize("given, seen", [("", "1"), ("0", "0")])
def test_uv_trusts_what_the_system_trusts(whole: Machine, given: str, seen: str) -> None:
    """Where the system has certificates; SSL_CERT_FILE replaces them."""
    store = any(Path(file).exists() for file in STORES)
    whole.place(whole.folder / "uv", 'echo "certs=$UV_SYSTEM_CERTS" >>"$LOG"')
    whole.variables |= {"UV_SYSTEM_CERTS": given} if given else {}
    assert whole.setup().returncode == 0
    assert whole.requests()[-1] == f"certs={seen if store or given else ''}"


@pytest.mark.parametrize("folders", [".", "/:."])
def test_the_folders_of_cd_do_not_change_where_the_clone_is(whole: Machine, folders: str) -> None:
    whole.variables["CDPATH"] = folders
    assert whole.setup().returncode == 0
    assert (whole.clone / ".venv/bin/fab").exists()


def test_an_interpreter_is_never_downloaded(whole: Machine) -> None:
    whole.place(whole.folder / "uv", 'echo "$UV_PYTHON_DOWNLOADS" >>"$LOG"')
    whole.setup()
    assert whole.requests()[1:] == ["never", "never"]


@pytest.mark.parametrize("name", ["curl", "x;y", "-o", "$(id)", "openssh-server openssh-client"])
def test_only_our_own_parts_are_installed_as_root(bare: Machine, name: str) -> None:
    bare.have(id="echo 0")
    process = subprocess.run(
        ["sh", bare.clone / "scripts/parts", "g++", name],
        env={"PATH": str(bare.bin), "LOG": str(bare.log)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 2
    assert f"not one of railhead's parts: {name}" in process.stderr
    assert bare.requests() == []


def test_an_unknown_option_changes_nothing(whole: Machine) -> None:
    process = whole.setup("--devel")
    assert process.returncode == 2
    assert "--devel" in process.stderr and "--help" in process.stderr
    assert not (whole.clone / ".venv").exists()


@pytest.mark.parametrize("script", ["scripts/setup", "scripts/parts"])
def test_the_scripts_can_be_started_by_name(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
