"""Whether a run starts again after a failure, by the table of causes (`causes.py`)."""

from __future__ import annotations

# REPEATED: until the same error has come twice from one checkpoint.
NEVER, REPEATED, ALWAYS = "never", "unless it is repeated", "always"
