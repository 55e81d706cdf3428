"""`railhead.job`: a job of railhead.toml, as a cluster and the arguments of its training."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from pathlib import Path

from railhead.documents.options.jobs import JobOptions, Table, values_of
from railhead.documents.options.option import text_value

from ..errors import UsageError
from ..project import job_file
from .methods import ClusterMethods


@dataclass(frozen=True)
class Job:
    """A job, for `Cluster.from_job`. `arguments`: those of `Cluster.train`, such as
    {"preset": "digits"}."""

    stack: str | None
    of_cluster: Table
    arguments: Table


def job(name: str, file: str | Path = job_file.FILE) -> Job:
    """A job of a job file. Raises UsageError as `fab train NAME --file FILE` does, and for an
    option that Python does not have."""
    chosen = job_file.chosen(
        JobOptions(job=text_value(name, UsageError), file=text_value(file, UsageError))
    )
    assert chosen
    job_file.ask(chosen)
    values = dict(values_of(chosen.table, chosen.error))
    stack = values.pop("stack", None)
    values.pop("start", None)  # the machines are started when they are needed
    of_train = {*signature(ClusterMethods.train).parameters}
    of_cluster = {*signature(ClusterMethods.__init__).parameters}
    for option in values:
        if option not in of_train | of_cluster:
            raise chosen.error(
                f"{option}: Python does not have this option; use train of the shell"
            )
    return Job(
        stack,
        {name: value for name, value in values.items() if name in of_cluster},
        {name: value for name, value in values.items() if name in of_train},
    )
