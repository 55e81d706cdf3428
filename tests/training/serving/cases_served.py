"""Every format in which a script may leave its model is loaded by the server, with its outputs."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tf_keras
from standins.case_runner import case, replaced

from training import keras_files
from training.serving import model as serving

INPUT = np.arange(6, dtype=np.float32).reshape(2, 3)


def make(version: Any, *layers: Any) -> Any:
    """A model that Keras 2 or 3 has trained."""
    model = version.Sequential([version.layers.Input((3,)), *layers, version.layers.Dense(2)])
    model.compile("sgd", "mse")
    model.fit(INPUT, np.ones((2, 2), np.float32), verbose=0)
    return model


def outputs(folder: Path) -> Any:
    """What the server's model gives for INPUT."""
    loaded = serving.load(folder)
    signature = loaded.signatures["serving_default"]
    (name,) = (tensor.name for tensor in signature.inputs)
    (output,) = loaded.functions["serving_default"]({name: INPUT}).values()
    return output


@case
def a_model_of_either_keras_is_loaded_in_each_format(folder: Path) -> None:
    for version, names in (
        (keras, ("m.keras", "m.h5")),
        (tf_keras, ("m.keras", "m.h5", "1")),  # SageMaker's model.save(SM_MODEL_DIR + "/1")
    ):
        model = make(version, version.layers.BatchNormalization())
        expected = model(INPUT, training=False).numpy()
        for name in names:
            place = folder / version.__name__ / f"of-{name}"
            place.mkdir(parents=True)
            model.save(place / name)
            output = outputs(place / name if name == "1" else place)
            assert np.allclose(output, expected, atol=1e-6), (version.__name__, name)


def of_a_later_keras(path: Path, value: object) -> None:
    """Give each Dense layer of a .keras file a key that this Keras does not know."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(files["config.json"])
    for layer in config["config"]["layers"]:
        if layer["class_name"] == "Dense":
            layer["config"]["of_the_future"] = value
    files["config.json"] = json.dumps(config).encode()
    files["metadata.json"] = json.dumps({"keras_version": "3.99.1"}).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)


@case
def a_file_of_a_later_keras_is_loaded_or_the_saved_model_beside_it(folder: Path) -> None:
    """Another value than that of LATER changes the layer: refused, with both versions."""
    model = make(keras)
    expected = model(INPUT, training=False).numpy()
    file = folder / "model.keras"
    with replaced(keras_files, LATER={"of_the_future": None}):
        for value in (None, True):
            model.save(file)
            of_a_later_keras(file, value)
            if value is None:
                assert np.allclose(outputs(folder), expected, atol=1e-6)
        try:
            serving.load(folder)
        except serving.ModelError as error:
            assert "3.99.1" in str(error) and keras.__version__ in str(error)
        else:
            raise AssertionError("it was loaded")
        model.export(folder / "saved_model", verbose=False)
        assert np.allclose(outputs(folder), expected, atol=1e-6)


@case
def a_keras_file_comes_before_a_saved_model_and_several_are_refused(folder: Path) -> None:
    model = make(keras)
    model.export(folder / "saved_model", verbose=False)
    assert serving.find(folder) == folder / "saved_model"
    model.save(folder / "model.keras")
    assert serving.find(folder) == folder / "model.keras"
    model.save(folder / "best.keras")
    try:
        serving.load(folder)
    except serving.ModelError as error:
        assert "best.keras, model.keras" in str(error)
    else:
        raise AssertionError("one of two was chosen")
