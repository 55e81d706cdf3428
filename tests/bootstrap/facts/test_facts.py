"""Facts: what hosts printed becomes what we know; the script that asks them harms nothing."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from places import CASES

from bootstrap.errors import UsageError
from bootstrap.facts.host import (
    FACTS,
    PYTHONS,
    HostFacts,
    common_python,
    parse,
    parse_route,
    route_script,
    script,
)

RECORDED = sorted((CASES / "facts").glob("*.json"))
each_case = pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)


def case(name: str) -> tuple[str, dict[str, Any]]:
    """A case's output and its facts."""
    held = json.loads((RECORDED[0].parent / f"{name}.json").read_text())
    return "\n".join(held["output"]), held["facts"]


@each_case
def test_what_a_host_printed_is_read(path: Path) -> None:
    output, facts = case(path.stem)
    as_stored = json.dumps(asdict(parse(output)), default=sorted)  # sets are sorted lists
    assert json.loads(as_stored) == facts


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_that_never_came_is_named_with_its_command(fact: str) -> None:
    output, _ = case("debian-12")
    lost = output.replace(f"@fact {fact}\n", "@fact of_another_time\n")
    with pytest.raises(UsageError, match=f"the fact '{fact}' could not be read") as caught:
        parse(lost)
    assert caught.value.hint.startswith("on the host: sh -c ")


@pytest.mark.parametrize(
    ("fact", "answer"),
    [("addresses", "1: lo inet 300.0.0.1/8 scope"), ("cards", "0000:00:1e.0 10dx")],
)
def test_an_answer_of_a_shape_that_we_do_not_know_is_an_error(fact: str, answer: str) -> None:
    output, _ = case("debian-12")
    with pytest.raises(UsageError, match=f"the fact '{fact}' could not be read"):
        parse(
            re.sub(rf"(?ms)^@fact {fact}\n.*?(?=^@fact|\Z)", f"@fact {fact}\n{answer}\n\n", output)
        )


@pytest.mark.parametrize(("name", "able"), [("debian-12", True), ("ubuntu-22.04", False)])
def test_a_host_that_has_compilers_and_mpi_can_build_the_wheel(name: str, able: bool) -> None:
    facts = parse(case(name)[0])
    assert facts.builds_wheels is able
    assert not replace(facts, mpi_headers=False).builds_wheels


@pytest.mark.parametrize(
    ("output", "source"),
    [
        ("192.0.2.9 dev eth0 src 192.0.2.2 uid 0 \\    cache ", "192.0.2.2"),
        ("192.0.2.9 dev eth0  src 192.0.2.2 ", "192.0.2.2"),
        ("203.0.113.4 via 10.0.1.1 dev ens5 src 10.0.1.5 uid 1000 \\    cache", "10.0.1.5"),
        ("2001:db8::9 from :: dev eth0 proto ra src 2001:db8::5 metric 100", "2001:db8::5"),
        ("local 127.77.0.1 dev lo src 127.0.0.1 uid 0 \\    cache <local> ", None),
        ("unreachable 10.9.9.9 from :: dev lo", None),
        ("", None),
    ],
)
def test_a_route_reports_the_address_that_peers_see(output: str, source: str | None) -> None:
    assert parse_route(output) == source


def test_a_route_is_requested_one_word_whatever_it_holds() -> None:
    assert route_script("$(x) y") == "ip -o route get '$(x) y' 2>/dev/null"


@pytest.mark.parametrize(
    ("pythons", "chosen"),
    [
        ([["3.13"], ["3.13"]], "3.13"),
        ([["3.10"], ["3.10"]], "3.10"),
        ([["3.10", "3.12"], ["3.12"]], "3.12"),
        ([["3.12", "3.11", "3.10"], ["3.10", "3.11", "3.12"]], "3.11"),
        ([["3.12", "3.10"]], "3.12"),
        ([["3.13", "3.10"], ["3.10", "3.13"]], "3.10"),
    ],
)
def test_all_hosts_get_one_python(pythons: list[list[str]], chosen: str) -> None:
    assert common_python(hosts(pythons), PYTHONS) == chosen


