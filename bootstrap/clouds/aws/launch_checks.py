"""Settings of an account that no policy shows: they block public machines, or set a key for
disks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from railhead.documents.doctor import Check

from ...errors import RailheadError
from ..base import unless_refused
from .client import UNAUTHORIZED, AwsClient, ask

PUBLIC, KEY = "public machines", "key of disks"
OF_AWS = "alias/aws/ebs"  # every user of the account may use it
NEXT_PUBLIC = (
    "an administrator: aws ec2 create-vpc-block-public-access-exclusion --vpc-id VPC "
    "--internet-gateway-exclusion-mode allow-bidirectional   # for a VPC, as `network`"
)
NEXT_KEY = "aws ec2 reset-ebs-default-kms-key-id   # or an administrator enables the key"


def checks(client: AwsClient, *, existing_network: bool) -> Iterator[Check]:
    """Whether a machine can be reached, and its disk be created."""
    public = partial(_public, client, existing_network)
    for name, check in ((PUBLIC, public), (KEY, partial(_key, client))):
        try:
            yield check()
        except RailheadError as error:
            yield Check(name, "unknown", error.message)


def _public(client: AwsClient, existing_network: bool) -> Check:
    named = ("ec2", "describe_vpc_block_public_access_options", "VpcBlockPublicAccessOptions")
    # Or block-bidirectional, block-ingress.
    mode = ask(dict[str, Any], client, *named).get("InternetGatewayBlockMode", "off")
    if mode == "off":
        return Check(PUBLIC, "ok", "VPC Block Public Access is off")
    why = f"VPC Block Public Access is {mode}: machines run, and nobody reaches them"
    if existing_network:  # it may be excluded
        return Check(PUBLIC, "warns", f"{why}, unless the VPC is excluded", NEXT_PUBLIC)
    return Check(PUBLIC, "blocks", why, NEXT_PUBLIC)


def _key(client: AwsClient) -> Check:
    """Whether disks can be encrypted with the account's default key. A machine whose disk cannot
    goes from pending to terminated, without a reason in the answer of RunInstances."""
    key = ask(str, client, "ec2", "get_ebs_default_kms_key_id", "KmsKeyId")
    if key == OF_AWS or key.endswith(f":{OF_AWS}"):
        return Check(KEY, "ok", "the key of AWS")
    read = partial(ask, str, client, "kms", "describe_key", "KeyMetadata.KeyState", KeyId=key)
    state = unless_refused((*UNAUTHORIZED, "AccessDeniedException"), read)
    if state is None:
        return Check(
            KEY, "warns", f"{key}, which this user may not see: machines may end", NEXT_KEY
        )
    if state != "Enabled":
        return Check(KEY, "blocks", f"{key} is {state}: machines end as they start", NEXT_KEY)
    return Check(KEY, "ok", f"{key}, of this account")
