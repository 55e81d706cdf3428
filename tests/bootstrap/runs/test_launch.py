"""Run options, the run document, the argv of mpirun, run ids."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from places import CASES
from standins.runs import run_documents

from bootstrap.data.inputs import DataInput
from bootstrap.data.spec import parse
from bootstrap.errors import UsageError
from bootstrap.plan.hostfile import Link, Peer
from bootstrap.runs import follow, launch, start
from bootstrap.runs.keras.choice import KerasChoice
from bootstrap.runs.launch import (
    RunOptions,
    StopPolicy,
    mpirun_argv,
    new_run_id,
    placement_of,
    run_document,
)
from bootstrap.runs.metrics.options import MOST_METRICS
from bootstrap.runs.request import run_options
from bootstrap.runs.strategies import SCRIPTS_ONLY, STRATEGIES, choose, launcher_for, names
from bootstrap.untrusted.run_files import read_run_document
from railhead.documents.codec import decode, encode
from railhead.documents.options.runs import ProgramOptions
from railhead.documents.runs.evaluation import Threshold
from railhead.documents.runs.run import (
    BuiltIn,
    Metric,
    Role,
    RunBucket,
    RunData,
    RunDocument,
    Runtime,
    Script,
)

DOCUMENTS = CASES / "documents"
KEY = "ssh-ed25519 AAAA"
KERAS_2 = KerasChoice(2, "train.py:1 imports tf_keras", auto=True)


@pytest.mark.parametrize(
    ("launcher", "given", "hosts", "strategy"),
    [
        ("horovod", None, 1, "horovod"),
        ("horovod", None, 2, "horovod"),
        ("horovod", "horovod", 2, "horovod"),
        ("tensorflow", None, 1, "mirrored"),
        ("tensorflow", None, 2, "multiworker"),
        ("tensorflow", None, 16, "multiworker"),
        ("tensorflow", "multiworker", 1, "multiworker"),
        ("tensorflow", "multiworker", 2, "multiworker"),
        ("tensorflow", "mirrored", 1, "mirrored"),
        ("tensorflow", "one-device", 1, "one-device"),
        ("tensorflow", "parameter-server", 1, "parameter-server"),
    ],
)
def test_the_default_strategy_follows_from_launcher_and_number_of_hosts(
    launcher: str, given: str | None, hosts: int, strategy: str
) -> None:
    assert RunOptions(launcher, given).resolved_strategy(hosts).name == strategy


@pytest.mark.parametrize("strategy", ["mirrored", "one-device"])
def test_a_strategy_of_one_host_is_refused_over_two(strategy: str) -> None:
    with pytest.raises(
        UsageError, match=f"strategy {strategy} runs on one host, not on 2"
    ) as caught:
        RunOptions("tensorflow", strategy).resolved_strategy(2)
    assert "--strategy multiworker" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"launcher": "horovd"}, "launcher 'horovd': one of horovod, tensorflow.*mean horovod"),
        ({"launcher": "mpi"}, "launcher 'mpi': one of horovod, tensorflow, jax, torch$"),
        ({"launcher": "torch"}, "^launcher torch is for --script: the built-in training uses Ten"),
        ({"strategy": "jax", "launcher": "jax"}, "^launcher jax is for --script"),
        ({"launcher": ""}, "launcher '': one of"),
        (
            {"strategy": "parameter-server"},
            "strategy parameter-server is for launcher tensorflow, not for horovod",
        ),
        (
            {"launcher": "tensorflow", "strategy": "miror"},
            f"'miror': one of {', '.join(names())}. Did you mean mirrored",
        ),
        ({"launcher": "tensorflow", "strategy": "horovod"}, "strategy horovod is for launcher hor"),
        (
            {"launcher": "jax", "strategy": "multiworker", "script": True},
            "^strategy multiworker is for launcher tensorflow, not for jax",
        ),
        ({"strategy": "auto", "script": True}, "^--strategy auto is for the built-in training"),
        ({"servers": 2}, "^--ps is for --strategy parameter-server"),
        ({"launcher": "tensorflow", "strategy": "mirrored", "servers": 1}, "^--ps is for "),
        ({"strategy": "auto", "servers": 1}, "--ps is for --strategy parameter-server"),
        (
            {"keras": KERAS_2},
            "^keras 2 is for --script: the built-in training is written for Keras 3$",
        ),
        ({"keras_patches": False}, "^--no-keras-patches is for --script: "),
        ({"env": {"A-B": "1"}}, "'A-B' is not the name of a variable"),
        ({"env": {"": "1"}}, "'' is not the name of a variable"),
        ({"env": {"1A": "1"}}, "'1A' is not"),
        ({"env": {"A\n": "1"}}, r"'A\\n' is not"),
        ({"env": {"\u00c4": "1"}}, "is not the name of a variable"),
        ({"secrets": ("$(x)",)}, r"'\$\(x\)' is not the name of a variable"),
        ({"env": {"RAILHEAD_RUN": "x"}}, "RAILHEAD_RUN: .* must not begin with RAILHEAD_"),
        ({"secrets": ("RAILHEAD_HOME",)}, "RAILHEAD_HOME: .* must not begin with RAILHEAD_"),
        ({"env": {"A": "", "TOKEN": "x"}, "secrets": ("TOKEN",)}, "^TOKEN is given twice"),
        (
            {"metrics": (Metric("a", "x"), Metric("b", "x"), Metric("a", "y"))},
            r"--metric: at most 16, .*\['a', 'b', ",
        ),
        (
            {"metrics": tuple(Metric(f"m{i}", "x") for i in range(17))},
            "--metric: at most 16, each name",
        ),
    ],
)
def test_an_option_that_breaks_a_rule_is_refused_with_value_and_choices(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        RunOptions(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"metrics": tuple(Metric(f"m{i}", "x") for i in range(MOST_METRICS))},
        {"env": {"A": "1"}, "secrets": ("B",)},
        {"launcher": "tensorflow", "strategy": "parameter-server", "servers": 2},
        {"script": True, "keras": KERAS_2, "keras_patches": False},
        {"keras": KerasChoice(3, "given by --keras")},
    ],
)
def test_valid_options_are_accepted(options: dict[str, Any]) -> None:
    taken = RunOptions(**options)
    assert {name: getattr(taken, name) for name in options} == options


def test_a_script_with_strategy_auto_gets_a_hint() -> None:
    with pytest.raises(UsageError) as caught:
        RunOptions(strategy="auto", script=True)
    assert caught.value.hint == "name that of your script, or leave out --strategy"


def test_auto_not_yet_resolved_counts_as_the_default() -> None:
    assert RunOptions("tensorflow", "auto").resolved_strategy(2).name == "multiworker"


def test_an_invalid_choice_is_answered_with_the_nearest_one() -> None:
    assert choose("h1", ("h1", "h2"), "host") == "h1"
    with pytest.raises(UsageError, match="^host 'zz': one of h1, h2$"):
        choose("zz", ("h1", "h2"), "host")


STOP = ("/home/ann/railhead/.venv/bin/python", "-m", "bootstrap.local", "stop", "demo", "h1")
RUNS: dict[str, dict[str, Any]] = {
    "run-training": {
        "options": RunOptions(),
        "program": BuiltIn("training", {"data": "digits", "epochs": 20, "min_accuracy": None}),
        "peers": (
            Peer("h1", "127.77.0.1", 40022, "ann", 1, KEY),
            Peer("h2", "127.77.0.2", 40023, "ann", 2, KEY),
        ),
        "links": (Link("lo", "127.0.0.0/8"),) * 2,
        "ports": [23001, 23002, 23003],
        "stop_policy": StopPolicy(keep_minutes=5, max_hours=1.5),
        "stops": [STOP, None],
        "bucket": RunBucket("s3://railhead-demo-1f2e3d", "fedcba9876543210"),
    },
    "run-script": {
        "options": RunOptions(
            "tensorflow",
            script=True,
            keras=KERAS_2,
            keras_patches=False,
            env={"MODE": "quick"},
            secrets=("WANDB_API_KEY",),
            outputs=("*.keras", "plots/**"),
            metrics=(Metric("loss", "loss: ([0-9.]+)"),),
        ),
        "program": Script("script", "jobs/train.py", ("--epochs", "3", "a b", "")),
        "data": [DataInput(parse("train", "s3://bucket-1/images,shard", script=True)).in_run(())],
        "peers": (
            Peer("gpu-box", "10.0.1.5", 22, "ann", 4, KEY),
            Peer("host-2", "fd00::6", 22, "bob", 1, KEY),
        ),
        "links": (Link("ens5", "10.0.1.0/24"), Link(None, "fd00::6/128")),
        "ports": [23001, 23004],
        "stop_policy": StopPolicy(),
        "stops": [],
        "bucket": None,
    },
}


REST: Any = {
    "run_id": "r", "cluster": "c", "created": "", "runtime": Runtime("r", "d"), "bundle": "b",
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_the_run_document_is_the_golden_one(name: str) -> None:
    golden = json.loads((DOCUMENTS / f"{name}.json").read_text())
    document = decode(RunDocument, golden, unknown_keys=False)
    same = {key: golden[key] for key in ("run_id", "cluster", "created", "bundle")}
    assert run_document(**same, runtime=document.runtime, **RUNS[name]) == document
    assert encode(document) == golden


def documents(launcher: str, strategy: str, hosts: int, **more: Any) -> RunDocument:
    """The document of a run with four slots on each host."""
    peers = [Peer(f"h{i}", f"10.0.1.{i}", 22, "ann", 4, KEY) for i in range(1, hosts + 1)]
    options = RunOptions(launcher, strategy, script=launcher in SCRIPTS_ONLY, **more)
    size = sum(map(len, placement_of(options, peers)))
    return run_document(
        run_id="20261121-101500-3f2a",
        cluster="c",
        created="2026-11-21T10:15:00Z",
        options=options,
        program=BuiltIn("training", {}),
        runtime=Runtime("r", "d"),
        bundle="b",
        peers=peers,
        links=[Link("ens5", "10.0.1.0/24")] * hosts,
        ports=range(23001, 23001 + size),
        stop_policy=StopPolicy(),
        stops=[],
        bucket=None,
    )


@pytest.mark.parametrize(
    ("launcher", "strategy"), [(row.launcher, row.name) for row in STRATEGIES.values()]
)
@pytest.mark.parametrize("hosts", [1, 2, 3])
def test_ranks_and_tf_config_follow_from_launcher_and_strategy(
    launcher: str, strategy: str, hosts: int
) -> None:
    if strategy == "parameter-server":
        return  # below
    if STRATEGIES[strategy].one_host and hosts > 1:
        with pytest.raises(UsageError, match="runs on one host"):
            documents(launcher, strategy, hosts)
        return
    document = documents(launcher, strategy, hosts)
    ranks_each = 1 if launcher == "tensorflow" else 4
    assert [host.slots for host in document.hosts] == [ranks_each] * hosts
    assert document.size == ranks_each * hosts
    workers = tuple(f"10.0.1.{i}:{23000 + i}" for i in range(1, hosts + 1))
    assert document.tf_cluster == ({"worker": workers} if strategy == "multiworker" else None)
    tasks = tuple(Role("worker", i) for i in range(hosts))
    assert document.roles == (tasks if strategy == "multiworker" else None)
    assert document.coordinator == ("10.0.1.1:23001" if launcher in ("jax", "torch") else None)


def test_a_chief_and_its_servers_come_beside_the_workers_of_all_slots() -> None:
    document = documents("tensorflow", "parameter-server", 2, servers=2)
    assert [host.slots for host in document.hosts] == [6, 5]
    ports = [
        [f"10.0.1.{i}:{port}" for port in numbers]
        for i, numbers in ((1, range(23001, 23007)), (2, range(23007, 23012)))
    ]
    assert document.tf_cluster == {
        "chief": (ports[0][0],),
        "ps": (ports[0][1], ports[1][0]),
        "worker": (*ports[0][2:], *ports[1][1:]),
    }
    roles = [f"{task.type} {task.index}" for task in document.roles or ()]
    assert roles[:4] == ["chief 0", "ps 0", "worker 0", "worker 1"]
    assert roles[6:8] == ["ps 1", "worker 4"] and document.size == len(roles) == 11


@pytest.mark.parametrize(
    ("launcher", "slots", "gpus", "strategy", "why"),
    [
        ("horovod", (1, 1), 0, "horovod", "2 hosts"),
        ("horovod", (4, 4), 4, "horovod", "2 hosts"),
        ("tensorflow", (1, 1, 1), 1, "multiworker", "3 hosts"),
        ("tensorflow", (2,), 2, "mirrored", "one host with 2 GPUs"),
        ("horovod", (2,), 0, "horovod", "one host with 2 slots"),
        ("horovod", (4,), 4, "mirrored", "one host with 4 GPUs"),
        ("horovod", (3,), 0, "horovod", "one host with 3 slots"),
        ("tensorflow", (3,), 0, "one-device", "one host with no GPU"),
        ("horovod", (1,), 1, "one-device", "one host with one GPU"),
    ],
)
def test_auto_takes_what_fits_hosts_and_gpus(
    launcher: str, slots: tuple[int, ...], gpus: int, strategy: str, why: str
) -> None:
    for horovod in (True, False):
        options, reason = RunOptions(launcher, "auto").with_strategy(slots, gpus, horovod=horovod)
        assert (options.strategy, reason) == (strategy, why)
        assert options.launcher == STRATEGIES[strategy].launcher


@pytest.mark.parametrize(
    ("slots", "horovod", "strategy"),
    [
        ((1, 1), True, "horovod"),
        ((1, 1), False, "multiworker"),
        ((2,), False, "horovod"),  # no other strategy uses its slots
        ((1,), False, "one-device"),
    ],
)
def test_auto_without_a_launcher_prefers_what_needs_no_compilation(
    slots: tuple[int, ...], horovod: bool, strategy: str
) -> None:
    options = run_options(ProgramOptions(strategy="auto"))
    chosen, why = options.with_strategy(slots, 0, horovod=horovod)
    assert chosen.strategy == strategy
    assert ("Horovod is not installed" in why) is (strategy == "multiworker")
    named = run_options(ProgramOptions(strategy="auto", launcher="horovod"))
    assert named.with_strategy((1, 1), 0, horovod=False)[0].strategy == "horovod"


def test_a_strategy_by_name_stays() -> None:
    options = RunOptions("tensorflow", "mirrored")
    assert options.with_strategy([4], 4, horovod=True) == (options, "")


@pytest.mark.parametrize(
    ("launcher", "strategy", "found"),
    [
        (None, None, "horovod"),
        (None, "auto", "horovod"),
        ("tensorflow", "auto", "tensorflow"),
        (None, "parameter-server", "tensorflow"),
        (None, "horovod", "horovod"),
        ("tensorflow", None, "tensorflow"),
    ],
)
def test_the_launcher_follows_from_the_strategy(
    launcher: str | None, strategy: str | None, found: str
) -> None:
    assert launcher_for(launcher, strategy) == found


@pytest.mark.parametrize(
    "stops, policy", [((), StopPolicy()), ([("off",)], StopPolicy(stop=False))]
)
def test_hosts_of_no_stack_and_runs_with_no_stop_have_no_stop_command(
    stops: Any, policy: StopPolicy
) -> None:
    changed = {**RUNS["run-script"], "stops": stops, "stop_policy": policy}
    assert run_document(**REST, **changed).stop is None


@pytest.mark.parametrize("few", [{"ports": [23001]}, {"links": RUNS["run-script"]["links"][:1]}])
def test_a_rank_without_a_port_or_a_host_without_a_link_is_refused(few: Any) -> None:
    changed = {**RUNS["run-script"], **few}
    with pytest.raises(ValueError, match="is shorter than"):
        run_document(**REST, **changed)


def argv(series: str = "4.1", networks: str = "10.0.1.0/24,10.0.2.0/24") -> list[str]:
    """mpirun's words for a run of three ranks."""
    folder = "/home/ann/.railhead/runs/20261121-101500-3f2a"
    return mpirun_argv(
        "20261121-101500-3f2a", size=3, run_folder=folder, networks=networks, series=series
    )


