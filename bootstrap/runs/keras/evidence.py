"""Evidence in a program's source of the Keras that it is written for. Pure: no file is opened.

The script and the modules of its folder that it reaches are parsed, never run. A file that cannot
be parsed, such as Python 2, has no evidence.
"""

from __future__ import annotations

import ast
import posixpath
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from railhead.documents.lazy import dataclass

from ...host.causes.keras_names import keras_with
from . import horovod_calls

FILES = 200  # files that are parsed
BYTES = 500_000  # of one file that is parsed
ALL_BYTES = 3_000_000  # of all files that are parsed
LONGEST = 200  # characters of the path of a name
# Levels of evidence: a lower level counts more.
PINNED, NAMED, GUARDED, CALLED = range(4)
PACKAGES = {"tf_keras": 2, "keras_hub": 3}  # packages that only work with one Keras
# Packages that train with Keras 2 only; their other parts work with both.
BUILT_ON_2 = (
    *("tensorflow_hub", "tensorflow_probability", "tensorflow_model_optimization", "tf_agents"),
    *("tensorflow_recommenders", "tensorflow_decision_forests"),
)
# Names by which scripts import Keras, and their spelling in the tables of names.
PREFIXES = {
    "tensorflow.keras.": "",
    "tensorflow.compat.v1.keras.": "",
    "tensorflow.compat.v2.keras.": "",
    "tensorflow.optimizers.": "optimizers.",
    "keras.": "",
}
CONDITIONS = (
    "BoolOp",
    "If",
    "IfExp",
    "Try",
    "TryStar",
    "While",
)  # by name: Python 3.10 has no TryStar
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
METHODS = {
    **dict.fromkeys(("fit_generator", "evaluate_generator", "predict_generator"), 2),
    **dict.fromkeys(("stateless_call", "stateless_apply", "stateless_update_state"), 3),
}
OPTIMIZERS = ("SGD", "RMSprop", "Adam", "Adadelta", "Adagrad", "Adamax", "Nadam", "Ftrl")
HDF5 = (".h5", ".hdf5")
# `keras_version` in an HDF5 file: its text follows, or is in a heap, after the text's length.
WRITTEN_BY = re.compile(
    rb"keras_version\0(?:.{0,64}?|.*?[\x05-\x07]\0{7})(\d\.\d+\.\d+)", re.DOTALL
)
MODEL_FILES = (".keras", *HDF5)  # endings of names under which Keras 3 saves a model
FITS = ("fit", "evaluate", "predict")
# Arguments that only Keras 2 has, and their functions; no names: any function.
KEYWORDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("workers", "use_multiprocessing", "max_queue_size"), FITS),
    "lr": OPTIMIZERS,
    "period": ("ModelCheckpoint",),
    "write_grads": ("TensorBoard",),
    "sample_weight_mode": ("compile",),
    "batch_input_shape": (),
}

Read = Callable[[str], bytes | None]


@dataclass(frozen=True)
class Evidence:
    """A line of a program that is written for one Keras, and what the program does there. `keras`:
    2, 3, or `horovod_calls.NEITHER`; `certain`: every run reaches the line.
    """

    keras: int
    level: int
    place: str
    what: str
    certain: bool = False


@dataclass(frozen=True)
class Use:
    """A part of a module. `guarded`: below a condition or a `try`; `deferred`: in a function."""

    part: ast.AST
    guarded: bool
    deferred: bool


@dataclass
class Module:
    """A parsed file: its path, its parts, and what its variables stand for (modules and names)."""

    path: str
    uses: list[Use]
    aliases: dict[str, str] = field(default_factory=dict)


def evidence_of(script: str, read: Read) -> list[Evidence]:
    """The evidence in a script and the modules that it reaches, in the order of reading.

    Args:
        script: its posix path. read: returns the content of a file by such a path, or None.
    """
    evidence: list[Evidence] = []
    saves: list[Evidence] = []
    named = False  # whether a model may be saved as a file
    for module, guarded in modules_of(script, read):
        evidence += _evidence_in(module, guarded=guarded)
        evidence += _in_model_files(module, read)
        saves += _saves_somewhere(module)
        named = named or _names_a_file(module)
    return evidence if named else evidence + saves


