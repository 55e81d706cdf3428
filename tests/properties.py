"""Property tests with Hypothesis: bounded, and the same examples at each run.

RAILHEAD_EXAMPLES=5000 tries that many random examples instead; a failure prints the line that
repeats it.
"""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, configuration, settings
from hypothesis.internal.conjecture import providers

EXAMPLES = int(os.environ.get("RAILHEAD_EXAMPLES", "0"))
CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")

configuration.set_hypothesis_home_dir(CACHES / "railhead/hypothesis")
# Hypothesis also tries constants of the modules that are loaded: seconds to parse them, and other
# examples with each selection of tests.
setattr(providers, "is_local_module_file", lambda path: False)  # noqa: B010


def bounded(examples: int = 100) -> settings:
    """The decorator for a property test: so many examples, without a time limit for each."""
    return settings(
        max_examples=EXAMPLES or examples,
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
