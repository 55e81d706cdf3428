"""The methods of the Python interface: `make generate` writes them from the options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from railhead.documents.options.hosts import ReadyOptions, TargetOptions
from railhead.documents.options.option import from_values
from railhead.documents.options.runs import (
    EndingOptions,
    EvaluateOptions,
    ProgramOptions,
    ScaleOptions,
    StartOptions,
    SweepOptions,
)
from railhead.documents.options.serving import DeployOptions

from ..errors import UsageError

if TYPE_CHECKING:
    from .cluster import Sweep
    from .endpoint import Endpoint
    from .run import Run

T = TypeVar("T")
Arguments = str | Sequence[Any] | Mapping[str, Any]


def _read(group: type[T], **values: Any) -> T:
    return from_values(group, values, UsageError)


class ClusterMethods(ABC):
    """Its options are checked here."""

    def __init__(
        self,
        hosts: str | Sequence[str] | None = None,
        *,
        slots: int | None = None,
        peer_address: str | Sequence[str] = (),
        system: bool = False,
        allow_mixed: bool = False,
        requirements: str | Path | None = None,
        runtime: str | None = None,
        results: str | Path = "results",
    ) -> None:
        """The hosts of runs, and how they are made ready.

        Args:
            hosts: user@host:port*slots; default: the stack's hosts, or the last ones used
            slots: Horovod ranks per host; default: one per GPU, or one without a GPU
            peer_address: IP addresses that the hosts use to reach each other, in the order
                of the hosts
            system: allow system changes (apt packages, driver, reboot) on hosts of --hosts
            allow_mixed: allow several GPU types in one cluster
            requirements: a file of additional packages, resolved together with the
                runtime's pinned versions
            runtime: tf2.18, tf2.21, jax0.6 or torch2.10; default: by the launcher and the
                hosts' Python
            results: the folder for the results of runs; default: `results` in the current
                folder
        """
        self._configure(
            _read(TargetOptions, hosts=hosts, slots=slots),
            _read(ReadyOptions, peer_address=peer_address, system=system, allow_mixed=allow_mixed),
            _read(ProgramOptions, requirements=requirements, runtime=runtime),
            results,
        )

    @abstractmethod
    def _configure(
        self,
        target: TargetOptions,
        ready: ReadyOptions,
        program: ProgramOptions,
        results: str | Path,
    ) -> None: ...

    def train(
        self,
        *,
        launcher: str | None = None,
        strategy: str | None = None,
        ps: int | None = None,
        preset: str | None = None,
        settings: Mapping[str, Any] | None = None,
        training: str | Path | None = None,
        script: str | Path | None = None,
        module: str | None = None,
        workdir: str | Path | None = None,
        args: Arguments | None = None,
        data: Mapping[str, Any] | None = None,
        sagemaker: int | str | None = None,
        keras: int | str | None = None,
        keras_patches: bool = True,
        independent: bool = False,
        env: Mapping[str, Any] | None = None,
        env_file: str | Path | None = None,
        secrets: Sequence[str] = (),
        outputs: Sequence[str] = (),
        metrics: Mapping[str, Any] | None = None,
        minimum: Mapping[str, float] | None = None,
        maximum: Mapping[str, float] | None = None,
        keep: float | None = None,
        stop: bool = True,
        max_hours: float | None = None,
        budget: float | None = None,
        on_stall: str = "restart",
        stall_after: float = 60.0,
        name: str | None = None,
        resume: Run | str | None = None,
        elastic: str | None = None,
        retries: int | None = None,
        spare: bool = True,
        takeover: bool = False,
        deploy: str | None = None,
        wait: bool = True,
    ) -> Run:
        """Start a training and, unless `wait` is False, follow it to its end: `fab train`.

        Args:
            launcher: horovod or tensorflow or jax or torch; default: that of --strategy, or
                horovod
            strategy: horovod, multiworker, mirrored, one-device, parameter-server, jax,
                torch, auto
            ps: parameter servers of --strategy parameter-server; default: 1
            preset: a set of values for the built-in training: digits, smoke, ...
            settings: settings of the built-in training by name: {"epochs": 3} (--set)
            training: a folder named training: your modified copy of the built-in training
            script: your own program, instead of the built-in training
            module: as --script, a module of the current folder or of --workdir:
                trainer.task
            workdir: the folder to upload with --script and to run in; default: the script's
                folder
            args: arguments of the script: text, a list, or a mapping: {"epochs": 3} is
                --epochs 3
            data: the data, by name: {"train": "~/mnist"};
                URI[,shard|replicate][,file|stream]
            sagemaker: set Amazon SageMaker's variables for --script, as its SDK 2 or 3
                does; True: 2, the SDK of estimators. args as a mapping are its
                hyperparameters
            keras: auto, 2 or 3; default: auto, which decides from the script
            keras_patches: False: do not patch Keras 3 and Horovod in the ranks of --script
                (--no-keras-patches)
            independent: the ranks of --script are trainings of their own, which do not join
                each other
            env: environment variables of the program by name
            env_file: a file of NAME=value lines
            secrets: an environment variable to copy from this shell, never logged
                (--secret)
            outputs: a glob pattern of the files to fetch; default: all
            metrics: patterns of numbers in the output of the script by name, each with one
                group (--metric)
            minimum: minima of metrics of the evaluation: {"accuracy": 0.97} (--min)
            maximum: maxima of metrics of the evaluation: {"loss": 0.3} (--max)
            keep: time until machines stop after a failed run, such as 30m; a number is
                minutes; default: 20
            stop: False: leave a stack's machines running after the run (--no-stop)
            max_hours: cancel the run after this time, such as 90m or 2h; a number is hours
            budget: cancel the run, and stop the machines, before its hosts have cost this
                many US dollars
            on_stall: what happens when the run makes no progress; default: restart
            stall_after: time without a step before the ranks are examined for a stall, such
                as 90s; a number is seconds; default: 60
            name: a name for the run, shown in the list of runs
            resume: the id of a run: the same program continues from its checkpoints
            elastic: "MIN:MAX", numbers of hosts: a retry continues without hosts that do
                not answer
            retries: start again so often after a failure, from the newest checkpoint; 0:
                never; default: 3
            spare: False: keep no process with the framework ready on each host for a retry
                (--no-spare)
            takeover: the second host continues the run if the chief is lost; needs a bucket
            deploy: after a success, serve the model as the endpoint of this name
            wait: False: return when the run has started (--detach)

        Raises:
            UsageError: nothing was started. RunFailed: the run failed or was cancelled.
                BelowThreshold: the evaluation missed a threshold; the run succeeded.
        """
        return self._train(
            _read(
                ProgramOptions,
                launcher=launcher,
                strategy=strategy,
                ps=ps,
                preset=preset,
                settings=settings,
                training=training,
                script=script,
                module=module,
                workdir=workdir,
                args=args,
                data=data,
                sagemaker=sagemaker,
                keras=keras,
                keras_patches=keras_patches,
                independent=independent,
                env=env,
                env_file=env_file,
                secrets=secrets,
                outputs=outputs,
                metrics=metrics,
                minimum=minimum,
                maximum=maximum,
            ),
            _read(
                EndingOptions,
                keep=keep,
                stop=stop,
                max_hours=max_hours,
                budget=budget,
                on_stall=on_stall,
                stall_after=stall_after,
            ),
            _read(
                StartOptions,
                name=name,
                resume=resume,
                elastic=elastic,
                retries=retries,
                spare=spare,
                takeover=takeover,
                deploy=deploy,
                wait=wait,
            ),
        )

    @abstractmethod
    def _train(
        self, program: ProgramOptions, ending: EndingOptions, start: StartOptions
    ) -> Run: ...

    def sweep(
        self,
        values: Mapping[str, Sequence[Any] | str],
        *,
        random: int | None = None,
        at_once: int = 1,
        to_end: bool = False,
        launcher: str | None = None,
        strategy: str | None = None,
        preset: str | None = None,
        script: str | Path | None = None,
        module: str | None = None,
        workdir: str | Path | None = None,
        args: Arguments | None = None,
        data: Mapping[str, Any] | None = None,
        keras: int | str | None = None,
        keras_patches: bool = True,
        env: Mapping[str, Any] | None = None,
        secrets: Sequence[str] = (),
        metrics: Mapping[str, Any] | None = None,
        retries: int | None = None,
    ) -> Sweep:
        """Train each combination of `values`, and compare them: `fab sweep`. The same call
        continues after a break.

        Args:
            values: values of settings, or of arguments of the script: {"lr": [0.1, 0.01]}
                (--set)
            random: train this number of randomly drawn combinations instead of all
            at_once: trials at the same time, each on an equal slice of the hosts; default:
                1
            to_end: do not end hopeless trials early
            launcher: horovod or tensorflow or jax or torch; default: that of --strategy, or
                horovod
            strategy: horovod, multiworker, mirrored, one-device, parameter-server, jax,
                torch, auto
            preset: a set of values for the built-in training: digits, smoke, ...
            script: your own program, instead of the built-in training
            module: as --script, a module of the current folder or of --workdir:
                trainer.task
            workdir: the folder to upload with --script and to run in; default: the script's
                folder
            args: arguments of the script: text, a list, or a mapping: {"epochs": 3} is
                --epochs 3
            data: the data, by name: {"train": "~/mnist"};
                URI[,shard|replicate][,file|stream]
            keras: auto, 2 or 3; default: auto, which decides from the script
            keras_patches: False: do not patch Keras 3 and Horovod in the ranks of --script
                (--no-keras-patches)
            env: environment variables of the program by name
            secrets: an environment variable to copy from this shell, never logged
                (--secret)
            metrics: patterns of numbers in the output of the script by name, each with one
                group (--metric)
            retries: start again so often after a failure, from the newest checkpoint; 0:
                never; default: 3

        Raises:
            UsageError: nothing was started. RailheadError: some trials did not end.
        """
        return self._sweep(
            _read(SweepOptions, values=values, random=random, at_once=at_once, to_end=to_end),
            _read(
                ProgramOptions,
                launcher=launcher,
                strategy=strategy,
                preset=preset,
                script=script,
                module=module,
                workdir=workdir,
                args=args,
                data=data,
                keras=keras,
                keras_patches=keras_patches,
                env=env,
                secrets=secrets,
                metrics=metrics,
            ),
            _read(StartOptions, retries=retries),
        )

    @abstractmethod
    def _sweep(
        self, sweep: SweepOptions, program: ProgramOptions, start: StartOptions
    ) -> Sweep: ...

    def scale(
        self,
        counts: Sequence[int],
        *,
        launcher: str | None = None,
        strategy: str | None = None,
        preset: str | None = None,
        settings: Mapping[str, Any] | None = None,
        script: str | Path | None = None,
        module: str | None = None,
        workdir: str | Path | None = None,
        args: Arguments | None = None,
        data: Mapping[str, Any] | None = None,
        keras: int | str | None = None,
        keras_patches: bool = True,
        env: Mapping[str, Any] | None = None,
        secrets: Sequence[str] = (),
        metrics: Mapping[str, Any] | None = None,
        retries: int | None = None,
    ) -> Path:
        """Train on each number of hosts in `counts`, and name where more hosts stop paying:
        `fab scale`; returns the page.

        Args:
            counts: numbers of hosts: 1,2,4
            launcher: horovod or tensorflow or jax or torch; default: that of --strategy, or
                horovod
            strategy: horovod, multiworker, mirrored, one-device, parameter-server, jax,
                torch, auto
            preset: a set of values for the built-in training: digits, smoke, ...
            settings: settings of the built-in training by name: {"epochs": 3} (--set)
            script: your own program, instead of the built-in training
            module: as --script, a module of the current folder or of --workdir:
                trainer.task
            workdir: the folder to upload with --script and to run in; default: the script's
                folder
            args: arguments of the script: text, a list, or a mapping: {"epochs": 3} is
                --epochs 3
            data: the data, by name: {"train": "~/mnist"};
                URI[,shard|replicate][,file|stream]
            keras: auto, 2 or 3; default: auto, which decides from the script
            keras_patches: False: do not patch Keras 3 and Horovod in the ranks of --script
                (--no-keras-patches)
            env: environment variables of the program by name
            secrets: an environment variable to copy from this shell, never logged
                (--secret)
            metrics: patterns of numbers in the output of the script by name, each with one
                group (--metric)
            retries: start again so often after a failure, from the newest checkpoint; 0:
                never; default: 3

        Raises:
            UsageError: nothing was started. RailheadError: a run failed.
        """
        return self._scale(
            _read(ScaleOptions, counts=counts),
            _read(
                ProgramOptions,
                launcher=launcher,
                strategy=strategy,
                preset=preset,
                settings=settings,
                script=script,
                module=module,
                workdir=workdir,
                args=args,
                data=data,
                keras=keras,
                keras_patches=keras_patches,
                env=env,
                secrets=secrets,
                metrics=metrics,
            ),
            _read(StartOptions, retries=retries),
        )

    @abstractmethod
    def _scale(self, scale: ScaleOptions, program: ProgramOptions, start: StartOptions) -> Path: ...


class RunMethods(ABC):
    """Its options are checked here."""

    run_id: str

    def evaluate(
        self,
        *,
        here: bool = False,
        model: str | None = None,
        script: str | Path | None = None,
        args: Arguments | None = None,
        data: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
        minimum: Mapping[str, float] | None = None,
        maximum: Mapping[str, float] | None = None,
    ) -> dict[str, Any]:
        """Evaluate the model of the run on held-out data: `fab evaluate`; returns
        evaluation.json. For a run of a script, without `script` and `data`: judges what the
        script has reported.

        Args:
            here: evaluate on this computer instead of the hosts
            model: which model of the run: a path in its results
            script: your own program, instead of the built-in training
            args: arguments of the script: text, a list, or a mapping: {"epochs": 3} is
                --epochs 3
            data: the data, by name: {"train": "~/mnist"};
                URI[,shard|replicate][,file|stream]
            metrics: patterns of numbers in the output of the script by name, each with one
                group (--metric)
            minimum: minima of metrics of the evaluation: {"accuracy": 0.97} (--min)
            maximum: maxima of metrics of the evaluation: {"loss": 0.3} (--max)

        Raises:
            BelowThreshold: the evaluation missed a threshold.
        """
        return self._evaluate(
            _read(EvaluateOptions, here=here, model=model, run=self.run_id),
            _read(
                ProgramOptions,
                script=script,
                args=args,
                data=data,
                metrics=metrics,
                minimum=minimum,
                maximum=maximum,
            ),
        )

    @abstractmethod
    def _evaluate(self, evaluate: EvaluateOptions, program: ProgramOptions) -> dict[str, Any]: ...

    def deploy(
        self,
        name: str = "model",
        *,
        here: bool = False,
        model: str | Path | None = None,
        trust_model: bool = False,
        port: int | None = None,
        hours: float = 1.0,
        update: bool = False,
        max_batch: int | None = None,
        max_delay: float = 2.0,
        server: str = "railhead",
        hosts: str | Sequence[str] | None = None,
        stack: str | None = None,
    ) -> Endpoint:
        """Serve the model of the run until its time-to-live is over: `fab deploy`.

        Args:
            name: the name of the endpoint; default: model
            here: serve on this computer instead of the hosts
            model: which of the models of the run, as a path in its results
            trust_model: with --here: also load a model that has no safe mode, without
                confirmation
            port: a port of 127.0.0.1 on the host
            hours: time-to-live, such as 30m or 2h, from now until it is terminated; a
                number is hours; default: 1
            update: switch the endpoint of this name to a new version; no request is refused
                meanwhile
            max_batch: samples in one call of the model; 1: no batching; default: 32
            max_delay: milliseconds that a sample waits for other samples; default: 2
            server: railhead, or tensorflow-serving: the host's tensorflow_model_server;
                default: railhead
            hosts: user@host:port*slots; default: the stack's hosts, or the last ones used
            stack: a Pulumi stack; default: the selected stack

        Raises:
            UsageError: a wrong option, no model, or an endpoint of this name serves
                already.
        """
        return self._deploy(
            _read(
                DeployOptions,
                here=here,
                model=model,
                trust_model=trust_model,
                name=name,
                port=port,
                hours=hours,
                update=update,
                max_batch=max_batch,
                max_delay=max_delay,
                server=server,
            ),
            _read(TargetOptions, hosts=hosts, stack=stack),
        )

    @abstractmethod
    def _deploy(self, deploy: DeployOptions, target: TargetOptions) -> Endpoint: ...