def parameters(words: list[str]) -> dict[str, str]:
    return {words[i + 1]: words[i + 2] for i, word in enumerate(words) if word == "--mca"}


def test_mpirun_binds_no_rank_and_fills_hosts_by_slot() -> None:
    text = argv()
    assert text[text.index("--bind-to") + 1] == "none"
    assert text[text.index("--map-by") + 1] == "slot"
    assert text[text.index("-np") + 1] == "3"
    assert text[0] == "mpirun" and "--tag-output" in text
    assert text[text.index("--hostfile") + 1].endswith("/runs/20261121-101500-3f2a/hostfile")


def test_mpirun_uses_our_ssh_configuration_and_the_networks_of_the_peers() -> None:
    text = argv()
    mca = parameters(text)
    assert mca["plm_rsh_agent"] == "sh /home/ann/.railhead/runs/20261121-101500-3f2a/mpirun-ssh.sh"
    assert mca["plm_rsh_no_tree_spawn"] == "1"
    assert mca["oob_tcp_if_include"] == mca["btl_tcp_if_include"] == "10.0.1.0/24,10.0.2.0/24"
    assert "RAILHEAD_RUN=20261121-101500-3f2a" in mca["orte_launch_agent"].split()


def test_mpirun_notices_a_dead_link_within_half_a_minute_and_uses_plain_tcp() -> None:
    text = argv()
    mca = parameters(text)
    alive = {name: int(mca[f"oob_tcp_keepalive_{name}"]) for name in ("time", "intvl", "probes")}
    assert alive["time"] + alive["intvl"] * alive["probes"] <= 30
    assert (mca["pml"], mca["btl"]) == ("ob1", "self,vader,tcp")
    assert mca["mpi_yield_when_idle"] == "1"


