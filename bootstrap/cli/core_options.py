"""The options that stand before or after each task."""

from __future__ import annotations

from railhead.documents.lazy import dataclass
from railhead.documents.options.option import option

SHELLS = ("bash", "fish", "zsh")


@dataclass(frozen=True)
class CoreOptions:
    """`fab --help` lists them. Those of a task with the same name come first."""

    hosts: str | None = option(None, "user@host:port*slots, separated by commas", short="H")
    dry: bool = option(False, "bootstrap, train: print the plan, change nothing", short="R")
    debug: bool = option(False, "also print the debug log on stderr", short="d")
    quiet: bool = option(False, "print only errors and the result", short="q")
    ssh: bool = option(False, "log in by your own ssh, also where paramiko could")
    help: bool = option(False, "this page, or the options of a task", short="h")
    list: bool = option(False, "each task with a line", short="l")
    list_format: str | None = option(None, "of --list", short="F", choices=("flat", "json"))
    search_root: str | None = option(
        None, "where the fabfile is; default: here, else Railhead", short="r", path=True
    )
    collection: str | None = option(None, "a module other than fabfile", short="c")
    complete: bool = option(False, "completions of a command, for the script of a shell")
    print_completion_script: str | None = option(None, "that script", choices=SHELLS)
    version: bool = option(False, "the versions of Railhead and Fabric", short="V")
