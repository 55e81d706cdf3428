"""The methods of the Python interface: `make generate` writes the classes from the options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from railhead.documents.options.hosts import ReadyOptions, TargetOptions
from railhead.documents.options.option import from_values, options_in
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


def _read(group: type[T], arguments: Mapping[str, Any]) -> T:
    """The group, from those arguments of a method that are its options."""
    names = [option.name for option in options_in(group) if option.name in arguments]
    return from_values(group, {name: arguments[name] for name in names}, UsageError)


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
            hosts: user@host:port*slots, separated by commas; default: those of the stack,
                or the last ones used
            slots: ranks on each host without *slots in --hosts, for horovod and parameter-
                server; default: one per GPU, or one; from 1 to 1024
            peer_address: the IP addresses that the hosts use to reach each other, in their
                order. Default: those on the routes between them
            system: allow system changes on ad-hoc hosts: packages, a driver, a restart
            allow_mixed: allow GPUs of several types in one cluster. Each step waits for the
                slowest GPU, and each batch must fit the smallest GPU memory
            requirements: a file with additional packages
            runtime: tf2.18, tf2.21, jax0.6 or torch2.10. Default: by the launcher and the
                hosts' Python
            results: the folder for the results of runs; default: `results` in the current
                folder
        """
        arguments = locals()
        self._configure(
            _read(TargetOptions, arguments),
            _read(ReadyOptions, arguments),
            _read(ProgramOptions, arguments),
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
            launcher: horovod: one rank per slot. tensorflow: TensorFlow's own strategies.
                jax, torch: for scripts of JAX and PyTorch. Default: that of --strategy,
                otherwise horovod
            strategy: horovod, multiworker, mirrored, one-device, parameter-server, jax,
                torch or auto. Default of tensorflow: multiworker, on one host mirrored
            ps: with --strategy parameter-server: the number of parameter servers; default:
                1; from 1 to 64
            preset: a named set of settings for the built-in training, such as digits, smoke
            settings: settings of the built-in training by name: {"epochs": 3} (--set)
            training: a folder named training: your modified copy of the built-in training,
                which is uploaded instead
            script: your own program instead of the built-in training
            module: as --script, but run by python -m: a module of the current folder or of
                --workdir, such as trainer.task
            workdir: with --script: the folder that is uploaded, and where the script
                starts; it contains the script. Default: the folder of the script
            args: arguments of the script: text, a list, or a mapping: {"epochs": 3} is
                --epochs 3
            data: the data, by name: {"train": "~/mnist"};
                URI[,shard|replicate][,file|stream]
            sagemaker: set Amazon SageMaker's variables for --script, as its SDK 2 or 3
                does; True: 2, the SDK of estimators. A mapping in args is its
                hyperparameters
            keras: with --script: the version of Keras. Default: auto, which decides from
                the script. The built-in training needs 3
            keras_patches: False: with --script: leave Keras 3 and Horovod as they are.
                Without this option they are patched where the strategy needs it (--no-
                keras-patches)
            independent: with --script: its ranks work independently. Without this option, a
                script whose ranks never join each other is terminated
            env: environment variables of the program by name
            env_file: a file with NAME=value lines; blank lines and lines that begin with #
                are skipped; --env overrides it
            secrets: the name of a variable of this shell: the program receives it, no log
                contains it (--secret)
            outputs: a pattern of the files to fetch from the script's folder, such as
                '*.h5'; * also matches /. Default: all new or changed files
            metrics: patterns of numbers in the output of the script by name, each with one
                group (--metric)
            minimum: minima of metrics of the evaluation: {"accuracy": 0.97} (--min)
            maximum: maxima of metrics of the evaluation: {"loss": 0.3} (--max)
            keep: machines of a stack: how long they run after a failure or cancel; default:
                20 minutes; from 0 to 1440 minutes, or as 30m
            stop: False: machines of a stack: do not stop them after the run (--no-stop)
            max_hours: cancel the run after this time. Earlier deadlines are moved; on
                Google Cloud, not beyond maxRunDuration; from 0.01 to 168 hours, or as 30m
            budget: US dollars for the hosts: before they are spent, the run is cancelled
                and machines stop; refused without a known price; from 0.01 to 1000000
            on_stall: without progress (stalls): restart starts again from a checkpoint,
                stop ends the run, wait shows it; default: restart
            stall_after: the shortest time without a step after which the ranks are examined
                for a stall; from 1 to 86400 seconds, or as 30m; default: 60
            name: a name for the run, which fab runs shows: at most 40 letters, digits,
                dots, - and _
            resume: the id of an earlier run: continue from its checkpoints
            elastic: "MIN:MAX", numbers of hosts: a retry continues without hosts that do
                not answer
            retries: how often the run starts again after a failure, from its newest
                checkpoint. Default: 3 with checkpoints; from 0 to 100
            spare: False: do not keep a process with the imported framework on each host for
                a retry (--no-spare)
            takeover: the second host continues the run if the chief is lost. Needs a
                bucket, two hosts and retries
            deploy: after a success, serve the model as the endpoint of this name, as fab
                deploy does
            wait: False: start the run and return; fab attach watches it (--detach)

        Raises:
            UsageError: nothing was started. RunFailed: the run failed or was cancelled.
                BelowThreshold: the evaluation missed a threshold; the run succeeded.
        """
        arguments = locals()
        return self._train(
            _read(ProgramOptions, arguments),
            _read(EndingOptions, arguments),
            _read(StartOptions, arguments),
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
            random: train this number of randomly drawn combinations instead of all; the
                same command always draws the same ones; from 1 to 100
            at_once: trials at the same time, each on an equal slice of the hosts; must
                divide the number of hosts; from 1 to 100; default: 1
            to_end: do not end hopeless trials early
            launcher, strategy, preset, script, module, workdir, args, data, keras,
                keras_patches, env, secrets, metrics, retries: as for `Cluster.train`

        Raises:
            UsageError: nothing was started. RailheadError: some trials did not end.
        """
        arguments = locals()
        return self._sweep(
            _read(SweepOptions, arguments),
            _read(ProgramOptions, arguments),
            _read(StartOptions, arguments),
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
            counts: numbers of hosts, at least two: 1,2,4; from 1 to 1024
            launcher, strategy, preset, settings, script, module, workdir, args, data,
                keras, keras_patches, env, secrets, metrics, retries: as for `Cluster.train`

        Raises:
            UsageError: nothing was started. RailheadError: a run failed.
        """
        arguments = locals()
        return self._scale(
            _read(ScaleOptions, arguments),
            _read(ProgramOptions, arguments),
            _read(StartOptions, arguments),
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
            here: evaluate on this computer, as one rank without a GPU (Linux on x86_64,
                Python 3.10 to 3.12)
            model: if the run has several .keras files: which one, as a path in its results;
                not with --script
            script, args, data, metrics, minimum, maximum: as for `Cluster.train`

        Raises:
            BelowThreshold: the evaluation missed a threshold.
        """
        arguments = locals() | {"run": self.run_id}
        return self._evaluate(_read(EvaluateOptions, arguments), _read(ProgramOptions, arguments))

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
            name: the name of the endpoint, 1 to 63 letters, digits, _ and -; default: model
            here: serve on this computer instead of the chief
            model: which of the models of the run, as a path in its results
            trust_model: with --here: also load a model without a safe mode, without
                confirmation
            port: a port of 127.0.0.1 on the host; default: the first free one from 8501 on;
                from 1024 to 65535
            hours: time-to-live from now until it is terminated; from 0.01 to 168 hours, or
                as 30m; default: 1
            update: switch the endpoint of this name to a new version, with a new time-to-
                live; no request is refused meanwhile
            max_batch: samples in one call of the model; default: 32, or 1 with --server
                tensorflow-serving; from 1 to 4096
            max_delay: milliseconds that a sample waits for other samples; from 0 to 1000;
                default: 2
            server: railhead, or tensorflow-serving. --update keeps the server; default:
                railhead
            hosts: user@host:port*slots, separated by commas; default: those of the stack,
                or the last ones used
            stack: a Pulumi stack; default: the selected one

        Raises:
            UsageError: a wrong option, no model, or an endpoint of this name serves
                already.
        """
        arguments = locals()
        return self._deploy(_read(DeployOptions, arguments), _read(TargetOptions, arguments))

    @abstractmethod
    def _deploy(self, deploy: DeployOptions, target: TargetOptions) -> Endpoint: ...
