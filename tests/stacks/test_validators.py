"""Values of a stack's config, each by itself and against each other: the edges and the messages."""

from __future__ import annotations

import base64

import pytest

from stacks.next_command import set_
from stacks.rules import rules, validators
from stacks.rules.rules import Unread, Valid, unsupported_image, zones_outside_region
from stacks.rules.validators import ConfigError

KIND = "ssh-ed25519"
FIELDS = [KIND.encode(), b"0" * 32]


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("MyStack", "my-stack"), ("9.A--b_", "a-b"), ("9", "gpu"), ("a" * 31, "a" * 30)],
)
def test_a_name_that_is_refused_gets_the_nearest_one(text: str, nearest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validators.name("k", text)
    assert str(caught.value).endswith(f"\n  next: pulumi config set k {nearest}")


def test_an_owner_has_the_characters_of_a_label() -> None:
    assert validators.owner("k", "Ann B") == "ann-b"
    assert validators.owner("k", "a" * 64) == "a" * 63


def test_a_network_with_host_bits_gets_the_command_for_one_address() -> None:
    with pytest.raises(ConfigError) as caught:
        validators.cidrs("k", "203.0.113.7/24")
    whole = "  # one address; the whole network is 203.0.113.0/24"
    assert caught.value.next == (set_("k", "203.0.113.7/32"), whole)


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
    assert [message.partition("next: pulumi config set ")[2] for message in messages] == (
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
