"""The rooms and the folders of bootstrap: who may import whom."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from places import ROOT, parsed

ROOMS = ("stacks", "bootstrap", "training")

# A folder of bootstrap imports only folders on earlier lines, and itself.
ORDER = (
    ("errors",),
    ("console",),
    ("inventory",),
    ("untrusted",),
    ("facts",),
    ("plan",),
    ("ssh", "clouds"),
    ("data", "costs"),
    ("provision", "runs"),
    ("lifecycle", "evaluation", "report"),
    ("health", "leaks", "serving", "doctor", "project"),
    ("workflows", "gpu_tools"),
    ("cli",),
    ("interface",),
)
LEVEL = {folder: level for level, line in enumerate(ORDER) for folder in line}
# The same for the folders of bootstrap/host.
FLOORS = (
    ("base", "buckets", "probes"),
    ("run", "causes"),
    ("agent", "energy", "lease", "output", "serve"),
    ("upload", "stall"),
    ("attempts", "standby"),
    ("supervisor", "rank"),
)
FLOOR = {folder: level for level, line in enumerate(FLOORS) for folder in line}
# They do nothing when they are imported: this computer uses them too.
SHARED = ("base", "buckets", "run", "causes")
LONGEST_CHAIN = 17
ROOM_FOR_MODULES = 16  # a folder with more is missing a folder

# What a room may use besides the standard library and itself. `bootstrap` runs where a person
# types, `training` where the hosts' runtime is; neither has what the other is made of.
FOREIGN = {
    "bootstrap": {"PIL", "boto3", "botocore", "google", "horovod", "keras", "numpy", "pulumi"}
    | {"pulumi_aws", "pulumi_gcp", "tensorflow", "tf_keras", "training", "stacks"},
    "training": {"boto3", "fabric", "google", "invoke", "paramiko", "pulumi"}
    | {"pulumi_aws", "pulumi_gcp", "bootstrap", "stacks"},
    "stacks": {"bootstrap", "fabric", "horovod", "invoke", "keras", "paramiko"}
    | {"tensorflow", "training"},
}
# By folder, what it may use besides: the clouds' SDKs, what reads samples, and what runs on a host
# in an environment of its own. All other folders of bootstrap/host use the standard library alone.
PACKAGES = {
    "bootstrap/clouds/aws": {"botocore"},
    "bootstrap/clouds/gcp": {"google", "requests"},
    "bootstrap/serving/calls": {"PIL", "numpy"},
    "bootstrap/host/buckets": {"boto3", "botocore", "google", "requests"},
    "bootstrap/host/probes": {"horovod", "keras", "tensorflow"},
    "bootstrap/host/serve": {"absl", "tensorboard"},
    "railhead/keras_patches": {"keras", "tensorflow"},
    "railhead/keras_patches/horovod": {"h5py", "horovod", "keras", "tensorflow"},
}
NOWHERE = {"tests", "benchmarks", "fabfile"}  # in no room
FILES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
OURS = [path for path in FILES if path.is_relative_to(ROOT / "bootstrap")]
OUR_PATHS = frozenset(OURS)
SHIPPED = [path for path in OURS if path.is_relative_to(ROOT / "bootstrap/host")]
HERE = [path for path in OURS if path not in SHIPPED]
DOCUMENTS = sorted((ROOT / "railhead/documents").rglob("*.py"))
PATCHES = sorted((ROOT / "railhead/keras_patches").rglob("*.py"))
MONEY = sorted((ROOT / "railhead/money").rglob("*.py"))
FOLDERS = sorted(
    {path.parent for path in (*OURS, *DOCUMENTS, *MONEY, *PATCHES) if path.name == "__init__.py"}
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def folder_of(path: Path) -> str:
    """The folder of bootstrap that a file is in; the module itself for errors.py."""
    return path.relative_to(ROOT / "bootstrap").with_suffix("").parts[0]


@dataclass(frozen=True)
class Imports:
    """What a file imports: `modules` anywhere in it, with dots (of `from a import b` both a and
    a.b, because b may be a module), `absolute` as they are written, also for a type checker."""

    modules: tuple[str, ...]
    absolute: tuple[str, ...]


@cache
def imports(path: Path) -> Imports:
    """The imports of a file."""
    tree = parsed(path)
    every = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    absolute = [
        alias.name for node in every if isinstance(node, ast.Import) for alias in node.names
    ]
    froms = [node for node in every if isinstance(node, ast.ImportFrom)]
    absolute += [node.module or "" for node in froms if not node.level]
    return Imports(tuple(_imported(path, tree)), tuple(absolute))


def imported(path: Path) -> tuple[str, ...]:
    """The modules that a file imports."""
    return imports(path).modules


def _imported(path: Path, tree: ast.Module) -> Iterator[str]:
    around = path.relative_to(ROOT).parts  # of a relative import
    for node in _executed(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = around[: -node.level] if node.level else ()
            module = ".".join((*above, *filter(None, [node.module])))
            assert module, f"{name_of(path)}: an import from above the packages"
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements but those that only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        if not isinstance(node, ast.expr):  # no import is in an expression
            yield node
            yield from _executed(node)


def tops(path: Path) -> set[str]:
    """The first words of what a file imports."""
    return {name.partition(".")[0] for name in imported(path)}


def module_file(name: str) -> Path | None:
    """The file of a module of ours; None for a folder, and for a name inside a module."""
    path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
    return path if path in OUR_PATHS else None


def test_the_folders_are_found() -> None:
    """The tests below hold nothing when these lists are empty."""
    assert len(HERE) > 80 and len(SHIPPED) > 20 and len(FOLDERS) > 14


def room_of(path: Path) -> str:
    """The room that a file is in."""
    return path.relative_to(ROOT).parts[0]


def test_a_room_imports_no_other_room_and_nothing_foreign() -> None:
    foreign = {
        name_of(path): tops(path) & (FOREIGN[room_of(path)] - packages(path) | NOWHERE)
        for path in FILES
    }
    assert {name: modules for name, modules in foreign.items() if modules} == {}


def packages(path: Path) -> set[str]:
    """What a file may use besides the standard library, because of its folder."""
    return PACKAGES.get(name_of(path.parent), set())


UNTYPED = re.compile(r"(dict|Mapping)\[str, (Any|object)\]")
MOST_UNTYPED = 80  # lines


def test_documents_are_dataclasses_and_few_dictionaries_are_untyped() -> None:
    lines = [line for path in OURS for line in path.read_text().splitlines()]
    untyped = sum(1 for line in lines if UNTYPED.search(line))
    assert untyped <= MOST_UNTYPED, "declare the document in railhead/documents"


# Pulumi runs it as a script.
AS_SCRIPT = {ROOT / "stacks/__main__.py"}


def test_a_room_names_its_own_modules_relative_to_itself() -> None:
    """A clone has the rooms side by side, an installed Railhead has them inside `railhead`."""
    own = {
        name_of(path): names
        for path in FILES
        if path not in AS_SCRIPT
        if (names := [n for n in imports(path).absolute if n.split(".")[0] == room_of(path)])
    }
    assert own == {}


def test_the_rooms_may_be_inside_railhead(tmp_path: Path) -> None:
    """As an installed Railhead has them; nothing of the clone is on the path."""
    inside = tmp_path / "railhead"
    shutil.copytree(ROOT / "railhead", inside, ignore=shutil.ignore_patterns("__pycache__"))
    for room in (*ROOMS, "locks"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, inside / room, ignore=ignored)
    code = """
