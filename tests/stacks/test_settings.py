"""A stack's config: what is accepted, the message for each mistake, all of them together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from stacks.config import settings
from stacks.config.schema import KEYS
from stacks.machine_types.aws import TYPES
from stacks.machine_types.types import MachineType
from stacks.next_command import Pulumi, rm
from stacks.rules.validators import ConfigError

PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB5pCFjpzH4qO6hFAT8JjnLtVmWjmyXzV9oE0iCk3WpX ann"


STACKS = ROOT / "stacks"
ECDSA = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBOF1xOdIRcc43HsakJ"
    "pnzpC0h6z/T8ZQ1mhcOWkBMPdV+FKJYR3Wvko/aqDnMj9+rWRASkzzsaHq8dudhnOwghY= ann"
)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A folder with a pair of keys, of which the private half is not one."""
    (tmp_path / "id.pub").write_text(PUBLIC + "\n")
    (tmp_path / "id").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    return tmp_path


def config_of(keys: Path, cloud: str, /, **changes: str | None) -> dict[str, str]:
    """The smallest config of a cloud, with changes; None takes a key away."""
    values: dict[str, str | None] = {"cloud": cloud}
    if cloud != "local":
        values |= {"ssh_cidrs": "203.0.113.7/32", "public_key_file": str(keys / "id.pub")}
    if cloud == "gcp":
        values["project"] = "my-project-1"
    return {k: v for k, v in {**values, **changes}.items() if v is not None}


def refused(values: dict[str, str]) -> list[str]:
    """The lines that a config is refused with."""
    with pytest.raises(ConfigError) as refusal:
        settings.read(values, stack="dev")
    return str(refusal.value).splitlines()


@pytest.mark.parametrize("cloud", ["aws", "gcp", "local"])
def test_few_keys_are_enough(keys: Path, cloud: str) -> None:
    config = settings.read(config_of(keys, cloud), stack="dev")
    assert (config.cloud, config.name, config.count) == (cloud, "dev", 2)
    assert config.deadline_hours == 8 and not config.spot
    assert config.idle_minutes == (0 if config.cloud == "local" else 30)
    if cloud != "local":
        assert config.public_key == PUBLIC and config.key_file == str(keys / "id")
        assert config.bucket and config.machine and (config.machine.gpu or "").endswith("t4")


def test_a_spot_machine_that_loses_its_results_powers_itself_off_only_where_that_is_set(
    keys: Path,
) -> None:
    def minutes(cloud: str, **more: str) -> int:
        return settings.read({**config_of(keys, cloud), **more}, stack="dev").idle_minutes

    assert minutes("aws", spot="true") == minutes("aws", bucket="false") == 30
    assert minutes("aws", spot="true", bucket="false") == 0
    assert minutes("gcp", spot="true", bucket="false") == 30
    assert minutes("aws", spot="true", bucket="false", idle_minutes="60") == 60
    assert minutes("gcp", idle_minutes="0") == 0


def test_the_private_key_is_named_only_where_it_exists(keys: Path) -> None:
    (keys / "id").unlink()
    assert settings.read(config_of(keys, "aws"), stack="dev").key_file is None


@pytest.mark.parametrize(
    ("changes", "placement"),
    [
        ({}, True),
        ({"count": "1"}, True),
        ({"spot": "true"}, False),
        ({"placement": "false"}, False),
    ],
)
def test_the_default_of_placement_depends_on_spot_alone(
    keys: Path, changes: dict[str, str], placement: bool
) -> None:
    assert settings.read(config_of(keys, "aws", **changes), stack="dev").placement is placement


@pytest.mark.parametrize(
    ("cloud", "changes", "image"),
    [
        ("aws", {}, "dlami-base-ubuntu-22.04"),
        ("aws", {"machine_type": "p3.2xlarge"}, "ubuntu-22.04"),
        ("aws", {"image": "ami-0a1b2c3d"}, "ami-0a1b2c3d"),
        ("gcp", {}, "dlvm-cu129-ubuntu-2204"),
        ("gcp", {"gpu_type": "nvidia-tesla-v100"}, "ubuntu-2204"),
    ],
)
def test_the_image_has_a_driver_for_the_cards_or_none(
    keys: Path, cloud: str, changes: dict[str, str], image: str
) -> None:
    assert settings.read(config_of(keys, cloud, **changes), stack="dev").image == image


