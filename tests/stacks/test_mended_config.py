"""A config that is refused is accepted after the commands that its messages name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from stacks.config import settings
from stacks.next_command import Pulumi, rm
from stacks.rules.validators import ConfigError

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBTkB+CnT0vqWgcl2EcN2m8yWFOXPHwWBQz5x0YMTLj4 ann@desk"
REQUIRED = {
    "aws": {"cloud": "aws", "ssh_cidrs": "203.0.113.7/32", "owner": "ann"},
    "gcp": {"cloud": "gcp", "ssh_cidrs": "203.0.113.7/32", "owner": "ann", "project": "p-12345"},
}
OWN_ADDRESS = '"$(curl -4 -s https://checkip.amazonaws.com)/32"'
CASES: list[tuple[str, dict[str, str]]] = [
    ("aws", {"zones": "us-east-1a,us-west-2a"}),
    ("aws", {"zones": "us-west-2a,us-east-1a,us-west-2b", "region": "eu-west-1"}),
    ("aws", {"zones": "us-west-2-lax-1a"}),
    ("aws", {"ssh_cidrs": ",".join(f"203.0.113.{n}/32" for n in range(61))}),
    ("aws", {"ssh_cidrs": "198.18.7.1/32"}),
    ("gcp", {"machine_type": "g2-standard-4", "gpu_type": "nvidia-tesla-t4"}),
    ("gcp", {"machine_type": "g2-standard-4", "gpu_type": "nvidia-l4", "gpu_count": "1"}),
    ("gcp", {"machine_type": "g2-standard-4", "gpu_type": "nvidia-tesla-l4"}),
    ("gcp", {"machine_type": "n1-standard-8", "gpu_type": "nvidia-l4"}),
    ("gcp", {"gpu_type": "nvidia-a100-80gb", "region": "europe-west4"}),
    ("gcp", {"zones": "us-central1-a,europe-west4-b"}),
]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """The file of a public key."""
    path = tmp_path / "id.pub"
    path.write_text(f"{KEY}\n")
    return path


def refusals(values: dict[str, str]) -> Sequence[ConfigError]:
    """The problems of a config; none where it is accepted."""
    try:
        settings.read(values, stack="dev")
    except ConfigError as error:
        return error.problems
    return ()


def commands(problem: ConfigError) -> list[Pulumi]:
    """The commands that mend it, before a comment."""
    parts = takewhile(lambda each: "#" not in str(each), problem.next)
    return [each for each in parts if isinstance(each, Pulumi)]


def type_command(values: dict[str, str], command: Pulumi) -> None:
    key, _, text = command.arguments.partition(" ")
    if command.command == "config rm":
        values.pop(key, None)
    else:
        values[key] = text.replace(OWN_ADDRESS, "203.0.113.9/32")


@pytest.mark.parametrize(
    "choose", [lambda each: each, lambda each: each[:1], lambda each: each[-1:]]
)
@pytest.mark.parametrize(("cloud", "changes"), CASES)
def test_a_refused_config_is_accepted_after_the_named_commands(
    key: Path,
    cloud: str,
    changes: dict[str, str],
    choose: Callable[[Sequence[ConfigError]], Sequence[ConfigError]],
) -> None:
    """Of all messages, of the first alone, or of the last alone; none is repeated for ever."""
    values = {**REQUIRED[cloud], "public_key_file": str(key), **changes}
    typed = 0
    while messages := refusals(values):
        for message in choose(messages):
            for command in commands(message):
                type_command(values, command)
        assert (typed := typed + 1) < 5, f"{changes} is still refused: {messages}"
    assert typed > 0, "it was never refused"


def test_no_message_about_gpus_contradicts_another(key: Path) -> None:
    values = {**REQUIRED["gcp"], "public_key_file": str(key)}
    messages = refusals({**values, "machine_type": "g2-standard-4", "gpu_type": "nvidia-l4"})
    assert [commands(message) for message in messages] == [[rm("gpu_type")]]


def test_as_many_networks_as_ec2_takes_beside_the_rule_among_hosts(key: Path) -> None:
    values = {**REQUIRED["aws"], "public_key_file": str(key)}
    four = [f"203.0.113.{n}/32" for n in range(59)]
    six = [f"2001:db8::{n}/128" for n in range(59)]
    assert not refusals({**values, "ssh_cidrs": ",".join(four + six)})
    for more, says in (("1.1.1.1/32", "60 IPv4 networks"), ("2001::1/128", "60 IPv6")):
        (problem,) = refusals({**values, "ssh_cidrs": ",".join([*four, *six, more])})
        assert says in problem.text


@pytest.mark.parametrize(("bits", "accepted"), [(1024, False), (2048, True)])
def test_a_short_rsa_key_is_refused_with_its_length(key: Path, bits: int, accepted: bool) -> None:
    public = rsa.generate_private_key(public_exponent=65537, key_size=bits).public_key()
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    key.write_bytes(public.public_bytes(*form))
    problems = refusals({**REQUIRED["aws"], "public_key_file": str(key)})
    assert bool(problems) != accepted
    for problem in problems:
        assert f"{bits} bits" in problem.text and "ssh-keygen -t ed25519" in str(problem)
