"""`fab stop --all` against moto: every stack of the backend that is this owner's."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from standins.pulumi_command import PulumiCommand, exported, on_aws

from bootstrap.clouds import base
from bootstrap.clouds.machines import list_machines
from bootstrap.errors import HostsFailed, RailheadError, UsageError
from bootstrap.lifecycle import held, stack_machines
from bootstrap.lifecycle.consent import Answers, Held
from bootstrap.workflows.machines.stop_all import stop_all
from railhead.documents.options.hosts import TargetOptions, TeardownOptions

pytest.importorskip("moto", reason="scripts/setup --dev installs moto")
SPOT = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time"}}
BROKEN = "echo 'error: the passphrase must be set' >&2; exit 1"


@pytest.fixture
def machine(
    aws_client: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Runs a machine of a stack; its id."""
    from standins.aws.account import run_instances

    monkeypatch.setattr(base, "POLL_SECONDS", 0.01)

    def run(cluster_id: str, owner: str, **options: Any) -> str:
        tags = {"railhead:cluster": "g4dn", "railhead:id": cluster_id, "railhead:owner": owner}
        return str(run_instances(1, tags, **options)[0]["InstanceId"])

    return run


def state(machine: str, cluster_id: str, owner: str) -> str:
    """The script that prints the state of a stack with a machine."""
    resources = on_aws(machine, cluster_id=cluster_id)
    has_tags = {"tagsAll": {"railhead:owner": owner}}
    return exported(
        *({**r, "outputs": has_tags} if r.get("id") == machine else r for r in resources)
    )


def backend(pulumi: PulumiCommand, **exports: str) -> None:
    listed = json.dumps([{"name": name, "resourceCount": 9} for name in exports])
    scripts = {f"stack_export_--stack_{name}": script for name, script in exports.items()}
    pulumi.answers(stack_ls=f"echo {shlex.quote(listed)}", **scripts)


def run(**options: bool) -> None:
    stop_all(TargetOptions(), TeardownOptions(**options), "ann")


def states(client: Any) -> dict[str, str]:
    reservations = client("ec2").describe_instances()["Reservations"]
    return {i["InstanceId"]: i["State"]["Name"] for r in reservations for i in r["Instances"]}