import pkgutil, sys, railhead, railhead.bootstrap.cli.tasks, railhead.bootstrap.workflows
import railhead.stacks.clouds, railhead.training.registry, railhead.training.config
from railhead.bootstrap.inventory.clouds import CLOUDS
from railhead.bootstrap.clouds.base import cloud_of
assert railhead.Run("r").run_id == "r" and railhead.Cluster.__module__.startswith("railhead.")
assert railhead.training.registry.DATASETS["digits"].startswith("railhead.training.")
assert railhead.stacks.clouds.CLOUDS["aws"].component.startswith("railhead.stacks.")
assert not {"bootstrap", "stacks", "training"} & {name.partition(".")[0] for name in sys.modules}
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    argv = [sys.executable, "-c", code]
    process = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def test_a_room_imports_of_railhead_what_is_for_all_rooms_alone() -> None:
    names = [(name_of(path), name) for path in FILES for name in imported(path)]
    of_railhead = [(path, name) for path, name in names if name.split(".")[0] == "railhead"]
    assert of_railhead
    allowed = (
        "railhead.bytecode",
        "railhead.ctrl_c",
        "railhead.documents",
        "railhead.installation",
        "railhead.keras_patches",
        "railhead.money",
        "railhead.version",
    )
    assert [pair for pair in of_railhead if not pair[1].startswith(allowed)] == []


