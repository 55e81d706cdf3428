"""Options: which hosts a command uses, how they are made ready, and the machines of a stack."""

from __future__ import annotations

from railhead.documents.lazy import dataclass
from railhead.documents.options.option import option

HOURS = {"at_least": 0.1, "at_most": 168, "unit": "h"}


@dataclass(frozen=True)
class TargetOptions:
    """Which hosts, by the first of these that applies: `hosts`, the machines of `stack`, the hosts
    of `run`, the machines of the selected stack, the hosts of the last command."""

    hosts: str | None = option(
        None,
        "`user@host:port*slots`, separated by commas; default: those of the stack, or the "
        "last ones used: [which hosts](#hosts)",
        joined=",",
    )
    stack: str | None = option(
        None, "a Pulumi stack; default: the selected one: [which stack](#hosts)"
    )
    run: str | None = option(None, "a run id; default: the last run")
    slots: int | None = option(
        None,
        "ranks on each host without `*slots` in `--hosts`, for `horovod` and "
        "`parameter-server`; default: one per GPU, or one",
        at_least=1,
        at_most=1024,
    )
    start: bool = option(
        False,
        "start the stack's machines that are not running. Without it `fab` asks at a "
        "terminal, and otherwise exits with code 2",
    )


@dataclass(frozen=True)
class ReadyOptions:
    """How hosts are made ready for a run."""

    peer_address: tuple[str, ...] = option(
        (),
        "the IP addresses that the hosts use to reach each other, in their order. Default: those on"
        " the routes between them",
        separator=",",
    )
    system: bool = option(
        False,
        "allow [system changes](#system-changes-privileged) on ad-hoc hosts: packages, a "
        "driver, a restart",
    )
    allow_mixed: bool = option(
        False,
        "allow GPUs of several types in one cluster. Each step waits for the slowest GPU, and"
        " each batch must fit the smallest GPU memory",
    )
    proxy: str | None = option(
        None,
        "`http://HOST:PORT`: hosts reach the package index through this proxy: "
        "[more](#proxy-and-certificates)",
    )
    ca: str | None = option(
        None, "a PEM file of certificates that hosts trust when they download packages", path=True
    )


@dataclass(frozen=True)
class WheelOptions:
    """Which Horovod wheel `fab wheel` builds, and where it is copied to."""

    gpu: bool = option(False, "for GPUs, with NCCL; no GPU is needed to build it")
    python: str | None = option(
        None,
        "the Python version that the wheel is for, such as `3.12`; default: the runtime's first "
        "one that this computer has",
    )
    out: str | None = option(
        None, "a folder for a copy of the wheel, with its sha256 and the pip command", path=True
    )


@dataclass(frozen=True)
class JsonOption:
    """Output of a task for other programs to read."""

    json: bool = option(False, "print only the result on stdout, as JSON")


@dataclass(frozen=True)
class WatchOptions:
    """Whether the output is repeated."""

    watch: bool = option(False, "show it again every few seconds, until Ctrl-C", short="w")


@dataclass(frozen=True)
class TeardownOptions:
    """What `fab teardown` terminates and removes."""

    purge: bool = option(
        False,
        "also remove all of `~/.railhead` (runtimes, runs, data) from the hosts, but not from "
        "machines of a stack. Refused until all results are fetched",
    )
    discard_results: bool = option(
        False,
        "with `--purge` or `--destroy`, and for spot machines on AWS: continue even if "
        "results are not fetched",
    )
    destroy: bool = option(
        False,
        "hosts of `fab demo`: also remove their homes. A stack: delete everything that it "
        "created; refused while results would be lost",
    )
    yes: bool = option(
        False,
        "do not ask for the stack's name to confirm (with `--destroy`, and for spot machines "
        "on AWS)",
        short="y",
    )
    with_bucket: bool = option(
        False,
        "with `--destroy`: also remove all objects in the bucket of the stack, including old "
        "versions",
    )


@dataclass(frozen=True)
class OwnerOptions:
    """Whose machines and other resources a command may stop or remove."""

    owner: str | None = option(
        None, "your name, as in [`owner`](config.md) of the stacks; default: your login name"
    )


