"""The ways out of a host: what is tried, in real shells, and what an answer means."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bootstrap.facts import egress
from bootstrap.facts.egress import Egress, EgressCheck


@pytest.fixture
def server() -> Iterator[str]:
    """The address of somebody who listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield "127.0.0.1:{}".format(*listening.getsockname()[1:2])


@pytest.fixture
def nobody() -> str:
    """An address where nobody does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return "127.0.0.1:{}".format(*listening.getsockname()[1:2])


def ask(
    apt: Path, *, shell: Sequence[str] = ("/bin/sh",), path: str = os.defpath, **env: str
) -> Egress:
    """What a shell tells with the files of `apt` in place of /etc/apt."""
    text = egress.SCRIPT.replace("/etc/apt", str(apt))
    variables = {"PATH": path, "APT_CONFIG": "/dev/null", **env}
    process = subprocess.run([*shell, "-c", text], env=variables, capture_output=True, text=True)
    assert process.stderr == ""
    return egress.parse(process.stdout)


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sources.list", "# deb http://no.example/x\n\ndeb [arch=amd64] http://{}/debian b main\n"),
        ("sources.list.d/ubuntu.sources", "Types: deb\nURIs: http://{}/ubuntu/\nSuites: n\n"),
        ("sources.list.d/debian.sources", "Types: deb\n# http://no.example\nURIs: http://{}/\n"),
        ("mirrors/debian.list", "https://name:secret@{}/debian\n"),
        ("sources.list.d/own.list", "deb http://{} stable main\n"),
    ],
    ids=["one file", "of Ubuntu", "of Debian", "a list of mirrors", "some other"],
)
def test_the_first_mirror_of_the_lists_is_tried(
    shell: list[str], tmp_path: Path, server: str, nobody: str, name: str, text: str
) -> None:
    write(tmp_path, name, text.format(server))
    access = ask(tmp_path, shell=shell)
    scheme = "https" if "https" in text else "http"
    assert access == Egress(
        EgressCheck(server, True), EgressCheck(server, True), (f"{scheme}://{server}",)
    )
    write(tmp_path, name, text.format(nobody))
    assert ask(tmp_path, shell=shell).apt == EgressCheck(nobody, False)


SLEEP = """#!/bin/sh
[ "$1" != 0.8 ] || { touch {there}/third; until [ -e {there}/open ]; do :; done; }
"""
PATIENT = """#!/bin/sh
shift
exec {timeout} 60 "$@"
"""


def test_a_mirror_that_only_the_third_connection_reaches_is_open(tmp_path: Path) -> None:
    """As on a line that loses packets. The third connection waits here until somebody listens."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sleep").write_text(SLEEP.replace("{there}", str(tmp_path)))
    (tmp_path / "bin/sleep").chmod(0o755)
    # Three shells take longer than the 3 s of a real connection where the machine is busy.
    (tmp_path / "bin/timeout").write_text(PATIENT.format(timeout=shutil.which("timeout")))
    (tmp_path / "bin/timeout").chmod(0o755)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))

        def open_at_the_third() -> None:
            while not (tmp_path / "third").exists():
                time.sleep(0.01)
            server.listen()
            (tmp_path / "open").touch()

        thread = threading.Thread(target=open_at_the_third, daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        write(tmp_path, "sources.list", f"deb http://{address} stable main\n")
        access = ask(tmp_path, path=f"{tmp_path}/bin:{os.defpath}")
        thread.join(60)
    assert access.apt == EgressCheck(address, True)


def test_the_systems_own_mirror_comes_before_a_makers(
    tmp_path: Path, server: str, nobody: str
) -> None:
    write(tmp_path, "sources.list", "# moved to sources.list.d\n")
    write(tmp_path, "sources.list.d/cuda.list", f"deb http://{nobody}/ /\n")
    write(tmp_path, "sources.list.d/ubuntu.sources", f"URIs: http://{server}/ubuntu\n")
    assert ask(tmp_path).apt == EgressCheck(server, True)


@pytest.mark.parametrize(
    "line", ['Acquire::http::Proxy "http://{}";', 'Acquire {{ https {{ Proxy "http://{}/"; }}; }};']
)
def test_apt_goes_through_its_proxy(tmp_path: Path, server: str, nobody: str, line: str) -> None:
    write(tmp_path, "sources.list", f"deb http://{nobody}/debian b main\n")
    write(tmp_path, "proxy.conf", line.format(server))
    access = ask(tmp_path, APT_CONFIG=str(tmp_path / "proxy.conf"))
    assert access.apt == EgressCheck(server, True)
    access = ask(tmp_path, http_proxy=f"http://{server}")
    assert access.apt == EgressCheck(server, True)


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "ALL_PROXY", "UV_DEFAULT_INDEX"])
def test_wheels_go_by_what_the_environment_names(
    tmp_path: Path, server: str, nobody: str, name: str
) -> None:
    write(tmp_path, "sources.list", f"deb http://{nobody}/debian b main\n")
    named: dict[str, Any] = {name: f"http://me:secret@{server}/simple"}
    access = ask(tmp_path, **named)
    assert access == Egress(
        EgressCheck(nobody, False), EgressCheck(server, True), (f"http://{nobody}",)
    )
    access = ask(tmp_path, UV_DEFAULT_INDEX=f"own=http://{server}/simple")
    assert access.index == EgressCheck(server, True)


