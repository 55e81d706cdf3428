"""Options: which hosts a command is about, how they are made ready, and the machines of a stack."""

from __future__ import annotations

from dataclasses import dataclass

from railhead.documents.options.option import option

HOURS = {"at_least": 0.1, "at_most": 168}


@dataclass(frozen=True)
class TargetOptions:
    """Which hosts: `hosts`, else the machines of `stack`, else the hosts of `run`, else the
    machines of the selected stack, else the hosts of the last command."""

    hosts: str | None = option(
        None,
        "user@host:port*slots, comma-separated; default: a stack's hosts, else the last ones",
        doc="[which hosts](#hosts)",
        joined=",",
    )
    stack: str | None = option(
        None, "a Pulumi stack; default: the selected stack", doc="[which stack](#hosts)"
    )
    run: str | None = option(None, "a run id; default: the last run")
    slots: int | None = option(
        None,
        "Horovod ranks per host; default: one per GPU, or one",
        doc="ranks on each host that has no `*slots` of its own, 1 to 1024; used by `horovod` and"
        " `parameter-server`",
        at_least=1,
        at_most=1024,
    )
    start: bool = option(
        False,
        "start the stack's machines that do not run",
        doc="start machines of a stack that are stopped, as [`fab start`](#start) does. Without it"
        " there is a question at a terminal; elsewhere the exit code is 2",
    )


@dataclass(frozen=True)
class ReadyOptions:
    """How hosts are made ready for a run."""

    peer_address: tuple[str, ...] = option(
        (),
        "IP addresses that the hosts use among each other, comma-separated, in order",
        doc="the IP addresses that the hosts use among themselves, in the order of the hosts,"
        " separated by commas. Default: the address of each host on its route to the others",
        separator=",",
    )
    system: bool = option(
        False,
        "allow system changes (apt packages, driver, reboot) on hosts of --hosts",
        doc="allow [system changes](#system-changes-privileged) on ad-hoc hosts: packages, a"
        " driver, a restart",
    )
    allow_mixed: bool = option(
        False,
        "allow several GPU types in one cluster",
        doc="allow GPUs of several types in one cluster. Each step waits for the slowest, and each"
        " batch must fit the smallest memory",
    )
    proxy: str | None = option(
        None,
        "http://HOST:PORT, through which hosts reach the package index",
        doc="`http://HOST:PORT`: hosts reach the package index through this proxy"
        " ([below](#proxy-and-certificates))",
    )
    ca: str | None = option(
        None, "a file of certificates (PEM) that hosts trust when they download packages"
    )


@dataclass(frozen=True)
class JsonOption:
    """The output of a task for programs."""

    json: bool = option(False, "print only the result on stdout, as JSON")


@dataclass(frozen=True)
class TeardownOptions:
    """What `fab teardown` ends and removes."""

    purge: bool = option(
        False,
        "also remove ~/.railhead from the hosts",
        doc="also remove `~/.railhead` from the hosts: runtimes, runs, data, everything. Refused"
        " while results are not all fetched. No effect on machines of a stack",
    )
    discard_results: bool = option(
        False,
        "continue even if results that would be deleted were not fetched",
        doc="with `--purge` or `--destroy`, and for spot machines on AWS: also when results are not"
        " fetched",
    )
    destroy: bool = option(
        False,
        "also delete local hosts, or all resources of the stack",
        doc="hosts of `fab demo`: also remove their homes and their record. Machines of a stack:"
        " remove all that the stack made; refused while results are neither here nor in a bucket"
        " that stays",
    )
    yes: bool = option(
        False,
        "do not ask for confirmation",
        doc="do not ask for the name of the stack (with `--destroy`, and for spot machines on AWS)",
    )
    with_bucket: bool = option(
        False,
        "with --destroy: also delete the content of the stack's bucket",
        doc="with `--destroy`: also remove all objects in the bucket of the stack, with old"
        " versions",
    )


@dataclass(frozen=True)
class UpOptions:
    """How `fab up` asks, and what it reads first."""

    yes: bool = option(False, "no preview and no question")
    refresh: bool = option(
        False,
        "read from the cloud first which resources still exist",
        doc="read from the cloud first which resources still exist: machines that are gone are made"
        " again, with empty disks and new deadlines",
    )


@dataclass(frozen=True)
class DeadlineOptions:
    """When the cloud stops the machines."""

    hours: float | None = option(
        None, "hours from now until the cloud stops the machines, 0.1 to 168", **HOURS
    )


@dataclass(frozen=True)
class HostName:
    """One of the hosts."""

    host: str = option(
        help="a host's name", doc="the name of the host; `fab ssh NAME` is the same",
        positional=True,
    )  # fmt: skip


@dataclass(frozen=True)
class CommandOptions:
    """What `fab exec` runs."""

    cmd: str | None = option(None, "a shell command", doc="the command, for `sh`")
