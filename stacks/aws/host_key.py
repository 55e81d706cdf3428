"""A host's SSH key that `pulumi up` makes, once per host, and gives to the machine as user data.

Any process on the machine can read user data, so `fab` replaces the key at the first login
(docs/security.md). The private key is a secret in Pulumi's state and nowhere else.
"""

from __future__ import annotations

import json
from typing import Any

import pulumi
from pulumi import dynamic

HEAD = "#cloud-config\n"  # cloud-init requires this line; JSON is valid YAML
NONE = (
    HEAD + '{"ssh_deletekeys": true}\n'
)  # cloud-init's default, written out so that user data is never empty
PUBLIC, PRIVATE = "ed25519_public", "ed25519_private"
SECRET = ["userData", "userDataBase64"]  # the names under which an instance returns it


class Maker(dynamic.ResourceProvider):
    """Makes a key pair.

    Pulumi's state holds `stacks.aws.host_key.Maker` by that name: neither module nor class may be
    renamed.
    """

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
        hidden = pulumi.ResourceOptions(additional_secret_outputs=["private"])
        props = {"public": None, "private": None}
        super().__init__(Maker(), name, props, pulumi.ResourceOptions.merge(opts, hidden))

    @property
    def user_data(self) -> pulumi.Output[str]:
        """The user data that gives the key to a machine at its first boot; a secret."""
        private: pulumi.Output[str] = pulumi.Output.secret(self.private)
        return pulumi.Output.all(self.public, private).apply(lambda keys: user_data(*keys))


def user_data(public: str, private: str) -> str:
    """cloud-init removes the image's keys, and with `ssh_keys` generates no others."""
    keys = {PUBLIC: public, PRIVATE: private}
    return HEAD + json.dumps({"ssh_deletekeys": True, "ssh_keys": keys}, indent=1) + "\n"


def injected_key(text: str | None) -> str | None:
    """The public key in a machine's user data: the one that it was made with, whatever the config
    is now. None where no key was injected."""
    try:
        return str(json.loads((text or "").removeprefix(HEAD))["ssh_keys"][PUBLIC])
    except (ValueError, KeyError, TypeError):
        return None