def modules_of(script: str, read: Read) -> Iterator[tuple[Module, bool]]:
    """A script and the modules of its folder that it reaches and that can be parsed; with each,
    whether it is imported only below a condition or in a function. Arguments as `evidence_of`."""
    reached = {script: False}
    queue, total = [(script, read(script) or b"")], 0
    folders = [*dict.fromkeys((posixpath.dirname(script), ""))]
    for path, content in queue:
        total += len(content)
        module = parsed(path, content) if total <= ALL_BYTES else None
        if module is None:
            continue
        yield module, reached[path]
        for name, guarded in imports_of(module):
            for other in _files_of(name, folders):
                if other in reached or len(reached) >= FILES:
                    continue
                if (found := read(other)) is not None:
                    reached[other] = guarded or reached[path]
                    queue.append((other, found))


def parsed(path: str, content: bytes) -> Module | None:
    """A file as a module; None if it is too long or not Python that this Python can parse."""
    if len(content) > BYTES:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's source
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    module = Module(path, [*_uses(tree)])
    for use in module.uses:
        module.aliases.update(_bound_by(use.part, module))
    return module


def _uses(tree: ast.AST) -> Iterator[Use]:
    """All parts in the order of the source; not recursive, because code may be nested deeply."""
    stack = [Use(tree, False, False)]
    while stack:
        use = stack.pop()
        yield use
        guarded = use.guarded or _is_condition(use.part)
        deferred = use.deferred or isinstance(use.part, FUNCTIONS)
        children = [*ast.iter_child_nodes(use.part)]
        stack += [Use(child, guarded, deferred) for child in reversed(children)]


def _is_condition(part: ast.AST) -> bool:
    """Whether the code below a part may be skipped; not so below `if __name__ == "__main__"`."""
    if not isinstance(part, ast.If):
        return type(part).__name__ in CONDITIONS
    names = {inner.id for inner in ast.walk(part.test) if isinstance(inner, ast.Name)}
    return "__name__" not in names


def _bound_by(part: ast.AST, module: Module) -> Mapping[str, str]:
    """The variables that a statement binds to modules or their names: {"K": "keras.backend"}."""
    if isinstance(part, ast.Import):
        tops = {alias.name.partition(".")[0]: alias.name.partition(".")[0] for alias in part.names}
        return tops | {alias.asname: alias.name for alias in part.names if alias.asname}
    if isinstance(part, ast.ImportFrom) and not part.level:
        return {alias.asname or alias.name: f"{part.module}.{alias.name}" for alias in part.names}
    if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
        path = _path_of(part.value, module)
        return {part.targets[0].id: path} if path and len(path) <= LONGEST else {}
    return {}


def _path_of(part: ast.AST, module: Module) -> str:
    """The path of a name or of an attribute, such as tensorflow.keras.ops; "" if it is neither."""
    attributes: list[str] = []
    while isinstance(part, ast.Attribute):
        attributes.append(part.attr)
        part = part.value
    if not isinstance(part, ast.Name) or part.id not in module.aliases:
        return ""
    return ".".join([module.aliases[part.id], *reversed(attributes)])


def imports_of(module: Module) -> Iterator[tuple[str, bool]]:
    """The absolute names of modules that a file may import, and whether the import may be
    skipped."""
    package = posixpath.dirname(module.path).replace("/", ".")
    for use in module.uses:
        part, guarded = use.part, use.guarded or use.deferred
        if isinstance(part, ast.Import):
            yield from ((alias.name, guarded) for alias in part.names)
        elif isinstance(part, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - part.level + 1]
            base = ".".join([*(parents if part.level else []), *filter(None, [part.module])])
            yield base, guarded
            yield from ((f"{base}.{alias.name}".lstrip("."), guarded) for alias in part.names)