def test_all_stacks_of_the_owner_stop_and_others_run_on(
    machine: Callable[..., str],
    aws_client: Callable[[str], Any],
    pulumi: PulumiCommand,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second, bobs = machine("aa", "ann"), machine("bb", "ann"), machine("cc", "bob")
    backend(
        pulumi,
        one=state(first, "aa", "ann"),
        two=state(second, "bb", "ann"),
        bobs=state(bobs, "cc", "bob"),
        none=exported(),
    )
    run()
    assert states(aws_client) == {first: "stopped", second: "stopped", bobs: "running"}
    lines = capsys.readouterr().out.splitlines()
    outcomes = {line.split(":")[0]: line for line in lines if line.startswith("stack ")}
    assert {*outcomes} == {"stack one", "stack two", "stack bobs", "stack none"}
    assert "of bob" in outcomes["stack bobs"]
    assert "fab stop --stack bobs" in outcomes["stack bobs"]


def test_a_stack_that_fails_does_not_keep_the_others_running(
    machine: Callable[..., str], aws_client: Callable[[str], Any], pulumi: PulumiCommand
) -> None:
    first, last = machine("aa", "ann", InstanceMarketOptions=SPOT), machine("bb", "ann")
    backend(pulumi, spot=state(first, "aa", "ann"), broken=BROKEN, last=state(last, "bb", "ann"))
    with pytest.raises(HostsFailed) as raised:
        run()
    assert states(aws_client) == {first: "running", last: "stopped"}
    outcomes = raised.value.outcomes
    assert {*outcomes} == {"spot", "broken", "last"} and "stopped" in outcomes["last"]
    assert "--yes" in outcomes["spot"], "to terminate it needs consent"
    assert "PULUMI_CONFIG_PASSPHRASE" in outcomes["broken"]
    assert "spot, broken" in raised.value.message.splitlines()[0]


def test_yes_alone_terminates_no_spot_machine_with_the_only_copy_of_results(
    machine: Callable[..., str],
    aws_client: Callable[[str], Any],
    pulumi: PulumiCommand,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = machine("aa", "ann", InstanceMarketOptions=SPOT)
    backend(pulumi, spot=state(first, "aa", "ann"))
    answers = Answers({"g4dn-1": Held(unfetched=("r1",))})
    monkeypatch.setattr(held, "ask", lambda _: answers)
    with pytest.raises(HostsFailed) as raised:
        run(yes=True)
    assert states(aws_client) == {first: "running"} and "r1" in raised.value.outcomes["spot"]
    run(yes=True, discard_results=True)
    assert states(aws_client) == {first: "terminated"}


@pytest.fixture
def strays(machine: Callable[..., str], pulumi: PulumiCommand) -> dict[str, str]:
    """Two machines that no state has, by owner: Ann's `up` was killed before it could record it,
    and the `up` of Bob, a colleague, is in progress."""
    backend(pulumi, one=exported(*on_aws(cluster_id="aa")), bobs=exported(*on_aws(cluster_id="cc")))
    return {"ann": machine("aa", "ann"), "bob": machine("cc", "bob")}


def test_a_machine_that_no_state_has_stops_with_its_stack_and_those_of_others_run_on(
    strays: dict[str, str], aws_client: Callable[[str], Any]
) -> None:
    run()
    assert states(aws_client) == {strays["ann"]: "stopped", strays["bob"]: "running"}


def test_a_stack_whose_machines_the_cloud_did_not_list_is_not_without_machines(
    no_aws: None, pulumi: PulumiCommand
) -> None:
    """Pulumi was killed in its first `up`, and there are no credentials to list what it left."""
    backend(pulumi, one=exported(*on_aws(cluster_id="aa")))
    with pytest.raises(HostsFailed) as raised:
        run()
    assert "AWS call failed" in raised.value.outcomes["one"]


def test_owners_count_also_where_the_cloud_lists_its_machines_only_at_the_second_request(
    strays: dict[str, str],
    aws_client: Callable[[str], Any],
    pulumi: PulumiCommand,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed_stacks = set[str]()

    def fails_first(place: Any) -> Any:
        stack = pulumi.calls[-1]
        if stack not in listed_stacks:
            listed_stacks.add(stack)
            raise RailheadError("AWS call failed: RequestLimitExceeded")
        return list_machines(place)

    monkeypatch.setattr(stack_machines, "list_machines", fails_first)
    run(yes=True)
    assert len(listed_stacks) == 2
    assert states(aws_client) == {strays["ann"]: "stopped", strays["bob"]: "running"}


def test_machines_that_may_be_there_too_are_in_the_outcome(
    machine: Callable[..., str],
    aws_client: Callable[[str], Any],
    pulumi: PulumiCommand,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Those that a killed `up` did not record."""
    first = machine("aa", "ann")
    backend(pulumi, one=state(first, "aa", "ann"))

    def fails(place: Any) -> Any:
        raise RailheadError("AWS call failed: RequestLimitExceeded")

    monkeypatch.setattr(stack_machines, "list_machines", fails)
    run()
    assert states(aws_client) == {first: "stopped"}
    assert "RequestLimitExceeded" in capsys.readouterr().out.splitlines()[-1]


def test_a_stack_of_another_project_runs_on(
    aws_client: Callable[[str], Any], pulumi: PulumiCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    """A backend has the stacks of all its projects; machines of others have no owner's tag."""
    from standins.aws.account import run_instances

    server = str(run_instances(1, {"Name": "shop"})[0]["InstanceId"])
    kinds = ("pulumi:pulumi:Stack", "pulumi:providers:aws", "aws:ec2/instance:Instance")
    resources = [r for r in on_aws(server) if r["type"] in kinds]
    backend(pulumi, shop=exported(*resources))
    run(yes=True)
    assert states(aws_client) == {server: "running"}
    assert "stack shop: not of Railhead" in capsys.readouterr().out


def test_hosts_or_a_stack_beside_all_are_refused(pulumi: PulumiCommand) -> None:
    for target in (TargetOptions(hosts="a"), TargetOptions(stack="gpu")):
        with pytest.raises(UsageError, match="--all"):
            stop_all(target, TeardownOptions(), None)
    assert pulumi.calls == []
