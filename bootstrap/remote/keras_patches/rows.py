"""All patches, and those of a strategy."""

from __future__ import annotations

from .horovod.rows import HOROVOD
from .multiworker import MULTIWORKER
from .names import NAMES
from .parameter_server import PARAMETER_SERVER
from .patch import Patch
from .saving import SAVING

PATCHES: tuple[Patch, ...] = (*MULTIWORKER, *PARAMETER_SERVER, *NAMES, *SAVING, *HOROVOD)


def patches_for(strategy: str, *, was_chosen: bool = True) -> tuple[Patch, ...]:
    """The patches that scripts with this --strategy need under Keras 3. `was_chosen`: by --keras 3;
    otherwise a name that only Keras 2 saves is left to Keras 2."""
    rows = (row for row in PATCHES if was_chosen or row not in SAVING)
    return tuple(row for row in rows if strategy in row.strategies)
