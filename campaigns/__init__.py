"""Long tests, run by hand: `make campaign-NAME SEEDS=a:b`; a sample of most is in `tests`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the stand-ins of the tests
