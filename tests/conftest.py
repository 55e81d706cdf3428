"""Every test has its own home: no test reads or writes what belongs to who runs it.

A test that names the fixture `real_home` keeps the real one. A test or fixture that names
`shared_caches` has caches that outlive the run of the tests: the runtime and Horovod's wheel take
minutes to make. (OpenSSH's own programs ask the password file for the home and do not see this
one; tests give them `-F`.)
"""

from __future__ import annotations

import contextlib
import os
import signal
import socketserver
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e import kept_environments, local_hosts
from standins import warm_ranks
from standins.stores import object_stores
from standins.stores.servers import NoServer

# A shell without job control starts `make test &` with SIGINT ignored, which Python leaves so and
# every child inherits. A handler is set back to the default in children: tests can interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Servers of stand-ins write the head of an answer and its body one by one: with Nagle's algorithm
# the body waits up to 40 ms until the client's system confirms the head.
socketserver.StreamRequestHandler.disable_nagle_algorithm = True

# Linux divides the CPUs between sessions, not processes (sched_autogroup_enabled). Each host and
# each command of the tests is a session: all workers would share the time of one of them.
if "PYTEST_XDIST_WORKER" in os.environ:
    with contextlib.suppress(PermissionError):  # it leads a session already
        os.setsid()

pytest_plugins = ["fast", "garbage", "skip_list", "workers", "time_budgets", "unchanged"]

REAL_HOME = Path.home()
REAL_CACHES = Path(os.environ.get("XDG_CACHE_HOME") or REAL_HOME / ".cache")


def move_in(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Make `home` the home, with no agent and no caches from elsewhere."""
    home.mkdir(parents=True, exist_ok=True)
    patch.setenv("HOME", str(home))
    for name in ("SSH_AUTH_SOCK", "SSH_AGENT_PID", "XDG_CACHE_HOME"):
        patch.delenv(name, raising=False)
    if (REAL_HOME / ".pyenv").is_dir():  # its shims look for the Pythons under HOME
        patch.setenv("PYENV_ROOT", os.environ.get("PYENV_ROOT") or str(REAL_HOME / ".pyenv"))


@pytest.fixture(scope="session", autouse=True)
def home_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home in which fixtures that serve several tests are made."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        move_in(patch, home)
        yield home


@pytest.fixture(autouse=True)
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of this test, empty unless the test fills it; beside `tmp_path`, not in it."""
    # Before this one: it sets a variable, which a test that does not name it must not have.
    request.getfixturevalue("shared_caches")
    named = request.node.fixturenames  # request.fixturenames has what other fixtures request, too
    if "real_home" in named:
        monkeypatch.setenv("HOME", str(REAL_HOME))
        return REAL_HOME
    home = tmp_path.with_name(f"{tmp_path.name}.home")
    move_in(monkeypatch, home)
    if "shared_caches" in named:
        monkeypatch.setenv("XDG_CACHE_HOME", str(REAL_CACHES))
    return home


@pytest.fixture
def real_home() -> Path:
    """The home of the person who runs the tests."""
    return REAL_HOME


@pytest.fixture(scope="session")
def shared_caches(home_of_session: Path) -> Iterator[Path]:
    """The caches of the person who runs the tests, through XDG_CACHE_HOME."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(REAL_CACHES))
        yield REAL_CACHES


@pytest.fixture(scope="session")
def ready(home_of_session: Path, shared_caches: Path) -> Iterator[Path]:
    """A home with two local hosts made ready; the runtime and the wheel come from the caches."""
    home = home_of_session.parent / "ready"
    with local_hosts.cluster(home, "ready", shared_caches):
        warm_ranks.serve(home, shared_caches)
        make_ready(home, shared_caches, kept_environments.DEFAULT)
        yield home


def make_ready(home: Path, caches: Path, row: str) -> None:
    """Install a runtime on the local hosts in `home`, as it was kept or by a bootstrap."""
    with kept_environments.alone(caches) as kept:
        kept_environments.give_to_hosts(kept, home, row)
        operator = local_hosts.Operator(home, home, caches)
        operator.fab("bootstrap", "--runtime", row, seconds=1500).ended(0, "[h1]", "[h2]")
        kept_environments.keep(kept, home)


@pytest.fixture(scope="session")
def runtime_python(request: pytest.FixtureRequest) -> Iterator[str]:
    """The python of a runtime: RAILHEAD_TEST_PYTHON, else one that was kept or is made."""
    given = os.environ.get("RAILHEAD_TEST_PYTHON")
    python = given or python_of_row(request, kept_environments.DEFAULT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAILHEAD_TEST_PYTHON", python)
        yield python


@pytest.fixture(scope="session")
def newest_python(request: pytest.FixtureRequest) -> str:
    """The python of the newest runtime."""
    return python_of_row(request, kept_environments.NEWEST)


def python_of_row(request: pytest.FixtureRequest, row: str) -> str:
    """The python of a row of the runtimes: a kept one, or that of the ready hosts, which a
    bootstrap installs there."""
    caches = request.getfixturevalue("shared_caches")
    if python := kept_environments.kept_python(caches, row):
        return python
    home = request.getfixturevalue("ready")
    if row != kept_environments.DEFAULT:
        make_ready(home, caches, row)
    return kept_environments.python_of(home, row)


@pytest.fixture(scope="session")
def s3_store(
    shared_caches: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[object_stores.S3]:
    """A real S3 server; skipped with a reason where it was not built."""
    with built_or_skipped(), object_stores.s3(shared_caches, tmp_path_factory.mktemp("s3")) as s3:
        yield s3


@pytest.fixture(scope="session")
def gcs_store(
    shared_caches: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[object_stores.Gcs]:
    """Google's emulator; skipped with a reason where it was not built."""
    with built_or_skipped(), object_stores.gcs(shared_caches, tmp_path_factory.mktemp("g")) as gcs:
        yield gcs


@contextlib.contextmanager
def built_or_skipped() -> Iterator[None]:
    """Skip where a server was not built."""
    try:
        yield
    except NoServer as error:
        if object_stores.required():
            raise
        pytest.skip(str(error))
