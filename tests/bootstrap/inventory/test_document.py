"""The cluster document, by its golden cases: whoever writes one writes these, we read them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from places import CASES

from bootstrap.errors import UsageError
from bootstrap.inventory.document import from_document, to_document
from bootstrap.inventory.hosts import Host, Inventory, parse_hosts
from railhead.documents.cluster import ClusterPrice, DocumentDeadline, Gpu

DOCUMENTS = CASES / "documents"
CLUSTERS = sorted(path.stem for path in DOCUMENTS.glob("cluster-*.json"))


def golden(name: str) -> dict[str, Any]:
    """A golden case."""
    document: dict[str, Any] = json.loads((DOCUMENTS / f"{name}.json").read_text())
    return document


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_golden_cluster_is_read_and_written_back_unchanged(name: str) -> None:
    document = golden(name)
    inventory = from_document(document)
    assert to_document(inventory) == document
    assert from_document(json.loads(json.dumps(to_document(inventory)))) == inventory


def test_what_a_stack_writes_is_known_to_the_last_key() -> None:
    document = golden("cluster-aws")
    assert from_document(document) == Inventory(
        name="aws-g4dn",
        cloud="aws",
        region="us-east-1",
        bucket="s3://railhead-aws-g4dn-1f2e3d",
        key_file="/home/ann/.railhead/clusters/aws-g4dn/key",
        deadlines=tuple(
            DocumentDeadline(
                "scheduled-stop",
                f"railhead-aws-g4dn-i-0a1b2c3d4e5f6071{i + 7}",
                f"aws-g4dn-{i}",
                28800,
                time,
            )
            for i, time in enumerate(("2026-11-21T18:00:00Z", "2026-11-21T18:00:40Z"), start=1)
        ),
        price=ClusterPrice(7.824, "USD", "AWS price list, on demand", "2026-11-01"),
        cluster_id="0a1b2c3d4e5f",
        hosts=tuple(
            Host(
                name=f"aws-g4dn-{i}",
                address=f"203.0.113.2{i}",
                user="ubuntu",
                port=22,
                peer_address=f"10.0.1.2{i}",
                slots=4,
                id=f"i-0a1b2c3d4e5f6071{i + 7}",
                zone="us-east-1b",
                gpu=Gpu("nvidia-t4", 4),
                host_key_source="console",
                stop=("sudo", "-n", "systemctl", "poweroff"),
            )
            for i in (1, 2)
        ),
    )
    assert not from_document(document).is_ad_hoc


def test_hosts_that_were_named_are_recorded_as_they_were_named() -> None:
    assert to_document(parse_hosts("ann@gpu-box:2222*2,[2001:db8::7]")) == golden("cluster-hosts")
    assert from_document(golden("cluster-hosts")).is_ad_hoc


@pytest.mark.parametrize("hosts", ["a", "ann@a,bob@b", "ann@a,b", "a:1,b:2", "ann@a:1,ann@b:1*3"])
def test_any_named_hosts_survive_the_record(hosts: str) -> None:
    inventory = parse_hosts(hosts)
    assert from_document(json.loads(json.dumps(to_document(inventory)))) == inventory


def changed(name: str, path: str, value: Any) -> dict[str, Any]:
    """A golden case with one value replaced, or taken out where the value is `...`."""
    document = copy.deepcopy(golden(name))
    *way, last = (int(key) if key.isdigit() else key for key in path.split("."))
    place: Any = document
    for key in way:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return document


def test_a_host_without_an_address_has_its_name_as_address() -> None:
    """As of a stack that was changed while its machines were stopped."""
    inventory = from_document(changed("cluster-aws", "hosts.0.address", ""))
    assert [host.address for host in inventory.hosts] == ["aws-g4dn-1", "203.0.113.22"]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("extra", 1, "^the cluster document: .*extra"),
        ("ssh.agent", 1, "ssh .*agent"),
        ("hosts.0.gpus", 1, r"hosts\[0\] .*gpus"),
        ("hosts.1.gpu.memory", 16, r"hosts\[1\].gpu .*memory"),
        ("price.per_day", 1, "price .*per_day"),
        ("deadlines.0.when", "x", r"deadlines\[0\] .*when"),
        ("schema", ..., "schema"),
        ("hosts", ..., "hosts"),
        ("ssh.port", ..., "ssh .*port"),
        ("hosts.0.peer_address", ..., r"hosts\[0\] .*peer_address"),
        ("hosts.0.name", ..., r"hosts\[0\] .*name"),
        ("hosts.0.gpu.count", ..., r"hosts\[0\].gpu .*count"),
        ("price.date", ..., "price .*date"),
        ("deadlines.1.kind", ..., r"deadlines\[1\] .*kind"),
        ("deadlines.1.host", ..., r"deadlines\[1\] .*host"),
        ("name", 7, "document: name .*7"),
        ("hosts", {}, "hosts .*{}"),
        ("ssh", [], r"ssh .*\[\]"),
        ("hosts.0", "h1", r"hosts\[0\] .*'h1'"),
        ("hosts.0.slots", "4", r"hosts\[0\].slots .*'4'"),
        ("hosts.0.slots", True, r"hosts\[0\].slots .*True"),
        ("hosts.0.address", None, r"hosts\[0\].address .*None"),
        ("hosts.0.stop", "poweroff", r"hosts\[0\].stop .*'poweroff'"),
        ("hosts.0.stop", [], r"stop of aws-g4dn-1 .*\[\]"),
        ("hosts.0.stop", ["sudo", 1], r"hosts\[0\].stop\[1\] .*1"),
        ("hosts.0.slots", 0, "slots of aws-g4dn-1: 0"),
        ("hosts.0.name", "../x", "'../x' is not a host's name"),
        ("name", "../x", "'../x' is not a cluster's name"),
        ("hosts.0.address", "-oProxyCommand=x", "is not a host: write"),
        ("hosts.0.peer_address", "$(x)", "write an IP address"),
        ("hosts.0.host_key_source", "dns", "guest-attributes, console, injected, not 'dns'"),
        ("hosts.1.host_key_source", "injected", "aws-g4dn-2: .*'injected' needs a host_key"),
        ("cloud", "azure", "cloud 'azure': one of aws, gcp, local, hosts"),
        ("hosts", [], "no hosts"),
    ],
)
def test_a_document_that_breaks_the_contract_is_refused_by_name(
    path: str, value: Any, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        from_document(changed("cluster-aws", path, value))


@pytest.mark.parametrize("other", [[], "text", None, 3])
def test_what_is_no_document_at_all_is_refused(other: Any) -> None:
    with pytest.raises(UsageError, match="the cluster document: .*schema"):
        from_document(other)


def test_a_newer_schema_names_the_upgrade_whatever_else_is_new() -> None:
    newer = {**golden("cluster-local"), "schema": 2, "something": "new"}
    with pytest.raises(UsageError, match="has schema 2; this Railhead reads 1") as caught:
        from_document(newer)
    assert caught.value.hint.startswith("git pull && scripts/setup")


@pytest.mark.parametrize("schema", [0, "1", 1.5, -1])
def test_a_schema_that_never_was_is_refused_without_an_upgrade(schema: Any) -> None:
    with pytest.raises(UsageError, match="this Railhead reads 1") as caught:
        from_document({**golden("cluster-local"), "schema": schema})
    assert caught.value.hint == ""
