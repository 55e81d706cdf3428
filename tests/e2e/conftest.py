"""Full hosts for the tests in this folder; skipped with a reason where they cannot run."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from e2e import adhoc_hosts, apt_mirror, apt_packages, local_hosts
from e2e.systemd_hosts import Start, SystemdHosts
from hosts import requirements, systemd
from hosts.bastion import Bastion
from hosts.full_host import FullHost, start_hosts
from hosts.network import Network
from hosts.packages import Repository
from hosts.prepared import prepared
from hosts.systemd import SystemdHost

from bootstrap.provision.apt_upstream import MIRRORS

# Set where a skip would hide a broken machine, for example in CI.
REQUIRED = "RAILHEAD_FULL_HOSTS"


@pytest.fixture(scope="session", autouse=True)
def mirrors_of_this_network() -> Iterator[None]:
    """Hosts may reach the mirrors of this machine through it, also at addresses that are not
    public."""
    addresses: set[str] = set()
    with contextlib.suppress(OSError):  # no apt, or a name that does not resolve
        argv = ["apt-get", "indextargets", "--format", "$(SITE)"]
        for site in {*subprocess.run(argv, capture_output=True, text=True).stdout.split()}:
            found = socket.getaddrinfo(urlsplit(site).hostname, 80)
            addresses |= {str(entry[4][0]) for entry in found}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MIRRORS, ",".join(sorted(addresses)))
        yield


@pytest.fixture(scope="session")
def full_hosts_possible() -> None:
    """Skip, or fail with RAILHEAD_FULL_HOSTS=required, if full hosts cannot run here."""
    refuse(requirements.missing() or requirements.base_or_reason())


def refuse(reason: str | None) -> None:
    """Skip for this reason, or fail where a skip would hide it."""
    if reason and os.environ.get(REQUIRED) == "required":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def network(full_hosts_possible: None) -> Iterator[Network]:
    """The session's network; its hosts reach the package registries that the machine reaches."""
    network = Network(internet=True)
    yield network
    network.close()


@pytest.fixture
def full_hosts(network: Network) -> Iterator[Callable[..., list[FullHost]]]:
    """Start plain hosts by name, `h1, h2 = full_hosts("h1", "h2")`; removed after the test."""
    started: list[FullHost] = []

    def start(*names: str) -> list[FullHost]:
        hosts = start_hosts(network, *names)
        started.extend(hosts)
        return hosts

    yield start
    for host in started:
        host.remove()


@pytest.fixture
def bastion(network: Network) -> Iterator[Bastion]:
    """A host in two networks, and a host that only it can reach."""
    with Bastion(network) as bastion:
        yield bastion


@pytest.fixture
def operator(ready: Path, tmp_path: Path, shared_caches: Path) -> Iterator[local_hosts.Operator]:
    """A person in an empty folder, whose last hosts are the two ready ones."""
    folder = tmp_path / "project"
    folder.mkdir()
    somebody = local_hosts.Operator(ready, folder, shared_caches)
    yield somebody
    with contextlib.suppress(AssertionError):  # a supervisor ends soon after its run
        local_hosts.wait_until(lambda: not local_hosts.marked(ready), 20, "all runs have ended")
    if processes := local_hosts.marked(ready):
        somebody.fab("cancel")  # so that one failure is not reported as many
        pytest.fail(f"the test left processes of a run: {processes}")
    assert local_hosts.are_ready(ready), "the test left hosts that are not ready"


@pytest.fixture(scope="session")
def trained(
    ready: Path, shared_caches: Path, tmp_path_factory: pytest.TempPathFactory
) -> local_hosts.Training:
    """A training on both hosts, with a model to serve; tests read its results."""
    operator = local_hosts.Operator(ready, tmp_path_factory.mktemp("trained"), shared_caches)
    command = (*local_hosts.with_settings((*local_hosts.DIGITS, "export=on")), "--strategy", "auto")
    done = operator.fab(*command, seconds=300).ended(0)
    return local_hosts.Training(operator.last, done.out)


@pytest.fixture(scope="session")
def ready_disk(network: Network, home_of_session: Path, shared_caches: Path) -> Iterator[Path]:
    """The disk of a full host that `fab bootstrap` made ready, without a cluster's keys."""
    folder = home_of_session.parent / "maker"
    folder.mkdir()
    maker = local_hosts.Operator(folder, folder, shared_caches)
    make = partial(adhoc_hosts.make_ready, network, maker)
    with prepared("ready", adhoc_hosts.digest_of_ready_disk(), make) as disk:
        yield disk


@pytest.fixture
def ready_hosts(network: Network, ready_disk: Path) -> Iterator[Callable[..., list[FullHost]]]:
    """Start hosts that lack only the keys: `h1, h2 = ready_hosts("h1", "h2")`."""
    with contextlib.ExitStack() as stack:

        def start(*names: str, disk_mb: int = 0) -> list[FullHost]:
            hosts = adhoc_hosts.ready(network, ready_disk, *names, disk_mb=disk_mb)
            return stack.enter_context(hosts)

        yield start


@pytest.fixture
def laptop(tmp_path: Path, shared_caches: Path) -> local_hosts.Operator:
    """A person with a new home, who has not named any host yet."""
    return adhoc_hosts.somebody(tmp_path, shared_caches)


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Packages for tests: quick ones, slow ones, and those of a driver."""
    return apt_packages.fill(tmp_path_factory.mktemp("packages") / "ours")


@pytest.fixture(scope="session")
def system_image(full_hosts_possible: None) -> Path:
    """The root file system of systemd hosts, built here: a test has less time than that takes."""
    refuse(systemd.missing())
    return systemd.system_image()


@pytest.fixture(scope="session")
def cloud_image(full_hosts_possible: None) -> Path:
    """The same with the packages of cloud images."""
    refuse(systemd.missing())
    return systemd.cloud_image()


@pytest.fixture(scope="session")
def stocked(network: Network, system_image: Path, repository: Repository) -> list[Path]:
    """A systemd host's disk without Python, whose apt knows only our repository."""
    return [apt_packages.disk(network, repository)]


@pytest.fixture
def team(
    network: Network, stocked: list[Path], repository: Repository, home: Path
) -> Iterator[Start]:
    """Start systemd hosts, `team("a", "b", user="rail")`; removed after the test."""
    started: list[SystemdHost] = []

    def start(*names: str, user: str = "root") -> SystemdHosts:
        binds = {repository.folder: apt_packages.OURS}
        hosts = [SystemdHost(network, name, binds=binds, layers=stocked) for name in names]
        started.extend(hosts)
        for host in hosts:
            host.start(wait=False)
        for host in hosts:
            host.wait()
        (home / ".ssh").mkdir(mode=0o700, exist_ok=True)
        pins = "".join(host.known_hosts_line() for host in hosts)
        (home / ".ssh/known_hosts").write_text(pins)
        return SystemdHosts(hosts, user)

    yield start
    for host in started:
        host.remove()


@pytest.fixture(name="mirror")
def address_of_mirror(network: Network, repository: Repository) -> Iterator[str]:
    """The address of a mirror of our packages that can fail."""
    with apt_mirror.serving(network.gateway, repository) as address:
        yield address
