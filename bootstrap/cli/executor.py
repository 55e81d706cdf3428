"""Makes `fab` run a task once for all hosts, with exit code 2 for every usage error.

Fabric by default runs a task once per host of `-H`; a training run uses all hosts at once.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from fabric import Executor
from fabric.main import program
from invoke import Call, Exit, Task
from invoke.exceptions import ParseError, UnknownFileType
from invoke.parser.parser import ParseMachine
from invoke.util import yaml  # type: ignore[attr-defined]

from bootstrap.cli.core_options import refuse_without_effect
from bootstrap.cli.hints import with_target
from bootstrap.console import interrupts, log
from bootstrap.console.output import printable
from bootstrap.errors import RailheadError, Terminated, refusal


class ClusterExecutor(Executor):  # type: ignore[misc]
    """Passes Fabric's core option `--hosts` to the task as an argument; runs the task once."""

    def expand_calls(self, calls: list[Any], apply_hosts: bool = True) -> list[Call]:
        """One call per task, with the hosts in its arguments."""
        if self.core.remainder:
            raise Exit("arguments after -- are not passed on: write --args='--epochs 3'", code=2)
        hosts = self.core[0].args.hosts.value
        expanded = [self._with_hosts(call, hosts) for call in calls]
        if self.config.run.dry:  # also from a configuration file or the environment of Fabric
            for call in expanded:
                _require_dry_run(call.task)
        return expanded

    def _with_hosts(self, task: Any, hosts: str | None) -> Call:
        call: Call = Call(task) if isinstance(task, Task) else task
        if hosts is None:
            return call
        if "hosts" not in {argument.name for argument in call.task.get_arguments()}:
            raise Exit(f"fab {_dashed(call.task.name)} takes no hosts", code=2)
        if call.kwargs.get("hosts") not in (None, hosts):
            raise Exit("--hosts is given twice, with different hosts", code=2)
        call.kwargs = {**call.kwargs, "hosts": hosts}
        return call


def _require_dry_run(task: Task[Any]) -> None:
    """Exit 2 if `--dry` would not keep a task from its changes."""
    if not getattr(task, "dry", False):
        name = _dashed(task.name)
        rule = f"--dry is for tasks that have a plan, bootstrap and train: fab {name} has none"
        raise Exit(f"fab: {rule}\n  next: fab --help {name}", code=2)


# Invoke has no argument that is positional and may be left out.
FIRST_ARGUMENT = {"deploy": "--run"}


def name_first_argument(args: list[str]) -> list[str]:
    """`deploy RUN ...` as `deploy --run RUN ...`."""
    option = FIRST_ARGUMENT.get(args[0]) if args else None
    if option and len(args) > 1 and not args[1].startswith("-"):
        return [args[0], option, *args[1:]]
    return args


# `fab data push` is `fab data-push`: tasks whose name may be written as two arguments.
TWO_PART_NAMES = {"data": ("push", "list", "shard")}


def join_task_name(args: list[str]) -> list[str]:
    """`data push ...` as `data-push ...`; Exit if the second part is missing or unknown."""
    choices = TWO_PART_NAMES.get(args[0]) if args else None
    if choices is None:
        return args
    if len(args) > 1 and args[1] in choices:
        return [f"{args[0]}-{args[1]}", *args[2:]]
    given = f", not {args[1]!r}" if len(args) > 1 else ""
    hint = "   # or: ".join(f"fab --help {args[0]} {choice}" for choice in choices)
    wanted = f"{', '.join(choices[:-1])} or {choices[-1]}"
    raise Exit(f"fab {args[0]} takes {wanted}{given}\n  next: {hint}", code=2)


def _parse_tasks() -> None:
    core = program.core
    topic = core[0].args.help
    if isinstance(topic.value, str):
        topic.value, *core.unparsed = join_task_name([topic.value, *core.unparsed])
    else:
        core.unparsed = name_first_argument(join_task_name(core.unparsed))
    _PARSE_TASKS()
    refuse_without_effect(core[0].args.values())


_PARSE_TASKS = program.parse_tasks


def _complete_option(machine: Any) -> None:
    """Refuse a list option without a value, as in `--min $EMPTY`: Invoke takes it for an empty
    list."""
    option = machine.flag
    if option and option.kind is list and not machine.flag_got_value:
        machine.error(f"Flag {option!r} needed value and was not given one!")
    _COMPLETE_OPTION(machine)


_COMPLETE_OPTION = ParseMachine.complete_flag


def install() -> None:
    """Make `fab` use this executor and its exit codes; fabfile.py calls it on import."""
    program.executor_class = ClusterExecutor
    ParseMachine.complete_flag = _complete_option  # type: ignore[assignment,method-assign]
    program.parse_tasks = usage_is_2(_parse_tasks)
    program.parse_cleanup = usage_is_2(program.parse_cleanup)
    program.update_config = usage_is_2(program.update_config)
    program.no_tasks_given = _list_tasks
    if _debug_flag():
        # Invoke has set the root logger to DEBUG, where paramiko and botocore log signed
        # requests. `--debug` shows only the lines of console/log.py.
        logging.getLogger().setLevel(logging.WARNING)


