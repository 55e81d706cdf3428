"""Models and weights under names that only Keras 2 saves: Keras 3 gets the name with the ending of
its own format, and finds the file again under the script's name."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

from .patch import Patch, source_has

MODULE = "keras.src.saving.saving_api"
CHECKPOINT = "keras.src.callbacks.model_checkpoint"
STRATEGIES = ("multiworker", "parameter-server", "horovod")
MODEL, H5, WEIGHTS = ".keras", ".h5", ".weights.h5"
Function = Callable[..., Any]


def model_file(path: Any, save_format: str | None = None) -> Any:
    """The path to which Keras 3 saves a model; `save_format`: the argument of Keras 2."""
    name = name_of(path)
    if not name or name.endswith((MODEL, H5, ".hdf5")) or "://" in name:
        return path
    return announced(name, with_ending(name, H5 if save_format == "h5" else MODEL))


def weights_file(path: Any) -> Any:
    """The path to which Keras 3 saves the weights of a model."""
    name = name_of(path)
    return path if not name or name.endswith(WEIGHTS) else announced(name, weights_name(name))


def name_of(path: Any) -> str:
    """The path as text; empty for an open file."""
    return str(path) if isinstance(path, (str, os.PathLike)) else ""


def weights_name(name: str) -> str:
    """The name of a file of weights; `.h5` is part of its ending."""
    return with_ending(name.removesuffix(H5), WEIGHTS)


def with_ending(name: str, ending: str) -> str:
    """The name of a file or folder with an ending."""
    return name.rstrip("/") + ending


@functools.cache
def announced(name: str, changed: str) -> str:
    """The changed name, printed once: Keras 2 would have saved a folder or another format, which
    something else may expect."""
    print(f"railhead: {name} is saved as {changed}, a file of Keras 3 (docs/keras.md)", flush=True)
    return changed


def saves_model(save: Function) -> Function:
    """`save_model` of Keras 3 with the names and the `save_format` of Keras 2."""

    @functools.wraps(save)
    def save_model(model: Any, filepath: Any, *args: Any, **options: Any) -> Any:
        is_folder = options.get("zipped") is False or args[1:2] == (False,)
        if not is_folder:
            filepath = model_file(filepath, options.pop("save_format", None))
        return save(model, filepath, *args, **options)

    return save_model


def saves_weights(save: Function) -> Function:
    """`save_weights` of Keras 3 with the names and the `save_format` of Keras 2."""

    @functools.wraps(save)
    def save_weights(model: Any, filepath: Any, *args: Any, **options: Any) -> Any:
        options.pop("save_format", None)
        if options.get("max_shard_size") is None and not args[1:]:
            filepath = weights_file(filepath)
        return save(model, filepath, *args, **options)

    return save_weights


def loads(load: Function, saved_as: Callable[[str], str]) -> Function:
    """`load_model` or `load_weights`: if there is no such file, the one that it is saved as."""

    @functools.wraps(load)
    def find_and_load(*args: Any, **options: Any) -> Any:
        given = inspect.signature(load).bind(*args, **options)
        name = name_of(given.arguments["filepath"])
        if name and not os.path.exists(name) and os.path.exists(saved := saved_as(name)):
            given.arguments["filepath"] = saved
        return load(*given.args, **given.kwargs)

    return find_and_load


def patch_saving(module: Any) -> None:
    """The functions behind `model.save`, `load_model`, `save_weights` and `load_weights`."""
    module.save_model = saves_model(module.save_model)
    module.save_weights = saves_weights(module.save_weights)
    module.load_model = loads(module.load_model, lambda name: with_ending(name, MODEL))
    module.load_weights = loads(module.load_weights, weights_name)


def patch_checkpoint(module: Any) -> None:
    """`ModelCheckpoint(path)`."""
    init = module.ModelCheckpoint.__init__

    @functools.wraps(init)
    def __init__(*args: Any, **options: Any) -> None:
        given = inspect.signature(init).bind(*args, **options)
        only_weights = given.arguments.get("save_weights_only", False)
        path = given.arguments["filepath"]
        given.arguments["filepath"] = weights_file(path) if only_weights else model_file(path)
        init(*given.args, **given.kwargs)

    module.ModelCheckpoint.__init__ = __init__


SAVING = (
    Patch(
        MODULE,
        STRATEGIES,
        "",
        "`--keras 3`: `save` and `save_weights` append the ending of Keras 3's format",
        patch_saving,
        source_has("save_model", "Invalid filepath extension for saving"),
    ),
    Patch(
        CHECKPOINT,
        STRATEGIES,
        "",
        "`--keras 3`: `ModelCheckpoint` does the same",
        patch_checkpoint,
        source_has("ModelCheckpoint", "The filepath provided must end in"),
    ),
)
