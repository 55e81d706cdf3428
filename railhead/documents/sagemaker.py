"""Hyperparameters as Amazon SageMaker gives them to a script: its arguments and variables.

Two programs start scripts there, and write the same dict in two ways: for version 2 of the SDK the
toolkit of the containers (sagemaker-training 5.1.4), for version 3 ModelTrainer (sagemaker-train
1.27.0, of sagemaker 3.27.0). tests/documents/test_sagemaker.py compares both packages with this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

TOOLKIT, MODEL_TRAINER = SDKS = (2, 3)
SHORT = re.compile("-[A-Za-z]")  # the toolkit gives a name of one letter one dash
Hyperparameters = Mapping[str, Any]
OF_PYTHON = {"True": True, "False": False, "None": None}


def object_in(text: str | None) -> Hyperparameters | None:
    """The hyperparameters in a text that is a JSON object; None for another text.

    Raises:
        ValueError: it begins like an object, but is not one.
    """
    if not text or not text.lstrip().startswith("{"):
        return None
    try:
        hyperparameters: Hyperparameters = json.loads(text)
    except RecursionError:
        raise ValueError("it is too deep") from None
    return hyperparameters


def object_of(hyperparameters: Hyperparameters) -> str:
    """Hyperparameters as a JSON object. A value that JSON lacks, such as a path, becomes its text.

    Raises:
        TypeError, ValueError: a key is not a text, or a value contains itself.
    """
    return json.dumps(hyperparameters, default=lambda value: loaded(str(value)))


def words(hyperparameters: Hyperparameters, sdk: int) -> tuple[str, ...]:
    """The arguments of the script."""
    if sdk == TOOLKIT:
        pairs = [(_dashed(name), _of_python(v)) for name, v in sorted(hyperparameters.items())]
    else:
        sent = values(hyperparameters, sdk).items()
        pairs = [(f"--{name}", text_of(loaded(value), sdk)) for name, value in sent]
    return tuple(word for pair in pairs for word in pair)


def values(hyperparameters: Hyperparameters, sdk: int) -> Hyperparameters:
    """The hyperparameters as SM_HPS has them. ModelTrainer reads texts as JSON."""
    if sdk == TOOLKIT:
        return dict(hyperparameters)
    return {name: loaded(value) for name, value in hyperparameters.items()}


def variables(of_values: Hyperparameters, sdk: int) -> dict[str, str]:
    """The variables of the values of SM_HPS."""
    names = {n: n.replace("-", "_") if sdk == MODEL_TRAINER else n for n in of_values}
    each = {f"SM_HP_{names[n].upper()}": text_of(value, sdk) for n, value in of_values.items()}
    return {**each, "SM_HPS": text_of(of_values, sdk)}


def values_in(args: Sequence[str], sdk: int) -> Hyperparameters:
    """The hyperparameters in arguments: `--epochs 3 --lr=0.1 -b 4 --flag`. A value is a number, a
    list or an object if it is JSON, otherwise text; without a value it is true."""
    hyperparameters: dict[str, Any] = {}
    name = ""
    for arg in args:
        if arg == "--":
            break
        if arg.startswith("--") or SHORT.fullmatch(arg):
            name, equals, value = arg.lstrip("-").partition("=")
            hyperparameters[name] = _value(value, sdk) if equals else True
            name = "" if equals else name
        elif name:
            hyperparameters[name], name = _value(arg, sdk), ""
    return hyperparameters


def text_of(value: Any, sdk: int) -> str:
    """A value as a variable has it: a text as it is, others as JSON."""
    if isinstance(value, str):
        return value
    if sdk == MODEL_TRAINER:
        return json.dumps(value)
    return "" if value is None else json.dumps(value, sort_keys=True, separators=(",", ":"))


def loaded(value: Any) -> Any:
    """The value of a text that is JSON; others as they are."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def _value(text: str, sdk: int) -> Any:
    """The toolkit writes the values of Python into the command line, as in `--augment False`."""
    return OF_PYTHON[text] if sdk == TOOLKIT and text in OF_PYTHON else loaded(text)


def _dashed(name: str) -> str:
    """A name as the toolkit writes it: `--epochs`, `-b`."""
    return f"--{name}" if len(name) > 1 else f"-{name}" if name else ""


def _of_python(value: Any) -> str:
    """A value as the toolkit writes it: as Python prints it, an object as `a=1,b=2`."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={inner}" for name, inner in sorted(value.items()))
    return "" if value is None else str(value)
