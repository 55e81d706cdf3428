"""The names of a run's files on the user's computer: no tool there runs a file because of its name.

A program on a host chooses the names of its results. git runs what `.git/config` says as soon as
somebody types `git status` there, make runs a Makefile, and so on: such names are changed.
"""

from __future__ import annotations

import re
import unicodedata

# Hidden files belong to tools: all get another name, except those that are data.
DATA = {".zarray", ".zattrs", ".zgroup", ".zmetadata", ".hydra", ".ipynb_checkpoints"}
HIDDEN = "dot-"  # .git becomes dot-git
CHANGED = ".fetched"  # Makefile becomes Makefile.fetched

# Files that a tool opens in the folder where somebody works, without their names being typed.
FILES_OF = {
    "git": r"head|git~\d+",  # HEAD: without it, a folder is not a bare repository
    "Fabric, Invoke": r"(fabric|invoke)\.(ya?ml|json|py)|(fabfile|tasks)\.py|railhead\.toml",
    "Pulumi": r"pulumi(\..*)?\.ya?ml",
    "make and the like": r"(gnu)?makefile|justfile|taskfile.*\.ya?ml|rakefile|snakefile|dvc\.yaml"
    r"|sconstruct|(noxfile|dodo)\.py|tox\.ini",
    "Python": r"(site|user)customize\.(pyc?|.*so)|conftest\.py|pytest\.(ini|toml)|setup\.(py|cfg)"
    r"|py(project|lock)\.toml|pyvenv\.cfg|uv\.toml|pipfile",
    "Jupyter": r"(jupyter|ipython).*_config\.(py|json)",
    "JavaScript": r"package\.json|.*\.config\.[cm]?[jt]s|bunfig\.toml|deno\.jsonc?",
    "environments": r"mise(\..*)?\.toml|(flake|shell|default|devenv)\.nix|dev(box\.json|env\.yaml)",
    "editors": r"_g?vimrc|_exrc|.*\.code-workspace|.*\.sublime-project",
    "hooks and machines": r"lefthook.*\.(ya?ml|toml|json)|vagrantfile|(docker-)?compose.*\.ya?ml"
    r"|ansible\.cfg|.*\.tf(\.json)?",
    "desktops": r".*\.desktop|autorun\.inf|desktop\.ini",
}
FOLDERS_OF = {"Windows and git": r"git~\d+", "Python": r"fabfile|(site|user)customize"}
FILES, FOLDERS = (re.compile("|".join(x.values()), re.DOTALL) for x in (FILES_OF, FOLDERS_OF))


def local_name(path: str) -> str:
    """The path of a received file below its folder on the user's computer."""
    *folders, name = path.split("/")
    return "/".join([*(_changed(folder, FOLDERS) for folder in folders), _changed(name, FILES)])


def _changed(name: str, of_tools: re.Pattern[str]) -> str:
    """A name between slashes; compared as some file systems do: without case, in any form, and
    without characters of no width."""
    seen = "".join(char for char in name if unicodedata.category(char) != "Cf")
    plain = unicodedata.normalize("NFKC", seen).casefold().rstrip(". ")
    if plain.startswith(".") and name not in DATA:
        return HIDDEN + name[1:]
    return name + CHANGED if of_tools.fullmatch(plain) else name