@pytest.mark.parametrize(
    ("pythons", "output"),
    [
        ([["3.11"], []], "h1 has 3.11; h2 has none"),
        ([["3.8"], ["3.13", "3.9"]], "h1 has 3.8; h2 has 3.13, 3.9"),
        ([["3.10"], ["3.12"]], "h1 has 3.10; h2 has 3.12"),
    ],
)
def test_without_a_common_python_each_hosts_own_are_reported(
    pythons: list[list[str]], output: str
) -> None:
    with pytest.raises(UsageError, match="one of 3.11, 3.12, 3.10 must be on each") as caught:
        common_python(hosts(pythons, apt=False), ("3.11", "3.12", "3.10"))
    assert output in caught.value.message
    assert "apt has one on debian-12, debian-13, ubuntu-22.04, ubuntu-24.04" in caught.value.hint


@pytest.mark.parametrize(
    ("os", "chosen"), [("debian-12", "3.11"), ("ubuntu-22.04", "3.10"), ("ubuntu-24.04", "3.12")]
)
def test_a_host_without_python_relies_on_the_one_of_apt(os: str, chosen: str) -> None:
    facts = {name: replace(host, os=os) for name, host in hosts([[], []]).items()}
    assert common_python(facts, PYTHONS) == chosen
    facts["h1"] = replace(facts["h1"], pythons={"3.13": "/usr/bin/python3.13"})
    assert common_python(facts, PYTHONS) == chosen
    facts["h2"] = replace(facts["h2"], pythons={"3.13": "/usr/bin/python3.13"})
    assert common_python(facts, PYTHONS) == "3.13", "what is there is taken first"


def test_apt_of_an_unknown_system_has_no_python() -> None:
    facts = {name: replace(host, os="debian-14") for name, host in hosts([["3.11"], []]).items()}
    with pytest.raises(UsageError, match="h1 has 3.11; h2 has none"):
        common_python(facts, PYTHONS)


def hosts(pythons: list[list[str]], apt: bool = True) -> dict[str, HostFacts]:
    """Hosts h1, h2, ... with these versions of Python."""
    facts = replace(parse(case("debian-12")[0]), apt=apt)
    return {
        f"h{i}": replace(facts, pythons={v: f"/usr/bin/python{v}" for v in has})
        for i, has in enumerate(pythons, 1)
    }


def test_a_host_with_many_processes_of_a_run_starts_few_programs(tmp_path: Path) -> None:
    """Each is a process of its host at each command. A grep searches the variables of all
    processes, one reads those of a run; three read the names of processes and two files."""
    most = {"df": 1, "id": 1, "uname": 1, "grep": 5, "ip": 1, "mpirun": 1}
    most |= {"cat": 0, "date": 0, "find": 0, "getconf": 0, "ls": 1, "mpicxx": 1, "readlink": 0}
    most |= {"bash": 0, "sed": 0, "systemctl": 0, "apt-config": 0}
    for name in most:
        if real := shutil.which(name):
            text = f'#!/bin/sh\necho {name} >>{tmp_path}/started\nexec {real} "$@"\n'
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
    variables = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin", "railhead_smi": ""}
    of_run = {"RAILHEAD_RUN": "20261121-101500-3f2a", "RAILHEAD_HOME": str(tmp_path)}
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            process = stack.enter_context(subprocess.Popen(["/bin/sleep", "60"], env=of_run))
            stack.callback(process.kill)
        done = subprocess.run(
            ["sh", "-c", script()], env=variables, capture_output=True, text=True, check=True
        )
    assert len(parse(done.stdout).run_processes) == 3
    started = Counter((tmp_path / "started").read_text().split())
    assert {name: started[name] for name in most if started[name] > most[name]} == {}
    alone = FACTS["disk_free"][0]
    shown = subprocess.run(["sh", "-c", alone], env=variables, capture_output=True, text=True)
    assert FACTS["disk_free"][1](shown.stdout) > 0
