"""A host's ssh key that is made here, once per host, and given to the machine by user data.

Any process on the machine can read user data, so `fab` changes the key at the first contact
(docs/security.md). Here its private half is a secret: in Pulumi's state and nowhere else.
"""

from __future__ import annotations

import json
from typing import Any

import pulumi
from pulumi import dynamic

HEAD = "#cloud-config\n"  # what cloud-init takes for its own; JSON is YAML, too
NONE = HEAD + '{"ssh_deletekeys": true}\n'  # its own default, said so that nothing else is
PUBLIC, PRIVATE = "ed25519_public", "ed25519_private"
SECRET = ["userData", "userDataBase64"]  # of an instance: what it is, and what it may come back as


class Maker(dynamic.ResourceProvider):
    """Makes a key pair. Pulumi keeps it in its state by the name of this class alone."""

    serialize_as_secret_always = False

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        """A new pair, in OpenSSH's forms."""
        # Here, as it costs every preview 0.2 s, and only Pulumi's other process makes keys.
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()
        )
        public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
        return dynamic.CreateResult(
            "made", {"public": public.decode(), "private": private.decode()}
        )


class HostKey(dynamic.Resource, module="aws", name="HostKey"):
    """The key of one host's name. It stays as it is through every later `up`, as long as the
    config wants injected keys; so does what a machine was given (`ignore_changes` in hosts.py)."""

    public: pulumi.Output[str]
    private: pulumi.Output[str]

    def __init__(self, name: str, opts: pulumi.ResourceOptions) -> None:
        hidden = pulumi.ResourceOptions(additional_secret_outputs=["private"])
        props = {"public": None, "private": None}
        super().__init__(Maker(), name, props, pulumi.ResourceOptions.merge(opts, hidden))

    @property
    def user_data(self) -> pulumi.Output[str]:
        """What gives the key to a machine at its first boot; a secret."""
        private: pulumi.Output[str] = pulumi.Output.secret(self.private)
        return pulumi.Output.all(self.public, private).apply(lambda keys: user_data(*keys))


def user_data(public: str, private: str) -> str:
    """cloud-init takes the image's keys away, and with `ssh_keys` makes no others."""
    keys = {PUBLIC: public, PRIVATE: private}
    return HEAD + json.dumps({"ssh_deletekeys": True, "ssh_keys": keys}, indent=1) + "\n"


def injected(said: str | None) -> str | None:
    """The public key in a machine's own user data: what it was made with, whatever the config
    says now. None where there is none of ours."""
    try:
        return str(json.loads((said or "").removeprefix(HEAD))["ssh_keys"][PUBLIC])
    except (ValueError, KeyError, TypeError):
        return None
