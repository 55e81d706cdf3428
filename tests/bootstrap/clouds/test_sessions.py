"""One login for a command: each further session of an SDK asks for it again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bootstrap.clouds.base import NoCredentials
from bootstrap.errors import UsageError

ROLE = "arn:aws:iam::123456789012:role/team"
CONFIG = f"""
[profile base]
aws_access_key_id = testing
aws_secret_access_key = testing
[profile team]
role_arn = {ROLE}
source_profile = base
"""


def test_a_role_is_assumed_once(
    aws_client: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """boto3 1.44 keeps the keys of a role in the session: each other one assumes it again, and asks
    for an MFA code where the role demands one."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.sts.models import sts_backends

    from bootstrap.clouds.aws.client import connect

    config, assumed = tmp_path / "config", sts_backends[DEFAULT_ACCOUNT_ID]["aws"].assumed_roles
    config.write_text(CONFIG)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "team")
    for region in ("us-east-1", "us-west-2", "us-east-1"):
        connect(region)("ec2", "describe_instances")
    connect("us-east-1")("sts", "get_caller_identity")
    assert [role.role_arn for role in assumed] == [ROLE]
    os.utime(config, (1, 1))
    connect("us-east-1")("ec2", "describe_instances")
    assert len(assumed) == 2, "another login is used at once"


def test_googles_login_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """google-auth 2 starts `gcloud config get project`, which takes a second, for each session of
    somebody who has typed `gcloud auth application-default login`."""
    pytest.importorskip("google.auth", reason="scripts/setup --stacks installs google-auth")
    from bootstrap.clouds.gcp.client import connect

    starts, gcloud = tmp_path / "starts", tmp_path / "bin/gcloud"
    gcloud.parent.mkdir()
    gcloud.write_text(f"#!/bin/sh\necho started >> {starts}\necho p\n")
    gcloud.chmod(0o755)
    login = tmp_path / "application_default_credentials.json"
    login.write_text(
        '{"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}'
    )
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(gcloud.parent), prepend=os.pathsep)
    assert connect().session is connect().session
    assert starts.read_text().count("started") == 1
    os.utime(login, (1, 1))
    connect()
    assert starts.read_text().count("started") == 2, "another login is used at once"


@pytest.mark.parametrize("content", [None, "{}"])
def test_a_file_of_credentials_that_is_not_usable_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    """Whoever logs in again is not helped: the variable comes first."""
    pytest.importorskip("google.auth", reason="scripts/setup --stacks installs google-auth")
    from bootstrap.clouds.gcp.client import connect

    if content is not None:
        (tmp_path / "keys").write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "keys"))
    with pytest.raises(UsageError, match=str(tmp_path / "keys")) as caught:
        connect()
    assert not isinstance(caught.value, NoCredentials)
    assert "unset GOOGLE_APPLICATION_CREDENTIALS" in str(caught.value.hint)


@pytest.mark.parametrize("text, why", [("", "team"), ("[default", "parse")])
def test_a_configuration_of_aws_that_is_not_usable_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    pytest.importorskip("boto3", reason="scripts/setup --stacks installs it")
    from bootstrap.clouds.aws.areas import areas

    (tmp_path / "config").write_text(text)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "team")
    with pytest.raises(UsageError, match=f"AWS call failed: .*{why}"):
        areas(())
