"""Known causes of failures, by a script's last lines, and how to fix them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..console.text import clean

# Errors of a script that runs under the wrong Keras version (docs/troubleshooting.md).
WRONG_KERAS = {
    "3": (
        "'Variable' object has no attribute 'ref'",
        "'list' object is not callable",
        "unexpected keyword argument 'experimental_run_tf_function'",
        "Attempt to convert a value (PerReplica:",
        "optimizers.legacy is not supported in Keras 3",
        "has no attribute 'reset_states'",
        "Invalid filepath extension for saving",
    ),
    "2": (
        "No module named 'tf_keras.",
        "No module named 'keras.ops'",
        "tf_keras' has no attribute",
        "'function' object has no attribute 'assign'",
    ),
}


# A file that the script opened by a relative path.
_NOT_SENT = re.compile(r"FileNotFoundError: .*No such file or directory: '([^/'][^']{0,200})'")


def hint_of(lines: Sequence[str]) -> str:
    """How to fix an error in these lines; empty if its cause is not known."""
    text = "\n".join(clean(str(line)) for line in lines)
    return _keras(text) or _sagemaker(text) or _not_sent(text)


def _keras(text: str) -> str:
    for keras, errors in WRONG_KERAS.items():
        if any(error in text for error in errors):
            other = "2" if keras == "3" else "3"
            return f"the script is written for Keras {other}: add --keras {other}"
    return ""


def _sagemaker(text: str) -> str:
    """The replacement for a path of SageMaker."""
    match = re.search(r"/opt/ml(?!\w)(?:/([\w.-]+))?(?:/data/([\w.-]+))?", text)
    if not match:
        return ""
    folder, channel = match.groups()
    names = {"model": "SM_MODEL_DIR", "output": "SM_OUTPUT_DIR", "input": "SM_INPUT_DIR"}
    name = f"SM_CHANNEL_{channel.upper()}" if channel and folder == "input" else names.get(folder)
    return (
        f"{match[0]} is a folder of SageMaker: in the script, write"
        f" os.environ[{name or 'SM_...'!r}], and add --sagemaker (docs/data.md)"
    )


def _not_sent(text: str) -> str:
    match = _NOT_SENT.search(text)
    if not match:
        return ""
    what = f"{match[1]} is not on the hosts; files that .gitignore excludes are not sent"
    return f"{what}: --data NAME=FOLDER"
