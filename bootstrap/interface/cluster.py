"""`railhead.Cluster`: trains, sweeps and scales on the hosts of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from railhead.documents.options.hosts import ReadyOptions, TargetOptions, TeardownOptions
from railhead.documents.options.option import text_value
from railhead.documents.options.runs import (
    EndingOptions,
    ProgramOptions,
    ScaleOptions,
    StartOptions,
    SweepOptions,
)
from railhead.documents.rule import shortened

from ..cli import shell, status
from ..cli.targets import Target
from ..console.output import print_lines
from ..errors import Command, Hint, UsageError
from ..inventory import local_state
from ..inventory.files import folder_option
from ..lifecycle import stop
from ..lifecycle.power import cluster_status
from ..untrusted.decode import JsonObject
from ..workflows import serving, teardown, train
from ..workflows.series import scale, trials
from .job import Job
from .methods import ClusterMethods
from .printed import document_of
from .run import Run
from .shown import Page
from .spelling import speaks_python


@dataclass(frozen=True)
class Sweep:
    """A sweep that has ended: its page, the run of each trial by the values of the trial, such as
    "learning_rate=0.1", and the best run; None if no two can be compared."""

    page: Path
    runs: Mapping[str, Run]
    best: Run | None


@speaks_python
class Cluster(ClusterMethods):
    """The hosts of a run. As a context manager it tears down at the end: processes and keys are
    removed from hosts, machines of a stack are stopped."""

    def _configure(
        self,
        target: TargetOptions,
        ready: ReadyOptions,
        packages: ProgramOptions,
        results: str | Path,
    ) -> None:
        self._target, self._ready, self._packages = Target(target), ready, packages
        self._results = folder_option(text_value(results or "results", UsageError), "results")

    @classmethod
    def from_stack(cls, stack: str | None = None, **options: Any) -> Cluster:
        """The machines of a Pulumi stack, default: the selected one. They are started when they are
        needed. `options`: those of Cluster, without `hosts`."""
        cluster = cls(None, **options)
        if not isinstance(stack, str | None):
            raise UsageError(f"{shortened(stack)} is not the name of a stack")
        cluster._target = Target(replace(cluster._target.options, stack=stack))
        return cluster

    @classmethod
    def from_job(cls, job: Job) -> Cluster:
        """The hosts of a job; those of `Cluster()` where it names none."""
        if job.stack is not None:
            return cls.from_stack(job.stack, **job.of_cluster)
        return cls(**job.of_cluster)

    def __repr__(self) -> str:
        options = self._target.options
        if options.stack:
            return f"railhead.Cluster.from_stack({options.stack!r})"
        if options.hosts:
            return f"railhead.Cluster({options.hosts!r})"
        return "railhead.Cluster()   # the selected stack, otherwise the hosts of the last command"

    def status(self) -> JsonObject:
        """The machines, the hosts and the last run, as they are now: `fab status --json`."""
        machines = self._target.machines()
        where = self._target.status_of(machines)
        return document_of(lambda: status.show(where, None, machines))

    def exec(self, cmd: str) -> dict[str, str]:
        """Run a shell command on every host: `fab exec`. Returns what it printed, by host.

        Raises:
            HostsFailed: it failed on a host; `outcomes` has what each one printed.
        """
        return shell.outputs(self._target.running(), cmd)

    def stop(self) -> None:
        """Stop a stack's machines and wait until the cloud confirms: `fab stop --yes`."""
        machines = self._target.machines()
        where = self._target.status_of(machines)
        stop.stop(where.inventory, print_lines, yes=True, discard=False)

    def runs(self) -> list[Run]:
        """The runs on these hosts that are recorded here, the newest first."""
        name = self._target.status().inventory.name
        return [Run(path.stem) for path in sorted(local_state.runs(name), reverse=True)]

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.teardown()

    def _train(self, program: ProgramOptions, ending: EndingOptions, start: StartOptions) -> Run:
        program = self._with_packages(program)
        train.check_deploy(start)
        detached = replace(start, wait=False, deploy=None)
        options = train.train_options(program, self._ready, ending, detached, self._results)
        inventory = self._started().running()
        if start.deploy:
            serving.check_free(start.deploy, inventory)
        run = Run(train.train(inventory, options).run_id)
        if not start.wait:
            return run
        run.wait()
        if start.deploy:
            serving.deploy_trained(start.deploy, run.run_id, lambda: cluster_status(inventory))
        return run

    def _sweep(self, trial: SweepOptions, program: ProgramOptions, start: StartOptions) -> Sweep:
        self._require_defaults()
        program = self._with_packages(program)
        sweep = trials.run_sweep(self._target.status, program, trial, start, self._results)
        runs = {name: Run(run_id) for name, run_id in sweep.runs.items()}
        return Sweep(Page(sweep.page), runs, Run(sweep.best) if sweep.best else None)

    def _scale(self, compared: ScaleOptions, program: ProgramOptions, start: StartOptions) -> Path:
        self._require_defaults()
        program = self._with_packages(program)
        running = self._started().running
        return Page(scale.run_scale(running, program, compared.counts, start, self._results))

    def teardown(self) -> None:
        """End the processes of runs and endpoints, remove keys, stop a stack's machines, and print
        the receipt: `fab teardown`."""
        machines = self._target.machines()
        if machines is None:
            teardown.teardown(self._target.status().inventory, TeardownOptions())
        else:
            if machines.inventory:
                self._target.status_of(machines)
            teardown.teardown_stack(machines, TeardownOptions(yes=True))

    def _started(self) -> Target:
        """The hosts; machines of a stack are started."""
        return Target(replace(self._target.options, start=True))

    def _with_packages(self, program: ProgramOptions) -> ProgramOptions:
        packages = self._packages
        return replace(program, requirements=packages.requirements, runtime=packages.runtime)

    def _require_defaults(self) -> None:
        """UsageError for options of the cluster that `fab sweep` and `fab scale` do not have."""
        if self._ready.system or self._ready.peer_address:
            rule = "system and peer_address are for train; sweep and scale do without"
            raise UsageError(
                rule, hint=Hint(Command("bootstrap", hosts="a,b", system=True), "   # before")
            )