def _files_of(name: str, folders: list[str]) -> Iterator[str]:
    """The possible files of a module and of the packages above it, such as a/b.py and
    a/b/__init__.py."""
    parts = name.split(".")
    if not all(parts) or len(name) > LONGEST:
        return
    for folder in folders:
        for length in range(1, len(parts) + 1):
            path = posixpath.join(folder, *parts[:length])
            yield from (f"{path}.py", f"{path}/__init__.py")


def _evidence_in(module: Module, *, guarded: bool) -> Iterator[Evidence]:
    """The evidence in one file; `guarded`: the script may run without importing it."""
    inner: set[int] = set()  # attributes whose whole path was looked up
    for use in module.uses:
        here = f"{module.path}:{getattr(use.part, 'lineno', 0)}"
        may_be_skipped = guarded or use.guarded
        certain = not may_be_skipped and not use.deferred
        if isinstance(use.part, ast.Attribute):
            if id(use.part) in inner:
                continue
            inner.update(map(id, _inner_attributes(use.part)))
        for keras, what in _names_in(use.part, module):
            level = GUARDED if may_be_skipped else NAMED
            yield Evidence(keras, level, here, what, certain)
        for what in _built_on_2(use.part):
            yield Evidence(2, CALLED, here, what)
        if isinstance(use.part, ast.Call):
            yield from (Evidence(k, CALLED, here, what) for k, what in _of_call(use.part))
            path = _path_of(use.part.func, module)
            for keras, what in horovod_calls.of_call(use.part, path):
                yield Evidence(keras, CALLED, here, what, certain)


def _inner_attributes(part: ast.Attribute) -> Iterator[ast.Attribute]:
    while isinstance(part.value, ast.Attribute):
        part = part.value
        yield part


def _names_in(part: ast.AST, module: Module) -> Iterator[tuple[int, str]]:
    """For names that only one Keras has, in a part: that Keras, and what the part does."""
    if isinstance(part, ast.Import):
        yield from _of_paths([alias.name for alias in part.names], "imports")
    elif isinstance(part, ast.ImportFrom) and not part.level:
        yield from _of_paths([f"{part.module}.{alias.name}" for alias in part.names], "imports")
    elif isinstance(part, ast.Attribute):
        yield from _of_paths([_path_of(part, module)], "uses")
    elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Subscript):
        yield from _of_variable(part.targets[0].slice, part.value)
    elif isinstance(part, ast.Call) and len(part.args) == 2:  # such as os.environ.setdefault
        yield from _of_variable(*part.args)


def _built_on_2(part: ast.AST) -> Iterator[str]:
    """The imports of packages, and of classes of transformers, that are built on Keras 2."""
    if isinstance(part, ast.Import):
        names = [alias.name for alias in part.names]
    elif isinstance(part, ast.ImportFrom) and not part.level and part.module:
        names = [f"{part.module}.{alias.name}" for alias in part.names]
    else:
        return
    for name in names:
        package, _, below = name.partition(".")
        of_transformers = package == "transformers" and below.rpartition(".")[2].startswith("TF")
        if package in BUILT_ON_2 or of_transformers:
            yield f"imports {name if of_transformers else package}"


def _of_paths(paths: list[str], verb: str) -> Iterator[tuple[int, str]]:
    for path in paths:
        if keras := PACKAGES.get(path.partition(".")[0]):
            yield keras, f"{verb} {path.partition('.')[0]}"
        for prefix, spelled in PREFIXES.items():
            if path.startswith(prefix):
                below = spelled + path.removeprefix(prefix)
                if keras := keras_with(below, of_tensorflow=prefix != "keras."):
                    yield keras, f"{verb} {path}"


def _of_variable(name: ast.expr, value: ast.expr) -> Iterator[tuple[int, str]]:
    """The evidence in an environment variable that the script sets."""
    if not isinstance(name, ast.Constant) or not isinstance(value, ast.Constant):
        return
    if name.value == "TF_USE_LEGACY_KERAS":
        yield 2 if str(value.value).lower() in ("1", "true") else 3, f"sets {name.value}"
    if name.value == "KERAS_BACKEND" and value.value in ("jax", "torch"):
        yield 3, f"sets KERAS_BACKEND to {value.value}"


