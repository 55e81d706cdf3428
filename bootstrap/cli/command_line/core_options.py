"""The core options of Fabric and Invoke: those that work with our tasks, and those refused.

Our tasks open their own connections, so most of these options would have no effect: a user who
typed `--dry` would find the hosts changed. What is on neither list, such as an option of a newer
Fabric, is refused too.
"""

from __future__ import annotations

from collections.abc import Iterable

from invoke import Argument, Exit

from railhead.installation import PROGRAM

from ...errors import USAGE, Command, Hint

# By name: what stands for its value, and the line of `fab --help`.
WORKING = {
    "hosts": ("HOSTS", "user@host:port*slots, comma-separated: --hosts of the task"),
    "dry": ("", "bootstrap, train: print the plan, change nothing"),
    "debug": ("", "also print the debug log on stderr"),
    "quiet": ("", "print only errors and the result"),
    "ssh": ("", "log in by your own ssh, also where paramiko could"),
    "help": ("[TASK]", "this page, or the options of a task"),
    "list": ("", "each task with a line"),
    "list-format": ("FORMAT", "flat, nested or json"),
    "list-agent-keys": ("", "the keys in your ssh-agent"),
    "search-root": ("FOLDER", "where the fabfile is; default: here, else Railhead"),
    "collection": ("NAME", "a module other than fabfile"),
    "complete": ("", "completions of a command, for the script of a shell"),
    "print-completion-script": ("SHELL", "that script, for bash, zsh or fish"),
    "write-pyc": ("", "let Python store the compiled fabfile"),
    "version": ("", "the versions of Fabric, Paramiko and Invoke"),
}
_SSH_CONFIG = "~/.ssh/config, which every task reads"
# By name: what to type or do instead.
INSTEAD: dict[str, Hint | str] = {
    "command-timeout": Hint(Command("train", max_hours=2), "   # ends the run"),
    "config": f"{PROGRAM} --help TASK   # settings are options of tasks; a stack's: pulumi config",
    "connect-timeout": Hint(
        Command("status"), "   # a host that does not answer is named after some seconds"
    ),
    "echo": f"{PROGRAM} --debug TASK   # prints what runs where",
    "hide": f"{PROGRAM} TASK >/dev/null   # errors are still printed",
    "identity": f"ssh-add KEYFILE   # or: IdentityFile in {_SSH_CONFIG}",
    "list-depth": f"{PROGRAM} --list   # the tasks have one level",
    "no-dedupe": f"{PROGRAM} TASK TASK   # each task that is named runs, also twice",
    "prompt-for-login-password": "ssh-copy-id USER@HOST   # hosts are reached with keys",
    "prompt-for-passphrase": "ssh-add   # the ssh-agent then holds the key",
    "prompt-for-sudo-password": Hint(
        Command("ssh", "HOST"), "   # --system needs root, or sudo without a password"
    ),
    "pty": Hint(Command("ssh", "HOST"), "   # a shell with a terminal"),
    "ssh-config": f"ssh -G HOST   # shows what applies; put the settings into {_SSH_CONFIG}",
    "warn-only": f"{PROGRAM} TASK || true   # a task reports every host before it fails",
}


def refuse_without_effect(arguments: Iterable[Argument]) -> None:
    """Exit 2 if one of these core options was typed and has no effect on our tasks."""
    for argument in arguments:
        name = name_of(argument)
        if argument.got_value and name not in WORKING:
            hint = INSTEAD.get(name, f"{PROGRAM} --help   # the options that work")
            rule = "this option of Fabric has no effect on Railhead's tasks"
            raise Exit(f"{PROGRAM}: --{name}: {rule}\n  next: {hint}", code=USAGE)


def name_of(argument: Argument) -> str:
    """The long name of an option; Fabric's own have their letter first."""
    return max(argument.names, key=len)


def flags_of(argument: Argument) -> str:
    """How a working option is typed, such as `-H, --hosts HOSTS`; the short form first."""
    names = sorted(argument.names, key=len)
    flags = ", ".join(f"-{name}" if len(name) == 1 else f"--{name}" for name in names)
    return f"{flags} {WORKING[name_of(argument)][0]}".rstrip()
