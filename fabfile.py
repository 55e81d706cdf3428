"""`fab --list` shows what can be done. The tasks are in bootstrap/cli."""

from railhead.tasks import ns as ns
