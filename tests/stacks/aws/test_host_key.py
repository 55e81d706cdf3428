"""Injected host keys: one per host, the private half a secret that goes to the machine alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from pulumi.runtime import rpc

from stacks.aws.host_key import Maker
from stacks.aws.user_data import cloud_config, injected_key
from stacks.timer.deadline import install_script
from tests.stacks.aws.world import INSTANCE, made, previewed, world
from tests.stacks.mocks import Made, Resource

HOST_KEY = "pulumi-python:dynamic/aws:HostKey"
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\n"


def with_keys(**values: Any) -> Made:
    """A cluster with injected keys, which the engine would have had made."""
    there = world()
    there.computed = {**there.computed, HOST_KEY: lambda name, _: pair(name)}
    return made(there, host_keys="injected", **values)


def pair(name: str) -> dict[str, str]:
    return {"public": f"ssh-ed25519 AAAA{name}", "private": f"{PRIVATE}of {name}\n"}


def user_data(host: Resource) -> str:
    """The user data of a host, which has to be a secret."""
    message = host.inputs["userData"]
    assert rpc.is_rpc_secret(message), "the engine would show it, and write it down as it is"
    return str(rpc.unwrap_rpc_secret(message))


def test_the_console_is_the_default() -> None:
    cluster = made()
    assert HOST_KEY not in cluster.kinds
    for host in cluster.every(INSTANCE):
        assert "ssh_keys" not in yaml.safe_load(host.inputs["userData"])
    hosts = cluster.outputs["cluster"]["hosts"]
    assert [(host.get("host_key"), host["host_key_source"]) for host in hosts] == [
        (None, "console"),
        (None, "console"),
    ]


def test_every_host_is_given_a_key_of_its_own() -> None:
    cluster = with_keys(count=3)
    assert [r.name for r in cluster.every(HOST_KEY)] == [f"cluster-host-{n}" for n in (1, 2, 3)]
    for host, output in zip(
        cluster.every(INSTANCE), cluster.outputs["cluster"]["hosts"], strict=True
    ):
        message = yaml.safe_load(user_data(host))
        keys = pair(host.name)
        assert message["ssh_deletekeys"] is True, "the image's own key may be everybody's"
        assert message["ssh_keys"] == {
            "ed25519_public": keys["public"],
            "ed25519_private": keys["private"],
        }
        assert output["name"] == host.inputs["tags"]["Name"]
        assert (output["host_key"], output["host_key_source"]) == (keys["public"], "injected")


def test_every_machine_has_its_timer_in_its_user_data() -> None:
    """With and without an injected key; AWS takes 16 KiB at most."""
    for hosts in (made(deadline_hours=3), with_keys(deadline_hours=3)):
        for host in hosts.every(INSTANCE):
            text = user_data(host) if HOST_KEY in hosts.kinds else str(host.inputs["userData"])
            message = yaml.safe_load(text)
            assert message["bootcmd"] == [["sh", "-c", install_script(3, 30)]]
            assert message["ssh_deletekeys"] is True
            assert text.startswith("#cloud-config\n") and len(text) < 12_000


def test_the_private_key_is_in_no_other_resource() -> None:
    cluster = with_keys()
    assert PRIVATE.strip() not in json.dumps(cluster.outputs) + cluster.text
    for resource in cluster.resources:
        kept = {key: value for key, value in resource.inputs.items() if key != "userData"}
        assert PRIVATE.strip() not in json.dumps(kept), resource.name
    for key in cluster.every(HOST_KEY):
        assert key.secret_outputs == ("private",)
    for host in cluster.every(INSTANCE):
        assert set(host.secret_outputs) == {"userData", "userDataBase64"}, "it may come back"


def test_the_document_is_plain() -> None:
    """What is made of a secret is one, unless it is marked as none."""
    outputs = with_keys().outputs
    assert not [name for name, message in outputs.items() if rpc.is_rpc_secret(message)]


def test_a_preview_needs_no_key() -> None:
    there = previewed(host_keys="injected")
    assert {HOST_KEY, INSTANCE} <= there.kinds


def test_other_user_data_later_is_no_reason_to_stop_machines() -> None:
    for cluster in (made(), with_keys(), with_keys(image="ami-0a1b2c3d")):
        for host in cluster.every(INSTANCE):
            assert "userData" in host.ignore_changes


def test_the_maker_makes_pairs_that_openssh_reads_and_never_one_twice() -> None:
    first, second = (Maker().create({}).outs or {} for _ in range(2))
    assert first["private"].startswith(PRIVATE) and first["public"].startswith("ssh-ed25519 AAAA")
    loaded = serialization.load_ssh_private_key(first["private"].encode(), None)
    public = loaded.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    assert public.decode() == first["public"] != second["public"]


@pytest.mark.parametrize(
    ("message", "public"),
    [
        (None, None),
        (cloud_config(8, 30), None),
        ("#!/bin/sh\n", None),
        ("#cloud-config\npackages: [x]\n", None),
        ('#cloud-config\n{"ssh_keys": []}', None),
        (cloud_config(8, 30, ("ssh-ed25519 AAAA", "x")), "ssh-ed25519 AAAA"),
    ],
)
def test_a_machine_was_given_a_key_or_not_by_what_it_has(
    message: str | None, public: str | None
) -> None:
    assert injected_key(message) == public
