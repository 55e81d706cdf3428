"""What several tests of this room start from."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hosts.operator import Cluster, Operator
from places import CASES
from standins.agent_process import Agent
from standins.gpu_hosts import with_cards
from standins.pulumi_command import PulumiCommand
from standins.stores.object_stores import S3

from bootstrap.clouds.gcp import client as gcp_client
from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.evaluation import request as evaluation_request
from bootstrap.facts.host import HostFacts, parse
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import reach
from bootstrap.plan.runtimes import REPO
from bootstrap.runs import request as run_request
from bootstrap.ssh.local_session import LocalSession, local_session
from bootstrap.ssh.session import Session


@pytest.fixture(scope="session")
def debian() -> HostFacts:
    """The facts of a Debian 12 host, 192.0.2.2 in 192.0.2.0/24, that has every part."""
    held = json.loads((CASES / "facts/debian-12.json").read_text())
    return parse("\n".join(held["output"]))


@pytest.fixture(scope="module")
def remembered_checks() -> Iterator[None]:
    """The built-in training checks the same settings once for all tests of a file; each check is a
    process."""
    real, known = run_request.check_settings, dict[str, dict[str, Any]]()

    def check(preset: str | None, settings: Mapping[str, str], repo: Path = REPO) -> dict[str, Any]:
        key = repr((preset, settings))
        if repo != REPO:
            return real(preset, settings, repo)
        if key not in known:
            known[key] = real(preset, settings, repo)
        return copy.deepcopy(known[key])

    with pytest.MonkeyPatch.context() as patch:
        for module in (run_request, evaluation_request):
            patch.setattr(module, "check_settings", check)
        yield


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PulumiCommand:
    """A stand-in for the command `pulumi`, first on PATH."""
    command = PulumiCommand(tmp_path / "pulumi-bin")
    monkeypatch.setenv("PATH", str(command.folder), prepend=os.pathsep)
    return command


@pytest.fixture
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials of AWS: each call fails at once, and nothing is sent."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def aws_client(no_aws: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """An AWS of this test's own (moto), with credentials; makes clients of its services."""
    pytest.importorskip("boto3", reason="scripts/setup --stacks installs boto3")
    pytest.importorskip("moto", reason="scripts/setup --dev installs moto")
    from standins.aws.account import account, client

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with account():
        yield client


@pytest.fixture
def s3(s3_store: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of S3, which programs find by the variables of AWS. It has the bucket `results-b`,
    empty, and versioned as a stack's is."""
    for name, value in {**s3_store.environ, "NO_PROXY": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    s3_store.make_bucket("results-b")
    s3_store.keep_versions("results-b")
    yield s3_store.client
    s3_store.remove_bucket("results-b")


@pytest.fixture
def on_s3(s3: Any) -> Any:
    """A bucket of S3."""
    from standins.stores.buckets import OnS3

    return OnS3(s3)


@pytest.fixture(scope="session")
def private_key() -> str:
    """A private key as a service account has one."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain).decode()


@pytest.fixture
def on_gcs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, private_key: str) -> Iterator[Any]:
    """A separate Cloud Storage, and a service account that it knows."""
    pytest.importorskip("googleapiclient", reason="scripts/setup --dev installs it")
    from standins.gcp.storage import Store
    from standins.stores.buckets import OnGcs

    world = Store({"results-b": []}, token="t-1")
    server = world.serve()
    key = {
        "type": "service_account",
        "client_email": "me@p-1.iam.gserviceaccount.com",
        "token_uri": f"{world.base}/token",
        "private_key": private_key,
    }
    (tmp_path / "key.json").write_text(json.dumps(key))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    monkeypatch.setenv(f"{gcp_client.OVERRIDE}STORAGE", f"{world.base}/storage/v1/")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # google-auth asks a public host, beside its work, in which places the account may act.
    held = "google.auth.credentials.CredentialsWithRegionalAccessBoundary"
    monkeypatch.setattr(f"{held}._is_regional_access_boundary_lookup_required", lambda _: False)
    yield OnGcs(world)
    server.shutdown()
    server.server_close()
    assert not world.wrong, world.wrong


@pytest.fixture(params=["on_s3", "on_gcs"])
def world(request: pytest.FixtureRequest) -> Any:
    """A bucket of each cloud."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def t4(debian: HostFacts) -> HostFacts:
    """The same host with a T4 in it, and no driver."""
    return with_cards(debian, "turing")


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three local hosts of this file's tests, which accept the cluster's key."""
    name = request.path.stem.removeprefix("test_")
    yield Cluster(local_cluster.start(name, 3))
    local_cluster.destroy(name)


@pytest.fixture(scope="module")
def one_host(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One local host of this file's tests, entered as its own cluster's."""
    name = request.path.stem.removeprefix("test_")
    yield Cluster(local_cluster.start(name, 1))
    local_cluster.destroy(name)


@pytest.fixture
def inventory(
    request: pytest.FixtureRequest, home_of_session: Path, monkeypatch: pytest.MonkeyPatch
) -> Inventory:
    """The hosts of this file, which `cluster` or `one_host` has started."""
    monkeypatch.setenv("HOME", str(home_of_session))
    return local_state.load_cluster(request.path.stem.removeprefix("test_"))


@pytest.fixture(params=["", "1"], ids=["paramiko", "ssh"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transport of the sessions."""
    monkeypatch.setenv("RAILHEAD_SSH", request.param)


@pytest.fixture
def session(one_host: Cluster, inventory: Inventory) -> Iterator[Session]:
    """A session with the one host."""
    with reach.sessions(inventory) as opened:
        yield opened["h1"]


@pytest.fixture(scope="session")
def facts_here(home_of_session: Path) -> HostFacts:
    """The facts of this machine; reading them takes a second of CPU time."""
    with local_session() as session:
        return session.facts()


@pytest.fixture
def known_facts(facts_here: HostFacts, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of this test with this machine know its facts."""
    known = replace(facts_here, home=str(home))
    monkeypatch.setattr(LocalSession, "facts", lambda _: known)


@pytest.fixture
def operator(home: Path, cluster: Cluster) -> Operator:
    """A user with the key, and without any known host."""
    operator = Operator(home)
    operator.has(cluster.key)
    return operator


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    """An agent at home in this test's home."""
    agent = Agent(home)
    yield agent
    agent.close()
