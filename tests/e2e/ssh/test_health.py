"""`fab health` on real hosts: what is well, what is not, and that nothing of it stays behind.

A GPU is a program `nvidia-smi` on a host's PATH and nothing more: no machine of ours has one.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from e2e import local_hosts
from e2e.adhoc_hosts import introduce, marked_on
from e2e.local_hosts import Operator, wait_until
from hosts.full_host import FullHost

from bootstrap.plan.runtimes import ROWS, Environment, Runtime

Start = Callable[..., list[FullHost]]

# What a T4's driver answers to the queries that it gets.
SMI = """#!/bin/sh
case "$*" in
-L) echo 'GPU 0: Tesla T4 (UUID: GPU-39cd9454-0976-646a-acef-01a35ad02034)' ;;
*retired_pages*) echo '00000000:00:1E.0, {bad}, No' ;;
*remapped_rows*) echo '00000000:00:1E.0, [N/A], [N/A]' ;;
*) echo 'Tesla T4' ;;
esac
"""
DMESG = "#!/bin/sh\necho '[ 9.1] NVRM: Xid (PCI:0000:00:1e): {xid}, pid=12, name=python'\n"


def give_gpu(home: Path, *, bad: int = 0, xid: int = 0) -> None:
    """Put a T4 on the PATH of a local host, with so many bad bits and an Xid in its log."""
    (home / "bin").mkdir(exist_ok=True)
    texts = {"nvidia-smi": SMI.format(bad=bad)}
    texts |= {"dmesg": DMESG.format(xid=xid) if xid else "#!/bin/sh\n"}
    for name, text in texts.items():
        (home / "bin" / name).write_text(text)
        (home / "bin" / name).chmod(0o755)
    # bash reads it for every command by ssh
    (home / ".bashrc").write_text('PATH="$HOME/bin:$PATH"\n')


def take_gpu(home: Path) -> None:
    """Take the T4 away again."""
    (home / ".bashrc").unlink()


def homes(operator: Operator, name: str) -> list[Path]:
    """The homes of a cluster's local hosts."""
    return sorted(operator.home.glob(f".railhead/clusters/{name}/hosts/*/home"))


@pytest.fixture
def fresh(tmp_path: Path, shared_caches: Path) -> Iterator[Operator]:
    """Somebody with two local hosts that nothing was installed on."""
    operator = Operator(tmp_path / "fresh", tmp_path, shared_caches)
    with local_hosts.cluster(operator.home, "fresh", shared_caches):
        yield operator


def test_before_the_runtime_is_there_all_else_is_checked(fresh: Operator) -> None:
    first, second = homes(fresh, "fresh")
    give_gpu(first, xid=13)
    give_gpu(second, bad=2, xid=79)
    done = fresh.fab("health").ended(2, "ports: 2 of 2 connections", "next: fab bootstrap")
    assert "[h1] note: GPU 0000:00:1e: Xid 13: exception in the graphics engine" in done.out
    assert "[h2] GPU 0000:00:1e: Xid 79: the GPU has fallen off the bus" in done.out
    assert "[h2] GPU 0000:00:1e.0: 2 memory errors that ECC cannot correct" in done.out
    assert re.search(r"^h1 +1 .* lo 127\.", done.out, re.MULTILINE)
    assert not [path for home in (first, second) for path in home.glob(".railhead/*")]


# What count_gpus.py would print there.
COUNTED = """#!/bin/sh
cat >/dev/null
echo '{{"gpus": {number}, "devices": []}}'
"""


def test_hosts_that_are_ready_for_another_framework_are_checked_with_it(fresh: Operator) -> None:
    row = ROWS["torch2.10"]
    digests = [Environment(Runtime(row, gpu=True), python, "").digest for python in row.pythons]

    def let_torch_see(*numbers: int) -> None:
        for home, number in zip(homes(fresh, "fresh"), numbers, strict=True):
            for folder in (home / ".railhead/envs" / digest for digest in digests):
                (folder / "bin").mkdir(parents=True, exist_ok=True)
                (folder / "bin/python").write_text(COUNTED.format(number=number))
                (folder / "bin/python").chmod(0o755)
                (folder / ".ok").write_text(f"{folder.name}\n")

    for home in homes(fresh, "fresh"):
        give_gpu(home)
        (home / ".railhead").mkdir(mode=0o700)
    let_torch_see(1, 1)
    fresh.fab("bootstrap", "--launcher", "torch").ended(0)
    done = fresh.fab("health").ended(0, "PyTorch on 2 hosts: devices\n", "healthy: 2 hosts")
    assert "all-reduce: not measured, Horovod is not installed" in done.out
    let_torch_see(1, 0)
    done = fresh.fab("health").ended(1, "not healthy: 1 finding")
    assert "[h2] 1 GPU by nvidia-smi, PyTorch sees no GPU: it would train on the CPU" in done.out
    assert re.search("^h2 +1 by nvidia-smi, 0 by PyTorch ", done.out, re.MULTILINE)


