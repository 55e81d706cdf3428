"""What exists with a stack's id in a place of a cloud, by region.

    python -m bootstrap.clouds.existing ID '{"cloud": "aws", "region": "us-east-1"}'

prints it as JSON for `stacks`, which needs it before a stack may move.
"""

from __future__ import annotations

import json
import sys

from railhead.documents.codec import decode

from ..errors import RailheadError
from ..inventory.clouds import CLOUDS
from . import base
from .machines import Place, list_machines


def existing(place: Place, cluster_id: str) -> dict[str, list[str]]:
    """What has the id, as texts by region. RailheadError: the cloud does not answer, or refuses."""
    by_region: dict[str, list[str]] = {}
    for machine in list_machines(place).machines:
        if machine.cluster_id == cluster_id:
            text = f"{machine.name} ({machine.id}, {machine.state})"
            by_region.setdefault(machine.region, []).append(text)
    others: list[str] = base.call(CLOUDS[place.cloud].others, place, cluster_id, otherwise=[])
    by_region.setdefault(str(place.region), []).extend(others)
    return {region: each for region, each in by_region.items() if each}


def main() -> int:
    """Print what exists; if that is not known, print why and return 1."""
    cluster_id, place = sys.argv[1:]
    try:
        by_region = existing(decode(Place, json.loads(place)), cluster_id)
    except RailheadError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(by_region))
    return 0


if __name__ == "__main__":
    sys.exit(main())
