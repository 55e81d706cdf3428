"""Detects from the source that a script's ranks cannot join each other. Pure: no file is opened.

A program is refused only if its whole source is known; otherwise `host/rank/groups.py` notices at
run time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from ...host.run.joining import JOIN
from .evidence import Module, Read, imports_of, modules_of

FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "torch", "jax", "flax")
# Packages that join ranks only by functions that the script has to name.
OTHERS = """absl cv2 h5py horovod imageio joblib matplotlib numpy optax pandas PIL pyarrow requests
scipy seaborn skimage sklearn tensorflow_datasets tensorflow_hub torchvision tqdm yaml"""
PLAIN = {*FRAMEWORKS, *OTHERS.split(), *sys.stdlib_module_names}
# By launcher: names in the source of a script whose ranks may join each other.
WORDS = {
    "horovod": r"horovod|\bhvd\b",
    "tensorflow": r"distribut|TF_CONFIG|estimator|dtensor|Server\b|Strategy\b",
    "jax": r"distribut",
    "torch": r"distribut|process_group",
}
OPAQUE = (  # the source does not show what runs, or whether that joins other ranks
    r"mpi4py|\bMPI\b|OMPI_|TF_CONFIG|importlib|__import__|runpy|subprocess|ctypes|popen"
    r"|os\.(?:system|exec)|(?<![\w.])(?:exec|eval)\("
)


def alone_as(script: str, read: Read, launcher: str) -> str:
    """What to do about a script that trains, but whose ranks cannot join each other with this
    launcher; "" for all other scripts. Arguments as those of `evidence_of`."""
    sources: dict[str, bytes] = {}

    def remembered(path: str) -> bytes | None:
        if (content := read(path)) is not None:
            sources[path] = content
        return content

    joins = re.compile(f"{OPAQUE}|{WORDS[launcher]}")
    if joins.search((read(script) or b"").decode(errors="replace")):
        return ""  # the usual case: its modules need not be parsed
    modules = [module for module, _ in modules_of(script, remembered)]
    packages = {*_packages(modules, sources)}
    if len(modules) < len(sources) or packages - PLAIN or not packages & {*FRAMEWORKS}:
        return ""
    text = b"\n".join(sources.values()).decode(errors="replace")
    if joins.search(text):
        return ""
    others = [name for name in ("horovod", "tensorflow") if re.search(WORDS[name], text)]
    if launcher in WORDS and others:
        return f"--launcher {others[0]}   # for which it is written"
    return f"one host; or --independent if that is meant. {JOIN[launcher]}"


def _packages(modules: list[Module], sources: dict[str, bytes]) -> Iterator[str]:
    """The packages that the program imports from outside."""
    own_modules = {part.removesuffix(".py") for path in sources for part in path.split("/")}
    for module in modules:
        for name, _ in imports_of(module):
            if (top := name.partition(".")[0]) and top not in own_modules:
                yield top