def test_open_mpi_5_has_its_own_daemon_and_its_ranks_print_to_a_pipe() -> None:
    """A parameter after `-mca` (one dash) does not reach it."""
    five, four = argv("5.0"), argv()
    assert "-mca" not in five + four
    assert parameters(five)["prte_launch_agent"].endswith(" prted")
    assert parameters(four)["orte_launch_agent"].endswith(" orted")
    assert "--merge-stderr-to-stdout" in five and five[-1].endswith('rank.sh" >&2')
    assert "--merge-stderr-to-stdout" not in four and four[-1].endswith('rank.sh" 2>&1')


@pytest.mark.root
@pytest.mark.skipif(not shutil.which("mpirun"), reason="no Open MPI")
@pytest.mark.parametrize("name", ["gpu_1", "My_Host"])
def test_ranks_start_on_a_host_whose_name_has_an_underscore(name: str) -> None:
    """By default, mpirun 4.1 prints an error about it and hangs."""
    options = ["--oversubscribe", "-np", "2", "--mca", "regx", parameters(argv())["regx"]]
    ended = subprocess.run(
        ["unshare", "-u", "sh", "-c", f'echo {name} >/proc/sys/kernel/hostname; exec "$@"', "sh"]
        + ["timeout", "60", "mpirun", *options, "hostname"],
        env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.stdout == f"{name}\n" * 2, ended.stderr


SHELLS = [*filter(shutil.which, ("sh", "bash", "zsh", "fish", "ksh", "tcsh"))]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_of_mpirun_is_read_by_sh_whatever_shell_the_account_has(
    tmp_path: Path, shell: str
) -> None:
    """fish accepts neither the parentheses nor the semicolon after them."""
    ssh = tmp_path / "ssh"  # its last arguments are the host and the command, as sshd gets it
    log = tmp_path / "options"
    ssh.write_text(f'#!/bin/sh\necho "$1 $2 $3 $4 $5 $6" >{log}\nshift 6\n{shell} -c "$*"\n')
    ssh.chmod(0o755)
    script = tmp_path / launch.SSH
    script.write_text(launch.SSH_FOR_ANY_SHELL)
    command = ("( test ! -r ./.none || . ./.none;", "env A=$HOME", "printenv", "A )")
    argv = ["sh", str(script), "railhead-2"]
    ended = subprocess.run(
        [*argv, *command],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": "/home/ann"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.stdout, ended.stderr) == ("/home/ann\n", "")
    assert log.read_text() == f"-x -F {tmp_path}/ssh_config -o ControlPath=%n.ssh railhead-2\n"


@pytest.mark.parametrize(
    ("kills", "group", "stays"),
    [
        ("b true", "0::/user.slice/user-1.slice/session-7.scope", True),
        ("b true", "1:pids:/\\n0::/user.slice/user-1.slice/session-7.scope", True),
        ("b true", "0::/system.slice/ssh.service", False),
        ("b false", "0::/user.slice/user-1.slice/session-7.scope", False),
        ("", "0::/user.slice/user-1.slice/session-7.scope", False),
    ],
)
def test_a_daemon_stays_in_its_login_where_logind_ends_what_that_has_started(
    tmp_path: Path, kills: str, group: str, stays: bool
) -> None:
    """Each host decides: the chief, where mpirun runs, may have another logind.conf."""
    programs = {
        "ssh": 'shift 6\nsh -c "$*"',
        "busctl": f"echo '{kills}'",
        "cat": f"printf '{group}\\n'",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    script = tmp_path / launch.SSH
    script.write_text(launch.SSH_FOR_ANY_SHELL)
    argv = ["sh", str(script), "railhead-2", "( A=1; echo", "orted", "--daemonize", "-mca ess", ")"]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    words = ["orted", *([] if stays else ["--daemonize"]), "-mca", "ess"]
    assert (done.stdout.split(), done.stderr) == (words, "")


def test_a_daemon_gets_its_temporary_folder_where_each_login_has_a_tmp_of_its_own(
    tmp_path: Path,
) -> None:
    """The agent, in another login, has made the folder of each run. Without it, Open MPI hangs."""
    runs = tmp_path / "home/.railhead/runs"
    for run in ("r1", "r2"):
        (runs / run).mkdir(parents=True)
        (runs / run / "tmp").symlink_to(tmp_path / f"tmp-{run}")
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nshift 6\nsh -c "$*"\n')
    ssh.chmod(0o755)
    script = runs / "r1" / launch.SSH
    script.write_text(launch.SSH_FOR_ANY_SHELL)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path / "home")}
    argv = ["sh", str(script), "railhead-2", "mkdir", "-p", "$HOME/.railhead/runs/r1/tmp/inside"]
    for _ in range(2):
        subprocess.run(argv, env=environment, check=True, timeout=60)
    assert [*(tmp_path / "tmp-r1").iterdir()] == [tmp_path / "tmp-r1/inside"]
    assert stat.S_IMODE((tmp_path / "tmp-r1").stat().st_mode) == 0o700
    assert not (tmp_path / "tmp-r2").exists()


@pytest.mark.parametrize("networks", ["127.0.0.0/8", "lo", "127.0.0.1/32,127.0.0.0/8"])
def test_the_daemons_of_open_mpi_5_take_another_interface_than_loopback(networks: str) -> None:
    five, four = parameters(argv("5.0", networks)), parameters(argv("4.1", networks))
    assert "oob_tcp_if_include" not in five and four["oob_tcp_if_include"] == networks
    assert five["btl_tcp_if_include"] == networks
    mixed = parameters(argv("5.0", f"{networks},10.0.1.0/24"))
    assert mixed["oob_tcp_if_include"] == f"{networks},10.0.1.0/24"


def test_mpirun_chooses_the_interfaces_where_none_can_be_named() -> None:
    """Open MPI 4.1.4, 5.0.8 and 5.0.11 find no interface for a network of IPv6."""
    assert not [name for name in parameters(argv(networks="")) if name.endswith("_if_include")]


def test_mpirun_carries_no_variable_and_so_no_secret() -> None:
    assert not {"-x", "--x", "-env", "--env"} & set(argv())
    assert argv()[-3:-1] == ["sh", "-c"]


def test_run_ids_sort_by_time() -> None:
    start = datetime(2026, 9, 30, 23, 59, 58, tzinfo=timezone.utc)
    steps = [0, 1, 2, 61, 3600, 86400, 40 * 86400, 100 * 86400]
    ids = [new_run_id(start + timedelta(seconds=s)) for s in steps]
    assert ids == sorted(ids)
    assert ids[0].startswith("20260930-235958-")


def test_runs_of_one_second_have_different_ids() -> None:
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert len({new_run_id(now) for _ in range(2000)}) == 2000


def test_a_run_id_has_the_time_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-9")  # nine hours before UTC
    time.tzset()
    try:
        before = datetime.now(timezone.utc)
        run_id = new_run_id()
        after = datetime.now(timezone.utc)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", run_id)
    assert f"{before:%Y%m%d-%H%M%S}" <= run_id[:15] <= f"{after:%Y%m%d-%H%M%S}"


@pytest.mark.parametrize(
    ("name", "first", "keep"),
    [
        ("run-training", {"0": "h1", "1": "h2"}, 5),
        ("run-script", {"0": "gpu-box", "1": "host-2"}, 0),
    ],
)
def test_a_run_can_be_followed_by_its_document(name: str, first: dict[str, str], keep: int) -> None:
    text = (DOCUMENTS / f"{name}.json").read_text()
    assert follow.first_ranks(read_run_document(text)) == first
    stop = read_run_document(text).stop
    assert (stop.keep_minutes if stop else 0) == keep


@pytest.mark.parametrize(
    "changes", [{"thresholds": (Threshold("loss", "max", 1e19),)}, {"env": {"A": 5}}, {"size": 0}]
)
def test_a_document_that_hosts_would_refuse_is_not_sent(changes: dict[str, Any]) -> None:
    start._require_readable(run_documents.run_document())
    with pytest.raises(UsageError, match="the options of the run: "):
        start._require_readable(run_documents.run_document(**changes))


READ_BY_RANKS = ((("~/a",), "file", False), (None, "file", True), (("~/a",), "stream", True))


@pytest.mark.parametrize(("paths", "mode", "needs_reader"), READ_BY_RANKS)
def test_a_script_gets_the_code_that_reads_buckets_and_streams(
    paths: tuple[str, ...] | None, mode: str, needs_reader: bool
) -> None:
    local = RunData("first", "here", "replicate", "file", ("~/first",))
    data = (local, RunData("second", "there", "replicate", mode, paths), local)
    script = run_documents.run_document(data=data, program=Script("script", "a.py"))
    assert start.needs_reader(script) == needs_reader
    built_in = BuiltIn("training", {})  # it has this code
    assert not start.needs_reader(replace(script, program=built_in))
