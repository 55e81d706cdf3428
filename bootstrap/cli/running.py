"""What runs in this process: its options, and how its errors become messages and exit codes."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from railhead.installation import PROGRAM

from ..console import interrupts, log
from ..console.output import error_as_json, shown_on
from ..errors import FAILED, INTERRUPTED, Command, Hint, RailheadError, Terminated, refusal

if TYPE_CHECKING:
    from railhead.documents.outputs import ErrorOutput

    from .task import Task

Texts = Mapping[str, Any]  # what was typed, by the options' parameters
TARGETS = ("hosts", "stack")
INTERNAL = "this is an error in Railhead, not in your command"
BY_RECORD = ("undeploy", "predict")  # an endpoint is found by its name; the hint says if it is not


class Running:
    """The command of this process. `tasks`: those that its messages may name; empty where a task is
    called from Python. The others: whether these options were typed."""

    tasks: Mapping[str, Task] = {}
    debug = quiet = dry = False


RUNNING = Running()


class Exit(Exception):
    """The end of the command: a message for stderr, if there is one, and the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.message, self.code = message, code


def output_closed() -> Exit:
    """Exit 1 after the reader closed our stdout, as `| head` does; discard further output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit("", FAILED)


@contextmanager
def reported(name: str, options: Texts) -> Iterator[None]:
    """Turns errors of a task into Exit; prints a traceback only for internal errors.

    Args:
        name: the task's, as it is typed. options: what was typed, by the options' parameters.
    """
    _handle_signals()
    shows_log = RUNNING.debug or os.environ.get("RAILHEAD_DEBUG", "0") not in ("", "0")
    with log.command(name, sys.argv[1:], live=shows_log) as file:
        try:
            with error_as_json(bool(options.get("json")), partial(error_output, options=options)):
                yield
        except RailheadError as error:
            error.next = _with_target(error.next, options)
            raise _exit(f"{PROGRAM} {name}: {error}", error.code) from None
        except BrokenPipeError:
            raise output_closed() from None
        except KeyboardInterrupt as end:
            event = "terminated" if isinstance(end, Terminated) else "interrupted"
            if end.args:
                event += f" while it waited for {', '.join(map(str, end.args))}"
            hint = Hint(Command("status"), "   # shows the hosts and the run")
            then = _with_target(hint, options)
            raise _exit(f"{PROGRAM} {name}: {event}\n  next: {then}", INTERRUPTED) from None
        except Exit:
            raise
        except Exception as error:
            if isinstance(error, OSError) and (refused := refusal(error)):
                log.mistake()
                refused.next = _with_target(refused.next, options)
                raise _exit(f"{PROGRAM} {name}: {refused}", refused.code) from None
            traceback.print_exc()
            raise Exit(_internal_error(file), FAILED) from None


def error_output(error: BaseException, options: Texts) -> ErrorOutput:
    """What a task with --json prints of an error."""
    from railhead.documents.outputs import ErrorOutput  # imported late: few commands fail

    if isinstance(error, OSError):
        error = refusal(error) or error
    if isinstance(error, RailheadError):
        following = str(_with_target(error.next, options)) or None
        return ErrorOutput(error=error.message, next=following, exit_code=error.code)
    if isinstance(error, Exit):
        message, _, hint = error.message.partition("\n  next: ")
        return ErrorOutput(error=message, next=hint or None, exit_code=error.code)
    if isinstance(error, KeyboardInterrupt):
        return ErrorOutput(error="interrupted", exit_code=INTERRUPTED)
    return ErrorOutput(error=INTERNAL, exit_code=FAILED)


def _exit(message: str, code: int) -> Exit:
    return Exit(shown_on(sys.stderr, message), code)


def _with_target(hint: Hint, options: Texts) -> Hint:
    """The hint, with `--hosts` or `--stack` as typed in each command that names no hosts itself.

    Args:
        options: the values of the task's options by name, as they were typed; for a command that
            names only a run, the hosts or the stack of the run are used.
    """
    if not RUNNING.tasks:
        return hint
    return hint.completed(partial(_aimed, options=_with_hosts_of_run(options), tasks=RUNNING.tasks))


def _aimed(command: Command, options: Texts, tasks: Mapping[str, Task]) -> Command:
    name = command.task.replace(" ", "-")
    if name not in tasks or name in BY_RECORD:  # the fabfile may have some of our tasks only
        return command
    flags = {option.flag for option in tasks[name].options()}
    typed = [target for target in TARGETS if options.get(target) and target in flags]
    return command.at({target: options[target] for target in typed})


def _with_hosts_of_run(options: Texts) -> Texts:
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
