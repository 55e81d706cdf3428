"""The options of all tasks: their help texts, and the functions that validate their values.

Every option is a string, a list of strings or a flag. Modules are imported where they are used, to
keep `fab --list` fast.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke import Task

from bootstrap.cli.executor import report_errors
from bootstrap.runs.strategies import LAUNCHERS, names

if TYPE_CHECKING:
    from bootstrap.cli.targets import Target
    from bootstrap.plan.cluster import Options

HELP = {
    "hosts": "user@host:port*slots, comma-separated; default: a stack's hosts, else the last ones",
    "stack": "a Pulumi stack; default: the selected stack",
    "start": "start the stack's machines that do not run",
    "hours": "hours from now until the cloud stops the machines; deploy: until it ends (1)",
    "slots": "Horovod ranks per host; default: one per GPU, or one",
    "peer-address": "IP addresses that the hosts use among each other, comma-separated, in order",
    "requirements": "a file of further packages, resolved together with the runtime's pins",
    "proxy": "http://HOST:PORT, through which hosts reach the package index",
    "ca": "a file of certificates (PEM) that hosts trust when they download packages",
    "runtime": "tf2.18 (with Horovod) or tf2.21; default: by launcher and hosts' Pythons",
    "system": "allow system changes (apt packages, driver, reboot) on hosts of --hosts",
    "allow-mixed": "allow several GPU types in one cluster",
    "json": "print only the result on stdout, as JSON",
    "launcher": f"{' or '.join(LAUNCHERS)}; default: that of --strategy, else {LAUNCHERS[0]}",
    "strategy": ", ".join(names()),
    "ps": "parameter servers of --strategy parameter-server; default: 1",
    "preset": "a set of values for our own training: digits, smoke, ...",
    "set": "a setting of our own training, name=value; repeatable",
    "training": "a folder named training: your copy of the built-in training, changed",
    "script": "your own program, instead of our own training",
    "workdir": "the folder to ship with --script and to run in; default: the script's folder",
    "args": "arguments of --script, quoted as in a shell: --args='--epochs 3'",
    "data": "NAME=URI[,shard|replicate][,file|stream]: a folder or file here, host:/path, s3://, gs://",
    "sagemaker": "give --script the variables that Amazon SageMaker gives: SM_CHANNEL_TRAIN, ...",
    "keras": "2 or 3; default: 2 for a script with Horovod or several workers, else 3",
    "env": "an environment variable of the program, NAME=value; repeatable",
    "env-file": "a file of NAME=value lines",
    "secret": "an environment variable to copy from this shell, never logged; repeatable",
    "outputs": "a glob pattern of the files to fetch; default: all; repeatable",
    "metric": "numbers in the output of --script, NAME=REGEX with one group; repeatable",
    "min": "least value of a metric of the evaluation, NAME=NUMBER; repeatable",
    "max": "largest value of a metric of the evaluation, NAME=NUMBER; repeatable",
    "counts": "numbers of hosts, comma-separated: 1,2,4",
    "of": "ids of runs that exist, comma-separated: compare them, train nothing",
    "random": "draw so many combinations instead of all",
    "at-once": "trials at the same time, each on an equal slice of the hosts (1)",
    "to-end": "also train hopeless combinations to their end",
    "runs": "ids of runs, comma-separated, or folders of results",
    "by": "the metric that names the best run; default: the one that most runs have",
    "sort": "time, duration, cost, or a metric such as accuracy: the best first",
    "here": "on this machine instead of the hosts",
    "resume": "the id of a run: the same program goes on from its checkpoints",
    "checkpoints": "also fetch the newest checkpoint",
    "detach": "return when the run has started",
    "keep": "minutes until machines stop after a failed run (20); prune: newest runs (10)",
    "no-stop": "leave a stack's machines running after the run",
    "max-hours": "cancel the run after so many hours",
    "run": "a run id; default: the last run",
    "to": "a folder for the results; default: results/ where fab train was typed",
    "yes": "do not ask for confirmation",
    "purge": "also remove ~/.railhead from the hosts",
    "discard-results": "go on even if results that would be deleted were not fetched",
    "destroy": "also delete local hosts, or all resources of the stack",
    "with-bucket": "with --destroy: also delete the content of the stack's bucket",
    "refresh": "read from the cloud first which resources still exist",
    "rank": "a rank's number, mpirun or supervisor",
    "endpoint": "the log of the server of this endpoint, instead of a run's",
    "follow": "print new lines until the run ends",
    "cmd": "a shell command",
    "host": "a host's name",
    "folder": "a folder or a file here",
    "name": "the name of an endpoint (model)",
    "port": "a port of 127.0.0.1 on the host",
    "local-port": "the port of this machine; default: the same number; 0: a free one",
    "update": "give the endpoint of this name a new version, without a refused request",
    "model": "with RUN: which of its models, a path in its results; else a file or folder here",
    "trust-model": "with --here: load also a model that is not loaded in a safe mode",
    "max-batch": "samples in one call of the model (32); 1: no batching",
    "max-delay": "milliseconds that a sample waits for others (2)",
    "server": "railhead (default), or tensorflow-serving: the host's tensorflow_model_server",
    "file": "a .json, .npy, .csv, .png or .jpg file here",
    "samples": "so many held-out samples of the data of the run",
    "source": "a folder or a file here, s3://, gs://",
    "destination": "a new folder here, or a new prefix of s3:// or gs://",
    "shards": "number of files (16); a multiple of 8 reads fastest",
    "split": "train (default), validation or test: which samples are written",
    "uri": "s3://bucket/prefix, gs://bucket/prefix, or bucket: the stack's own",
}


# Before a task, -f is Fabric's own: a configuration file.
SHORT = {"follow": "f"}
REPEATABLE = ()  # the default of an option that may be given several times


class _Task(Task[Any]):
    """An Invoke task whose options have the short forms of `SHORT` and no others. `dry`: with the
    core option --dry it prints its plan and changes nothing."""

    dry = False

    def arg_opts(self, name: str, default: Any, taken_names: set[str]) -> dict[str, Any]:
        if default == REPEATABLE:  # Invoke would take its type for that of one value
            default = None
        found = super().arg_opts(name, default, taken_names)
        if name in SHORT:
            found["names"].append(SHORT[name])
        return found


def task(
    *, name: str | None = None, positional: tuple[str, ...] = (), dry: bool = False
) -> Callable[[Callable[..., None]], Task[Any]]:
    """An Invoke task with the help texts of `HELP` and the exit codes of `report_errors`. An option
    whose default is `()` may be given several times. `dry`: its body obeys --dry."""

    def decorate(body: Callable[..., None]) -> Task[Any]:
        parameters = inspect.signature(body).parameters
        options = {name.replace("_", "-") for name in parameters}
        made = _Task(
            report_errors(body),
            name=name,
            help={option: text for option, text in HELP.items() if option in options},
            iterable=[name for name, one in parameters.items() if one.default == REPEATABLE],
            positional=list(positional),
            auto_shortflags=False,
        )
        made.dry = dry
        return made

    return decorate


def target_of(
    hosts: str | None,
    stack: str | None,
    slots: str | None = None,
    start: bool = False,
    run: str | None = None,
) -> Target:
    """The hosts of a command, not yet resolved."""
    from bootstrap.cli.targets import Target
    from bootstrap.inventory.hosts import whole_number

    return Target(hosts, stack, whole_number(slots, "--slots", 1, 1024), start, run)


def options_of(
    *,
    mixed: bool,
    system: bool = False,
    requirements: str | None = None,
    peer_address: str | None = None,
    runtime: str | None = None,
    launcher: str | None = None,
    proxy: str | None = None,
    ca: str | None = None,
) -> Options:
    """The validated options for making hosts ready; UsageError for an invalid value."""
    from bootstrap.inventory.hosts import check_peer_address
    from bootstrap.plan.cluster import Options
    from bootstrap.plan.internet import Internet, read_proxy
    from bootstrap.plan.runtimes import row_named

    if runtime is not None:
        row_named(runtime, launcher)
    texts = [text.strip() for text in (peer_address or "").split(",")]
    addresses = tuple(check_peer_address(text) for text in texts if text)
    path = Path(requirements) if requirements else None
    internet = Internet(
        read_proxy(proxy, os.environ.get("RAILHEAD_PROXY", "")), _certificates(ca) if ca else ""
    )
    return Options(
        system, path, addresses, launcher, runtime, mixed, _debian_mirror(), internet
    )  # fmt: skip


def _certificates(file: str) -> str:
    """The text of the certificates in a file; UsageError if it is not such a file."""
    from bootstrap.errors import UsageError
    from bootstrap.plan.internet import MOST_CERTIFICATES, check_certificates

    try:
        with Path(file).open(encoding="utf-8", errors="replace") as opened:
            text = opened.read(MOST_CERTIFICATES + 1)
    except OSError as error:
        raise UsageError(f"--ca {file}: {error.strerror}") from None
    return check_certificates(file, text)


def _debian_mirror() -> str:
    """The Debian mirror in $DEBIAN_MIRROR, or ""; UsageError if it is not a URL."""
    from bootstrap.errors import UsageError

    url = os.environ.get("DEBIAN_MIRROR", "")
    if url and not re.fullmatch(r"https?://[^\s@/]+(/\S*)?", url):
        rule = "an address like http://archive.example/debian, without a name and password"
        raise UsageError(f"DEBIAN_MIRROR: {rule}")
    return url
