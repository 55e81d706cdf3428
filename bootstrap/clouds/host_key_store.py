"""The host keys of a stack's machines in its bucket, so that a second computer can verify them.

EC2's console shows a key after the first boot alone, and an injected key is replaced at the first
login. Machines may not write here: they write below runs/ only.
"""

from __future__ import annotations

from railhead.documents.lazy import dataclass
from railhead.documents.names import is_name

from .bucket import Bucket

FOLDER = "host-keys/"
LIMIT = 20_000  # bytes of the keys of one machine


@dataclass(frozen=True)
class HostKeyStore:
    """One object for each machine, named after its serial number in the cloud: a machine that was
    created again has another one."""

    bucket: Bucket

    def read(self, serial: str) -> list[str]:
        """The public keys of a machine, `ssh-ed25519 AAAA...` each; none if there are none."""
        data = self.bucket.read(f"{FOLDER}{serial}", LIMIT) if is_name(serial) else None
        return (data or b"").decode("ascii", "replace").splitlines()

    def write(self, serial: str, keys: list[str]) -> None:
        """Replace the public keys of a machine."""
        if is_name(serial):
            self.bucket.store.write(f"{FOLDER}{serial}", "".join(f"{k}\n" for k in keys).encode())
