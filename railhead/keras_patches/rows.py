"""All patches, and those of a strategy."""

from __future__ import annotations

from .draws import DRAWS
from .gradients import GRADIENTS
from .horovod.rows import HOROVOD
from .losses import LOSSES
from .multiworker import MULTIWORKER
from .names import NAMES
from .normalization import NORMALIZATION
from .own_steps import OWN_STEPS
from .parameter_server import PARAMETER_SERVER
from .patch import Patch
from .saving import SAVING

PATCHES: tuple[Patch, ...] = (
    *MULTIWORKER,
    *GRADIENTS,
    *DRAWS,
    *LOSSES,
    *OWN_STEPS,
    *NORMALIZATION,
    *PARAMETER_SERVER,
    *NAMES,
    *SAVING,
    *HOROVOD,
)


def patches_for(strategy: str) -> tuple[Patch, ...]:
    """The patches that scripts with this --strategy need under Keras 3."""
    return tuple(row for row in PATCHES if strategy in row.strategies)
