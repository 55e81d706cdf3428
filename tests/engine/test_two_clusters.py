"""Two clusters in one program of one's own, on the real engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine.aws import PUBLIC, tags
from engine.stack import Stack
from standins.aws.cloud import Cloud
from standins.aws.provider import serve

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PROGRAM = """
from dataclasses import replace
import pulumi
from railhead.documents.codec import encode
from stacks.aws.cluster import Cluster
from stacks.config import settings

common = {"cloud": "aws", "owner": "ann", "count": "1", "bucket": "false"}
common |= {"ssh_cidrs": "203.0.113.7/32", "public_key_file": "key.pub"}
vpn = pulumi.Stash("vpn", input="198.51.100.0/24")
for name in ("one", "two"):
    config = settings.read({**common, "name": f"gpu-{name}"}, stack=pulumi.get_stack())
    cluster = Cluster(name, replace(config, ssh_cidrs=(vpn.output,), labels={"team": vpn.output}))
    pulumi.export(name, cluster.document.apply(encode))
"""


@pytest.fixture
def stack(cloud: Cloud, engine: Path, tmp_path: Path) -> Iterator[Stack]:
    cloud.reset()
    with serve(cloud) as (_, port):
        made = Stack(engine, tmp_path / "p", "g4dn", providers={"aws": port}, program=PROGRAM)
        for folder in (made.folder, made.folder / "stacks"):
            (folder / "key.pub").write_text(f"{PUBLIC}\n")
        made.env = {**cloud.env, "HOME": str(tmp_path)}
        yield made
        made.end_processes()


def test_two_clusters_are_made_kept_and_destroyed(stack: Stack, cloud: Cloud) -> None:
    stack.preview().ended(0)
    stack.up().ended(0)
    held = cloud.client("ec2").describe_instances()["Reservations"]
    machines = [one for each in held for one in each["Instances"]]
    found = {tags(one)["Name"]: tags(one)["railhead:id"] for one in machines}
    assert found.keys() == {"gpu-one-1", "gpu-two-1"} and len(set(found.values())) == 2
    assert {tags(one)["team"] for one in machines} == {"198.51.100.0/24"}
    documents = stack.output()
    assert {documents[name]["id"] for name in ("one", "two")} == set(found.values())
    # The stand-in is one process for both providers, and has the default tags of the last.
    assert {step.op for step in stack.up().ended(0).steps} <= {"update"}
    shown = stack.fab("status", "--stack", "g4dn").ended(2, "has the clusters gpu-one and gpu-two")
    assert "pulumi stack output --stack g4dn" in shown.text
    stack.destroy().ended(0)
    assert stack.resources() == []
