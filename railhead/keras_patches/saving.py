"""Models and weights with file names that only Keras 2 accepts: Keras 3 gets the name with the
ending of its own format, and finds the file again by the script's name. If the name is that of a
folder, a SavedModel is exported, too."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from .patch import Patch, source_has

MODULE = "keras.src.saving.saving_api"
CHECKPOINT = "keras.src.callbacks.model_checkpoint"
STRATEGIES = ("multiworker", "parameter-server", "horovod", "mirrored", "one-device")
OF_KERAS_2 = ("options", "save_traces", "signatures")  # arguments that Keras 3 refuses
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
    another program may expect."""
    print(f"railhead: {name} is saved as {changed}, a file of Keras 3 (docs/keras.md)", flush=True)
    return changed


def saves_model(save: Function, load: Function) -> Function:
    """`save_model` of Keras 3 with the names and the arguments of Keras 2."""

    @functools.wraps(save)
    def save_model(model: Any, filepath: Any, *args: Any, **options: Any) -> Any:
        for name in OF_KERAS_2:
            options.pop(name, None)
        make_folder_of(filepath)
        if options.get("zipped") is False or args[1:2] == (False,):
            return save(model, filepath, *args, **options)
        changed = model_file(filepath, options.pop("save_format", None))
        saved = save(model, changed, *args, **options)
        if changed != filepath and changed.endswith(MODEL):
            export(model, load, changed, name_of(filepath).rstrip("/"))
        return saved

    return save_model


def make_folder_of(path: Any) -> None:
    """The folder for a file, as Keras 2 makes it."""
    name = name_of(path)
    if name and "://" not in name:
        os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)


def export(model: Any, load: Function, file: str, folder: str) -> None:
    """Write the SavedModel, which Keras 2 saves under a name without an ending. A model of a
    strategy is loaded again first: its ranks may wait for each other, and only one may save."""
    tensorflow = sys.modules["tensorflow"]
    try:
        if tensorflow.distribute.has_strategy():
            raise ValueError("export it outside of strategy.scope()")
        if getattr(model, "_distribute_strategy", None) is not None:
            model = load(file, compile=False, safe_mode=False)
        model.export(folder, verbose=False)
    except Exception as error:  # the model is saved: whatever this is, the script continues
        line = f"{error}".splitlines()[:1] or [type(error).__name__]
        print(f"railhead: {folder} is not exported as a SavedModel: {line[0]}", flush=True)


def saves_weights(save: Function) -> Function:
    """`save_weights` of Keras 3 with the names and the `save_format` of Keras 2."""

    @functools.wraps(save)
    def save_weights(model: Any, filepath: Any, *args: Any, **options: Any) -> Any:
        for name in ("save_format", *OF_KERAS_2):
            options.pop(name, None)
        make_folder_of(filepath)
        if options.get("max_shard_size") is None and not args[1:]:
            filepath = weights_file(filepath)
        return save(model, filepath, *args, **options)

    return save_weights


def loads(load: Function, saved_as: Callable[[str], str]) -> Function:
    """`load_model` or `load_weights`: if there is no such file, load the one under which it was
    saved."""

    @functools.wraps(load)
    def find_and_load(*args: Any, **options: Any) -> Any:
        call = inspect.signature(load).bind(*args, **options)
        name = name_of(call.arguments["filepath"])
        if name and not os.path.isfile(name) and os.path.exists(saved := saved_as(name)):
            call.arguments["filepath"] = saved
        return load(*call.args, **call.kwargs)

    return find_and_load


def patch_saving(module: Any) -> None:
    """The functions behind `model.save`, `load_model`, `save_weights` and `load_weights`."""
    module.save_model = saves_model(module.save_model, module.load_model)
    module.save_weights = saves_weights(module.save_weights)
    module.load_model = loads(module.load_model, lambda name: with_ending(name, MODEL))
    module.load_weights = loads(module.load_weights, weights_name)


def patch_checkpoint(module: Any) -> None:
    """`ModelCheckpoint(path)`."""
    init = module.ModelCheckpoint.__init__

    @functools.wraps(init)
    def __init__(*args: Any, **options: Any) -> None:
        call = inspect.signature(init).bind(*args, **options)
        only_weights = call.arguments.get("save_weights_only", False)
        path = call.arguments["filepath"]
        call.arguments["filepath"] = weights_file(path) if only_weights else model_file(path)
        init(*call.args, **call.kwargs)

    module.ModelCheckpoint.__init__ = __init__


SAVING = (
    Patch(
        MODULE,
        STRATEGIES,
        "",
        "`save` and `save_weights` append the ending of Keras 3's format; a name without an ending"
        " also becomes a SavedModel",
        patch_saving,
        source_has("save_model", "Invalid filepath extension for saving"),
    ),
    Patch(
        CHECKPOINT,
        STRATEGIES,
        "",
        "`ModelCheckpoint` appends the ending",
        patch_checkpoint,
        source_has("ModelCheckpoint", "The filepath provided must end in"),
    ),
)