@pytest.mark.slow
def test_two_hosts_are_healthy_and_nothing_of_the_check_stays(operator: Operator) -> None:
    done = operator.fab("health").ended(0, "GFLOP/s", "healthy: 2 hosts")
    assert re.search(r"^all-reduce of [\d.]+ MB over 2 ranks: .* [MG]B/s", done.out, re.MULTILINE)
    assert "the slowest host is h" in done.out
    assert not [
        path
        for home in homes(operator, "ready")
        for pattern in (".railhead/runs/h*", ".keras")  # TensorFlow makes it when it is imported
        for path in home.glob(pattern)
    ]
    assert not local_hosts.marked(operator.home)


@pytest.mark.slow
def test_ctrl_c_in_the_all_reduce_takes_it_back(operator: Operator) -> None:
    process = operator.start("health")
    ranks = ".railhead/runs/health/railhead.pyz rank.rank"
    wait_until(lambda: ranks in " ".join(local_hosts.marked(operator.home)), 100, "the ranks run")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "Ctrl-C: terminating the all-reduce" in out, out
    assert "left to the next check" not in out and "next: fab status" in out
    assert not [
        path for home in homes(operator, "ready") for path in home.glob(".railhead/runs/h*")
    ]
    assert not local_hosts.marked(operator.home)


@pytest.mark.slow
def test_a_gpu_that_tensorflow_does_not_see_is_not_replaced_by_the_cpu(operator: Operator) -> None:
    """The runtime of CPU hosts is in the place of that of GPU hosts."""
    home = homes(operator, "ready")[0]
    give_gpu(home)
    try:
        with local_hosts.only_first_host(operator):
            plan = operator.fab("plan").out
            (digest,) = re.findall(r"environment ([0-9a-f]{16})\b", plan)
            put_runtime(home, digest)
            reason = "1 GPU by nvidia-smi, TensorFlow sees no GPU: it would train on the CPU"
            operator.fab("health").ended(1, f"[h1] {reason}", "not healthy: 1 finding")
            refused = operator.fab("train", "--preset", "smoke")
            refused.ended(2, "nothing was started", reason, "next: fab health")
    finally:
        take_gpu(home)


def put_runtime(home: Path, digest: str) -> None:
    """Link the runtime that the host has to the name of another one."""
    markers = home.glob(".railhead/envs/*/lib/python*/site-packages/horovod/tensorflow")
    environment = next(path.parents[4] for path in markers)
    other = environment.parent / digest
    other.mkdir()
    for part in environment.iterdir():
        (other / part.name).symlink_to(part)
    (other / ".ok").unlink()
    (other / ".ok").write_text(f"{digest}\n")


@pytest.mark.root
@pytest.mark.slow
def test_a_closed_way_between_two_hosts_is_found(laptop: Operator, full_hosts: Start) -> None:
    h1, h2 = full_hosts("h1", "h2")
    h1.block(h2, calls=True)
    hosts = introduce(laptop, h1, h2)
    done = laptop.fab("health", "--hosts", hosts)
    done.ended(2, "ports: 1 of 2 connections", f"[lap-h2] cannot reach lap-h1 at {h1.address}")
    assert "open all TCP ports between the hosts" in done.out


@pytest.mark.root
@pytest.mark.slow
def test_the_slow_pair_of_three_hosts_is_named(laptop: Operator, ready_hosts: Start) -> None:
    h1, h2, h3 = ready_hosts("h1", "h2", "h3")
    h2.slow(h3, mbit=20)
    hosts = introduce(laptop, h1, h2, h3)
    laptop.fab("bootstrap", "--hosts", hosts).ended(0)  # the keys
    done = laptop.fab("health", "--hosts", hosts)
    done.ended(1, "the slowest pair is lap-h2 and lap-h3: ", "[lap-h2 and lap-h3]")
    assert not [line for host in (h1, h2, h3) for line in marked_on(host)]