@pytest.mark.parametrize(
    ("cloud", "key", "text", "says"),
    [
        ("aws", "name", "Dev", "'Dev' is not a cluster's name"),
        ("aws", "name", "../x", "'../x' is not a cluster's name"),
        ("aws", "machine_type", "g4dn.xlrge", "did you mean g4dn.xlarge?"),
        ("aws", "machine_type", "p6-b200.48xlarge", "is not one of p3.2xlarge"),
        ("aws", "region", "us-central1", "is not a region of aws"),
        ("aws", "region", "us-gov-west-1", "a separate partition of AWS"),
        ("aws", "zones", "us-west-2a", "us-west-2a is not in the region us-east-1"),
        ("aws", "zones", "us-east-1a,us-east-1a", "names a zone twice"),
        ("aws", "zones", "here", "'here' is not a zone"),
        ("aws", "image", "windows", "is not one of dlami-base-ubuntu-22.04"),
        ("aws", "ssh_cidrs", "0.0.0.0/0", "0.0.0.0/0 is wider than /16"),
        ("aws", "ssh_cidrs", "0.0.0.0/1", "0.0.0.0/1 is wider than /16"),
        ("aws", "ssh_cidrs", "203.0.0.0/15", "203.0.0.0/15 is wider than /16"),
        ("aws", "ssh_cidrs", "203.0.113.7/32,::/0", "::/0 is wider than /48"),
        ("aws", "ssh_cidrs", "203.0.113.7/32,2001:db8::/47", "2001:db8::/47 is wider than /48"),
        ("aws", "ssh_cidrs", "2001:db8::7/128", "hosts on AWS have IPv4 addresses only"),
        ("gcp", "ssh_cidrs", "203.0.113.7/32,2001:db8::/64", "2001:db8::/64 is IPv6"),
        ("aws", "ssh_cidrs", "10.1.2.3/32", "10.1.2.3/32 is private, multicast or reserved"),
        ("gcp", "ssh_cidrs", "192.168.1.0/24", "192.168.1.0/24 is private, multicast"),
        ("aws", "ssh_cidrs", "224.0.0.1/32", "224.0.0.1/32 is private, multicast"),
        ("aws", "ssh_cidrs", "100.64.0.1/32", "100.64.0.1/32 is private, multicast"),
        ("aws", "ssh_cidrs", "203.0.113.7/32,fe80::1/128", "fe80::1/128 is private, multicast"),
        ("aws", "ssh_cidrs", "203.0.113.7/32, 203.0.113.7", "203.0.113.7/32 is there twice"),
        ("aws", "ssh_cidrs", "203.0.113.7/32,0.0.0.0/0", "0.0.0.0/0 is wider than /16"),
        ("aws", "ssh_cidrs", "203.0.113.7/24", "has host bits set"),
        ("aws", "ssh_cidrs", "anywhere", "'anywhere' is not a network"),
        ("aws", "ssh_cidrs", None, "ssh_cidrs: not set."),
        ("aws", "public_key_file", "/nowhere/id.pub", "cannot be read"),
        ("aws", "public_key_file", "/dev/zero", "cannot be read"),
        ("aws", "public_key_file", "~no-such-user/x.pub", "~no-such-user/x.pub cannot be read"),
        ("aws", "public_key_file", "~nobody/x.pub", "~nobody/x.pub cannot be read"),
        ("aws", "name", "MyStack", "Where it is not set, it is the name of the stack"),
        ("aws", "ssh_user", "ec2-user", "'ec2-user' cannot log in: the user of our images is"),
        ("aws", "ssh_user", "root", "AWS's images refuse logins of root"),
        ("gcp", "ssh_user", "root", "'root' cannot log in to Google's images"),
        ("gcp", "ssh_user", "nobody", "'nobody' cannot log in to Google's images"),
        ("gcp", "oslogin", "true", "ssh_user: OS Login gives every account its own user name"),
        ("aws", "bucket_name", "Results", "'Results' is not a bucket's name"),
        ("aws", "bucket_name", "a", "'a' is not a bucket's name"),
        ("aws", "bucket_name", "xn--a", "begins with 'xn--'"),
        ("gcp", "bucket_name", "google-me", "begins with 'goog'"),
        ("gcp", "bucket_name", "my-g00gle-data", "contains 'g00gle', which Google refuses"),
        ("gcp", "name", "my-google-gpus", "railhead-my-google-gpus would contain 'google'"),
        ("aws", "bucket_name", "amzn-s3-demo-x", "begins with 'amzn-s3-demo-'"),
        ("aws", "bucket_name", "x-s3alias", "ends with '-s3alias', which S3 refuses"),
        ("aws", "bucket_name", "x--ol-s3", "ends with '--ol-s3'"),
        ("aws", "bucket_name", "sthree-x", "begins with 'sthree-', which the clouds refuse"),
        ("aws", "bucket_name", "x--x-s3", "ends with '--x-s3', which S3 refuses"),
        ("aws", "bucket_name", "x--table-s3", "ends with '--table-s3', which S3 refuses"),
        (
            "aws",
            "data_buckets",
            "data",
            "data_buckets: data is not s3://bucket/prefix or gs://bucket/prefix",
        ),
        ("aws", "data_buckets", "s3://B/x", "'B' is not a bucket's name in s3://B/x"),
        ("aws", "data_buckets", "s3://b-1/x*", "has the part 'x*'"),
        ("gcp", "data_buckets", 'gs://b-1/x"y', "has the part 'x\"y'"),
        ("aws", "data_buckets", "s3://b-1/a//b", "has the part ''"),
        ("aws", "data_buckets", "s3://b-1/a/../b", "has the part '..'"),
        ("aws", "data_buckets", "s3://b-1/a,s3://b-1/a/", "s3://b-1/a is there twice"),
        ("aws", "data_buckets", ",".join(f"s3://b-{n}" for n in range(11)), "at most 10"),
        ("aws", "data_buckets", "gs://b-1/a", "gs://b-1/a is in another cloud"),
        ("gcp", "data_buckets", "s3://b-1/a", "s3://b-1/a is in another cloud"),
        ("local", "data_buckets", "s3://b-1/a", "a key of aws and gcp"),
        ("aws", "spot", "yes", "'yes' is not true or false"),
        ("aws", "network", "default", "is not a VPC's id"),
        ("aws", "owner", "---", "has no letter"),
        ("aws", "regions", "us-west-2,us-west-2", "names a region twice"),
        ("gcp", "regions", "us-west1-b", "is not a region"),
        ("aws", "gpu_count", "1", "a key of gcp, and this stack's cloud is aws"),
        ("aws", "project", "my-project-1", "one cloud per stack"),
        ("aws", "colour", "red", "there is no such key. There are cloud, name"),
        ("gcp", "placement", "true", "a key of aws, and this stack's cloud is gcp"),
        ("gcp", "project", None, "project: not set."),
        ("gcp", "gpu_count", "3", "3 is not one of 1, 2, 4"),
        ("gcp", "gpu_count", "8", "8 nvidia-tesla-t4: an n1 machine takes 1, 2, 4"),
        ("gcp", "gpu_type", "nvidia-tesla-t5", "did you mean nvidia-tesla-t4?"),
        ("gcp", "machine_type", "n1-standard-3", "is not one of n1-standard-1"),
        ("gcp", "machine_type", "n1-standard-64", "more than the 48 vCPUs"),
        ("gcp", "region", "us-east-1", "is not a region of gcp"),
        ("gcp", "image", "projects/p/images/x", "'projects/p/images/x' is not a path such as"),
        ("gcp", "zones", "europe-west4-a", "is not in the region us-central1"),
        ("gcp", "quotas", "request", "contact_email: not set"),
        ("local", "region", "us-east-1", "a key of aws and gcp"),
        ("aws", "cloud", "azure", "'azure' is not one of aws, gcp, local"),
        ("aws", "cloud", None, "cloud: not set. where the machines are: aws, gcp or local"),
    ],
)
def test_a_wrong_value_is_refused_with_rule_value_and_choices(
    keys: Path, cloud: str, key: str, text: str | None, says: str
) -> None:
    lines = refused(config_of(keys, cloud, **{key: text}))
    errors = [line for line in lines if not line.startswith("  next: ")]
    assert len(errors) == 1 and says in errors[0]


