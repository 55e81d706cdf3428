"""`railhead init`: the files of a project, in a folder outside the clone."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from railhead.installation import ADD_STACKS, PROJECT

from ..console.output import print_lines
from ..errors import Command
from ..inventory import pulumi_cli
from ..inventory.files import atomic_write

# Of railhead/project.
FILES = (pulumi_cli.PROJECT_FILE, "railhead_stack.py", "fabfile.py", "railhead.toml")


def init(folder: Path) -> None:
    """Write those files that `folder` lacks; none is replaced.

    Raises:
        OSError: the folder cannot be written to.
    """
    for name, text in files().items():
        if (folder / name).exists():
            print_lines(f"kept     {name}")
        else:
            atomic_write(folder / name, text, mode=0o644)
            print_lines(f"written  {name}")
    print_lines(*_about_stacks(folder))
    print_lines(f"next: {Command('train', hosts='a,b')}   # or: {Command('demo')}")


def files() -> dict[str, str]:
    """The files of a project by name, each with its text."""
    texts = {name: (PROJECT / name).read_text() for name in FILES}
    project = texts[pulumi_cli.PROJECT_FILE].replace("runtime: python\n", _runtime())
    return {**texts, pulumi_cli.PROJECT_FILE: project}


def _runtime() -> str:
    """The Python of this process. Without its `python`, Pulumi looks for one on PATH."""
    if not Path(sys.prefix, "bin/python").exists():
        return "runtime: python\n"
    python = json.dumps(sys.prefix)  # which is YAML
    return f"runtime:\n  name: python\n  options: {{virtualenv: {python}}}  # with Railhead in it\n"


def _about_stacks(folder: Path) -> Iterator[str]:
    """What stacks of this project still need; empty where nothing is missing."""
    if pulumi_cli.project() != folder:
        yield (
            f"{pulumi_cli.PROJECT_FILE} is not a project of Railhead: for stacks, type "
            f"{Command('init')} in another folder"
        )
    if not shutil.which("pulumi"):
        yield f"stacks need the Pulumi CLI: {pulumi_cli.INSTALL}"
    if not find_spec("pulumi"):
        yield f"stacks need Pulumi's packages: {ADD_STACKS}"
