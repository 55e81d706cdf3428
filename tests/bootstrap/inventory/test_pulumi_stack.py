"""The pulumi command, with a stand-in that prints what version 3.259.0 prints."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from places import CASES
from standins.pulumi_command import PulumiCommand, exported, resource

from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import pulumi_cli, pulumi_stack, stack_state
from bootstrap.inventory.stack_state import MACHINES

GOLDEN = json.loads((CASES / "documents/cluster-aws.json").read_text())

# Each answer as the real command gave it: its exit code, and what it printed where.
SELECTED = "echo dev"
NONE_SELECTED = "echo 'error: no stack selected; please use `pulumi stack select`' >&2; exit 1"
LOGGED_OUT = (
    "echo 'error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions'"
    " >&2; exit 3"
)
NO_STACK = "echo \"error: no stack named 'nope' found\" >&2; exit 6"
LOCKED = (
    "echo 'error: get stack outputs: passphrase must be set with PULUMI_CONFIG_PASSPHRASE or "
    "PULUMI_CONFIG_PASSPHRASE_FILE environment variables' >&2; exit 1"
)
WRONG_PASSPHRASE = "echo 'error: getting secrets manager: incorrect passphrase' >&2; exit 1"
LISTED = """echo '[{"name": "dev", "current": true}, {"name": "aws-g4dn", "current": false}]'"""


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PulumiCommand:
    """The stand-in on PATH, and a project that it is about."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(pulumi_cli, "CLONE", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: railhead\n")
    return PulumiCommand(tmp_path / "bin")


OWN = (resource("pulumi:pulumi:Stack"), resource("railhead:aws:Cluster"))


def made(*kinds: str) -> str:
    """What answers `pulumi stack export` for a state with these kinds of resources."""
    return exported(*OWN, *(resource(k, id=f"i-{n}") for n, k in enumerate(kinds, 1)))


def documented(document: object) -> str:
    """As `made`, for a state with this cluster document."""
    component = resource("railhead:aws:Cluster", outputs={"document": document})
    return exported(OWN[0], component)


def test_the_selected_stack_is_the_current_one(pulumi: PulumiCommand) -> None:
    pulumi.answers(stack=SELECTED)
    assert pulumi_stack.current() == "dev"
    assert pulumi.calls == ["stack --show-name"]


def test_without_pulumi_login_or_selection_there_is_no_current_stack(pulumi: PulumiCommand) -> None:
    assert pulumi_stack.current() is None
    for output in (NONE_SELECTED, LOGGED_OUT):
        pulumi.answers(stack=output)
        assert pulumi_stack.current() is None


def test_a_clone_without_a_project_does_not_ask_pulumi(pulumi: PulumiCommand) -> None:
    pulumi.answers(stack=SELECTED)
    assert pulumi_cli.CLONE
    (pulumi_cli.CLONE / "Pulumi.yaml").unlink()
    assert pulumi_stack.current() is None
    assert pulumi.calls == []


