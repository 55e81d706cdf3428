"""Values of a stack's config, each by itself and against each other: the edges and the messages."""

from __future__ import annotations

import base64

import pytest

from stacks.rules import rules, validators
from stacks.rules.rules import Unread, Valid, unsupported_image, zones_outside_region
from stacks.rules.validators import ConfigError

KIND = "ssh-ed25519"
FIELDS = [KIND.encode(), b"0" * 32]
READ = [
    ("owner", "Ann B", "ann-b"),
    ("owner", "a" * 64, "a" * 63),
]
REFUSED = [
    ("bucket_name", "sthree-x", "k: 'sthree-x' begins with 'sthree-', which the clouds refuse"),
    ("bucket_name", "x--x-s3", "k: 'x--x-s3' ends with '--x-s3', which S3 refuses"),
    ("bucket_name", "x--table-s3", "k: 'x--table-s3' ends with '--table-s3', which S3 refuses"),
    (
        "cidrs",
        "203.0.113.7/24",
        "k: '203.0.113.7/24' is not a network as in 203.0.113.7/32: 203.0.113.7/24 has host bits"
        " set\n  next: pulumi config set k 203.0.113.7/32   # one address; the whole network is"
        " 203.0.113.0/24",
    ),
    (
        "bucket_name",
        "x",
        "k: 'x' is not a bucket's name: 3 to 63 lowercase letters, digits and '-', with a letter or"
        " digit at each end",
    ),
]


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("MyStack", "my-stack"), ("9.A--b_", "a-b"), ("9", "gpu"), ("a" * 31, "a" * 30)],
)
def test_a_name_that_is_refused_gets_the_nearest_one(text: str, nearest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validators.name("k", text)
    assert str(caught.value).endswith(f"\n  next: pulumi config set k {nearest}")


@pytest.mark.parametrize(("name", "text", "value"), READ)
def test_a_value_at_the_edge_is_read(name: str, text: str, value: object) -> None:
    assert getattr(validators, name)("k", text) == value


@pytest.mark.parametrize(("name", "text", "message"), REFUSED)
def test_a_value_beyond_the_edge_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        getattr(validators, name)("k", text)
    assert str(caught.value) == message


def key(fields: list[bytes]) -> str:
    packed = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return base64.b64encode(packed).decode()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"{KIND} {key(FIELDS)} ann", ""),
        (f"{KIND} {key(FIELDS[:1])}", f"it is not a key of {KIND}"),
        (f"{KIND} !{key(FIELDS)}", f"what follows {KIND} is not a key, or not all of it"),
        (
            "x" * 50,
            f"it begins with '{'x' * 40}', and not with one of ssh-ed25519, ssh-rsa, ecdsa-sha2-,"
            " sk-ssh-ed25519, sk-ecdsa-sha2-",
        ),
    ],
)
def test_a_public_key_has_its_kind_and_more_inside(text: str, error: str) -> None:
    assert validators.public_key_error(text) == error


def test_a_value_that_is_wrong_by_itself_is_unread_and_an_unknown_one_a_mistake_of_ours() -> None:
    values = Valid({"a": 1}, ["b"])
    assert values["a"] == 1
    with pytest.raises(Unread, match="^b$"):
        values["b"]
    with pytest.raises(KeyError, match="^'c'$"):
        values["c"]


@pytest.mark.parametrize(
    ("region", "zones", "commands"),
    [
        ("us-east-1", "us-east-1a", None),
        ("us-central1", "us-central1-a", None),
        ("us-west-2", "us-west-2-lax-1a", None),
        ("us-east-1", "us-east-1-wl1-bos-wlz-1", None),
        ("us-east-1", "us-west-2a", "region us-west-2"),
        ("us-central1", "europe-west4-a", "region europe-west4"),
        ("us-east-1", "us-west-2-lax-1a", "region us-west-2"),
        ("us-east-1", "us-west-2a,us-east-1c", "zones us-east-1c"),
        (
            "eu-west-1",
            "us-west-2a,us-east-1c,us-west-2b",
            "zones us-west-2a,us-west-2b && pulumi config set region us-west-2",
        ),
    ],
)
def test_zones_are_in_the_region_after_the_commands_that_are_named(
    region: str, zones: str, commands: str | None
) -> None:
    values = {"region": region, "zones": validators.zones("zones", zones)}
    messages = map(str, zones_outside_region(values))
    assert [one.partition("next: pulumi config set ")[2] for one in messages] == (
        [f"{commands}   # or: pulumi config rm zones"] if commands else []
    )
    for command in commands.split(" && ") if commands else ():
        key, text = command.removeprefix("pulumi config set ").split()
        values[key] = validators.zones(key, text) if key == "zones" else text
    assert not [*zones_outside_region(values)]


@pytest.mark.parametrize(
    ("image", "v100", "says"),
    [
        ("dl-1", False, []),
        ("ubuntu", True, []),
        ("ami-1", True, []),
        (
            "dl-1",
            True,
            [
                "image: the driver of dl-1 does not support V100; one of ubuntu, debian\n"
                "  next: pulumi config rm image"
            ],
        ),
    ],
)
def test_a_deep_learning_image_has_no_driver_for_v100(
    image: str, v100: bool, says: list[str]
) -> None:
    names = ("dl-1", "ubuntu", "debian")
    errors = unsupported_image({"image": image}, names, id_prefix="ami-", v100=v100)
    assert [*map(str, errors)] == says


@pytest.mark.parametrize(
    ("rule", "values", "messages"),
    [
        ("name_of_no_bucket", {"bucket": True, "bucket_name": "x"}, 0),
        ("name_of_no_bucket", {"bucket": False, "bucket_name": None}, 0),
        ("name_of_no_bucket", {"bucket": False, "bucket_name": "x"}, 1),
        ("google_in_the_bucket", {"name": "google", "bucket": True, "bucket_name": None}, 1),
        ("google_in_the_bucket", {"name": "google", "bucket": True, "bucket_name": "x"}, 0),
        ("google_in_the_bucket", {"name": "google", "bucket": False, "bucket_name": None}, 0),
        ("wide_networks", {"allow_wide_cidr": False, "ssh_cidrs": ["203.0.0.0/16"]}, 0),
        ("wide_networks", {"allow_wide_cidr": False, "ssh_cidrs": ["203.0.0.0/15"]}, 1),
        ("wide_networks", {"allow_wide_cidr": True, "ssh_cidrs": ["203.0.0.0/15"]}, 0),
    ],
)
def test_a_rule_reads_the_values_that_it_is_about(
    rule: str, values: dict[str, object], messages: int
) -> None:
    assert len([*getattr(rules, rule)(values)]) == messages
