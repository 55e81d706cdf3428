"""Writes what follows from the declared options: `make generate`.

That is `bootstrap/interface/methods.py`, the signatures and docstrings of the Python interface as
source, so that editors and type checkers see them. `pages` generates the tables of the pages.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import field
from itertools import chain
from pathlib import Path
from typing import Any

from railhead.documents.lazy import dataclass
from railhead.documents.options import jobs
from railhead.documents.options.hosts import ReadyOptions, TargetOptions
from railhead.documents.options.option import Only, Option, chosen, only, options_in
from railhead.documents.options.runs import (
    EndingOptions,
    EvaluateOptions,
    ProgramOptions,
    ScaleOptions,
    StartOptions,
    SweepOptions,
)
from railhead.documents.options.serving import DeployOptions
from railhead.installation import PROJECT

from ..plan.runtimes import REPO
from . import result_tasks
from .task import help_text

METHODS_FILE = REPO / "bootstrap/interface/methods.py"
PACKAGES = only("requirements", "runtime")
OF_SERIES = set(result_tasks.SERIES) - {*PACKAGES.names}

PROGRAM_NAMES = [option.name for option in options_in(ProgramOptions)]
WITHOUT_PACKAGES = only(*(name for name in PROGRAM_NAMES if name not in PACKAGES.names))


@dataclass(frozen=True)
class Method:
    """A method: its options as groups; what does the work is `_NAME`, written by hand.

    `first`: options that need not be named. `typed`: other annotations than those of the options.
    `fixed`: options that the object knows. `extra`: parameters that are not options of `fab`.
    """

    name: str
    doc: str
    groups: tuple[tuple[type[Any], Only | None], ...]
    returns: str
    first: tuple[str, ...] = ()
    typed: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)
    extra: tuple[tuple[str, str, str], ...] = ()

    @property
    def options(self) -> list[Option]:
        """All options, those of `first` before the others."""
        options = chain.from_iterable(chosen(group, selection) for group, selection in self.groups)
        return sorted(options, key=lambda option: option.name not in self.first)

    def source(self) -> str:
        """The method, and the abstract one that it calls."""
        hidden = "_configure" if self.name == "__init__" else f"_{self.name}"
        parameters = [self._parameter(option) for option in self.options]
        parameters.insert(len(self.first), "*")
        parameters += [f"{name}: {kind}" for name, kind, _ in self.extra]
        kinds = [group.__name__ for group, _ in self.groups]
        values = [f"_read({kind}, arguments)" for kind in kinds]
        values += [name for name, _, _ in self.extra]
        names = [f"{kind.removesuffix('Options').lower()}: {kind}" for kind in kinds]
        names += [f"{name}: {kind.partition(' = ')[0]}" for name, kind, _ in self.extra]
        call = f"self.{hidden}({', '.join(values)})"
        body = call if self.returns == "None" else f"return {call}"
        fixed = "".join(f' | {{"{name}": {value}}}' for name, value in self.fixed.items())
        return (
            f"    def {self.name}(self, {', '.join(parameters)},) -> {self.returns}:\n"
            f'        """{self._docstring()}"""\n        arguments = locals(){fixed}\n'
            f"        {body}\n\n"
            f"    @abstractmethod\n    def {hidden}(self, {', '.join(names)}) -> {self.returns}:"
            " ...\n"
        )

    def _parameter(self, option: Option) -> str:
        text = f"{option.name}: {self.typed.get(option.name) or annotation(option)}"
        return text if option.required or _needed(option) else f"{text} = {default(option)}"

    def _docstring(self) -> str:
        shared = [] if self.name == "train" else self._of_train()
        described_here = [option for option in self.options if option.name not in shared]
        about = [f"{option.name}: {described(option)}" for option in described_here]
        about += [f"{', '.join(shared)}: as for `Cluster.train`"] if shared else []
        about += [f"{name}: {text}" for name, _, text in self.extra]
        head, _, raises = self.doc.partition("\n")
        lines = [
            *_wrapped(head, ""),
            "",
            "Args:",
            *(line for text in about for line in _wrapped(text)),
        ]
        if raises:
            lines += ["", "Raises:", *_wrapped(raises)]
        return "\n".join(f"        {line}".rstrip() for line in lines).strip() + "\n        "

    def _of_train(self) -> list[str]:
        """The options of a program and of its start that `train` has, and describes."""
        groups = [pair for pair in self.groups if pair[0] in (ProgramOptions, StartOptions)]
        options = chain.from_iterable(chosen(group, selection) for group, selection in groups)
        return [option.name for option in options if option.name not in PACKAGES.names]


def _wrapped(text: str, indent: str = "    ") -> list[str]:
    later = indent and f"{indent}    "
    return textwrap.wrap(text, 84, initial_indent=indent, subsequent_indent=later)


def described(option: Option) -> str:
    """An option of Python: its help, and the option of `fab` where that has another name."""
    text = option.rule.python or help_text(option)
    text = text.replace("; repeatable", "").replace("; separated by commas", "")
    if option.kind == "flag" and option.default:
        text = f"False: {text}"
    return text if option.flag == option.name.replace("_", "-") else f"{text} (--{option.flag})"


def annotation(option: Option) -> str:
    """The type of an option as a parameter of Python, wider than that of its value."""
    if option.kind == "mapping":
        inner = {float: "float", str: "Any"}.get(option.item, "Sequence[Any] | str")
        return f"Mapping[str, {inner}]" + ("" if _needed(option) else " | None")
    if option.kind == "list":
        return f"Sequence[{'int' if option.item is int else 'str'}]"
    kinds = {"flag": "bool", "int": "int", "float": "float"}
    kind = kinds.get(option.kind, "str")
    if any(str(choice).isdigit() for choice in option.rule.choices):
        kind = "int | str"
    if option.rule.path:
        kind = "str | Path"
    if option.rule.joined:
        kind = "Arguments" if option.rule.joined == " " else "str | Sequence[str]"
    return kind if option.default is not None else f"{kind} | None"


def _needed(option: Option) -> bool:
    """Whether a call without it has nothing to do."""
    return option.name in ("values", "counts")


def default(option: Option) -> str:
    """The default of a parameter, as source."""
    return "None" if option.kind == "mapping" else repr(option.default)


CLASSES = {
    "ClusterMethods": (
        Method(
            "__init__",
            "The hosts of runs, and how they are made ready.",
            (
                (TargetOptions, only("hosts", "slots")),
                (ReadyOptions, only("system", "peer_address", "allow_mixed")),
                (ProgramOptions, PACKAGES),
            ),
            "None",
            first=("hosts",),
            typed={"peer_address": "str | Sequence[str]"},
            extra=(
                (
                    "results",
                    'str | Path = "results"',
                    "the folder for the results of runs; default: `results` in the current folder",
                ),
            ),
        ),
        Method(
            "train",
            "Start a training and, unless `wait` is False, follow it to its end: `fab train`.\n"
            "UsageError: nothing was started. RunFailed: the run failed or was cancelled."
            " BelowThreshold: the evaluation missed a threshold; the run succeeded.",
            (
                (ProgramOptions, WITHOUT_PACKAGES),
                (EndingOptions, None),
                (StartOptions, None),
            ),
            "Run",
            typed={"resume": "Run | str | None"},
        ),
        Method(
            "sweep",
            "Train each combination of `values`, and compare them: `fab sweep`. The same call"
            " continues after a break.\n"
            "UsageError: nothing was started. RailheadError: some trials did not end.",
            (
                (SweepOptions, None),
                (ProgramOptions, only(*OF_SERIES)),
                (StartOptions, only("retries")),
            ),
            "Sweep",
            first=("values",),
        ),
        Method(
            "scale",
            "Train on each number of hosts in `counts`, and name where more hosts stop paying:"
            " `fab scale`; returns the page.\n"
            "UsageError: nothing was started. RailheadError: a run failed.",
            (
                (ScaleOptions, only("counts")),
                (ProgramOptions, only("settings", *OF_SERIES)),
                (StartOptions, only("retries")),
            ),
            "Path",
            first=("counts",),
        ),
    ),
    "RunMethods": (
        Method(
            "evaluate",
            "Evaluate the model of the run on held-out data: `fab evaluate`; returns"
            " evaluation.json. For a run of a script, without `script` and `data`: judges what the"
            " script has reported.\n"
            "BelowThreshold: the evaluation missed a threshold.",
            (
                (EvaluateOptions, only("here", "model")),
                (
                    ProgramOptions,
                    only("data", "minimum", "maximum", "script", "args", "metrics"),
                ),
            ),
            "dict[str, Any]",
            fixed={"run": "self.run_id"},
        ),
        Method(
            "deploy",
            "Serve the model of the run until its time-to-live is over: `fab deploy`.\n"
            "UsageError: a wrong option, no model, or an endpoint of this name serves already.",
            ((DeployOptions, None), (TargetOptions, only("hosts", "stack"))),
            "Endpoint",
            first=("name",),
        ),
    ),
}


def methods() -> str:
    """The source of methods.py; what is above its classes is written by hand."""
    above, *_ = METHODS_FILE.read_text().partition("\n\nclass ")
    parts = [f"{above}\n"]
    for name, class_methods in CLASSES.items():
        parts += [f"\n\nclass {name}(ABC):", '    """Its options are checked here."""\n']
        if name == "RunMethods":
            parts.append("    run_id: str\n")
        parts.append("\n".join(method.source() for method in class_methods))
    argv = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(METHODS_FILE), "-"]
    process = subprocess.run(
        argv, input="\n".join(parts), capture_output=True, text=True, check=True
    )
    return process.stdout


def files() -> dict[Path, str]:
    """The content of each generated file."""
    return {
        METHODS_FILE: methods(),
        PROJECT / "Pulumi.yaml": pulumi_project(),
        PROJECT / "railhead.schema.json": json.dumps(jobs.schema(), indent=1) + "\n",
    }


def pulumi_project() -> str:
    """The Pulumi.yaml that `railhead init` writes: the clone's, for another program."""
    text = (REPO / "Pulumi.yaml").read_text()
    return re.sub(
        r"# No `virtualenv`.*\n(runtime: python\n)main: stacks/\n",
        r"\1main: railhead_stack.py\n",
        text,
    )


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content)