def test_pulumi_gets_no_input_and_a_limited_time(
    pulumi: PulumiCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulumi.answers(stack="read word && echo prompted || echo closed")
    assert pulumi_stack.current() == "closed"
    monkeypatch.setattr(pulumi_cli, "SECONDS", 0.2)
    pulumi.answers(stack="exec sleep 30")
    with pytest.raises(UsageError, match="does not answer") as caught:
        pulumi_stack.current()
    assert "--hosts" in caught.value.hint


def test_a_stacks_document_becomes_an_inventory(pulumi: PulumiCommand) -> None:
    pulumi.answers(stack_export=documented(GOLDEN))
    inventory = pulumi_stack.cluster_of("dev")
    assert (inventory.name, inventory.cloud, inventory.stack) == ("aws-g4dn", "aws", "dev")
    assert inventory.hosts[1].id == "i-0a1b2c3d4e5f60719"
    assert pulumi.calls == ["stack export --stack dev"]


def test_no_such_stack_names_those_that_there_are(pulumi: PulumiCommand) -> None:
    pulumi.answers(stack_export=NO_STACK, stack_ls=LISTED)
    with pytest.raises(UsageError, match="no stack 'nope'; there are: dev, aws-g4dn"):
        pulumi_stack.cluster_of("nope")


@pytest.mark.parametrize("output", [LOCKED, WRONG_PASSPHRASE])
def test_a_passphrase_is_requested_by_its_variable(pulumi: PulumiCommand, output: str) -> None:
    pulumi.answers(stack_export=output)
    with pytest.raises(UsageError, match="passphrase") as caught:
        pulumi_stack.cluster_of("dev")
    assert "PULUMI_CONFIG_PASSPHRASE" in caught.value.hint
    assert caught.value.code == 2


def test_a_stack_that_was_never_made_names_pulumi_up(pulumi: PulumiCommand) -> None:
    pulumi.answers(stack_export=made())
    with pytest.raises(UsageError, match="has no machines") as caught:
        pulumi_stack.cluster_of("dev")
    assert caught.value.hint.startswith("pulumi up --stack dev")


@pytest.mark.parametrize("kind", MACHINES)
def test_machines_of_an_up_that_broke_off_are_named(pulumi: PulumiCommand, kind: str) -> None:
    pulumi.answers(stack_export=made(kind, "aws:ec2/vpc:Vpc"))
    with pytest.raises(UsageError, match=r"broke off: i-1 exist, and cost money") as caught:
        pulumi_stack.cluster_of("dev")
    assert "fab teardown --destroy --stack dev" in caught.value.hint


def test_no_login_and_unknown_text(pulumi: PulumiCommand) -> None:
    pulumi.answers(stack_export=LOGGED_OUT)
    with pytest.raises(UsageError, match="not logged in"):
        pulumi_stack.cluster_of("dev")
    pulumi.answers(stack_export="echo 'error: the sky fell' >&2; exit 255")
    with pytest.raises(UsageError, match="pulumi: error: the sky fell"):
        pulumi_stack.cluster_of("dev")
    pulumi.answers(stack_export="echo Please choose:")
    with pytest.raises(UsageError, match="printed no JSON"):
        pulumi_stack.cluster_of("dev")


@pytest.mark.parametrize(
    ("change", "output", "hint"),
    [
        ({"schema": 2}, "has schema 2; this Railhead reads 1", "git pull"),
        ({"schema": 0}, "has schema 0; this Railhead reads 1", "pulumi up --stack dev"),
        ({"bucket": 7}, "bucket must be a text, not 7", "pulumi up --stack dev"),
    ],
)
def test_another_document_names_the_way_out(
    pulumi: PulumiCommand, change: dict[str, object], output: str, hint: str
) -> None:
    pulumi.answers(stack_export=documented(GOLDEN | change))
    with pytest.raises(UsageError, match=output) as caught:
        pulumi_stack.cluster_of("dev")
    assert caught.value.hint.startswith(hint)


def test_the_document_is_read_where_it_is_no_secret(pulumi: PulumiCommand) -> None:
    """The component has it in plain text, the output as a secret; an output of before 0.1.0 is
    plain."""
    secret = resource("pulumi:pulumi:Stack", outputs={"cluster": {stack_state.SECRET: "1b47"}})
    component = resource("railhead:aws:Cluster", "c", outputs={"document": GOLDEN})
    plain = resource("pulumi:pulumi:Stack", outputs={"cluster": GOLDEN})
    for resources in ((secret, component), (plain, OWN[1])):
        pulumi.answers(stack_export=exported(*resources))
        assert pulumi_stack.cluster_of("dev").name == "aws-g4dn"
    pulumi.answers(stack_export=exported(secret, OWN[1]))
    with pytest.raises(UsageError, match="has no machines"):
        pulumi_stack.cluster_of("dev")


def test_stack_without_pulumi_reports_where_to_get_it(pulumi: PulumiCommand) -> None:
    with pytest.raises(UsageError, match="no pulumi on PATH") as caught:
        pulumi_stack.cluster_of("dev")
    assert "pulumi.com" in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "changed", "stops"),
    [
        ("aws:ec2/instance:Instance", ["instanceType", "tags"], True),
        ("aws:ec2/instance:Instance", ["rootBlockDevice", "tags"], False),
        ("gcp:compute/instance:Instance", ["machineType"], True),
        ("gcp:compute/instance:Instance", ["serviceAccount"], True),
        ("gcp:compute/instance:Instance", ["labels", "metadata"], False),
        ("aws:iam/role:Role", ["instanceType"], False),
    ],
)
def test_a_preview_tells_which_machines_a_change_stops(
    pulumi: PulumiCommand, kind: str, changed: list[str], stops: bool
) -> None:
    """One that is replaced is removed, whatever changes."""
    old = {"type": kind, "id": "i-1"}
    update = {"op": "update", "oldState": old, "diffReasons": changed}
    other = {"op": "replace", "oldState": {**old, "id": "i-2"}, "diffReasons": changed}
    pulumi.answers(preview=f"echo {shlex.quote(json.dumps({'steps': [update, other]}))}")
    changes = pulumi_stack.machine_changes("dev", refresh=False)
    assert changes.stopped == (("i-1",) if stops else ())
    assert changes.removed == (("i-2",) if "Instance" in kind else ())


