"""What `fab doctor` finds on this computer and in a preview, with a stand-in for pulumi on PATH."""

from __future__ import annotations

import ipaddress
import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from standins.pulumi_command import PulumiCommand, exported

from bootstrap.clouds.own_address import VARIABLE
from bootstrap.doctor import computer, doctor
from bootstrap.doctor.command import doctor as run
from bootstrap.doctor.command import policy
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import pulumi_cli
from railhead.documents.codec import decode
from railhead.documents.doctor import Check, Diagnosis

WHOAMI = """echo '{"user": "ann", "url": "file://~"}'"""


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PulumiCommand:
    command = PulumiCommand(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{command.folder}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 40, 0, 1 << 40))
    command.answers(version="echo v3.300.1", whoami=WHOAMI)
    return command


def config(**values: str) -> str:
    settings = {f"railhead:{key}": {"value": text} for key, text in values.items()}
    return f"echo {shlex.quote(json.dumps(settings))}"


def preview(*messages: str, code: int = 0) -> str:
    document = {"diagnostics": [{"severity": "error", "message": text} for text in messages]}
    return f"printf %s {shlex.quote(json.dumps(document))}; exit {code}"


def found(*, with_stack: bool) -> dict[str, Check]:
    return {check.name: check for check in computer.checks(with_stack=with_stack)}


def test_without_pulumi_only_stacks_are_impossible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pulumi: PulumiCommand
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found(with_stack=False)["pulumi"].state == "warns"
    check = found(with_stack=True)["pulumi"]
    assert (check.state, check.next) == ("blocks", pulumi_cli.INSTALL)
    lines = doctor.lines(doctor.diagnose(None))
    assert "no check would make fab up fail" not in lines and "needs Pulumi" in lines[-1]


@pytest.mark.parametrize(
    ("version", "state"),
    [("v3.258.9", "blocks"), ("v3.259.0", "ok"), ("v4.0.0", "ok"), ("v3.1000.0-alpha.1", "ok")],
)
def test_an_old_pulumi_is_named(pulumi: PulumiCommand, version: str, state: str) -> None:
    pulumi.answers(version=f"echo {version}", whoami=WHOAMI)
    assert found(with_stack=True)["pulumi"].state == state


@pytest.mark.parametrize("why", ["", "echo 'error: PULUMI_ACCESS_TOKEN must be set' >&2;"])
def test_a_missing_login_names_its_command(pulumi: PulumiCommand, why: str) -> None:
    assert found(with_stack=True)["pulumi login"].evidence == "ann at file://~"
    pulumi.answers(version="echo v3.259.0", whoami=f"{why} exit 255")
    check = found(with_stack=True)["pulumi login"]
    assert (check.state, check.next) == ("blocks", pulumi_cli.LOG_IN)


@pytest.mark.parametrize("why", ["stat /nope: no such file or directory", "no such host"])
def test_a_backend_that_is_not_there_is_no_missing_login(pulumi: PulumiCommand, why: str) -> None:
    pulumi.answers(version="echo v3.259.0", whoami=f"echo 'error: {why}' >&2; exit 1")
    check = found(with_stack=True)["pulumi login"]
    assert (check.state, check.next) == ("blocks", "pulumi whoami")
    assert check.evidence.endswith(why)


@pytest.mark.parametrize(
    ("gigabytes", "state"), [(0.9, "blocks"), (1.1, "warns"), (4.9, "warns"), (5.1, "ok")]
)
def test_a_full_disk_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gigabytes: float, state: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, int(gigabytes * (1 << 30))))
    assert computer.disk_check(tmp_path / "not/there/yet").state == state


def test_the_command_for_a_full_disk_works_for_a_name_with_spaces(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 0))
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b/file").write_text("x")
    command = computer.disk_check(tmp_path / "a b").next
    listed = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert listed.stdout.endswith(f"\t{tmp_path}/a b/file\n") and not listed.stderr


@pytest.mark.parametrize(
    ("address", "cidrs", "state"),
    [
        ("203.0.113.7", "203.0.113.7/32", "ok"),
        ("203.0.113.7", "198.51.100.0/24, 203.0.113.0/24", "ok"),
        ("203.0.114.7", "203.0.113.0/24", "warns"),
        ("2001:db8::1", "203.0.113.0/24", "warns"),
    ],
)
def test_an_address_that_may_not_connect_is_found(address: str, cidrs: str, state: str) -> None:
    check = computer.check_address(ipaddress.ip_address(address), cidrs)
    assert check.state == state
    if state == "warns":
        assert check.next.endswith(f",{address}/{128 if ':' in address else 32}")


def test_an_unknown_address_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    for service in ("", "http://127.0.0.1:9", "nonsense"):
        monkeypatch.setenv(VARIABLE, service)
        assert computer.own_address_check("203.0.113.7/32").state == "unknown"


def test_a_preview_that_fails_blocks_with_its_own_commands(pulumi: PulumiCommand) -> None:
    refusal = "count: 0 is not 1 to 16\n  next: pulumi config rm count"
    pulumi.answers(
        version="echo v3.259.0",
        whoami=WHOAMI,
        config=config(cloud="local"),
        preview=preview(refusal, code=255),
    )
    (blocking,) = doctor.diagnose("dev").blocking
    expected = ("preview", "count: 0 is not 1 to 16", "pulumi config rm count")
    assert (blocking.name, blocking.evidence, blocking.next) == expected


def test_a_missing_stack_is_reported_with_those_that_exist(pulumi: PulumiCommand) -> None:
    refusal = "echo error: no stack named dev found >&2; exit 255"
    pulumi.answers(
        version="echo v3.259.0",
        whoami=WHOAMI,
        config=refusal,
        stack_ls="""echo '[{"name": "gpu"}]'""",
        preview=preview(),
    )
    (blocking,) = doctor.diagnose("dev").blocking
    assert blocking.name == "stack" and "gpu" in blocking.evidence


def test_the_exit_code_and_the_document_say_what_blocks(
    pulumi: PulumiCommand, tmp_path: Path
) -> None:
    pulumi.answers(
        version="echo v3.259.0",
        whoami=WHOAMI,
        config=config(cloud="local"),
        preview=[preview(), preview("no", code=1)],
    )
    with (tmp_path / "out.json").open("w") as file:
        run("dev", file)
    written = json.loads((tmp_path / "out.json").read_text())
    assert decode(Diagnosis, written).blocking == ()
    with pytest.raises(RailheadError):
        run("dev", None)


def test_before_an_up_nothing_is_previewed_twice(pulumi: PulumiCommand) -> None:
    pulumi.answers(version="echo v3.259.0", whoami=WHOAMI, config=config(cloud="local"))
    doctor.refuse_blocked("dev", print)
    assert not pulumi.called("preview")
    pulumi.answers(version="echo v3.1.0", whoami=WHOAMI)
    with pytest.raises(UsageError):
        doctor.refuse_blocked("dev", print)


def test_the_rights_are_those_of_the_cloud_that_is_named_or_of_the_stack(
    pulumi: PulumiCommand,
) -> None:
    pulumi.answers(config=config(cloud="gcp", bucket="false"), stack_export=exported())
    of_stack = json.loads(policy("dev", None))["includedPermissions"]
    of_all = json.loads(policy(None, "gcp"))["includedPermissions"]
    assert {*of_stack} < {*of_all}
    assert json.loads(policy("dev", "aws"))["Statement"]
    pulumi.answers(config=config(cloud="local"))
    for stack in (None, "dev"):
        with pytest.raises(UsageError):
            policy(stack, None)