def test_the_documents_import_the_standard_library_alone() -> None:
    names = [(name_of(path), name) for path in DOCUMENTS for name in imported(path)]
    others = [pair for pair in names if not pair[1].startswith("railhead.documents")]
    assert others
    assert [pair for pair in others if pair[1].split(".")[0] not in sys.stdlib_module_names] == []


def test_money_imports_the_standard_library_and_the_documents_alone() -> None:
    names = {name for path in MONEY for name in imported(path)}
    others = {
        name for name in names if not name.startswith(("railhead.documents", "railhead.money"))
    }
    assert names and {name.split(".")[0] for name in others} <= sys.stdlib_module_names


def test_what_is_imported_here_is_declared() -> None:
    """A package that came with another one would vanish with it."""
    text = (ROOT / "pyproject.toml").read_text()
    declared = re.findall(r"^dependencies = \[(.*?)\]", text, re.M | re.S)
    used = {name for path in HERE for name in tops(path) - packages(path)}
    used -= {*sys.stdlib_module_names, *ROOMS, "railhead"}
    assert used <= set(re.findall(r'"([a-z]+)', declared[0]))


@pytest.mark.parametrize("folder", PACKAGES)
def test_a_package_is_named_for_a_folder_that_uses_it(folder: str) -> None:
    assert PACKAGES[folder] <= set().union(*(tops(path) for path in (ROOT / folder).glob("*.py")))


def test_a_folder_imports_only_folders_before_it() -> None:
    outside = [path for path in HERE if folder_of(path) != "__init__"]
    wrong = [f"{name_of(p)} imports {n}" for p in outside for n in imported(p) if is_wrong(p, n)]
    assert wrong == []


def is_wrong(path: Path, name: str) -> bool:
    """Whether a file of a folder may not import a module: one of a later folder, or one for hosts
    that this computer does not use."""
    folder = folder_of(path)
    other = name.split(".")[1] if name.startswith("bootstrap.") else folder
    if other == "host":
        file = module_file(name)
        return bool(file and floor_of(file) not in SHARED)
    return other != folder and LEVEL[other] >= LEVEL[folder]


def test_every_folder_has_a_place_in_the_order() -> None:
    there = {folder_of(path) for path in OURS} - {"__init__", "host"}
    assert there == set(LEVEL)


def floor_of(path: Path) -> str:
    """The folder of bootstrap/host that a file is in; "" for host itself."""
    return "".join(path.relative_to(ROOT / "bootstrap/host").parts[:-1][:1])


def test_a_floor_of_the_programs_for_hosts_imports_only_floors_below_it() -> None:
    pairs: list[tuple[Path, Path]] = []
    for path in SHIPPED:
        files = filter(None, map(module_file, imported(path)))
        pairs += [(path, file) for file in files if floor_of(path) != floor_of(file)]
    up = [(a, b) for a, b in pairs if FLOOR[floor_of(b)] >= FLOOR[floor_of(a)]]
    assert pairs and [f"{name_of(a)} imports {name_of(b)}" for a, b in up] == []
    assert {floor_of(path) for path in SHIPPED} - {""} == set(FLOOR)


