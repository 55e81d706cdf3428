"""Keras 2 in a rank: `keras` and `tf.keras` are tf_keras, as a script for Keras 2 expects."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import types
from typing import Any

from railhead.keras_patches import patch

# The modules that TensorFlow provides as tf.keras; up to 2.15 they had `__version__`.
OF_TENSORFLOW = ("tf_keras.api._v2.keras", "tf_keras.api._v1.keras")


def install() -> None:
    """Give the script Keras 2."""
    sys.meta_path.insert(0, Keras2())
    patch.after_import(dict.fromkeys(OF_TENSORFLOW, add_version))


def add_version(module: types.ModuleType) -> None:
    """`tf.keras.__version__`, which tf_keras 2.18 and 2.21 lack."""
    metadata = importlib.import_module("importlib.metadata")  # slow, and rarely needed
    vars(module).setdefault("__version__", metadata.version("tf_keras"))


class Keras2(patch.Loader):
    """Makes imports of `keras` and its submodules return the modules of tf_keras."""

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for keras and its submodules; None for all other modules."""
        if name == "keras" or name.startswith("keras."):
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The tf_keras module; its own spec is saved for `exec_module`."""
        module = importlib.import_module(f"tf_{spec.name}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Restore the module's own spec, which the import system has replaced; the module has run
        already."""
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state
