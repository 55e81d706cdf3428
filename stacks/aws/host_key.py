"""A host's SSH key: `pulumi up` creates it, once per host, and gives it to the machine as user
data.

Any process on the machine can read user data, so `fab` replaces the key at the first login
(docs/security.md). The private key is a secret in Pulumi's state and nowhere else.
"""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi import dynamic

from ..component.logical_names import named
from ..component.parts import plus
from .user_data import cloud_config

SECRET = ["userData", "userDataBase64"]  # the names under which an instance returns it


class Maker(dynamic.ResourceProvider):
    """Makes a key pair. Pulumi's state refers to `stacks.aws.host_key.Maker` by that name: do not
    rename the module or the class."""

    serialize_as_secret_always = False

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        """A new pair, in OpenSSH's forms."""
        # Imported here: it takes 0.2 s, and only Pulumi's provider process needs it.
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
    """The key for one host name. It stays the same at every later `up`, as long as the config has
    injected keys; so does a machine's user data (`ignore_changes` in hosts.py)."""

    public: pulumi.Output[str]
    private: pulumi.Output[str]

    def __init__(self, name: str, opts: pulumi.ResourceOptions) -> None:
        props = {"public": None, "private": None}
        hidden = plus(opts, additional_secret_outputs=["private"])
        super().__init__(Maker(), named(opts, name), props, hidden)

    def user_data(self, hours: float, idle_minutes: int) -> pulumi.Output[str]:
        """The user data of a machine with these timers, which gives the key to it at its first
        boot; a secret."""
        private: pulumi.Output[str] = pulumi.Output.secret(self.private)
        return pulumi.Output.all(self.public, private).apply(
            lambda keys: cloud_config(hours, idle_minutes, (keys[0], keys[1]))
        )
