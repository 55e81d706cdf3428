"""SSH hosts on this machine as resources: a real sshd each (`python -m bootstrap.clouds.local`)."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import dynamic

from stacks import outputs
from stacks.settings import ClusterConfig

Props = dict[str, Any]
INPUTS = ("cluster", "name", "running")
FACTS = ("address", "port", "user", "key_file", "host_key", "stop")


class LocalHostError(Exception):
    """A local host could not be made, read or ended; in the words of bootstrap.clouds.local."""


class Sshd(dynamic.ResourceProvider):
    """One local host's life. Pulumi keeps it in its state by the name of this class alone."""

    serialize_as_secret_always = False

    def configure(self, req: dynamic.ConfigureRequest) -> None:
        """Let our errors be told in their own words."""
        traceback.format_exc = _in_words  # by this, Pulumi tells every error of a provider

    def check(self, _olds: Props, news: Props) -> dynamic.CheckResult:
        """Whether there is an sshd, and the name is free for local hosts; asked at preview too."""
        try:
            _ask("check", news["cluster"])
        except LocalHostError as error:
            return dynamic.CheckResult(news, [dynamic.CheckFailure("name", str(error))])
        return dynamic.CheckResult(news, [])

    def diff(self, _id: str, olds: Props, news: Props) -> dynamic.DiffResult:
        """A dead host is started again; another cluster's or name's is another host."""
        changed = [key for key in INPUTS if olds.get(key) != news.get(key)]
        return dynamic.DiffResult(bool(changed), [key for key in changed if key != "running"])

    def create(self, props: Props) -> dynamic.CreateResult:
        """Start it."""
        return dynamic.CreateResult(f"{props['cluster']}/{props['name']}", _started(props))

    def read(self, id_: str, props: Props) -> dynamic.ReadResult:
        """Whether it runs, and where it listens; without an id when it is not there any more."""
        cluster, _, name = id_.partition("/")
        said = _ask("read", cluster, name)[name]
        return dynamic.ReadResult(id_, {**props, **said}) if said else dynamic.ReadResult("", {})

    def update(self, _id: str, _olds: Props, news: Props) -> dynamic.UpdateResult:
        """Start it again, with the key and the home that it had."""
        return dynamic.UpdateResult(_started(news))

    def delete(self, _id: str, props: Props) -> None:
        """End it and remove its home."""
        _ask("remove", props["cluster"], props["name"])


_whole = traceback.format_exc


def _in_words(limit: int | None = None, chain: bool = True) -> str:
    error = sys.exc_info()[1]
    return str(error) if isinstance(error, LocalHostError) else _whole(limit, chain)


def _started(props: Props) -> Props:
    document = _ask("start", props["cluster"], props["name"])
    (host,) = (h for h in document["hosts"] if h["name"] == props["name"])
    told = {**document["ssh"], **host}
    return {key: props[key] for key in INPUTS} | {key: told[key] for key in FACTS}


def _ask(*words: str) -> Any:
    """The JSON that `python -m bootstrap.clouds.local` answers; its own words as the error."""
    argv = [sys.executable, "-m", "bootstrap.clouds.local", *words]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise LocalHostError(done.stderr.strip() or f"{argv} ended with {done.returncode}")
    return json.loads(done.stdout)


class Host(dynamic.Resource, module="local", name="Host"):
    """One SSH host on this machine, and what is known of it once it runs."""

    facts: pulumi.Output[Props]

    def __init__(self, cluster: str, name: str, opts: pulumi.ResourceOptions) -> None:
        asked = {"cluster": cluster, "name": name, "running": True}
        super().__init__(Sshd(), name, {**asked, **dict.fromkeys(FACTS)}, opts)
        known = {key: getattr(self, key) for key in ("name", *FACTS)}
        self.facts = pulumi.Output.all(**known)


class Cluster(pulumi.ComponentResource):
    """`count` SSH hosts on this machine. `document` is the cluster document."""

    def __init__(self, name: str, config: ClusterConfig) -> None:
        super().__init__("railhead:local:Cluster", name)
        opts = pulumi.ResourceOptions(parent=self)
        names = [f"h{number + 1}" for number in range(config.count)]
        hosts = [Host(config.name, each, opts) for each in names]
        self.document = pulumi.Output.all(*[host.facts for host in hosts]).apply(
            lambda facts: document(config, facts)
        )
        self.register_outputs({"document": self.document})


def document(config: ClusterConfig, facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The cluster document. Each host has its own port, and the `stop` that bootstrap gave it."""
    hosts = [
        outputs.HostFacts(
            name=host["name"],
            id=f"{config.name}/{host['name']}",
            zone=None,
            address=host["address"],
            peer_address=host["address"],
            host_key=host["host_key"],
            stop=tuple(host["stop"]),
        )
        for host in facts
    ]
    told = outputs.cluster_document(config, hosts, bucket=None, deadlines=[], price=None)
    ssh = {"user": facts[0]["user"], "port": None, "key_file": facts[0]["key_file"]}
    with_ports = [
        {**entry, "port": int(host["port"])}  # Pulumi's numbers are floats
        for entry, host in zip(told["hosts"], facts, strict=True)
    ]
    return {**told, "ssh": ssh, "hosts": with_ports}
