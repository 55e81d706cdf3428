"""One patch of a library, and the import hook that applies it."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from railhead.documents.lazy import dataclass

if TYPE_CHECKING:
    from importlib.abc import Loader as Loader
else:
    Loader = object  # importlib.abc loads thirty modules, at the start of each rank

# The versions of Keras 3, as (major, minor), that the patches are tested with: first and last.
KNOWN = ((3, 12), (3, 15))


@dataclass(frozen=True)
class Patch:
    """A change of one module, directly after its first import.

    `module`: its full name. `strategies`: the strategies whose scripts need it. `issue`: the
    upstream issue, as owner/name#number, or empty if none is known; `does`: what it changes,
    for docs/keras.md. `is_needed` examines the imported module: False if upstream has corrected the
    fault.
    """

    module: str
    strategies: tuple[str, ...]
    issue: str
    does: str
    apply: Callable[[types.ModuleType], None]
    is_needed: Callable[[types.ModuleType], bool]


def install(
    patches: Iterable[Patch], announce: Callable[[str], None], *, also_unknown: bool = True
) -> None:
    """Apply each patch after the import of its module. `announce` gets one line when the first
    one is needed. Modules that are imported already are left as they are.

    Args:
        also_unknown: apply them to versions of Keras that they were not tested with, too.
    """
    by_module: dict[str, list[Patch]] = {}
    for patch in patches:
        by_module.setdefault(patch.module, []).append(patch)
    decided = _Decision(announce, also_unknown)

    def applier(rows: list[Patch]) -> Callable[[types.ModuleType], None]:
        def apply(module: types.ModuleType) -> None:
            for patch in rows:
                if patch.is_needed(module) and decided():
                    patch.apply(module)

        return apply

    after_import({module: applier(rows) for module, rows in by_module.items()})


def after_import(
    changes: Mapping[str, Callable[[types.ModuleType], None]],
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Call each function with the module of its name directly after the module's first import,
    which runs within `around`."""
    if changes:
        sys.meta_path.insert(0, _AfterImport(changes, around))


def source_has(name: str, *texts: str, expected: bool = True) -> Callable[[types.ModuleType], bool]:
    """An `is_needed`: whether the source of `name` in the module, such as `Class.method`, still
    has the texts of the fault; without `expected`, whether it lacks those of a correction. False
    if there is no such name or no source."""

    def is_needed(module: types.ModuleType) -> bool:
        target: Any = module
        for attribute in name.split("."):
            target = getattr(target, attribute, None)
        import inspect  # imported late: most ranks do not need it

        try:
            source = inspect.getsource(target)
        except (OSError, TypeError):
            return False
        return all(text in source for text in texts) is expected

    return is_needed


def notice(version: str) -> str:
    """The line that announces the patches of this version of Keras."""
    text = f"railhead: Keras {version} is patched"
    if not is_known(version):
        text += f", although the patches are tested only with Keras {known_versions()}"
    return f"{text} (docs/keras.md; without patches: --no-keras-patches)"


def notice_of_unknown(version: str) -> str:
    """The line that says that this version of Keras is not patched."""
    return (
        f"railhead: Keras {version} is not patched: the patches are tested "
        f"only with Keras {known_versions()} (docs/keras.md; with patches: --keras 3)"
    )


def is_known(version: str) -> bool:
    """Whether the patches are tested with this version of Keras."""
    return KNOWN[0] <= major_minor(version) <= KNOWN[1]


def known_versions() -> str:
    """The versions that the patches are tested with, such as 3.12 to 3.15."""
    return " to ".join(".".join(map(str, known)) for known in KNOWN)


def major_minor(version: str) -> tuple[int, ...]:
    """(major, minor) of a version such as 3.15.1."""
    return tuple(int(number) for number in version.split(".")[:2])


def keras_version() -> str:
    """The version of the Keras that is installed; 0.0 without one."""
    metadata = importlib.import_module("importlib.metadata")  # slow, and rarely needed
    try:
        return str(metadata.version("keras"))
    except metadata.PackageNotFoundError:
        return "0.0"


class _Decision:
    """Whether patches are applied to the installed Keras; announced once."""

    def __init__(self, announce: Callable[[str], None], also_unknown: bool) -> None:
        self.announce, self.also_unknown = announce, also_unknown
        self.applies: bool | None = None

    def __call__(self) -> bool:
        if self.applies is None:
            version = keras_version()
            self.applies = self.also_unknown or is_known(version)
            # Before the first patch, which may fail: the line names the other option.
            self.announce(notice(version) if self.applies else notice_of_unknown(version))
        return self.applies


class _AfterImport:
    """Finds the changed modules with the other finders, and changes them when they have run."""

    def __init__(
        self,
        changes: Mapping[str, Callable[[types.ModuleType], None]],
        around: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.changes, self.around = changes, around
        self.searched = ""

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module to change, with a loader that changes it; None for all others."""
        change = self.changes.get(name)
        if change is None or name == self.searched:  # the search below passes here again
            return None
        self.searched = name
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.searched = ""
        if spec and spec.loader:
            spec.loader = _Changing(spec.loader, change, self.around)
        return spec


class _Changing(Loader):
    """Runs a module with its own loader, then changes it."""

    def __init__(
        self,
        loader: Loader,
        change: Callable[[types.ModuleType], None],
        around: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.loader, self.change, self.around = loader, change, around

    def __getattr__(self, name: str) -> Any:
        """Everything else, such as `get_data`, comes from the module's own loader."""
        return getattr(self.loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        """The module, as its own loader makes it."""
        return self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the module, then change it."""
        if module.__spec__:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        with self.around():
            self.loader.exec_module(module)
        self.change(module)
