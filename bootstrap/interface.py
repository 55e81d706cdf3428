"""The Python interface, which the package `railhead` loads: docs/python.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bootstrap.cli.options import options_of
from bootstrap.cli.result_tasks import SweepOptions, run_scale, run_sweep
from bootstrap.cli.targets import Target
from bootstrap.cli.values import (
    Arguments,
    hosts_of,
    lists_of,
    text_of,
    texts_of,
    train_args,
)
from bootstrap.errors import BelowThreshold, RailheadError, RunFailed, UsageError
from bootstrap.evaluation import here as evaluation_here
from bootstrap.evaluation.recorded import is_recorded, judge_recorded
from bootstrap.evaluation.request import FOLDER, read_evaluation
from bootstrap.inventory.files import folder_of
from bootstrap.inventory.hosts import Inventory, whole_number
from bootstrap.lifecycle.power import ClusterStatus
from bootstrap.lifecycle.stop_policy import read_stop_policy
from bootstrap.report import listing, write
from bootstrap.report.facts import RunFacts, object_in, read_run
from bootstrap.runs.earlier_run import earlier_run
from bootstrap.runs.metrics.plots import Record
from bootstrap.serving.calls.rest import Signature
from bootstrap.serving.source import source_of
from bootstrap.workflows import attach, serving
from bootstrap.workflows import teardown as tearing_down
from bootstrap.workflows import train as train_workflow
from bootstrap.workflows.endpoint import OpenEndpoint
from bootstrap.workflows.resume import request_for

__all__ = [
    "BelowThreshold",
    "Cluster",
    "Endpoint",
    "RailheadError",
    "Run",
    "RunFailed",
    "Sweep",
    "UsageError",
    "runs",
]


class Cluster:
    """The hosts of a run. As a context manager it tears down at the end: processes and keys are
    removed from hosts, machines of a stack are stopped.

    Args:
        hosts: `user@host:port*slots`, comma-separated or as a list, as with --hosts. None: the
            selected stack, else the hosts of the last command, as `fab` without --hosts.
        results: the folder for the results of runs; default: `results` in the current folder.
        slots, system, requirements, runtime, peer_address, allow_mixed: the options of `fab train`
            with these names.
    """

    def __init__(
        self,
        hosts: str | Sequence[str] | None = None,
        *,
        slots: int | None = None,
        system: bool = False,
        requirements: str | None = None,
        runtime: str | None = None,
        peer_address: str | None = None,
        allow_mixed: bool = False,
        results: str | Path = "results",
    ) -> None:
        number = whole_number(text_of(slots), "slots", 1, 1024)
        self._target = Target(hosts_of(hosts), slots=number, start=True)
        self._system, self._allow_mixed = system, allow_mixed
        self._requirements, self._runtime = text_of(requirements), text_of(runtime)
        self._peer_address = text_of(peer_address)
        self._results = folder_of(text_of(results) or "results", "results")

    @classmethod
    def from_stack(cls, stack: str | None = None, **options: Any) -> Cluster:
        """The machines of a Pulumi stack, default: the selected one. They are started when they are
        needed. `options`: those of Cluster, without `hosts`."""
        cluster = cls(None, **options)
        cluster._target = replace(cluster._target, stack=stack)
        return cluster

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.teardown()

    def train(
        self,
        *,
        preset: str | None = None,
        settings: Mapping[str, Any] | None = None,
        training: str | Path | None = None,
        script: str | Path | None = None,
        args: Arguments = None,
        workdir: str | Path | None = None,
        data: Mapping[str, str | Path] | None = None,
        launcher: str | None = None,
        strategy: str | None = None,
        ps: int | None = None,
        keras: int | None = None,
        env: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
        outputs: Sequence[str] = (),
        metrics: Mapping[str, str] | None = None,
        minimum: Mapping[str, float] | None = None,
        maximum: Mapping[str, float] | None = None,
        sagemaker: bool = False,
        resume: Run | str | None = None,
        keep: float | None = None,
        stop: bool = True,
        max_hours: float | None = None,
        wait: bool = True,
    ) -> Run:
        """Start a training and, unless `wait` is False, follow it to its end: `fab train`.

        Args:
            settings: --set, by name. args: of the script, as text, as a list, or as a mapping:
                {"epochs": 3} is --epochs 3. data: --data, by name. metrics: patterns, by name.
            minimum, maximum: thresholds of the evaluation, by metric (--min, --max).
            resume: a run whose checkpoints this one goes on from.
            keep, stop, max_hours: --keep, --no-stop, --max-hours.
            Each of the others is the option of `fab train` with its name.

        Raises:
            UsageError: nothing was started. RunFailed: the run failed or was cancelled.
            BelowThreshold: the evaluation missed a threshold; the run succeeded.
        """
        given = train_args(
            launcher=launcher, strategy=strategy, ps=ps, preset=preset, settings=settings,
            training=training, script=script, workdir=workdir, args=args, keras=keras, env=env,
            secrets=secrets, outputs=outputs, data=data, sagemaker=sagemaker, metrics=metrics,
            requirements=self._requirements, runtime=self._runtime, mins=minimum, maxs=maximum,
        )  # fmt: skip
        policy = read_stop_policy(text_of(keep), not stop, text_of(max_hours))
        earlier = earlier_run(_run_id(resume)) if resume is not None else None
        request, used = request_for(given, earlier)
        options = options_of(
            system=self._system, requirements=used.requirements, peer_address=self._peer_address,
            runtime=used.runtime, launcher=request.options.launcher, mixed=self._allow_mixed,
        )  # fmt: skip
        chosen = train_workflow.TrainOptions(
            request, options, self._results, detach=True, stop_policy=policy, earlier=earlier
        )
        run = Run(train_workflow.train(self._inventory(), chosen).run_id)
        if wait:
            run.wait()
        return run

    def sweep(
        self, values: Mapping[str, Sequence[Any] | str], *, random: int | None = None,
        at_once: int = 1, to_end: bool = False, preset: str | None = None,
        script: str | Path | None = None, args: Arguments = None,
        workdir: str | Path | None = None, data: Mapping[str, str | Path] | None = None,
        launcher: str | None = None, strategy: str | None = None,
        env: Mapping[str, str] | None = None, secrets: Sequence[str] = (),
        metrics: Mapping[str, str] | None = None,
    ) -> Sweep:  # fmt: skip
        """Train each combination of `values`, and compare them: `fab sweep`. The same call
        continues after a break.

        Args:
            values: for each setting (of a script: argument) its values, {"learning_rate": [0.1,
                0.01]}. random: so many of the combinations. at_once: trials at the same time, each
                on an equal slice of the hosts. to_end: also hopeless trials to their end.
            Each of the others as in `train`.

        Raises:
            UsageError: nothing was started. RailheadError: some trials did not end.
        """
        self._require_defaults()
        base = train_args(
            preset=preset, script=script, args=args, workdir=workdir, data=data, launcher=launcher,
            strategy=strategy, env=env, secrets=secrets, metrics=metrics,
            requirements=self._requirements, runtime=self._runtime,
        )  # fmt: skip
        options = SweepOptions(lists_of(values), text_of(random), text_of(at_once), to_end)
        done = run_sweep(replace(self._target, start=False), base, options, self._results)
        runs = {name: Run(run_id) for name, run_id in done.runs.items()}
        return Sweep(done.page, runs, Run(done.best) if done.best else None)

    def scale(
        self, counts: Sequence[int], *, preset: str | None = None,
        settings: Mapping[str, Any] | None = None, script: str | Path | None = None,
        args: Arguments = None, workdir: str | Path | None = None,
        data: Mapping[str, str | Path] | None = None, launcher: str | None = None,
        strategy: str | None = None, env: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (), metrics: Mapping[str, str] | None = None,
    ) -> Path:  # fmt: skip
        """Train on each number of hosts in `counts`, and say where more hosts stop paying:
        `fab scale`; returns the page. Each of the others as in `train`.

        Raises:
            UsageError: nothing was started. RailheadError: a run failed.
        """
        self._require_defaults()
        given = train_args(
            preset=preset, settings=settings, script=script, args=args, workdir=workdir, data=data,
            launcher=launcher, strategy=strategy, env=env, secrets=secrets, metrics=metrics,
            requirements=self._requirements, runtime=self._runtime,
        )  # fmt: skip
        return run_scale(self._target, given, ",".join(texts_of(counts)), self._results)

    def teardown(self) -> None:
        """End the processes of runs and endpoints, remove keys, stop a stack's machines, and print
        the receipt: `fab teardown`."""
        machines = self._target.machines()
        if machines is None:
            tearing_down.teardown(self._target.status().inventory, tearing_down.TeardownOptions())
        else:
            if machines.inventory:
                self._target.status_of(machines)
            tearing_down.teardown_stack(machines, tearing_down.TeardownOptions(yes=True))

    def _require_defaults(self) -> None:
        """UsageError for options of the cluster that `fab sweep` and `fab scale` do not have."""
        if self._system or self._peer_address:
            rule = "system and peer_address are for train; sweep and scale do without"
            raise UsageError(rule, hint="fab bootstrap --hosts a,b --system   # before")

    def _inventory(self) -> Inventory:
        return self._target.running()


@dataclass(frozen=True)
class Run:
    """A run that was started from this machine, by its id: `railhead.Run("2026...")`."""

    run_id: str

    @property
    def results(self) -> Path:
        """The folder of the fetched results."""
        return self._facts().folder

    @property
    def state(self) -> str:
        """`succeeded`, `failed` or `cancelled`; `ended early` for a trial that its sweep has
        cancelled; `not fetched` before its results are here."""
        return self._facts().state

    def wait(self) -> Run:
        """Follow the run to its end and fetch its results: `fab attach`.

        Raises:
            RunFailed: it failed, was cancelled, or the connection was lost. BelowThreshold: its
                evaluation missed a threshold.
        """
        attach.attach(self._hosts(), self.run_id)
        return self

    def cancel(self) -> None:
        """End the run on every host: `fab cancel`."""
        attach.cancel(self._hosts(), self.run_id)

    def metrics(self) -> list[Record]:
        """The records of the run in the order in which they were written: a dict for each epoch,
        progress and value of a metric; pandas.DataFrame(run.metrics()) makes a table."""
        return list(self._facts().records)

    def evaluation(self) -> dict[str, Any]:
        """evaluation.json; {} if the run has none."""
        return object_in(self.results / "evaluation.json")

    def evaluate(
        self,
        *,
        data: Mapping[str, str | Path] | None = None,
        minimum: Mapping[str, float] | None = None,
        maximum: Mapping[str, float] | None = None,
        script: str | Path | None = None,
        args: Arguments = None,
        metrics: Mapping[str, str] | None = None,
        model: str | None = None,
        here: bool = False,
    ) -> dict[str, Any]:
        """Evaluate the model of the run on held-out data: `fab evaluate`; returns evaluation.json.

        For a run of a script, without `script` and `data`: judges what the script has reported.

        Raises:
            BelowThreshold: the evaluation missed a threshold.
        """
        given = train_args(
            script=script, args=args, data=data, metrics=metrics, mins=minimum, maxs=maximum,
        )  # fmt: skip
        earlier = earlier_run(self.run_id)
        if is_recorded(earlier, given, model):
            return judge_recorded(earlier, given)
        request = read_evaluation(earlier, given, model)
        if here:
            return object_in(evaluation_here.evaluate(earlier, request) / "evaluation.json")
        options = options_of(launcher=request.options.launcher, mixed=True)
        chosen = train_workflow.TrainOptions(request, options, earlier.run.results / FOLDER)
        done = train_workflow.train(self._hosts(), chosen)
        return object_in(done.results / "evaluation.json")

    def deploy(
        self,
        name: str = "model",
        *,
        hours: float = 1.0,
        port: int | None = None,
        here: bool = False,
        trust_model: bool = False,
        server: str | None = None,
        update: bool = False,
        model: str | Path | None = None,
        max_batch: int | None = None,
        max_delay: float | None = None,
        hosts: str | Sequence[str] | None = None,
        stack: str | None = None,
    ) -> Endpoint:
        """Serve the model of the run until its time-to-live is over: `fab deploy`.

        Args:
            model: the one of the run's models to serve, as its results name it.
            trust_model: with `here`, also a model whose file may run code when it is loaded.
            hosts, stack: where it is served, in place of the hosts of the run.
            Each of the others is the option of `fab deploy` with its name.

        Raises:
            UsageError: a wrong option, no model, or an endpoint of this name serves already.
        """
        from bootstrap.serving.request import read_request as read_deployment

        request = read_deployment(
            name, text_of(port), text_of(hours), text_of(max_batch), text_of(max_delay), server,
            update=update,
        )  # fmt: skip
        source = source_of(self.run_id, text_of(model), trusted=trust_model)
        if here:
            serving.deploy_here(request, source)
        else:
            status = self._status(hosts_of(hosts), stack)
            serving.deploy_on_host(status, request, source)
        return Endpoint(name)

    def report(self, *others: Run, to: str | Path | None = None) -> Path:
        """Write the page about this run, or one that compares it with others: `fab report`."""
        names = [self.run_id, *(run.run_id for run in others)]
        return write.report(names, text_of(to), None, self.results.parent)

    def _facts(self) -> RunFacts:
        return read_run(self.run_id)

    def _hosts(self) -> Inventory:
        return Target(run=self.run_id, start=True).running()

    def _status(self, hosts: str | None = None, stack: str | None = None) -> ClusterStatus:
        return Target(hosts, stack, run=self.run_id).status()


@dataclass(frozen=True)
class Sweep:
    """A sweep that has ended: its page, the run of each trial by the values of the trial, such as
    "learning_rate=0.1", and the best run; None if no two can be compared."""

    page: Path
    runs: Mapping[str, Run]
    best: Run | None


@dataclass(frozen=True)
class Endpoint:
    """A served model, by its name. As a context manager it is deleted at the end.

    The first call opens an SSH connection to its host, and the endpoint keeps it: a later call
    costs a round trip. One that broke is opened again, once for each call.
    """

    name: str
    _open: OpenEndpoint = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_open", OpenEndpoint(self.name))

    def predict(self, samples: Any) -> Any:
        """The outputs of the model for samples.

        Args:
            samples: an array [batch, ...], or for a model with named inputs {input: array}; or the
                path of a file: a PNG or JPEG, .npy, .csv or .json.

        Returns:
            For NumPy arrays an array, or {output: array} of a model with several outputs. For lists
            and files lists; {output: list} where the samples have names.

        Raises:
            UsageError: the samples are no array, the model does not take them, or the endpoint does
                not serve. RailheadError: it does not answer.
        """
        if isinstance(samples, (str, Path)):
            return self._open.predict_file(Path(samples).expanduser())
        return self._open.predict(samples)

    @property
    def signature(self) -> Signature:
        """The inputs and outputs of the model: for each its `dtype` and its `shape`."""
        return self._open.metadata().signature

    @property
    def version(self) -> int:
        """The version that serves now."""
        return self._open.metadata().version

    def close(self) -> None:
        """End the connection to the host. The endpoint serves on, and another call opens one."""
        self._open.close()

    def delete(self) -> None:
        """End the endpoint, and verify that nothing of it is left: `fab undeploy`."""
        self.close()
        serving.undeploy(self.name)

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *error: object) -> None:
        self.delete()


def runs(sort: str = "time") -> list[dict[str, Any]]:
    """The runs that are known here, and those in the buckets of stacks: `fab runs --json`.

    Args:
        sort: time, duration, cost, or a metric such as accuracy: the best first.

    Raises:
        UsageError: no run has the metric.
    """
    return [row.document() for row in listing.known_runs(sort)]


def _run_id(run: Run | str) -> str:
    return run.run_id if isinstance(run, Run) else text_of(run) or ""
