"""The cluster half of TF_CONFIG: run.json holds it as `tf_cluster`, each rank adds its task. Pure.

One worker per host, in the run's order; TensorFlow takes worker 0 as the chief.
"""

from __future__ import annotations

from collections.abc import Sequence

from bootstrap.errors import UsageError


def tf_cluster(hosts: Sequence[tuple[str, int]]) -> dict[str, list[str]]:
    """The cluster from (peer_address, port) of each host.

    UsageError when there is no host, a port is none, or two hosts share a port: TensorFlow listens
    on every address of its machine, so one number serves only one host when hosts share a machine.
    """
    if not hosts:
        raise UsageError("TF_CONFIG needs at least one host")
    seen: dict[int, str] = {}
    for address, port in hosts:
        if not 0 < port < 65536:
            raise UsageError(f"{address}: {port} is not a port (1 to 65535)")
        if port in seen:
            raise UsageError(f"{seen[port]} and {address} both have port {port}: each its own")
        seen[port] = address
    return {"worker": [_endpoint(address, port) for address, port in hosts]}


def _endpoint(address: str, port: int) -> str:
    """`address:port`, with brackets around a v6 address."""
    bare = address.removeprefix("[").removesuffix("]")
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"