def _of_call(call: ast.Call) -> Iterator[tuple[int, str]]:
    """The evidence in a call: its method, its arguments, or the format that it writes."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if name in METHODS:
        yield METHODS[name], f"calls {name}"
    for keyword in [name for name in keywords if name in KEYWORDS]:
        if name in (KEYWORDS[keyword] or (name,)):
            yield 2, f"calls {name} with {keyword}"
    if getattr(keywords.get("save_format"), "value", None) == "tf":
        yield 2, f"calls {name} with save_format='tf'"
    argument = call.args[0] if call.args else keywords.get("filepath")
    ending = _ending_of(argument) if argument else None
    if ending is not None and not ending.endswith(_endings(name, call.func, keywords)):
        yield 2, f"calls {name} with a name that ends with {ending[-20:]!r}"


def _endings(name: str, function: ast.expr, keywords: Mapping[str, ast.expr]) -> tuple[str, ...]:
    """The ends of file names that Keras 3 accepts in a call; ("",) for any."""
    weights_only = getattr(keywords.get("save_weights_only"), "value", False) is True
    owner = getattr(function, "value", None)
    owner_name = getattr(owner, "id", getattr(owner, "attr", ""))
    if name == "save_weights" or (name == "ModelCheckpoint" and weights_only):
        return (".weights.h5",)
    if name == "ModelCheckpoint":
        return (".keras", ".h5")
    if name == "load_model" or (name == "save" and owner_name.endswith("model")):
        return MODEL_FILES
    return ("",)


def _saves_somewhere(module: Module) -> Iterator[Evidence]:
    """Calls such as `model.save(path)` that do not show whether the path is a file or a folder."""
    for use in module.uses:
        if not isinstance(use.part, ast.Call) or getattr(use.part.func, "attr", "") != "save":
            continue
        keywords = {keyword.arg: keyword.value for keyword in use.part.keywords if keyword.arg}
        argument = use.part.args[0] if use.part.args else keywords.get("filepath")
        is_model = _endings("save", use.part.func, keywords) == MODEL_FILES
        if argument and is_model and _ending_of(argument) is None and "save_format" not in keywords:
            here = f"{module.path}:{use.part.lineno}"
            what = "calls save, and no file of the program ends with .keras or .h5"
            yield Evidence(2, CALLED, here, what)


def _names_a_file(module: Module) -> bool:
    """Whether a text in a module ends like the name of a model file."""
    parts = (use.part for use in module.uses)
    texts = (part.value for part in parts if isinstance(part, ast.Constant))
    return any(isinstance(text, str) and text.endswith(MODEL_FILES) for text in texts)


def _in_model_files(module: Module, read: Read) -> Iterator[Evidence]:
    """The HDF5 files of Keras 2 that a module names. An attribute has the version; h5py writes the
    first attributes before the data."""
    for use in module.uses:
        text = getattr(use.part, "value", None) if isinstance(use.part, ast.Constant) else None
        if isinstance(text, str) and text.endswith(HDF5):
            beside = posixpath.join(posixpath.dirname(module.path), text)
            content = read(posixpath.normpath(text)) or read(posixpath.normpath(beside)) or b""
            version = WRITTEN_BY.search(content)
            if version and version[1].startswith(b"2."):
                here = f"{module.path}:{use.part.lineno}"  # type: ignore[attr-defined]
                keras = version[1].decode("ascii")
                yield Evidence(2, CALLED, here, f"names {text[-40:]}, a file of Keras {keras}")


def _ending_of(part: ast.expr) -> str | None:
    """The end of a file name, if the source shows it; otherwise None."""
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
        return part.value
    if isinstance(part, ast.JoinedStr) and part.values:
        return _ending_of(part.values[-1])
    if isinstance(part, ast.Call) and getattr(part.func, "attr", "") == "join" and part.args:
        return _ending_of(part.args[-1])
    if isinstance(part, ast.BinOp) and isinstance(part.op, (ast.Add, ast.Div)):
        return _ending_of(part.right)
    return None