def test_a_preview_is_one_document_also_where_the_user_wants_a_stream(
    pulumi: PulumiCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the variable, `preview --json` of pulumi 3.259.0 prints a document for each event
    (sdk/go/common/env/env.go). No step was read then: machines were replaced without a word."""
    monkeypatch.setenv("PULUMI_ENABLE_STREAMING_JSON_PREVIEW", "true")
    step = {"op": "delete", "oldState": {"type": "aws:ec2/instance:Instance", "id": "i-1"}}
    stream = "echo '{\"sequence\": 0}'; echo '{\"sequence\": 1}'"
    document = f"echo {shlex.quote(json.dumps({'steps': [step]}))}"
    asks = '[ "$PULUMI_ENABLE_STREAMING_JSON_PREVIEW" = true ]'
    pulumi.answers(preview=f"if {asks}; then {stream}; else {document}; fi")
    assert pulumi_stack.machine_changes("dev", refresh=False).removed == ("i-1",)


@pytest.mark.parametrize("printed", ["{}\n{}", "", "no JSON"])
def test_a_preview_that_cannot_be_read_changes_nothing(pulumi: PulumiCommand, printed: str) -> None:
    pulumi.answers(preview=f"printf '{printed}'")
    with pytest.raises(UsageError, match="nothing was changed: pulumi printed no JSON"):
        pulumi_stack.machine_changes("dev", refresh=False)
    assert pulumi_stack.preview_report("dev")[0]


def test_destroy_asks_nothing_and_reports_a_failure(
    pulumi: PulumiCommand, capfd: pytest.CaptureFixture[str]
) -> None:
    pulumi.answers(destroy="echo Destroying")
    pulumi_stack.destroy("dev")
    assert capfd.readouterr().out == "Destroying\n"
    assert pulumi.calls == ["destroy --yes --skip-preview --stack dev --continue-on-error"]
    pulumi.answers(destroy="exit 255")
    with pytest.raises(RailheadError, match="could not destroy all of dev"):
        pulumi_stack.destroy("dev")


def test_a_pulumi_that_does_not_end_is_ended(
    pulumi: PulumiCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulumi.answers(up="trap '' INT; exec sleep 600")
    monkeypatch.setattr(pulumi_stack, "UP_SECONDS", 0.1)
    monkeypatch.setattr(pulumi_cli, "END_SECONDS", 0.1)
    assert pulumi_stack.up("dev", refresh=False).code == -9


def test_the_backend_is_that_of_the_environment_or_of_the_last_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))
    assert pulumi_cli.backend() is None
    (tmp_path / "credentials.json").write_text('{"current": "https://api.pulumi.com"}')
    assert pulumi_cli.backend() == "https://api.pulumi.com"
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file://~")
    assert pulumi_cli.backend() == "file://~"


@pytest.mark.parametrize("kind", MACHINES)
def test_a_machine_that_the_program_only_reads_is_not_one_of_the_stack(kind: str) -> None:
    """`Instance.get` and the like: to stop or to end it is not ours."""
    resources = [
        resource(kind, "own", id="i-own", outputs={}),
        resource(kind, "read", id="i-read", outputs={}, external=True),
    ]
    exported_state = {"deployment": {"resources": [*OWN, *resources]}}
    state = stack_state.read_state("dev", exported_state)
    assert [machine.id for machine in state.machines] == [
        "i-own" for types in [MACHINES[kind]] if types.provider
    ]
    assert state.ids == ("i-own",)
