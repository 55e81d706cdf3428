"""The policy pack in the real engine. It needs pulumi-policy, which is in no lock:

    PYTHONPATH=FOLDER .venv/bin/pytest tests/engine/test_policy_pack.py

where FOLDER has it, as after `pip install --no-deps --target FOLDER pulumi-policy==1.21.0`.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from engine.aws import OnAws
from engine.gcp import OnGcp
from places import ROOT

FOUND = importlib.util.find_spec("pulumi_policy")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(FOUND is None, reason="pulumi-policy is not installed"),
]
PACK = ("--policy-pack", str(ROOT / "stacks/policies"))


def with_pack(site: OnAws | OnGcp) -> None:
    """Let the pack be found beside the code under test."""
    assert FOUND and FOUND.origin
    folders = [str(site.stack.folder), str(ROOT), str(Path(FOUND.origin).parents[1])]
    site.stack.env["PYTHONPATH"] = os.pathsep.join(folders)


def test_our_stacks_on_aws_break_no_rule_and_an_open_network_does(aws: OnAws) -> None:
    with_pack(aws)
    aws.stack.preview(*PACK).ended(0)
    aws.stack.config(spot=True, host_keys="injected").preview(*PACK).ended(0)
    broken = aws.stack.config(ssh_cidrs="203.0.0.0/8", allow_wide_cidr=True).preview(*PACK)
    broken.ended(1, "railhead-narrow-networks", "203.0.0.0/8 is wider than /16")


def test_our_stacks_on_google_cloud_break_no_rule_and_an_open_network_does(gcp: OnGcp) -> None:
    with_pack(gcp)
    gcp.stack.config(bucket=True).preview(*PACK).ended(0)
    gcp.stack.config(ssh_cidrs="0.0.0.0/0", allow_wide_cidr=True)
    gcp.stack.preview(*PACK).ended(1, "railhead-narrow-networks", "0.0.0.0/0 is wider than /16")
