"""`fab` for the stack in the working directory. It does not wait between two questions to a cloud:
those of the tests answer at once."""

from __future__ import annotations

from pathlib import Path

from bootstrap.cli.program import main
from bootstrap.clouds import base
from bootstrap.inventory import pulumi_cli

pulumi_cli.CLONE = Path.cwd()
base.POLL_SECONDS = 0.05
main()