def test_where_nothing_can_report_nothing_is_reported(tmp_path: Path, server: str) -> None:
    assert ask(tmp_path) == Egress(EgressCheck("", None), EgressCheck("", None))
    write(tmp_path, "sources.list", f"deb http://{server}/debian b main\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("cat", "grep", "sed", "timeout", "tr"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    assert ask(tmp_path, path=str(tools)).apt == EgressCheck(server, None)


def test_a_silent_mirror_costs_three_seconds(tmp_path: Path) -> None:
    write(tmp_path, "bash", "#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "bash").chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.defpath}", "http_proxy": "http://192.0.2.1:3128"}
    argv = ["/bin/sh", "-c", egress.SCRIPT]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    assert egress.parse(done.stdout).apt == EgressCheck("192.0.2.1:3128", False)


def test_every_mirror_is_known_once_with_its_port_and_without_passwords(
    shell: list[str], tmp_path: Path
) -> None:
    write(
        tmp_path,
        "sources.list",
        "deb [trusted=yes] http://A.example/d b main # http://no.example\n",
    )
    text = "URIs: http://a.example:80/debian https://me:secret@b.example/x\n# http://no.example\n"
    write(tmp_path, "sources.list.d/debian.sources", text)
    write(tmp_path, "sources.list.d/own.list", "deb http://[2001:db8::7]:3142/x ./\n")
    write(tmp_path, "mirrors/debian.list", "https://c.example/debian\tpriority:1\n")
    mirrors = ask(tmp_path, shell=shell).mirrors
    assert mirrors[0] == "http://a.example" and sorted(mirrors[1:]) == [
        "http://[2001:db8::7]:3142", "https://b.example", "https://c.example"]  # fmt: skip


WHOLE = "apt 0 http://m.example\nindex 1\nmirrors\n"


@pytest.mark.parametrize("missing", ["apt", "index", "mirrors"])
def test_an_incomplete_answer_is_an_error(missing: str) -> None:
    assert egress.parse(WHOLE)
    with pytest.raises(ValueError):
        egress.parse(WHOLE.replace(missing, "other"))


@pytest.mark.parametrize(
    ("output", "to"),
    [
        ("http://m.example/debian", "m.example"),
        ("http://me:sec/ret@m.example/debian", "m.example"),
        ("http://[2001:db8::7]:3142/", "[2001:db8::7]:3142"),
        ("own=https://me:secret@i.example:8443/simple", "i.example:8443"),
        ("", ""),
    ],
)
def test_no_password_of_an_address_is_kept(output: str, to: str) -> None:
    assert egress.parse(f"apt 1 {output}\nindex 1 {output}\nmirrors\n").index == EgressCheck(
        to, False
    )