# By key: texts that fit its rule, and texts that do not.
EDGES = {
    "count": ("1 16", "0 17 two 2.5"),
    "deadline_hours": ("0.25 168", "0 0.24 169 -1 nan"),
    "idle_minutes": ("0 15 1440", "14 1441 0.5"),
    "disk_gb": ("50 16384", "49 16385"),
    "disk_mbps": ("125 2000", "124 2001"),
    "price_per_hour": ("0.5 100000", "0 100001 free"),
    "budget": ("0.5 100000", "0 100001 much"),
    "gpu_count": ("1 2 4 8", "0 3 16"),
    "quotas": ("check request", "ask"),
    "ssh_user": ("ann _x", "ann;reboot Ann 1a"),
    "contact_email": ("ann@example.com", "ann ann@example"),
    "project": (
        "my-project-123 example.com:my-project a.example.com:p-12345",
        "X example:my-project example.com: :my-project example.com:x/y-project"
        " example..com:my-project",
    ),
}


@pytest.mark.parametrize(("name", "texts"), EDGES.items(), ids=EDGES)
def test_the_rule_of_a_key_ends_where_it_is_declared(name: str, texts: tuple[str, str]) -> None:
    (key,) = [key for key in KEYS if key.name == name]
    for text in texts[0].split():
        key.read(text)
    for text in texts[1].split():
        with pytest.raises(ConfigError, match=f"^{name}: .* is not "):
            key.read(text)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"placement": "true", "spot": "true"}, "placement: not with spot"),
        (
            {"machine_type": "p3.2xlarge", "image": "dlami-base-ubuntu-22.04"},
            "does not support V100",
        ),
        ({"machine_type": "p4d.24xlarge", "image": "ubuntu-22.04"}, "need NVIDIA's Fabric Manager"),
        ({"bucket": "false", "bucket_name": "mine"}, "names a bucket, and bucket is false"),
    ],
)
def test_values_that_contradict_each_other_are_refused(
    keys: Path, changes: dict[str, str], says: str
) -> None:
    line, next_command = refused(config_of(keys, "aws", **changes))
    assert says in line and next_command.startswith("  next: pulumi config ")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"machine_type": "g2-standard-8", "gpu_count": "1"}, "g2-standard-8 has its own"),
        ({"machine_type": "n2-standard-8", "gpu_type": "nvidia-tesla-t4"}, "has no GPUs"),
        ({"machine_type": "a2-highgpu-3g"}, "did you mean a2-highgpu-"),
    ],
)
def test_gpus_that_a_machine_of_google_does_not_take_are_refused(
    keys: Path, changes: dict[str, str], says: str
) -> None:
    assert says in refused(config_of(keys, "gcp", **changes))[0]


