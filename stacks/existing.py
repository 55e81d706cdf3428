"""What exists with a cluster's id in a place, as `bootstrap` finds it; for our own program.

It looks in a separate process, and for every cloud: also for one that is not the stack's any more.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

from railhead.installation import PREFIX

from .place import NotKnown, Place

SECONDS = 120


def by_bootstrap(own_id: str, place: Place) -> Mapping[str, list[str]]:
    """What exists with the id, by region; in all regions where the place has none.

    Raises:
        NotKnown: the cloud does not answer, or refuses.
    """
    argv = [sys.executable, "-m", f"{PREFIX}bootstrap.clouds.existing", own_id, json.dumps(place)]
    try:
        process = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
        )
        why = process.stderr.strip()
    except subprocess.TimeoutExpired:
        raise NotKnown(f"there was no answer within {SECONDS} s") from None
    if why or process.returncode:
        raise NotKnown(why)
    found: dict[str, list[str]] = json.loads(process.stdout)
    return found
