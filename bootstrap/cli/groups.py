"""Groups of options that several tasks take."""

from __future__ import annotations

from typing import Annotated

from railhead.documents.options.hosts import TargetOptions
from railhead.documents.options.jobs import JobOptions
from railhead.documents.options.option import only
from railhead.documents.options.runs import ProgramOptions

Hosts = Annotated[TargetOptions, only("hosts", "stack")]
OfRun = Annotated[TargetOptions, only("hosts", "stack", "run")]
WithSlots = Annotated[TargetOptions, only("hosts", "stack", "slots")]
Packages = Annotated[ProgramOptions, only("requirements", "runtime")]
Prepared = Annotated[
    ProgramOptions,
    only(
        "requirements",
        "runtime",
        launcher="the launcher that the hosts are made ready for; only `horovod`, the default,"
        " compiles something",
    ),
]
OfJob = Annotated[JobOptions, only("job", "file")]