def test_an_image_of_ones_own_may_have_another_user(keys: Path) -> None:
    values = config_of(keys, "aws", image="ami-0a1b2c3d", ssh_user="ec2-user")
    assert settings.read(values, stack="dev").ssh_user == "ec2-user"


def test_a_cluster_without_gpus_gets_ubuntu_and_one_rank_per_host(keys: Path) -> None:
    for cloud, kind in (("aws", "m7i.xlarge"), ("gcp", "e2-standard-4")):
        config = settings.read(config_of(keys, cloud, machine_type=kind), stack="dev")
        assert config.machine and (config.machine.gpu, config.machine.slots) == (None, 1)
        assert config.image.startswith("ubuntu-22") and not config.gpu_type


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n",
            "is a private key, which must stay",
        ),
        ("", "is not one public ssh key"),
        (f"{PUBLIC}\n{PUBLIC}\n", "is not one public ssh key"),
        ("hello\n", "is not one public ssh key"),
        (PUBLIC.rpartition(" ")[0][:-8], "what follows ssh-ed25519 is not a key, or not all of it"),
        (PUBLIC.rpartition(" ")[0][:-9] + "*", "what follows ssh-ed25519 is not a key"),
        ("ssh-ed25519", "it is not a key of ssh-ed25519"),
        (PUBLIC.replace("ssh-ed25519", "ssh-rsa"), "it is not a key of ssh-rsa"),
        (ECDSA, "EC2 accepts ssh-ed25519 and ssh-rsa, and this is ecdsa-sha2-nistp256"),
    ],
)
def test_a_file_that_is_no_public_key_is_refused(keys: Path, content: str, says: str) -> None:
    (keys / "id.pub").write_text(content)
    assert says in refused(config_of(keys, "aws"))[0]