def _list_tasks() -> None:
    """What `fab` alone prints: the tasks, where Fabric prints its own options."""
    program.list_tasks()
    raise Exit(code=0)


def _debug_flag() -> bool:
    """Whether `--debug`, an option of Invoke's own, is on the command line."""
    core = getattr(program, "core", None)
    return bool(core and core[0].args.debug.value)


def _shows_log() -> bool:
    return _debug_flag() or os.environ.get("RAILHEAD_DEBUG", "0") not in ("", "0")


def usage_is_2(parse: Callable[[], None]) -> Callable[[], None]:
    """A step of `fab` before the tasks: the user's errors exit with 2, a closed stdout with 1."""

    def parse_or_exit() -> None:
        try:
            parse()
        except ParseError as wrong:
            # Invoke's message contains a repr: Flag <Argument: preset (p)> needed value ...
            message = re.sub(r"Flag <Argument: ([\w-]+)[^>]*>", r"--\1", str(wrong))
            raise Exit(f"{message}\n  next: {_nearest(wrong)}", code=2) from None
        except BrokenPipeError:
            raise _output_closed() from None
        except (UnknownFileType, OSError, yaml.YAMLError) as wrong:
            raise Exit(f"fab: a configuration of Fabric or ssh: {wrong}", code=2) from None

    return parse_or_exit


def _nearest(wrong: ParseError) -> str:
    """A task or an option like the one that is not known, else where they are listed."""
    found = re.search(r"No idea what '(.+?)' is", str(wrong))
    unknown = found[1] if found else ""
    context = wrong.context
    if context is None or context.name is None:
        names = [_dashed(name) for name in program.collection.task_names]
        near = difflib.get_close_matches(unknown, names, n=1)
        return f"fab {near[0]}" if near else "fab --list"
    near = difflib.get_close_matches(unknown, list(context.flags), n=1)
    return f"fab {context.name} {near[0]}" if near else f"fab --help {context.name}"


def _output_closed() -> Exit:
    """Exit 1 after the reader closed our stdout, as `| head` does; discard further output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit(code=1)


def report_errors(body: Callable[..., None]) -> Callable[..., None]:
    """Turn errors into their message and exit code; print a traceback only for internal errors."""

    @wraps(body)
    def task(*args: Any, **kwargs: Any) -> None:
        name = _dashed(body.__name__)
        _handle_signals()
        with log.command(name, sys.argv[1:], live=_shows_log()) as file:
            try:
                body(*args, **kwargs)
            except RailheadError as error:
                error.hint = _with_target(error.hint, kwargs)
                raise Exit(printable(f"fab {name}: {error}"), code=error.code) from None
            except BrokenPipeError:
                raise _output_closed() from None
            except KeyboardInterrupt as end:
                what = "terminated" if isinstance(end, Terminated) else "interrupted"
                if end.args:
                    what += f" while it waited for {', '.join(map(str, end.args))}"
                hint = _with_target("fab status   # shows the hosts and the run", kwargs)
                raise Exit(f"fab {name}: {what}\n  next: {hint}", code=1) from None
            except Exit:
                raise
            except Exception as error:
                if isinstance(error, OSError) and (refused := refusal(error)):
                    log.mistake()
                    refused.hint = _with_target(refused.hint, kwargs)
                    raise Exit(printable(f"fab {name}: {refused}"), code=refused.code) from None
                traceback.print_exc()
                raise Exit(_internal_error(file), code=1) from None

    return task


def _with_target(hint: str, given: Mapping[str, Any]) -> str:
    tasks = getattr(program, "collection", None)
    if tasks is None:  # a task that is called from Python
        return hint
    given = _with_hosts_of_run(given)
    return with_target(hint, given, {_dashed(name): tasks[name] for name in tasks.task_names})


def _with_hosts_of_run(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of a task's options; where only a run names the hosts, with its stack or hosts."""
    from bootstrap.inventory import local_state

    if given.get("hosts") or given.get("stack") or not given.get("run"):
        return given
    try:
        cluster = local_state.cluster_of_run(given["run"])
    except RailheadError:  # a name that no run has, or a damaged record
        return given
    if cluster is None:
        return given
    hosts = cluster.host_list if cluster.is_ad_hoc else None
    return {**given, "hosts": hosts, "stack": cluster.stack}


def _handle_signals() -> None:
    """SIGTERM raises Terminated; SIGINT stays ignored where it is, by `fab` alone."""
    signal.signal(signal.SIGTERM, _terminate)
    interrupts.not_inherited()


def _terminate(*_: object) -> None:
    raise Terminated


def _internal_error(file: log.LogFile) -> str:
    """The message for an unexpected exception; the log gets its traceback."""
    log.mistake()
    message = "this is an error in Railhead, not in your command"
    return f"{message}\n  debug log: {file.path}" if file.path else message


def _dashed(name: str) -> str:
    """A task's name on the command line: exec_ becomes exec, ssh_config ssh-config."""
    return name.rstrip("_").replace("_", "-")
