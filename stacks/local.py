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

from railhead.documents.cluster import ClusterDocument, DocumentHost, Ssh
from railhead.documents.codec import decode, encode
from railhead.installation import PREFIX

from . import cluster_id, outputs, place
from .component import computed
from .component.logical_names import Named, named, names_of
from .component.parts import after, placed, plus
from .config.settings import ClusterConfig

Props = dict[str, Any]
INPUTS = ("cluster", "name", "running")
FACTS = ("address", "port", "user", "key_file", "host_key", "stop")


class LocalHostError(Exception):
    """A local host could not be created, read or removed."""


class Sshd(dynamic.ResourceProvider):
    """Creates, reads and removes one local host. Pulumi's state refers to `stacks.local.Sshd` by
    that name: do not rename the module or the class."""

    serialize_as_secret_always = False

    def configure(self, req: dynamic.ConfigureRequest) -> None:
        """Show our errors as their message, without a traceback."""
        traceback.format_exc = _format_error  # Pulumi formats every error of a provider with it

    def check(self, _olds: Props, news: Props) -> dynamic.CheckResult:
        """Whether sshd is installed and the name is free for local hosts; runs at preview too."""
        try:
            _command("check", news["cluster"])
        except LocalHostError as error:
            return dynamic.CheckResult(news, [dynamic.CheckFailure("name", str(error))])
        return dynamic.CheckResult(news, [])

    def diff(self, _id: str, olds: Props, news: Props) -> dynamic.DiffResult:
        """A host that does not run is started again; another cluster or name is another host."""
        changed = [key for key in INPUTS if olds.get(key) != news.get(key)]
        return dynamic.DiffResult(bool(changed), [key for key in changed if key != "running"])

    def create(self, props: Props) -> dynamic.CreateResult:
        """Start it."""
        return dynamic.CreateResult(f"{props['cluster']}/{props['name']}", _start(props))

    def read(self, id_: str, props: Props) -> dynamic.ReadResult:
        """Whether it runs, and where it listens; without an id when it no longer exists."""
        cluster, _, name = id_.partition("/")
        host = _command("read", cluster, name)[name]
        return dynamic.ReadResult(id_, {**props, **host}) if host else dynamic.ReadResult("", {})

    def update(self, _id: str, _olds: Props, news: Props) -> dynamic.UpdateResult:
        """Start it again, with the same key and home."""
        return dynamic.UpdateResult(_start(news))

    def delete(self, _id: str, props: Props) -> None:
        """Stop it and remove its home."""
        _command("remove", props["cluster"], props["name"])


_format_exc = traceback.format_exc


def _format_error(limit: int | None = None, chain: bool = True) -> str:
    error = sys.exc_info()[1]
    return str(error) if isinstance(error, LocalHostError) else _format_exc(limit, chain)


def _start(props: Props) -> Props:
    started = decode(ClusterDocument, _command("start", props["cluster"], props["name"]))
    (host,) = (h for h in started.hosts if h.name == props["name"])
    facts = {**encode(started.ssh), **encode(host)}
    return {key: props[key] for key in INPUTS} | {key: facts[key] for key in FACTS}


def _command(*args: str) -> Any:
    """The JSON output of `python -m bootstrap.clouds.local`; raises its error message."""
    argv = [sys.executable, "-m", f"{PREFIX}bootstrap.clouds.local", *args]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise LocalHostError(
            done.stderr.strip() or f"{argv} failed with exit code {done.returncode}"
        )
    return json.loads(done.stdout)


class Host(dynamic.Resource, module="local", name="Host"):
    """One SSH host on this machine; `facts` are known once it runs."""

    facts: pulumi.Output[Props]

    def __init__(self, cluster: str, name: str, opts: pulumi.ResourceOptions) -> None:
        inputs = {"cluster": cluster, "name": name, "running": True}
        super().__init__(Sshd(), named(opts, name), {**inputs, **dict.fromkeys(FACTS)}, opts)
        self.facts = pulumi.Output.all(**{key: getattr(self, key) for key in ("name", *FACTS)})


class Cluster(Named):
    """`count` SSH hosts on this machine. `document` is the cluster document."""

    def __init__(
        self,
        name: str,
        config: ClusterConfig,
        opts: pulumi.ResourceOptions | None = None,
        *,
        existing: place.Existing = place.nobody_looks,
    ) -> None:
        """Check, then register: `name`, `opts` and `existing` as for a cluster in a cloud."""
        computed.check(config)
        names = names_of(name, config)
        self.cluster = name
        of_it = placed(opts, names.known(config.name))
        super().__init__("railhead:local:Cluster", name, {"name": config.name}, of_it)
        here = place.keep_place(names, config, cluster_id.make_id(names), existing)
        inner = plus(after(opts, here), parent=self)
        hosts = [
            Host(config.name, each, pulumi.ResourceOptions.merge(inner, names.known(each)))
            for each in (f"h{number + 1}" for number in range(config.count))
        ]
        self.gone: pulumi.Output[list[str]] = pulumi.Output.from_input([])
        self.document = pulumi.Output.all(*[host.facts for host in hosts]).apply(
            lambda facts: document(config, facts)
        )
        self.register_outputs({"document": self.document.apply(encode)})


def document(config: ClusterConfig, facts: Sequence[Mapping[str, Any]]) -> ClusterDocument:
    """The cluster document. Each host has its own port and its own `stop` command."""
    hosts = [
        DocumentHost(
            name=host["name"],
            address=host["address"],
            port=int(host["port"]),  # Pulumi's numbers are floats
            peer_address=host["address"],
            id=f"{config.name}/{host['name']}",
            host_key=host["host_key"],
            stop=tuple(host["stop"]),
        )
        for host in facts
    ]
    ssh = Ssh(facts[0]["user"], None, facts[0]["key_file"])
    return outputs.cluster_document(config, hosts, ssh=ssh)
