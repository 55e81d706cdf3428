"""What a stack computes: the cluster document, its quotas, its cost and its summary."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from places import CASES

from bootstrap.inventory.document import from_document
from railhead.documents.cluster import ClusterDocument
from railhead.documents.codec import decode, encode
from stacks import cost, quotas
from stacks.config.settings import ClusterConfig
from stacks.machine_types.aws import TYPES
from stacks.machine_types.types import MachineType
from stacks.outputs import cluster_document
from stacks.rules.validators import ConfigError
from stacks.summary import summary
from tests.stacks.aws.test_quota import code_of

GOLDEN = CASES / "documents"
AWS = ClusterConfig("aws", "aws-g4dn", 2, "ann", 8.0, region="us-east-1", ssh_user="ubuntu")
AWS = replace(AWS, machine_type="g4dn.12xlarge")
GCP = ClusterConfig("gcp", "gcp-t4", 1, "ann", 4.0, region="europe-west4", ssh_user="railhead")
GCP = replace(GCP, machine_type="n1-standard-8", gpu_type="nvidia-tesla-t4", gpu_count=1)
BUILT_IN = {"gpu_type": None, "gpu_count": None}
LOCAL = ClusterConfig("local", "lab", 2, "ann", 8.0)


def golden(cloud: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((GOLDEN / f"cluster-{cloud}.json").read_text())
    return document


@pytest.mark.parametrize(("cloud", "config"), [("aws", AWS), ("injected", AWS), ("gcp", GCP)])
def test_the_golden_documents_are_what_a_stack_writes(cloud: str, config: ClusterConfig) -> None:
    document = golden(cloud)
    read = decode(ClusterDocument, document)
    hosts = [replace(host, slots=None, gpu=None) for host in read.hosts]
    config = replace(config, key_file=read.ssh.key_file)
    rest: dict[str, Any] = {key: getattr(read, key) for key in ("bucket", "deadlines", "price")}
    assert encode(cluster_document(config, hosts, cluster_id=read.id, **rest)) == document
    assert from_document(document).hosts[0].slots == document["hosts"][0]["slots"]


@pytest.mark.parametrize("spot", [False, True])
@pytest.mark.parametrize("machine", TYPES.values(), ids=lambda m: m.name)
def test_aws_counts_vcpus_by_family_and_market(machine: MachineType, spot: bool) -> None:
    config = replace(AWS, machine_type=machine.name, spot=spot, count=3)
    (need,) = config.quota_needs
    assert (need.amount, need.unit, need.service) == (3 * machine.vcpus, "vCPU", "ec2")
    assert need.code == code_of(machine.name, spot)


@pytest.mark.parametrize("spot", [False, True])
@pytest.mark.parametrize("cards", [1, 2, 4])
def test_gcp_counts_cards_here_and_everywhere(cards: int, spot: bool) -> None:
    config = replace(GCP, gpu_count=cards, spot=spot, count=2)
    everywhere, here = [need for need in config.quota_needs if need.unit == "GPU"]
    assert everywhere.amount == here.amount == 2 * cards
    assert (everywhere.code, everywhere.place) == ("GPUS-ALL-REGIONS-per-project", "global")
    start = "PREEMPTIBLE-" if spot else ""
    assert here.code == f"{start}NVIDIA-T4-GPUS-per-project-region"
    assert here.place == "europe-west4"


@pytest.mark.parametrize(
    ("changes", "others"),
    [
        ({}, {"CPUS-ALL-REGIONS": 16, "CPUS": 16, "IN-USE-ADDRESSES": 2, "SSD-TOTAL-GB": 200}),
        ({"spot": True, "disk_gb": 60}, {"CPUS-ALL-REGIONS": 16, "IN-USE-ADDRESSES": 2,
                                         "SSD-TOTAL-GB": 120}),
        ({"machine_type": "a2-highgpu-1g"}, {"CPUS-ALL-REGIONS": 24, "A2-CPUS": 24,
                                             "IN-USE-ADDRESSES": 2, "SSD-TOTAL-GB": 200}),
        ({"machine_type": "n2-standard-4"}, {"CPUS-ALL-REGIONS": 8, "N2-CPUS": 8,
                                             "IN-USE-ADDRESSES": 2, "SSD-TOTAL-GB": 200}),
    ],
)  # fmt: skip
def test_gcp_counts_vcpus_addresses_and_disks_too(
    changes: dict[str, Any], others: dict[str, int]
) -> None:
    config = replace(GCP, count=2, **changes)
    needs = {need.code: need.amount for need in config.quota_needs if need.unit != "GPU"}
    assert {code.partition("-per-project")[0]: amount for code, amount in needs.items()} == others


def test_local_hosts_need_no_quota() -> None:
    assert LOCAL.quota_needs == ()


def test_a_quota_that_cannot_be_read_is_unknown_not_zero() -> None:
    (need,) = AWS.quota_needs
    unknown = quotas.QuotaState()
    assert "have unknown" in quotas.comparison(need, unknown) and not unknown.lacks(need)
    assert "used by others unknown, need 96 vCPU" in quotas.comparison(need, quotas.QuotaState(8))


@pytest.mark.parametrize(
    ("limit", "used", "lacks"),
    [(96, 0, False), (95, 0, True), (96, 1, True), (97, 1, False), (96, None, False), (None, 9, 0)],
)
def test_a_quota_lacks_what_others_use(
    limit: float | None, used: float | None, lacks: bool
) -> None:
    (need,) = AWS.quota_needs
    assert quotas.QuotaState(limit, used).lacks(need) == lacks


@pytest.mark.parametrize(
    ("changes", "per_hour"),
    [
        ({}, 7.86962),  # 2 x (3.912 + (100 x 0.08 + 125 x 0.04) / 730 + 0.005)
        ({"count": 4}, 15.73923),
        ({"disk_gb": 1000}, 8.06688),
        ({"price_per_hour": 3.5}, 3.5),
        ({"region": "eu-west-1"}, None),  # nothing is guessed from another region or market
        ({"spot": True}, None),
    ],
)
def test_an_unknown_price_is_not_guessed(changes: dict[str, Any], per_hour: float | None) -> None:
    price = cost.price(replace(AWS, **changes))
    assert (price.per_hour if price else None) == per_hour


def test_every_machine_of_aws_has_a_price_with_its_date() -> None:
    prices = {name: cost.price(replace(AWS, machine_type=name)) for name in TYPES}
    assert {price.date if price else "" for price in prices.values()} == {"2026-07-20"}


def test_a_price_of_a_spot_machine_is_a_range_and_says_so() -> None:
    config = replace(AWS, machine_type="g4dn.xlarge", spot=True)
    assert cost.cost(config).startswith("0.45 to 0.48 USD per hour (2 x machine 0.200, ")
    price = cost.price(config)
    assert price and price.parts[0].usd == "0.2" and price.parts[0].high == "0.216"


def test_a_cost_until_the_deadline_is_at_most_that_of_the_higher_price() -> None:
    """8 x 2 x (0.216 + (100 x 0.08 + 125 x 0.04) / 730 + 0.005) = 3.8209."""
    config = replace(AWS, machine_type="g4dn.xlarge", spot=True)
    assert cost.cost(config).endswith("at most 3.82 USD until the deadline of 8 h")


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (replace(AWS, bucket=True), "bucket with its old versions at 0.023 USD per GB-month"),
        (replace(AWS, bucket=False), "not included: traffic out at 0 to 0.09 USD per GB"),
    ],
)
def test_a_preview_names_what_has_a_price_by_its_use(config: ClusterConfig, named: str) -> None:
    assert named in cost.whole(config) and cost.whole(config).startswith(cost.cost(config))
    assert "bucket" not in cost.cost(config)


def test_the_hosts_of_this_computer_have_no_price_by_use() -> None:
    assert cost.whole(LOCAL) == cost.cost(LOCAL)


def test_the_unknown_parts_of_a_cost_are_named() -> None:
    text = cost.cost(replace(AWS, region="eu-west-1", spot=True))
    first, _, unknown = text.partition("; unknown: ")
    assert first == "at least 0.01 USD per hour"
    assert unknown.startswith("spot price of g4dn.12xlarge in eu-west-1, price of a gp3 disk in ")
    assert "until the deadline" not in text and "pulumi config set price_per_hour" in text


@pytest.mark.parametrize(
    ("changes", "per_hour", "date"),
    [
        ({}, 8 * 0.0474998 + 0.35, "2026-11-22"),
        ({"gpu_type": "nvidia-tesla-v100", "gpu_count": 4}, 8 * 0.0474998 + 9.92, "2026-11-22"),
        ({**BUILT_IN, "machine_type": "g2-standard-4", "count": 2}, 2 * 0.70683, "2026-07-30"),
        ({**BUILT_IN, "machine_type": "e2-standard-2"}, 0.06701, "2026-07-30"),
    ],
)
def test_a_price_of_google_is_that_of_the_machine_and_its_gpus(
    changes: dict[str, Any], per_hour: float, date: str
) -> None:
    zurich = cost.price(replace(GCP, **changes, region="europe-west6"))
    assert zurich and zurich.per_hour is None
    config = replace(GCP, **changes, region="us-central1")
    price, more = cost.price(config), config.count * (100 * 0.10 / 730 + 0.005)
    assert price and price.per_hour == pytest.approx(per_hour + more, abs=1e-4)
    assert price.date == date


@pytest.mark.parametrize(
    ("config", "document", "cost", "end"),
    [
        (AWS, golden("aws"), "7.87 USD per hour", "2026-11-21T18:00:00Z"),
        (
            replace(GCP, region="europe-west6"),
            golden("gcp"),
            "unknown: price of n1-standard-8 in europe-west6",
            "4 hours after each start of a host",
        ),
        (LOCAL, golden("local"), "costs nothing", "none: nothing stops it"),
    ],
)
def test_the_summary_has_the_next_command_the_cost_the_hosts_and_the_deadline(
    config: ClusterConfig, document: dict[str, Any], cost: str, end: str
) -> None:
    short = summary(config, decode(ClusterDocument, document), "dev")
    assert short.next.startswith("fab train; ") and cost in short.next
    assert str(short.deadline).startswith(end)
    assert short.hosts == {host["name"]: host["address"] for host in document["hosts"]}


def test_a_quota_request_has_no_hosts_and_no_deadline() -> None:
    short = summary(AWS, None, "dev")
    assert "pulumi config rm --stack dev quotas && pulumi up --stack dev" in short.next
    assert short.hosts is None and short.deadline is None and short.idle is None


def test_the_summary_has_the_minutes_without_use_of_machines_that_have_them() -> None:
    document = decode(ClusterDocument, golden("aws"))
    short = summary(replace(AWS, idle_minutes=45), document, "dev")
    assert short.idle and " 45 minutes without use " in short.idle
    assert summary(AWS, document, "dev").idle is None


def test_the_summary_has_no_deadline_of_machines_that_are_gone() -> None:
    """As spot machines that were taken: Pulumi's state has them until it is refreshed."""
    document = decode(ClusterDocument, golden("aws"))
    first, second = document.hosts
    short = summary(AWS, document, "my dev", [str(second.id), "i-other"])
    assert f"gone, though in Pulumi's state: {second.name};" in short.next
    assert "fab up --refresh --stack 'my dev'" in short.next
    assert short.hosts == {first.name: first.address} and short.deadline
    none = summary(AWS, document, "dev", [str(first.id), str(second.id)])
    assert none.hosts == {} and none.deadline is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"budget": 300.0}, ""),
        ({"budget": 62.96}, ""),  # 8 x 7.86962
        ({"budget": 62.0}, "62 USD are spent after 7.9 hours, before the deadline"),
        ({"budget": 1.0}, "pulumi config set deadline_hours 0.25"),
        ({"budget": 300.0, "region": "eu-west-1"}, "it is not known when it is spent"),
        ({"budget": 20.0, "price_per_hour": 2.0}, ""),
        ({}, ""),
    ],
)
def test_a_budget_lasts_until_the_deadline_of_a_start(
    changes: dict[str, Any], problem: str
) -> None:
    config = replace(AWS, **changes)
    if not problem:
        cost.check_budget(config)
        assert cluster_document(config, []).budget == changes.get("budget")
        return
    with pytest.raises(ConfigError, match=problem):
        cost.check_budget(config)
