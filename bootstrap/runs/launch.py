"""The run document and the argv of mpirun, made from the options of `fab train`. Pure.

`RunOptions` validates every option of the run before anything is sent to a host.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from difflib import get_close_matches
from typing import Any

from bootstrap.errors import UsageError
from bootstrap.plan.hostfile import Link, Peer
from bootstrap.runs.tf_config import tf_cluster

SCHEMA = 1
LAUNCHERS: Mapping[str, tuple[str, ...]] = {
    "horovod": ("horovod",),
    "tensorflow": ("multiworker", "mirrored", "one-device"),
}
ONE_HOST = ("mirrored", "one-device")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def choose(value: str, choices: Sequence[str], what: str) -> str:
    """Return `value` if it is one of `choices`; UsageError with the nearest one otherwise."""
    if value in choices:
        return value
    near = get_close_matches(value, choices, 1)
    guess = f". Did you mean {near[0]}?" if near else ""
    raise UsageError(f"{what} {value!r}: one of {', '.join(choices)}{guess}")


@dataclass(frozen=True)
class Program:
    """What runs: our own training with resolved settings, or the user's script with its words."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""
    args: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The `program` of run.json."""
        if self.kind == "training":
            return {"kind": "training", "settings": dict(self.settings)}
        return {"kind": "script", "path": self.path, "args": list(self.args)}


@dataclass(frozen=True)
class RunOptions:
    """What was asked for, checked. `keras` None means: by launcher and strategy."""

    launcher: str = "horovod"
    strategy: str | None = None
    script: bool = False
    keras: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("**",)

    def __post_init__(self) -> None:
        choose(self.launcher, tuple(LAUNCHERS), "launcher")
        if self.strategy is not None:
            choose(self.strategy, LAUNCHERS[self.launcher], f"strategy of {self.launcher}")
        if self.keras not in (None, 2, 3):
            raise UsageError(f"keras {self.keras}: 2 or 3")
        if self.keras == 2 and not self.script:
            raise UsageError("keras 2 is for --script: our own training is written for Keras 3")
        for name in [*self.env, *self.secrets]:
            if not _VARIABLE.fullmatch(name):
                raise UsageError(f"{name!r} is not a variable's name: letters, digits and '_'")
            if name.startswith("RAILHEAD_"):
                raise UsageError(f"{name}: variables that begin with RAILHEAD_ are ours to set")
        if both := sorted({*self.env} & {*self.secrets}):
            raise UsageError(f"{both[0]} is given twice: a secret's value stands in no --env")

    def settled_strategy(self, hosts: int) -> str:
        """The strategy: as asked, else by launcher and the number of hosts."""
        if self.launcher == "horovod":
            return "horovod"
        strategy = self.strategy or ("multiworker" if hosts > 1 else "mirrored")
        if strategy in ONE_HOST and hosts > 1:
            raise UsageError(
                f"strategy {strategy} runs on one host; {hosts} were named",
                hint="--strategy multiworker, or name one host",
            )
        return strategy

    def settled_keras(self, strategy: str) -> tuple[int, str]:
        """The Keras version and why."""
        if self.keras is not None:
            return self.keras, "as asked"
        if not self.script:
            return 3, "our own training is written for it"
        if strategy in ONE_HOST:
            return 3, "a script on one host; --keras 2 for the older API"
        return 2, "scripts under Horovod or several workers need it; --keras 3 if yours does not"


@dataclass(frozen=True)
class StopPolicy:
    """What was asked of a run's end, checked. `max_hours` None: as long as it takes."""

    keep_minutes: int = 20
    stop: bool = True
    max_hours: float | None = None


@dataclass(frozen=True)
class Bucket:
    """Where results go by themselves, and the digest of the environment on the chief that can."""

    url: str
    client: str


def new_run_id(now: datetime | None = None) -> str:
    """An id that sorts by time: 20261121-101500-3f2a (UTC)."""
    moment = now or datetime.now(timezone.utc)
    return f"{moment:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def run_document(
    *,
    run_id: str,
    cluster: str,
    created: str,
    ask: RunOptions,
    program: Program,
    runtime: Mapping[str, str],
    bundle: str,
    peers: Sequence[Peer],
    links: Sequence[Link],
    ports: Sequence[int],
    ending: StopPolicy,
    stops: Sequence[Sequence[str] | None],
    bucket: Bucket | None,
) -> dict[str, Any]:
    """run.json, schema 1: what supervisor, rank and training need to know; no secret's value.

    `stops` are the commands that stop the hosts, in their order; empty for machines that are not
    ours to stop.
    """
    strategy = ask.settled_strategy(len(peers))
    slots = [p.slots if ask.launcher == "horovod" else 1 for p in peers]
    several = strategy == "multiworker"
    cluster_spec = tf_cluster([(p.address, q) for p, q in zip(peers, ports, strict=True)])
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "cluster": cluster,
        "created": created,
        "launcher": ask.launcher,
        "strategy": strategy,
        "keras": ask.settled_keras(strategy)[0],
        "runtime": dict(runtime),
        "program": program.document(),
        "bundle": bundle,
        "hosts": [
            {"name": p.name, "peer_address": p.address, "interface": x.device}
            | {"slots": s, "port": q}
            for p, x, s, q in zip(peers, links, slots, ports, strict=True)
        ],
        "size": sum(slots),
        "tf_cluster": cluster_spec if several else None,
        "env": dict(ask.env),
        "secrets": list(ask.secrets),
        "outputs": list(ask.outputs),
        "max_hours": ending.max_hours,
        "stop": _stop(ending, stops),
        "bucket": {"url": bucket.url, "client": bucket.client} if bucket else None,
    }


def _stop(ending: StopPolicy, stops: Sequence[Sequence[str] | None]) -> dict[str, Any] | None:
    """How the machines stop after the run; None when they do not."""
    if not ending.stop or not stops:
        return None
    argv = [list(words) if words else None for words in stops]
    return {"argv": argv, "keep_minutes": ending.keep_minutes}


def mpirun_argv(run_id: str, *, size: int, run_folder: str, networks: str) -> list[str]:
    """mpirun for a run, to be started on the chief in `run_folder` (absolute, on the chief).

    Ranks are not bound to cores: by default OpenMPI pins each host's first rank to core 0.
    Dead links are noticed by TCP keepalive within half a minute instead of OpenMPI's 5 minutes.
    """
    mca = {
        "plm_rsh_agent": "ssh",
        "plm_rsh_args": f"-F {run_folder}/ssh_config",
        "plm_rsh_no_tree_spawn": "1",
        "orte_launch_agent": f"env RAILHEAD_RUN={run_id} RAILHEAD_HOME=$HOME orted",
        "oob_tcp_if_include": networks,
        "btl_tcp_if_include": networks,
        "oob_tcp_keepalive_time": "10",
        "oob_tcp_keepalive_intvl": "5",
        "oob_tcp_keepalive_probes": "3",
        "btl": "self,vader,tcp",
        "pml": "ob1",
    }
    words = ["mpirun", "--hostfile", f"{run_folder}/hostfile", "-np", str(size)]
    words += ["--bind-to", "none", "--map-by", "slot", "--tag-output"]
    for name, value in mca.items():
        words += ["-mca", name, value]
    return [*words, "sh", "-c", f'exec sh "$HOME/.railhead/runs/{run_id}/rank.sh"']
