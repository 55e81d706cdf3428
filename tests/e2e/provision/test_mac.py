"""macOS as the computer that controls hosts, simulated: tests/standins/fab_on_a_mac.py."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from e2e.local_hosts import Done
from e2e.scripts import JOIN
from places import ROOT, TESTS
from standins.forks import run_fab


class Mac:
    """A person with a home on such a computer, who names the two ready hosts."""

    def __init__(self, home: Path, folder: Path, ready: Path) -> None:
        self.home, self.folder = home, folder
        cluster = ready / ".railhead/clusters/ready"
        hosts = json.loads((cluster / "cluster.json").read_text())["hosts"]
        self.hosts = ",".join(f"{host['address']}:{host['port']}" for host in hosts)
        ssh = home / ".ssh"
        ssh.mkdir(mode=0o700)
        shutil.copy(cluster / "key", ssh / "id_ed25519")
        shutil.copy(cluster / "known_hosts", ssh)

    def fab(self, *args: str) -> Done:
        """Type `fab ARGS` and wait."""
        variables = {**os.environ, "HOME": str(self.home)}
        program, words = TESTS / "standins/fab_on_a_mac.py", ("-r", str(ROOT), *args)
        done = run_fab(self.folder, words, variables, 120, program=program, merged=True)
        return Done(done.returncode, done.stdout)


@pytest.fixture
def mac(home: Path, ready: Path, tmp_path: Path) -> Mac:
    return Mac(home, tmp_path, ready)


def test_a_run_is_started_followed_and_reported(mac: Mac) -> None:
    (mac.folder / "train.py").write_text(f"{JOIN}\nprint('rank', rank, 'works')\n")
    started = mac.fab("train", "--hosts", mac.hosts, "--script", "train.py")
    started.ended(0, "rank 0 works", "succeeded")
    mac.fab("status").ended(0, "succeeded; results fetched")
    mac.fab("logs", "--rank", "1").ended(0, "rank 1 works")
    run = next((mac.folder / "results").iterdir())
    mac.fab("report", run.name).ended(0, "report.html")
    mac.fab("runs").ended(0, run.name)
    mac.fab("exec", "--cmd", "echo there").ended(0, "there")
    mac.fab("ssh-config").ended(0, "Include")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("demo", "local SSH hosts need Linux"),
        ("data-shard data out", "Linux on x86_64, not Darwin arm64"),
    ],
)
def test_what_needs_linux_says_so(mac: Mac, command: str, why: str) -> None:
    (mac.folder / "data").mkdir()
    (mac.folder / "data/a.csv").touch()
    mac.fab(*command.split()).ended(2, why)
