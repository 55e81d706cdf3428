"""The tasks of this project: those of Railhead, and your own, which you add below."""

from railhead.tasks import ns as ns
