"""`python -m campaigns.launches --first N --count M`: simulated launches; 1 where one went wrong.

Beside them, the same events with plain `pulumi up` and `pulumi destroy`: how many machines run at
the end, until their deadline.
"""

from __future__ import annotations

import argparse
import sys

from campaigns.launches.model import play
from campaigns.launches.people import PlainPerson
from campaigns.launches.scenario import draw


def main() -> int:
    """Run the scenarios."""
    options = argparse.ArgumentParser(prog="python -m campaigns.launches", description=__doc__)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--count", type=int, default=1000)
    chosen = options.parse_args()
    wrong = plain = 0
    for seed in range(chosen.first, chosen.first + chosen.count):
        steps = draw(seed)
        outcome = play(steps)
        plain += len(play(steps, PlainPerson).left)
        if not outcome.is_right:
            wrong += 1
            print(f"seed {seed}: {'; '.join(map(str, steps))}\n  {outcome}")
    print(
        f"{chosen.count} seeds from {chosen.first}: {wrong} went wrong; with plain Pulumi {plain} "
        "machines run at the end"
    )
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