@dataclass(frozen=True)
class LeaksOptions:
    """What `fab leaks` removes."""

    end: bool = option(False, "list what leaked and has this owner; with `--yes`, remove it")


@dataclass(frozen=True)
class AllStacksOption:
    """Whether a command is about all stacks."""

    every: bool = option(
        False,
        "the machines of [all stacks](#all-stacks) of this owner in the Pulumi backend",
        flag="all",
    )


@dataclass(frozen=True)
class UpOptions:
    """Whether `fab up` asks for confirmation, and what it reads first."""

    yes: bool = option(False, "no preview and no question", short="y")
    refresh: bool = option(
        False,
        "first check in the cloud which resources still exist: machines that are gone are "
        "created again, with empty disks and new deadlines",
    )
    replace: str | None = option(
        None,
        "a host that is gone: create it again, as `--refresh` does; [the run in progress "
        "takes it back](stacks.md#a-machine-that-is-gone)",
    )


@dataclass(frozen=True)
class DoctorOptions:
    """What `fab doctor` prints."""

    policy: bool = option(
        False,
        "print all rights that the stack needs, and check nothing: on AWS a policy document "
        "of IAM, on Google Cloud a custom role",
    )
    cloud: str | None = option(
        None, "with `--policy`: the rights that any stack there needs", choices=("aws", "gcp")
    )


@dataclass(frozen=True)
class DeadlineOptions:
    """When the cloud stops the machines."""

    hours: float | None = option(None, "time from now until the cloud stops the machines", **HOURS)


@dataclass(frozen=True)
class ExtendOptions:
    """The new deadline of `fab extend`; a text, because of the + of a time that is added."""

    hours: str | None = option(
        None,
        "the new deadline, 0.1 to 168 hours: `4h` from now, or `+4h` after the present one; a"
        " number without a unit is hours",
        unit="h",
    )
    budget: float | None = option(
        None,
        "in place of `--hours`: US dollars for the machines from now on",
        at_least=0.01,
        at_most=1_000_000,
    )


@dataclass(frozen=True)
class PriceOptions:
    """Which machines `fab price` compares."""

    gpus: int = option(1, "the number of GPUs of all machines together", at_least=1, at_most=128)
    gpu: tuple[str, ...] = option(
        (), "the types of GPU, such as `t4,l4,a100`; default: all", separator=","
    )
    hours: float = option(
        1.0, "for how long the machines run", at_least=0.01, at_most=8784, unit="h"
    )
    spot: bool = option(False, "spot prices")
    region: tuple[str, ...] = option(
        (),
        "regions for which to ask the clouds for prices; default: those of the tables",
        separator=",",
    )


@dataclass(frozen=True)
class AdoptOptions:
    """Which machines `fab adopt` records, and where they are."""

    id: str = option(
        text="the id of the machines: the value of their tag `railhead:id` (label `railhead-id` on"
        " Google Cloud)",
        positional=True,
    )
    region: str | None = option(
        None, "the AWS region of the machines; default: those of this computer's records and stacks"
    )
    project: str | None = option(
        None,
        "the Google Cloud project of the machines; default: those of this computer's records "
        "and stacks",
    )


@dataclass(frozen=True)
class HostName:
    """The name of one of the hosts."""

    host: str = option(text="the name of a host", positional=True)


@dataclass(frozen=True)
class KeyOptions:
    """Whose key `fab ssh-key` adds to the hosts, or removes."""

    key: str = option(text="a file with a public SSH key", positional=True, path=True)
    remove: bool = option(False, "remove the key from the hosts, unless it is the last one")


@dataclass(frozen=True)
class TrustOptions:
    """What `fab trust` accepts in place of host keys."""

    job: str | None = option(
        None,
        "trust a [job file](tasks-train.md#job-file) until it changes, instead of host keys",
        path=True,
    )


@dataclass(frozen=True)
class CommandOptions:
    """What `fab exec` runs."""

    cmd: str | None = option(None, "the command, for `sh`")
