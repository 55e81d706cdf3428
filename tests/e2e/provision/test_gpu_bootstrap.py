"""A bare machine with a card and no way out becomes one that would train on it: `fab bootstrap` as
it is typed, the runtime for GPUs and a Horovod with NCCL included.

The card and its driver are stand-ins: there is no GPU here. All else is real. Three minutes and
3 GB, ten minutes more where the wheel for GPUs is not there yet: once a day for the same files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from e2e.adhoc_hosts import introduce
from e2e.apt_mirror import serving, use_mirror
from e2e.apt_packages import OURS
from e2e.conftest import refuse
from e2e.gpu_standin import put_card
from e2e.local_hosts import Operator
from e2e.systemd_hosts import who_ran
from hosts import systemd
from hosts.network import Network
from hosts.packages import Repository
from hosts.systemd import SystemdHost
from passed import Passed
from places import ROOT

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(2700)]


PIN, DRIVER = "nvidia-driver-pinning-580", "nvidia-open-580"


# What installs, and what is installed. The plan, the facts and the agent are those of the system
# tests too, which have no 3 GB.
FILES = ("bootstrap/provision", "bootstrap/host/scripts", "locks")


@pytest.fixture
def passed(shared_caches: Path) -> Passed:
    """Whether it has passed today with the files that decide it."""
    paths = sorted(p for folder in FILES for p in (ROOT / folder).rglob("*.*") if p.is_file())
    texts = [p.read_text() for p in paths if p.suffix in (".py", ".sh", ".txt")]
    done = Passed(shared_caches, [date.today().isoformat(), *texts])
    if done:
        pytest.skip("it has passed today with the same files")
    return done


@pytest.fixture
def shut_in(
    passed: Passed,
    full_hosts_possible: None,
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[SystemdHost]:
    """A stock Debian with a T4. Debian's mirror is reached from here alone; NVIDIA's key, which
    comes from where nobody here gets, is there."""
    refuse(systemd.missing())
    network, elsewhere = Network(), Network()
    host = SystemdHost(network, "h1", binds={repository.folder: OURS})
    keyring = repository.add("cuda-keyring")
    with serving(elsewhere.gateway, repository) as address:
        # This computer reaches the mirror by a proxy: it leads no host to its own addresses.
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("no_proxy", "debian.org")
        use_mirror(host, "http://mirror.invalid")
        host.start()
        put_card(host, "0x1eb8")
        assert host.exec("dpkg", "--install", f"{OURS}/{keyring.name}").returncode == 0
        yield host
    network.close()
    elsewhere.close()


def test_a_bare_machine_with_a_card_that_does_not_get_out_becomes_ready(
    passed: Passed, laptop: Operator, shut_in: SystemdHost
) -> None:
    hosts = introduce(laptop, shut_in)
    args = ("bootstrap", "--hosts", hosts, "--system")
    command = laptop.fab(*args, seconds=2400)
    command.ended(0, "reboot: loads the new driver", "[lap-h1] ready")
    assert_all_came_through_the_connection(shut_in, command.out)
    shut_in.wait()
    assert who_ran(shut_in)[-2:] == [PIN, DRIVER]
    assert shut_in.exec("apt-mark", "showhold").stdout.split() == [PIN, DRIVER]
    laptop.fab("plan", "--hosts", hosts).ended(0, "runtime tf2.18-gpu", "[lap-h1] nothing to do")
    train = ("train", "--hosts", hosts, "--preset", "smoke")
    laptop.fab(*train).ended(2, "it would train on the CPU", "nothing was started")
    passed.note()


def assert_all_came_through_the_connection(host: SystemdHost, out: str) -> None:
    """Python and Open MPI of the system, the runtime and Horovod; the host itself downloaded
    nothing, and keeps no second copy."""
    assert "[lap-h1] its apt has no outbound access (no answer from " in out
    assert "python3, mpirun missing" in out
    assert "[lap-h1] has no outbound access (no answer from " in out
    sent = re.findall(r"^\[lap-h1\] (\w+): .* MB through this connection\)$", out, re.MULTILINE)
    assert sent == ["system", "driver", "runtime"] and "fetches" not in out
    ours = host.disk.root / "root/.railhead"
    assert len(list(ours.glob("envs/*/.ok"))) == 1 and not (ours / "wheelhouse").exists()
    assert sum(blob.stat().st_size for blob in ours.glob("blobs/*")) < 100_000_000
    assert list(ours.glob("envs/*/lib/*/site-packages/horovod"))
    assert not list(ours.glob("cache/uv/archive-*/*/horovod"))
    assert "127.0.0.1" not in host.exec("apt-config", "dump").stdout
