"""A stack on Google Cloud: the real engine, the stand-in for Pulumi's provider, and Compute's REST
API, which `fab` calls, over the same machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from engine.stack import Stack
from standins.compute import Compute
from standins.gcp.cloud import INSTANCE, Cloud

PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBTkB+CnT0vqWgcl2EcN2m8yWFOXPHwWBQz5x0YMTLj4 ann@desk"
PROJECT = "p-12345"


class SharedCloud(Cloud):
    """The provider's cloud, whose machines are in Compute too."""

    compute: Compute

    def share(self, compute: Compute) -> SharedCloud:
        """Put each machine into Compute; one that is deleted there is gone here."""
        self.compute = compute
        compute.ended = lambda path: self.things.pop(path, None)  # type: ignore[assignment]
        return self

    def create(self, kind: str, inputs: Mapping[str, Any], where: str) -> str:
        """As Cloud; a machine runs in Compute as soon as the call was accepted."""
        path = super().create(kind, inputs, where)
        if kind == INSTANCE:
            made = self.things[path].request.body
            self.compute.add(
                path,
                labels=made["labels"],
                machineType=made["machineType"],
                scheduling=made["scheduling"],
                metadata=made["metadata"],
            )
        return path

    def delete(self, path: str, inputs: Mapping[str, Any]) -> None:
        """As Cloud; a machine that is gone already is no error, as for the provider."""
        if path in self.things:
            super().delete(path, inputs)
        self.compute.instances.pop(path, None)


class OnGcp:
    """One stack and its cloud."""

    def __init__(self, engine: Path, folder: Path, cloud: SharedCloud, port: int) -> None:
        self.cloud = cloud
        key = folder / "key.pub"
        key.write_text(f"{PUBLIC}\n")
        self.stack = Stack(engine, folder / "project", "t4", providers={"gcp": port})
        self.stack.config(cloud="gcp", project=PROJECT, owner="ann", public_key_file=key)
        self.stack.config(ssh_cidrs="203.0.113.7/32", bucket=False)
        (folder / "account.json").write_text(json.dumps(account(cloud.compute.base)))
        self.stack.env = {
            "HOME": str(folder),
            "NO_PROXY": "127.0.0.1",
            "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "account.json"),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": cloud.compute.base,
        }

    def instances(self) -> list[str]:
        """The names of the machines that exist."""
        return sorted(path.rpartition("/")[2] for path in self.cloud.compute.instances)


def account(base: str) -> dict[str, str]:
    """The key file of a service account whose tokens come from Compute's stand-in."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return {
        "type": "service_account",
        "client_email": f"me@{PROJECT}.iam.gserviceaccount.com",
        "token_uri": base.replace("/compute/v1/", "/token"),
        "private_key": key.private_bytes(serialization.Encoding.PEM, form, plain).decode(),
    }
