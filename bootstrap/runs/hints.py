"""Known causes of failures, by a script's last lines, and how to fix them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from railhead.documents.result import other_keras

from ..console.text import clean
from ..remote.keras_retry.errors import needs_other

# A file that the script opened by a relative path.
_NOT_SENT = re.compile(r"FileNotFoundError: .*No such file or directory: '([^/'][^']{0,200})'")


def hint_of(lines: Sequence[str], keras: int | None = None) -> str:
    """How to fix an error in these lines; empty if its cause is not known.

    Args:
        keras: the Keras of the run; None if it is not known, or if both were tried.
    """
    cleaned = [clean(str(line)) for line in lines]
    text = "\n".join(cleaned)
    return _keras(cleaned, keras) or _sagemaker(text) or _not_sent(text)


def _keras(lines: Sequence[str], keras: int | None) -> str:
    if keras is None or not needs_other(keras, lines):
        return ""
    other = other_keras(keras)
    return f"the script is written for Keras {other}: add --keras {other}"


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
