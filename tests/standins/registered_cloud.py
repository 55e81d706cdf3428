"""A cloud of a test in the registry of clouds: fab opens it as it opens EC2 or Compute Engine.

Everything else of that cloud stays real: buckets, lists of machines, leftovers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bootstrap.inventory.clouds import CLOUDS
from bootstrap.inventory.hosts import Inventory

_registered: dict[str, Any] = {}


def register(patch: pytest.MonkeyPatch, name: str, cloud: Any) -> None:
    """Let `cloud` have the instances of every inventory of the cloud `name`. It has as much of
    base.Cloud as the test needs, and `of` where parts of its inventory differ."""
    patch.setitem(_registered, name, cloud)
    patch.setitem(CLOUDS, name, replace(CLOUDS[name], instances=f"{__name__}:opened"))


def opened(inventory: Inventory) -> Any:
    """What the registry calls."""
    cloud = _registered[inventory.cloud]
    return cloud.of(inventory) if hasattr(cloud, "of") else cloud