def test_the_docstring_of_bootstrap_names_the_folders_in_their_order() -> None:
    text = ast.get_docstring(ast.parse((ROOT / "bootstrap/__init__.py").read_text())) or ""
    named = [line.split()[1] for line in text.splitlines() if line.startswith("* ")]
    assert [LEVEL[folder] for folder in named] == sorted(LEVEL[folder] for folder in named)
    assert {*named, "gpu_tools"} == set(LEVEL)


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_a_folder_reports_what_it_is_for(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    assert text and len(text.splitlines()) <= 28
    if folder not in (ROOT / "bootstrap", ROOT / "bootstrap/host"):
        body = ast.parse((folder / "__init__.py").read_text()).body
        assert len(body) == 1, "__init__ has a docstring and nothing else"


def test_a_folder_has_room() -> None:
    modules = (path for room in (*ROOMS, "railhead") for path in (ROOT / room).rglob("*.py"))
    numbers = Counter(path.parent for path in modules if path.name != "__init__.py")
    full = {name_of(folder): n for folder, n in numbers.items() if n > ROOM_FOR_MODULES}
    assert len(numbers) > len(FOLDERS) and not full


def chains() -> Iterator[tuple[Path, ...]]:
    """The longest chain of imports from each module; an import cycle is an error."""
    done: dict[Path, tuple[Path, ...]] = {}

    def longest(path: Path, way: tuple[Path, ...]) -> tuple[Path, ...]:
        assert path not in way, f"a cycle of imports: {' > '.join(map(name_of, (*way, path)))}"
        if path not in done:
            others = {module_file(name) for name in imported(path)} - {None, path}
            tails = [longest(other, (*way, path)) for other in others if other]
            done[path] = (path, *max(tails, key=len, default=()))
        return done[path]

    return (longest(path, ()) for path in OURS)


@pytest.mark.parametrize("room", ["stacks", "training"])
def test_the_parts_of_a_room_make_no_cycle(room: str) -> None:
    """Its modules and folders, each as a whole: they have an order."""
    needed: dict[str, set[str]] = {}
    for path in (path for path in FILES if room_of(path) == room):
        part = path.relative_to(ROOT / room).with_suffix("").parts[0]
        names = [name.split(".")[1] for name in imported(path) if name.startswith(f"{room}.")]
        needed.setdefault(part, set()).update({*names} - {part})
    order = [*TopologicalSorter(needed).static_order()]  # a CycleError names one
    assert len(order) > 10


def test_imports_make_no_cycle_and_no_long_chain() -> None:
    chain = max(chains(), key=len)
    assert len(chain) <= LONGEST_CHAIN, " > ".join(map(name_of, chain))


def test_what_is_shipped_to_hosts_needs_the_standard_library_alone() -> None:
    shipped = (*SHIPPED, *PATCHES)
    names = [(name_of(path), name) for path in shipped for name in imported(path)]
    ours = ("bootstrap.host", "railhead.documents", "railhead.keras_patches", "railhead.money")
    others = [(path, name) for path, name in names if not name.startswith(ours)]
    ours_or_allowed = {
        name_of(p): {*sys.stdlib_module_names, *packages(p)} for p in (*SHIPPED, *PATCHES)
    }
    assert [p for p in others if p[1].split(".")[0] not in ours_or_allowed[p[0]]] == []


def test_modules_that_are_shipped_find_each_other_by_relative_imports_alone() -> None:
    """On a host the package has another name."""
    text = "".join(path.read_text(encoding="utf-8") for path in SHIPPED)
    assert "from .." in text and "bootstrap." not in text


@pytest.mark.parametrize("folder", SHARED)
def test_a_shipped_module_that_is_used_here_does_nothing_when_imported(folder: str) -> None:
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    for path in sorted((ROOT / "bootstrap/host" / folder).rglob("*.py")):
        for node in ast.parse(path.read_text()).body[1:]:
            assert isinstance(node, kinds), f"{name_of(path)}, line {node.lineno}"


def test_the_fabfile_loads_nothing_heavy() -> None:
    """`fab --list` is typed often; what a task needs is imported by the task."""
    light = {"errors", "cli", "console"}  # folders that it may load
    table = {"bootstrap.runs", "bootstrap.runs.strategies"}  # its names are in the help
    table |= {"bootstrap.inventory", "bootstrap.inventory.files"}  # the program looks for fabfiles
    # Fabric and what it is made of: everything else, by whatever name, belongs into a task.
    code = "import sys, fabric; print(*sys.modules); import fabfile; print(*sys.modules)"
    argv = [sys.executable, "-c", code]
    process = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    of_fabric, loaded = (line.split() for line in process.stdout.splitlines())
    top = {name.partition(".")[0] for name in set(loaded) - set(of_fabric)}
    assert top - set(sys.stdlib_module_names) <= {"fabfile", "bootstrap", "fabric", "railhead"}
    ours = {name for name in loaded if name.startswith("bootstrap.")} - table
    folders = {name.split(".")[1] for name in ours}
    assert "cli" in folders and folders <= light
