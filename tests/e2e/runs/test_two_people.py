"""A colleague uses a stack whose run somebody else has started: two homes, one bucket, real hosts.

The stack's state, its cloud and the bucket are all that they share.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from e2e.local_hosts import Done, homes_of_hosts, read_until, run_id, wait_until, with_rights
from e2e.scripts import JOIN
from places import ROOT, TESTS
from standins.forks import run_fab
from standins.pulumi_command import PulumiCommand, exported, on_aws
from standins.stores.object_stores import S3

from bootstrap.clouds.local.host import address

PROGRAM = TESTS / "standins/fab_of_a_team.py"
# Trains until a file exists.
SCRIPT = (
    JOIN
    + """
pathlib.Path("model.txt").write_text("weights")
epoch = 0
while not os.path.exists(sys.argv[1]):
    epoch += 1
    if rank == 0:
        print("@railhead", json.dumps({"kind": "epoch", "epoch": epoch, "loss": 1 / epoch}))
    print("tick", epoch, flush=True)
    time.sleep(0.2)
"""
)


@dataclass(frozen=True)
class Person:
    """Somebody with a home and a folder, who has selected the stack."""

    home: Path
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def environment(self, **more: str) -> dict[str, str]:
        """The shell's environment."""
        return {**os.environ, "HOME": str(self.home), **self.variables, **more}

    def fab(self, *args: str, **environment: str) -> Done:
        """Type `fab ARGS` and wait."""
        words, variables = ("-r", str(ROOT), *args), self.environment(**environment)
        done = run_fab(self.folder, words, variables, 120, program=PROGRAM, merged=True)
        return Done(done.returncode, done.stdout)

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Type `fab ARGS` and do not wait."""
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), "-r", str(ROOT), *args],
            cwd=self.folder,
            env=self.environment(PYTHONPATH=str(ROOT)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def key(self) -> Path:
        """Their public key, created now."""
        path = self.home / ".ssh/id_ed25519"
        path.parent.mkdir(mode=0o700)
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bob", "-f", str(path)]
        subprocess.run(argv, check=True)
        return path.with_suffix(".pub")


@dataclass(frozen=True)
class Team:
    """Ann, who created the stack, and Bob."""

    ann: Person
    bob: Person
    store: S3
    bucket: str


@pytest.fixture
def team(
    request: pytest.FixtureRequest, ready: Path, tmp_path: Path, s3_store: S3
) -> Iterator[Team]:
    """The two, before Bob can log in."""
    bucket = request.node.name.replace("_", "-")[:40]
    s3_store.make_bucket(bucket)
    people = []
    for name in ("ann", "bob"):
        home, folder = tmp_path / name, tmp_path / f"{name}-project"
        home.mkdir()
        folder.mkdir()
        (folder / "Pulumi.yaml").write_text("name: railhead\n")
        pulumi = PulumiCommand(tmp_path / f"{name}-bin")
        state = exported(*on_aws("i-1", "i-2", cluster="team", document=document(tmp_path, bucket)))
        pulumi.answers(stack_export=state, stack="echo dev")
        variables = {
            **s3_store.environ,
            "PATH": f"{pulumi.folder}:{os.environ['PATH']}",
            "TEAM_HOME": str(ready),
            "TEAM_STOPPED": str(tmp_path / "stopped"),
            "NO_PROXY": "127.0.0.1",
        }
        people.append(Person(home, folder, variables))
    ann, bob = people
    (ann.home / ".ssh").mkdir(mode=0o700)
    shutil.copy(ready / ".railhead/clusters/ready/key", ann.home / ".ssh/id_ed25519")
    with with_rights(homes_of_hosts(ready), s3_store):
        yield Team(ann, bob, s3_store, bucket)


def document(folder: Path, bucket: str) -> dict[str, object]:
    """The output of the stack that Ann has created."""
    host = {"slots": 1, "zone": None, "gpu": None, "peer_address": None, "user": None}
    return {
        "schema": 1,
        "name": "team",
        "cloud": "aws",
        "region": "us-east-1",
        "bucket": f"s3://{bucket}",
        "ssh": {"user": os.environ.get("USER", "root"), "port": 22, "key_file": "/home/ann/key"},
        "deadlines": [],
        "price": None,
        "hosts": [
            {
                **host,
                **({"stop": ["touch", str(folder / "stopped")]} if number == 1 else {}),
                "name": f"h{number}",
                "id": f"i-{number}",
                "address": address("ready", number),
                "host_key_source": "console",
            }
            for number in (1, 2)
        ],
    }


def start_run(person: Person, finish: Path) -> str:
    """Start a run that ends when the file exists; returns its id."""
    (person.folder / "train.py").write_text(SCRIPT)
    command = ("train", "--script", "train.py", "--args", str(finish), "--detach")
    return run_id(person.fab(*command, CONSOLE="yes").ended(0, "fab attach").out)


def test_a_colleague_sees_follows_fetches_and_cancels_a_run(team: Team, tmp_path: Path) -> None:
    ann, bob, finish = team.ann, team.bob, tmp_path / "finish"
    public = bob.key()
    first = start_run(ann, finish)
    assert team.store.names(team.bucket, "host-keys/") == ["host-keys/i-h1", "host-keys/i-h2"]

    bob.fab("status").ended(1, "none of your keys is accepted", "fab ssh-key YOUR_KEY.pub")
    refused = ann.fab("ssh-key", str(public.with_suffix(""))).ended(2, "is a private key")
    assert f"next: fab ssh-key {public}" in refused.out
    ann.fab("ssh-key", str(public)).ended(0, "[h1] accepts this key now: bob", "[h2] accepts")
    ann.fab("ssh-key", str(public)).ended(0, "[h2] has this key already")

    bob.fab("status").ended(0, f"run {first}: running", "started on another computer")
    assert not [*bob.home.glob(".railhead/clusters/*/runs/*")], "a look records nothing"
    bob.fab("logs", first, "--rank", "1").ended(0, "tick 1\n")
    results = bob.folder / "results" / first
    board = bob.start("tensorboard", first)
    read_until(board, f"TensorBoard of run {first}: http://127.0.0.1:")
    board.send_signal(signal.SIGINT)
    assert "TensorBoard has ended" in board.communicate(timeout=60)[0]

    bob.fab("cancel").ended(2, f"the last run, {first}, was started on another computer")
    attached = bob.start("attach")
    read_until(attached, "tick")
    finish.touch()
    out = attached.communicate(timeout=120)[0]
    assert attached.returncode == 0, out
    assert (results / "outputs/model.txt").read_text() == "weights"
    ann.fab("fetch").ended(0, "state: succeeded")

    for file in (finish, tmp_path / "stopped"):
        file.unlink()
    second = start_run(ann, finish)
    bob.fab("cancel", second).ended(0, "[h1] no process of the run is left")
    ann.fab("status").ended(0, f"run {second}: cancelled")

    bob.fab("ssh-key", "--remove", str(public)).ended(0, "[h1] does not accept this key any more")
    bob.fab("status").ended(1, "none of your keys is accepted")


def test_after_the_machines_have_stopped_a_colleague_reads_the_bucket(
    team: Team, tmp_path: Path
) -> None:
    ann, bob, finish = team.ann, team.bob, tmp_path / "finish"
    finish.touch()
    run = start_run(ann, finish)
    wait_until((tmp_path / "stopped").exists, 150, "the machines are stopped")
    bob.fab("status").ended(0, f"in s3://{team.bucket}/runs/{run}: fab fetch")
    bob.fab("logs", run).ended(0, f"run {run} was started on another computer", "the complete log")
    bob.fab("fetch").ended(0, "state: succeeded")
    assert (bob.folder / "results" / run / "outputs/model.txt").read_text() == "weights"
    bob.fab("runs").ended(0, run)
    wrong = "20260101-000000-0000"
    bob.fab("fetch", wrong).ended(2, f"run '{wrong}' is not recorded for team")
