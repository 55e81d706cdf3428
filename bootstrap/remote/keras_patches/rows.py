"""All patches, and those of a strategy."""

from __future__ import annotations

from .horovod.rows import HOROVOD
from .multiworker import MULTIWORKER
from .names import NAMES
from .parameter_server import PARAMETER_SERVER
from .patch import Patch

PATCHES: tuple[Patch, ...] = (*MULTIWORKER, *PARAMETER_SERVER, *NAMES, *HOROVOD)


def patches_for(strategy: str) -> tuple[Patch, ...]:
    """The patches that scripts with this --strategy need under Keras 3."""
    return tuple(patch for patch in PATCHES if strategy in patch.strategies)
