"""Calls of Horovod in a script whose arguments work with one Keras only, or with neither. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

NEITHER = 0  # in place of a Keras
OF_KERAS = ("horovod.tensorflow.keras", "horovod.keras")  # the modules with Horovod's Keras API
OPERATIONS = ("Adasum", "Max", "Min", "Product")  # of Horovod, which its Keras optimizers lack
# Arguments that only Keras 2 can have, by the name of the function.
ONLY_2 = {"DistributedOptimizer": "use_locking", "load_model": "legacy_opts"}
HINT = "op=hvd.Average or op=hvd.Sum; hvd.DistributedGradientTape also has op=hvd.Adasum"


def of_call(call: ast.Call, path: str) -> Iterator[tuple[int, str]]:
    """The Keras that the arguments of a call need, or NEITHER, and what the script does.

    Args:
        path: of the function, such as horovod.tensorflow.keras.DistributedOptimizer.
    """
    module, _, name = path.rpartition(".")
    if not module.startswith("horovod."):
        return
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    operation = getattr(keywords.get("op"), "attr", "")
    if name == "DistributedOptimizer" and module in OF_KERAS and operation in OPERATIONS:
        yield NEITHER, f"calls {name} of {module} with op={operation}"
    argument = ONLY_2.get(name, "")
    if getattr(keywords.get(argument), "value", None) is True:
        yield 2, f"calls {name} with {argument}=True"
