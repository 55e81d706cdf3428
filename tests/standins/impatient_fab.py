"""`fab` that does not wait between two questions to a cloud: those of the tests answer at once."""

from __future__ import annotations

from bootstrap.cli.program import main
from bootstrap.clouds import base

base.POLL_SECONDS = 0.05
main()
