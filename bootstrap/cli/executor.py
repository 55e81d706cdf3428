"""Runs a task once for all hosts, and turns its errors into messages and exit codes.

Fabric by default runs a task once per host of `-H`; a training run uses all hosts at once.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from fabric import Executor
from invoke import Call, Collection, Exit, Task

from railhead.documents.lazy import dataclass
from railhead.installation import PROGRAM

from ..console import interrupts, log
from ..console.output import error_as_json, shown_on
from ..errors import FAILED, INTERRUPTED, USAGE, Command, Hint, RailheadError, Terminated, refusal

if TYPE_CHECKING:
    from railhead.documents.outputs import ErrorOutput

TARGETS = ("hosts", "stack")
INTERNAL = "this is an error in Railhead, not in your command"
TWO_WORDS = ("data",)  # the first word of tasks whose name has two, such as data push
BY_RECORD = ("undeploy", "predict")  # an endpoint is found by its name; the hint says if it is not


class ClusterExecutor(Executor):  # type: ignore[misc]
    """Passes Fabric's core option `--hosts` to the task as an argument; runs the task once."""

    def expand_calls(self, calls: list[Any], apply_hosts: bool = True) -> list[Call]:
        """One call per task of Railhead, with the hosts in its arguments; others as Fabric does."""
        if self.core.remainder:  # Fabric would run it, and accept any host key
            raise Exit(
                "arguments after -- are not passed on: write --args='--epochs 3'", code=USAGE
            )
        expanded: list[Call] = []
        for task in calls:
            call: Call = Call(task) if isinstance(task, Task) else task
            if is_ours(call.task):
                expanded.append(self._of_ours(call))
            else:
                expanded += super().expand_calls([task], apply_hosts)
        return expanded

    def _of_ours(self, call: Call) -> Call:
        if self.config.run.dry:  # also from a configuration file or the environment of Fabric
            _require_dry_run(call.task)
        return self._with_hosts(call, self.core[0].args.hosts.value)

    def _with_hosts(self, call: Call, hosts: str | None) -> Call:
        if hosts is None:
            return call
        if "hosts" not in {argument.name for argument in call.task.get_arguments()}:
            raise Exit(f"{PROGRAM} {dashed(call.task.name)} takes no hosts", code=USAGE)
        if call.kwargs.get("hosts") not in (None, hosts):
            raise Exit("--hosts is given twice, with different hosts", code=USAGE)
        call.kwargs = {**call.kwargs, "hosts": hosts}
        return call


def is_ours(task: Task[Any]) -> bool:
    """Whether a task is one of Railhead's; a fabfile may define others."""
    return getattr(task.body, "of_railhead", False)


def _require_dry_run(task: Task[Any]) -> None:
    """Exit 2 if `--dry` would not keep a task from its changes."""
    if not getattr(task, "dry", False):
        name = dashed(task.name)
        rule = (
            f"--dry is for tasks that have a plan, bootstrap and train: {PROGRAM} {name} has none"
        )
        raise Exit(f"{PROGRAM}: {rule}\n  next: {PROGRAM} --help {name}", code=USAGE)


@dataclass
class Running:
    """The program of this process: its tasks, if it has ours; whether --debug and --quiet were
    typed."""

    collection: Collection | None = None
    debug: bool = False
    quiet: bool = False


RUNNING = Running()


def _shows_log() -> bool:
    return RUNNING.debug or os.environ.get("RAILHEAD_DEBUG", "0") not in ("", "0")