def test_all_mistakes_are_reported_together(keys: Path) -> None:
    """Wrong values and contradictions; a rule that needs a wrong value says nothing."""
    wrong = config_of(
        keys, "aws", count="0", spot="maybe", colour="red", region="here", placement="true",
        ssh_cidrs="10.0.0.1/32", bucket="false", bucket_name="mine",
    )  # fmt: skip
    lines = [line for line in refused(wrong) if not line.startswith("  next: ")]
    assert [line.split(":")[0] for line in lines] == [
        "colour", "count", "region", "spot", "ssh_cidrs", "bucket_name",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("others", "says"),
    [
        ({"aws:profile": "work"}, "export AWS_PROFILE=work && pulumi config rm aws:profile"),
        ({"aws:region": "eu-west-1"}, "pulumi config set region eu-west-1 && pulumi config rm aws"),
        ({"aws:skipMetadataApiCheck": "true"}, "pulumi config rm aws:skipMetadataApiCheck"),
        ({"gcp:project": "p-12345"}, "pulumi config rm gcp:project"),
    ],
)
def test_settings_of_pulumis_own_packages_count_or_are_refused(
    keys: Path, others: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        settings.read(config_of(keys, "aws"), stack="dev", others=others)
    assert says in str(refusal.value) and "has no effect" in str(refusal.value)


def test_a_region_that_the_stack_has_anyway_is_no_mistake(keys: Path) -> None:
    others = {"aws:region": "us-east-1", "railhead:region": "us-east-1", "pulumi:tags": "{}"}
    assert settings.read(config_of(keys, "aws"), stack="dev", others=others).region == "us-east-1"


def test_a_project_that_the_stack_has_anyway_is_no_mistake_and_another_one_is(keys: Path) -> None:
    values = config_of(keys, "gcp")
    same = {"gcp:project": "my-project-1"}
    assert settings.read(values, stack="dev", others=same).project == "my-project-1"
    with pytest.raises(ConfigError) as refusal:
        settings.read(values, stack="dev", others={"gcp:project": "p-12345"})
    reason = "'p-12345' has no effect; the project of this stack is its own key project"
    command = "pulumi config set project p-12345 && pulumi config rm gcp:project"
    assert str(refusal.value) == f"gcp:project: {reason}\n  next: {command}"


def test_a_message_about_no_key_gets_no_command() -> None:
    (other,) = settings.mended(ConfigError("pulumi: it failed"))
    (count,) = settings.mended(ConfigError("count: wrong"))
    assert other.next == () and count.next == (rm("count"), "  # the default: 2")


# For every key a value that is wrong by itself, or with the others.
WRONG = {
    "cloud": "azure", "name": "MyStack", "count": "0", "owner": "---", "deadline_hours": "0",
    "idle_minutes": "14", "region": "here", "regions": "here", "zones": "here",
    "machine_type": "x1", "gpu_type": "nvidia-x",
    "gpu_count": "3", "project": "X", "spot": "maybe", "placement": "maybe", "disk_gb": "1",
    "disk_mbps": "1", "image": "windows", "ssh_cidrs": "anywhere", "allow_wide_cidr": "maybe",
    "ssh_user": "root", "public_key_file": "/nowhere", "host_keys": "none", "network": "-",
    "bucket": "maybe", "bucket_name": "-", "data_buckets": "x", "quotas": "maybe",
    "contact_email": "ann", "price_per_hour": "free", "budget": "much", "oslogin": "maybe",
}  # fmt: skip


@pytest.mark.parametrize("cloud", ["aws", "gcp", "local"])
def test_every_message_of_a_setting_ends_with_the_command_that_mends_it(
    keys: Path, cloud: str
) -> None:
    assert WRONG.keys() == {key.name for key in KEYS}
    mine = [key for key in KEYS if cloud in key.clouds]
    for key in mine:
        for text in (WRONG[key.name], *([None] if key.required else [])):
            with pytest.raises(ConfigError) as refusal:
                settings.read(config_of(keys, cloud, **{key.name: text}), stack="dev")
            assert all(problem.next for problem in refusal.value.problems)


def test_every_message_of_the_stacks_has_a_command_or_the_key_that_gets_one() -> None:
    """Of those too that need a cloud: a message without a command begins with its key, and
    `mended` adds the key's own."""
    arguments = [args for path in sorted(STACKS.rglob("*.py")) for args in refusals(path)]
    assert len(arguments) > 40
    names = "|".join(key.name for key in KEYS)
    bare = [text for text, *more in arguments if not more]
    assert not [text for text in bare if not re.match(rf"f?['\"]({names}|\{{key\}}): ", text)]
    for key in KEYS:
        (mended,) = settings.mended(ConfigError(f"{key.name}: wrong"), key.clouds[0])
        assert mended.next == key.command(key.clouds[0])


def refusals(path: Path) -> Iterator[list[str]]:
    """The arguments of ConfigError in a module whose text is written there."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(ast.Name("ConfigError"), [ast.Constant() | ast.JoinedStr(), *_]):
                yield [ast.unparse(argument) for argument in node.args]


def test_the_command_of_every_key_sets_a_value_that_its_reader_takes(keys: Path) -> None:
    for key in KEYS:
        for cloud in key.clouds:
            command = key.command(cloud)[0]
            assert isinstance(command, Pulumi)
            name, _, text = command.arguments.partition(" ")
            assert name == key.name and (command.command == "config rm") == (not text)
            if text:
                assert key.read(text) is not None


def test_a_wide_network_can_be_allowed(keys: Path) -> None:
    values = config_of(keys, "aws", ssh_cidrs="203.0.0.0/8", allow_wide_cidr="true")
    assert settings.read(values, stack="dev").ssh_cidrs == ("203.0.0.0/8",)


@pytest.mark.parametrize("name", [name for name in TYPES if name.startswith("p3.")])
def test_a_retired_type_is_accepted_and_has_a_substitute(keys: Path, name: str) -> None:
    machine = settings.read(config_of(keys, "aws", machine_type=name), stack="dev").machine
    assert machine and machine.retired and machine.substitute in TYPES


def test_keys_of_other_namespaces_are_ignored() -> None:
    config = {"railhead:cloud": "aws", "aws:region": "us-east-1"}
    assert settings.of_project(config, "railhead") == {"cloud": "aws"}


def test_every_default_is_a_value_that_its_own_reader_takes() -> None:
    for key in KEYS:
        texts: list[Any] = [key.default, *key.defaults.values()]
        for text in texts:
            if text is not None and "{" not in text and key.name != "public_key_file":
                key.read(text)


def test_eight_gpus_behind_switches_need_an_image_with_their_software(keys: Path) -> None:
    switched = {name for name, machine in TYPES.items() if machine.has_nvswitch}
    assert switched == {"p4d.24xlarge", "p5.48xlarge"}
    for name in switched:
        config = config_of(keys, "aws", machine_type=name, image="ubuntu-22.04")
        with pytest.raises(ConfigError, match="Fabric Manager"):
            settings.read(config, stack="dev")


def test_a_machine_type_with_an_unknown_gpu_does_not_load() -> None:
    """Whether it needs Fabric Manager is not known."""
    with pytest.raises(ValueError, match="p9.48xlarge: nvidia-new has no row in NVSWITCH"):
        MachineType("p9.48xlarge", 192, "nvidia-new", 8)
