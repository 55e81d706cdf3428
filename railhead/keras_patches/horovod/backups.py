"""A patch of Keras 3's BackupAndRestore: the ranks of a host write the same files in turn."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import types
from collections.abc import Iterator
from typing import Any


def write_in_turn(module: types.ModuleType) -> None:
    """horovod._keras.callbacks, whose import shows that there are ranks: HDF5 refuses a file that
    another process writes, and a folder can be removed only once."""
    import keras

    callback = keras.callbacks.BackupAndRestore
    for name in ("_save_model", "on_train_end"):
        setattr(callback, name, in_turn(getattr(callback, name)))


def in_turn(method: Any) -> Any:
    """A method of the callback that one process of this host runs at a time."""

    @functools.wraps(method)
    def alone(self: Any, *args: Any, **options: Any) -> Any:
        with locked(str(self.backup_dir)):
            return method(self, *args, **options)

    return alone


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Hold the lock of the folder around it; folders of a bucket have none."""
    if "://" in folder:
        yield
        return
    parent = os.path.dirname(os.path.abspath(folder))
    os.makedirs(parent, exist_ok=True)
    descriptor = os.open(parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # a rank that dies leaves it
        yield
    finally:
        os.close(descriptor)