def output_closed() -> Exit:
    """Exit 1 after the reader closed our stdout, as `| head` does; discard further output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit(code=FAILED)


def report_errors(body: Callable[..., None]) -> Callable[..., None]:
    """Turn errors into their message and exit code; print a traceback only for internal errors."""

    @wraps(body)
    def task(*args: Any, **kwargs: Any) -> None:
        name = dashed(body.__name__)
        _handle_signals()
        with log.command(name, sys.argv[1:], live=_shows_log()) as file:
            document = partial(error_output, options=kwargs)
            try:
                with error_as_json(bool(kwargs.get("json")), document):
                    body(*args, **kwargs)
            except RailheadError as error:
                error.next = _with_target(error.next, kwargs)
                raise _exit(f"{PROGRAM} {name}: {error}", error.code) from None
            except BrokenPipeError:
                raise output_closed() from None
            except KeyboardInterrupt as end:
                what = "terminated" if isinstance(end, Terminated) else "interrupted"
                if end.args:
                    what += f" while it waited for {', '.join(map(str, end.args))}"
                hint = Hint(Command("status"), "   # shows the hosts and the run")
                then = _with_target(hint, kwargs)
                raise _exit(f"{PROGRAM} {name}: {what}\n  next: {then}", INTERRUPTED) from None
            except Exit:
                raise
            except Exception as error:
                if isinstance(error, OSError) and (refused := refusal(error)):
                    log.mistake()
                    refused.next = _with_target(refused.next, kwargs)
                    raise _exit(f"{PROGRAM} {name}: {refused}", refused.code) from None
                traceback.print_exc()
                raise Exit(_internal_error(file), code=FAILED) from None

    task.of_railhead = True  # type: ignore[attr-defined]
    return task


def error_output(error: BaseException, options: Mapping[str, Any]) -> ErrorOutput:
    """What a task with --json prints of an error."""
    from railhead.documents.outputs import ErrorOutput  # imported late: few commands fail

    if isinstance(error, OSError):
        error = refusal(error) or error
    if isinstance(error, RailheadError):
        following = str(_with_target(error.next, options)) or None
        return ErrorOutput(error=error.message, next=following, exit_code=error.code)
    if isinstance(error, Exit):
        message, _, hint = (error.message or "").partition("\n  next: ")
        return ErrorOutput(error=message, next=hint or None, exit_code=error.code)
    if isinstance(error, KeyboardInterrupt):
        return ErrorOutput(error="interrupted", exit_code=INTERRUPTED)
    return ErrorOutput(error=INTERNAL, exit_code=FAILED)


def _exit(message: str, code: int) -> Exit:
    return Exit(shown_on(sys.stderr, message), code=code)


def _with_target(hint: Hint, options: Mapping[str, Any]) -> Hint:
    """The hint, with `--hosts` or `--stack` as typed in each command that names no hosts itself.

    Args:
        options: the values of the task's options by name, as they were typed; for a command that
            names only a run, the hosts or the stack of the run are used.
    """
    if RUNNING.collection is None:  # a task that is called from Python
        return hint
    return hint.completed(
        partial(_aimed, options=_with_hosts_of_run(options), tasks=RUNNING.collection)
    )


def _aimed(command: Command, options: Mapping[str, Any], tasks: Collection) -> Command:
    name = command.task.replace(" ", "-")
    if name not in tasks or name in BY_RECORD:  # the fabfile may have some of our tasks only
        return command
    takes = {argument.name for argument in tasks[name].get_arguments()}
    return command.at({one: options[one] for one in TARGETS if options.get(one) and one in takes})


def _with_hosts_of_run(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of a task's options; where only a run names the hosts, with its stack or hosts."""
    from ..inventory import local_state

    if options.get("hosts") or options.get("stack") or not options.get("run"):
        return options
    try:
        cluster = local_state.cluster_of_run(options["run"])
    except RailheadError:  # a name that no run has, or a damaged record
        return options
    if cluster is None:
        return options
    hosts = cluster.host_list if cluster.is_ad_hoc else None
    return {**options, "hosts": hosts, "stack": cluster.stack}


def _handle_signals() -> None:
    """SIGTERM raises Terminated; SIGINT stays ignored where it is, by `fab` alone."""
    signal.signal(signal.SIGTERM, _terminate)
    interrupts.not_inherited()


def _terminate(*_: object) -> None:
    raise Terminated


def _internal_error(file: log.LogFile) -> str:
    """The message for an unexpected exception; the log gets its traceback."""
    log.mistake()
    return f"{INTERNAL}\n  debug log: {file.path}" if file.path else INTERNAL


def dashed(name: str) -> str:
    """A task's name as it is typed: exec_ is exec, ssh_config ssh-config, data_push data push."""
    name = name.rstrip("_").replace("_", "-")
    first, _, second = name.partition("-")
    return f"{first} {second}" if first in TWO_WORDS and second else name
