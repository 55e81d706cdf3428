"""All facts of a host, read with one script: each fact is a command and a pure parser.

The commands are POSIX sh, need neither Python nor root, and write nothing. `script()` is sent
on the first connection; `parse()` turns its output into HostFacts.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from railhead.documents.lazy import dataclass
from railhead.documents.runs.swept import OF_RUNS, OF_STANDBYS

from ..console.text import lines
from ..errors import UsageError
from . import gpu, marked, system
from .egress import UNREAD, Egress
from .gpu import GpuFacts
from .marked import RunProcess
from .system import SystemFacts

PYTHONS = ("3.11", "3.12", "3.10", "3.13")  # in order of preference: the best tested one first
PYTHON_OF_APT = {
    "debian-12": "3.11",
    "debian-13": "3.13",
    "ubuntu-22.04": "3.10",
    "ubuntu-24.04": "3.12",
}
TOOLS = ("mpirun", "ssh", "ssh-keygen", "g++")


@dataclass(frozen=True)
class Address:
    """One address of a host and the network that it is in: 10.0.1.5 in 10.0.1.0/24."""

    device: str
    address: str
    network: str


@dataclass(frozen=True)
class HostFacts:
    """Sizes are bytes; `pythons` maps "3.11" to a path; `envs` and `uvs` are the digests of
    complete folders; `inside` is the host's own (address, port) in our SSH connection; `gpus` are
    the names that nvidia-smi prints, empty without a working driver; `gpu.cards` needs no driver;
    `standbys` are the runs that this host takes over if their chief is lost; `egress` is read only
    if something has to be installed."""

    home: str
    user: str
    os: str
    arch: str
    boot_id: str
    memory: int
    disk_free: int
    pythons: Mapping[str, str]
    tools: Mapping[str, str]
    openmpi: str | None
    mpi_headers: bool
    gpus: tuple[str, ...]
    root: bool
    sudo: bool
    apt: bool
    inside: tuple[str, int]
    addresses: tuple[Address, ...]
    envs: frozenset[str]
    uvs: frozenset[str]
    cluster_key: str | None
    authorized: frozenset[str]
    run_processes: tuple[RunProcess, ...]
    standbys: frozenset[str]
    system: SystemFacts
    gpu: GpuFacts
    egress: Egress = UNREAD

    @property
    def python(self) -> str | None:
        """The path of the Python that runs our code on this host; None if there is none."""
        return next((self.pythons[v] for v in PYTHONS if v in self.pythons), None)

    @property
    def python_of_apt(self) -> str | None:
        """The Python version that apt installs on this host; None if unknown."""
        return PYTHON_OF_APT.get(self.os) if self.apt else None

    @property
    def builds_wheels(self) -> bool:
        """Whether this host has the tools to build the Horovod wheel."""
        return "g++" in self.tools and self.mpi_headers


def _kilobytes(out: str) -> int:
    match = re.search(r"\d+", out)
    return int(match[0]) * 1024 if match else 0


def _pairs(out: str) -> dict[str, str]:
    return dict(line.split(None, 1) for line in lines(out) if " " in line)


def _os(out: str) -> str:
    values = dict(line.split("=", 1) for line in lines(out) if "=" in line)
    return "-".join(values.get(key, "").strip("\"'") for key in ("ID", "VERSION_ID")).strip("-")


def _pythons(out: str) -> dict[str, str]:
    pythons: dict[str, str] = {}
    for line in lines(out):
        version, _, path = line.partition(" ")
        pythons.setdefault(version, path)
    return pythons


def _openmpi(out: str) -> str | None:
    match = re.search(r"\(Open MPI\)\s+(\d+\.\d+\S*)", out)
    return match[1] if match else None


def _identity(out: str) -> tuple[str, str]:
    """The number and the name of the user, from `uid=1000(ann) gid=...`."""
    match = re.match(r"uid=(\d+)(?:\(([^)]*)\))?", out.strip())
    return (match[1], match[2] or "") if match else ("", "")


def _inside(out: str) -> tuple[str, int]:
    parts = out.split()
    return (parts[2], int(parts[3])) if len(parts) == 4 else ("", 22)


def _addresses(out: str) -> tuple[Address, ...]:
    addresses = []
    for parts in map(str.split, lines(out)):
        if len(parts) < 4 or parts[2] not in ("inet", "inet6"):
            continue  # an old `ip` prints the link as well
        interface = ipaddress.ip_interface(parts[3])
        addresses.append(Address(parts[1], str(interface.ip), str(interface.network)))
    return tuple(addresses)


# python3 is most often a link to one of the others, which is then not started twice. Debian's
# python3-minimal has no json, one that was compiled without libffi-dev no _ctypes, which TensorFlow
# needs; such a python3 may hide the system's. If the file of the json package exists, none starts.
_PYTHON_SEARCH = """set --
for p in python3.11 python3.12 python3.10 python3.13 python3 /usr/bin/python3; do
  command -v $p >/dev/null || continue
  q=$(command -v $p)
  for r in "$@"; do [ "$q" -ef "$r" ] && continue 2; done
  if [ "$q" = /usr/bin/$p ] && [ -e /usr/lib/$p/json/__init__.py ]; then v=${p#python}; else
    v=$("$q" -I -S -B -c 'import sys; from importlib.machinery import PathFinder
for name in ("json", "_ctypes"):
  if name not in sys.builtin_module_names and not PathFinder.find_spec(name): sys.exit(1)
print("%d.%d" % sys.version_info[:2])') || continue
  fi
  echo "$v $q"; set -- "$@" "$q"
done"""
_TOOL_SEARCH = f"""for t in {" ".join(TOOLS)}; do
  command -v $t >/dev/null && printf '%s ' $t && command -v $t
done"""
# The headers of Debian's packages are found without running mpicxx.
_MPI_HEADERS = """command -v mpicxx && {
  d=; [ "$(command -v mpicxx)" -ef /usr/bin/mpicxx.openmpi ] && d=$(echo /usr/lib/*/openmpi/include)
  for d in ${d:-$(mpicxx --showme:incdirs)}; do [ -e $d/mpi.h ] && echo $d/mpi.h; done
}"""
# During a run the private key has no file: the process of host/run/cluster_key.py holds it.
_CLUSTER_KEY = """cd ~/.railhead/cluster && { [ -f key ] || {
  read -r pid _ <held && grep -qx railhead-key "/proc/$pid/comm"; }; } &&
  read -r v <key.pub && printf '%s\\n' "$v\""""
# Output that several facts need is read once; a fact that is read alone reads it itself. `read`
# takes a line of a file without starting a process.
_MARKED = marked.search((OF_RUNS, OF_STANDBYS))
BEGIN = f"""{{ railhead_id=$(id); {system.READ_DISKS}
railhead_marked=$({_MARKED})
}} 2>/dev/null </dev/null"""
_ID = 'echo "${railhead_id-$(id)}"'
_SUDO = "case ${railhead_id-$(id)} in uid=0[!0-9]*) :;; *) sudo -n true;; esac && echo yes"
_PROCESSES = f"printf '%s\\n' \"${{railhead_marked-$({_MARKED})}}\""
_ENVS = """cd ~/.railhead/envs && for d in *; do
  v=; read -r v <$d/.ok; [ "$v" = $d ] && echo $d
done"""
# The folder is not enough: an interrupted transfer may have left it empty.
_UV_SEARCH = """cd ~/.railhead/uv && for d in *; do
  [ -f $d/uv ] && [ -s $d/uv ] && [ -x $d/uv ] && echo $d
done"""
_HOST: dict[str, tuple[str, Callable[[str], Any]]] = {
    "home": ('echo "$HOME"', str.strip),
    "user": (_ID, lambda out: _identity(out)[1]),
    "os": ('while read -r v; do echo "$v"; done </etc/os-release', _os),
    "arch": ("uname -m", str.strip),
    "boot_id": ('read -r v </proc/sys/kernel/random/boot_id && echo "$v"', str.strip),
    "memory": ('read -r v </proc/meminfo && echo "$v"', _kilobytes),  # the first line
    "disk_free": (system.DISKS, lambda out: _kilobytes(" ".join(system.last(out).split()[3:4]))),
    "pythons": (_PYTHON_SEARCH, _pythons),
    "tools": (_TOOL_SEARCH, _pairs),
    "openmpi": ("mpirun --version", _openmpi),
    "mpi_headers": (_MPI_HEADERS, lambda out: "mpi.h" in out),
    "gpus": (gpu.NAMES, lambda out: tuple(lines(out))),
    "root": (_ID, lambda out: _identity(out)[0] == "0"),
    "sudo": (_SUDO, lambda out: "yes" in out),
    "apt": ("command -v apt-get", lambda out: bool(out.strip())),
    "inside": ('echo "$SSH_CONNECTION"', _inside),
    "addresses": ("ip -o addr show", _addresses),
    "envs": (_ENVS, lambda out: frozenset(lines(out))),
    "uvs": (_UV_SEARCH, lambda out: frozenset(lines(out))),
    "cluster_key": (_CLUSTER_KEY, lambda out: out.strip() or None),
    "authorized": ("grep -a railhead: ~/.ssh/authorized_keys", lambda out: frozenset(lines(out))),
    "run_processes": (_PROCESSES, lambda out: marked.processes(out, OF_RUNS)),
    "standbys": (
        _PROCESSES,
        lambda out: frozenset(process.run_id for process in marked.processes(out, OF_STANDBYS)),
    ),
}
FACTS = {**_HOST, **system.FACTS, **gpu.FACTS}


def script() -> str:
    """The POSIX sh that prints every fact after a marker, even if single commands fail. It does not
    change the shell's state."""
    commands = (
        f"echo; echo @fact {name}; {_grouped(command)} 2>/dev/null </dev/null"
        for name, (command, _) in FACTS.items()
    )
    return "\n".join(["(", gpu.BEGIN, BEGIN, *commands, ")"])


def _grouped(command: str) -> str:
    """A command; in a subshell (0.8 ms) only if it would change how the next one runs: its folder,
    its arguments, or whether it runs at all."""
    changes = re.search(r"\b(cd|exit|set|shift)\b", command)
    return f"( {command}\n)" if changes else f"{{ {command}\n}}"


def parse(output: str) -> HostFacts:
    """Turn what `script()` printed into facts.

    Raises:
        UsageError: a fact is missing or has an unknown format.
    """
    parts = re.split(r"^@fact (\w+)\n", output, flags=re.MULTILINE)
    outputs = dict(zip(parts[1::2], parts[2::2], strict=True))
    values: dict[str, Any] = {}
    for name, (command, parser) in FACTS.items():
        try:
            values[name] = parser(outputs[name])
        except (KeyError, ValueError, IndexError) as error:
            raise UsageError(
                f"the fact {name!r} could not be read ({error!r})",
                hint=f"on the host: {shlex.join(['sh', '-c', command])}",
            ) from None
    return HostFacts(
        **{name: values[name] for name in _HOST},
        system=SystemFacts(**{name: values[name] for name in system.FACTS}),
        gpu=GpuFacts(**{name: values[name] for name in gpu.FACTS}),
    )


def route_script(address: str) -> str:
    """POSIX sh that prints this host's source address on its route to `address`."""
    return f"ip -o route get {shlex.quote(address)} 2>/dev/null"


def parse_route(output: str) -> str | None:
    """The `src` of `ip route get`; None if there is no route or the route is local."""
    match = re.search(r"\bsrc (\S+)", output)
    return None if not match or output.startswith("local ") else match[1]


def common_python(facts: Mapping[str, HostFacts], versions: Sequence[str]) -> str:
    """The first of `versions` that every host has; otherwise the first that each host has or can
    install with apt.

    Raises:
        UsageError: no version fits all hosts; the message lists each host's versions.
    """
    for installs in (False, True):
        for version in versions:
            if all(
                version in host.pythons or (installs and version == host.python_of_apt)
                for host in facts.values()
            ):
                return version
    has = "; ".join(f"{n} has {', '.join(sorted(f.pythons)) or 'none'}" for n, f in facts.items())
    raise UsageError(
        f"no Python works on all hosts: one of {', '.join(versions)} must be on each; {has}",
        hint=f"install one of them; apt has one on {', '.join(PYTHON_OF_APT)}",
    )
