"""Options: the program of a run, its end, its results, and series of runs."""

from __future__ import annotations

from collections.abc import Mapping

from railhead.documents.lazy import dataclass
from railhead.documents.options.option import option
from railhead.documents.runs.run import LONGEST_STALL, MOST_RETRIES, ON_STALL, STALL_AFTER
from railhead.documents.sagemaker import SDKS, TOOLKIT
from railhead.documents.uri import FORMS, PREFIXES

ID = {"doc": "the id of a run; default: the last"}


@dataclass(frozen=True)
class ProgramOptions:
    """What runs, on which data and in which environment. `fab train --resume` uses all these
    options again, with the values in the run's record."""

    launcher: str | None = option(
        None,
        "{launchers}; default: that of --strategy, or {launcher}",
        doc="`horovod`: one rank per slot. `tensorflow`: TensorFlow's own strategies. `jax`,"
        " `torch`: [their scripts](#jax-and-pytorch). Default: that of `--strategy`, otherwise"
        " `horovod`",
    )
    strategy: str | None = option(
        None,
        "{strategies}",
        doc="a name in [Strategies](training.md#strategies), or `auto` (built-in training)."
        " Default of `tensorflow`: `multiworker` for several hosts, `mirrored` for one",
    )
    ps: int | None = option(
        None,
        "parameter servers of --strategy parameter-server; default: 1",
        doc="with `--strategy parameter-server`: the number of"
        " [parameter servers](#parameter-servers), 1 to 64; default 1",
        at_least=1,
        at_most=64,
    )
    preset: str | None = option(
        None,
        "a set of values for the built-in training: digits, smoke, ...",
        doc="built-in training: a named set of settings, [Presets](#presets-and-settings)",
    )
    settings: Mapping[str, str] = option(
        {},
        "a setting of the built-in training, name=value; repeatable",
        doc="built-in training: one setting, `name=value`; overrides the preset",
        python='settings of the built-in training by name: {"epochs": 3}',
        flag="set",
        form="name=value",
    )
    training: str | None = option(
        None,
        "a folder named training: your modified copy of the built-in training",
        doc="a folder with the name `training`: your modified copy of the built-in training, which"
        " is uploaded instead: [A copy of your own](training.md#a-copy-of-your-own)",
        path=True,
    )
    script: str | None = option(
        None,
        "your own program, instead of the built-in training",
        doc="your own program instead of the built-in training:"
        " [Your own script](#your-own-script)",
        path=True,
    )
    module: str | None = option(
        None,
        "as --script, a module of the current folder or of --workdir: trainer.task",
        doc="as `--script`, for `python -m`: a module of the current folder or of `--workdir`, such"
        " as `trainer.task`",
    )
    workdir: str | None = option(
        None,
        "the folder to upload with --script and to run in; default: the script's folder",
        doc="with `--script`: the folder that is uploaded and in which the script starts. It must"
        " contain the script. Default: the folder of the script",
        path=True,
    )
    args: str | None = option(
        None,
        "arguments of --script, quoted as in a shell: --args='--epochs 3'",
        doc="with `--script`: its arguments, as you would type them in a shell",
        python='arguments of the script: text, a list, or a mapping: {"epochs": 3} is --epochs 3',
        joined=" ",
        whole_with="sagemaker",
    )
    data: Mapping[str, str] = option(
        {},
        "NAME=URI[,shard|replicate][,file|stream]: a folder or file here, host:/path, " + PREFIXES,
        doc=r"`NAME=URI[,shard\|replicate][,file\|stream]`: a local folder or file, `host:/path`,"
        " `s3://` or `gs://`; [Data](data.md#data-of-a-run)",
        python='the data, by name: {"train": "~/mnist"}; URI[,shard|replicate][,file|stream]',
        form="NAME=URI[,shard|replicate][,file|stream]",
        each_once=True,
    )
    sagemaker: int | None = option(
        None,
        "set SageMaker's variables for --script, as its SDK 2 (that of estimators) or 3 does",
        doc="with `--script`: the variables and folders of Amazon SageMaker, as its SDK `2` (the"
        " default, that of estimators) or `3` makes them;"
        " [Data](data.md#scripts-written-for-sagemaker)",
        python="set Amazon SageMaker's variables for --script, as its SDK 2 or 3 does; True: 2, the"
        " SDK of estimators. args as a mapping are its hyperparameters",
        choices=SDKS,
        bare=TOOLKIT,
    )
    keras: str | None = option(
        None,
        "auto, 2 or 3; default: auto, which decides from the script",
        doc="with `--script`: `auto`, `2` or `3`. Default: `auto`, which decides from the script:"
        " [Keras 2 or 3](#keras-2-or-3). The built-in training needs 3",
        choices=("auto", "2", "3"),
    )
    keras_patches: bool = option(
        True,
        "do not patch Keras 3 and Horovod in the ranks of --script",
        doc="with `--script`: leave Keras 3 and Horovod as they are. Without this option they are"
        " patched where the strategy needs it",
        flag="no-keras-patches",
    )
    independent: bool = option(
        False,
        "the ranks of --script are trainings of their own, which do not join each other",
        doc="with `--script`: its ranks do not join each other. Without this option a script with"
        " several ranks that never join is ended",
    )
    env: Mapping[str, str] = option(
        {},
        "an environment variable of the program, NAME=value; repeatable",
        doc="a variable for the program, `NAME=value`",
        python="environment variables of the program by name",
        form="NAME=value",
    )
    env_file: str | None = option(
        None,
        "a file of NAME=value lines",
        doc="a file with `NAME=value` lines; blank lines and lines that begin with `#` are skipped;"
        " `--env` overrides it",
        path=True,
    )
    secrets: tuple[str, ...] = option(
        (),
        "an environment variable to copy from this shell, never logged; repeatable",
        doc="the name of a variable of your shell that the program receives: [Secrets](#secrets)",
        flag="secret",
    )
    outputs: tuple[str, ...] = option(
        (),
        "a glob pattern of the files to fetch; default: all; repeatable",
        doc="a pattern of the files to fetch from the script's folder, such as `'*.h5'`; `*` also"
        " matches `/`. Default: all files that the run created or changed",
    )
    metrics: Mapping[str, str] = option(
        {},
        "numbers in the output of --script, NAME=REGEX with one group; repeatable",
        doc="with `--script`: `NAME=REGEX`, a number in its output to plot as a curve:"
        " [Metrics](#metrics-of-a-script)",
        python="patterns of numbers in the output of the script by name, each with one group",
        flag="metric",
        form="NAME=REGEX, with one group around the number: loss='loss: ([0-9.]+)'",
        each_once=True,
    )
    minimum: Mapping[str, float] = option(
        {},
        "minimum of a metric of the evaluation, NAME=NUMBER; repeatable",
        doc="`NAME=NUMBER`: a metric of the evaluation must be at least this, otherwise the exit"
        " code is 3; [Thresholds](#thresholds)",
        python='minima of metrics of the evaluation: {"accuracy": 0.97}',
        flag="min",
        form="NAME=NUMBER",
        each_once=True,
        was="mins",
    )
    maximum: Mapping[str, float] = option(
        {},
        "maximum of a metric of the evaluation, NAME=NUMBER; repeatable",
        doc="`NAME=NUMBER`: a metric of the evaluation must be at most this, otherwise the exit"
        " code is 3",
        python='maxima of metrics of the evaluation: {"loss": 0.3}',
        flag="max",
        form="NAME=NUMBER",
        each_once=True,
        was="maxs",
    )
    requirements: str | None = option(
        None,
        "a file of additional packages, resolved together with the runtime's pinned versions",
        doc="a file with additional packages: [Packages](#packages)",
        path=True,
    )
    runtime: str | None = option(
        None,
        "tf2.18, tf2.21, jax0.6 or torch2.10; default: by the launcher and the hosts' Python",
        doc="`tf2.18`, `tf2.21`, `jax0.6` or `torch2.10`: [Runtimes](#runtimes)",
    )

    @property
    def is_own(self) -> bool:
        """Whether the program is the user's own, not the built-in training."""
        return self.script is not None or self.module is not None


@dataclass(frozen=True)
class EndingOptions:
    """What happens at the end of a run, and when the run is cancelled."""

    keep: float | None = option(
        None,
        "time until machines stop after a failed run, such as 30m; a number is minutes;"
        " default: 20",
        doc="machines of a stack: how long they run after a failure or cancel, 0 to 1440"
        " minutes; default 20. After a success: 0",
        at_least=0,
        at_most=1440,
        unit="m",
    )
    stop: bool = option(
        True,
        "leave a stack's machines running after the run",
        doc="machines of a stack: do not stop them after the run",
        flag="no-stop",
    )
    max_hours: float | None = option(
        None,
        "cancel the run after this time, such as 90m or 2h; a number is hours",
        doc="cancel the run after this time, 0.01 to 168 hours. Earlier deadlines are moved; on"
        " Google Cloud, not beyond `maxRunDuration`",
        at_least=0.01,
        at_most=168,
        unit="h",
    )
    budget: float | None = option(
        None,
        "cancel the run, and stop the machines, before its hosts have cost this many US dollars",
        doc="US dollars for the hosts: before they are spent, the run is cancelled and machines"
        " stop; refused without a price",
        at_least=0.01,
        at_most=1_000_000,
    )
    on_stall: str = option(
        "restart",
        "what happens when the run makes no progress",
        doc="without progress ([stalls](troubleshooting.md#a-run-that-stalls)): `restart` starts"
        " again from a checkpoint, `stop` ends the run, `wait` shows it and needs a time limit",
        choices=ON_STALL,
    )
    stall_after: float = option(
        STALL_AFTER,
        "time without a step before the ranks are examined for a stall, such as 90s; a number is"
        " seconds",
        doc="the shortest time without a step after which the ranks are examined for a stall, 1 to"
        " 86400 seconds; default 60",
        at_least=1,
        at_most=LONGEST_STALL,
        unit="s",
    )


@dataclass(frozen=True)
class StartOptions:
    """How `fab train` starts a run."""

    name: str | None = option(
        None,
        "a name for the run, shown in the list of runs",
        doc="a name for the run, which [`fab runs`](tasks-results.md#runs) shows: at most 40"
        " letters, digits, dots, `-` and `_`",
        short="n",
    )
    resume: str | None = option(
        None,
        "the id of a run: the same program continues from its checkpoints",
        doc="the id of an earlier run: continue from its checkpoints, [more](#resume)",
    )
    elastic: str | None = option(
        None,
        "MIN:MAX hosts: a retry continues without hosts that do not answer",
        doc="`MIN:MAX` hosts: after a failure the run continues with those that answer, and takes"
        " others back: [Elastic runs](training.md#elastic-runs)",
        python='"MIN:MAX", numbers of hosts: a retry continues without hosts that do not answer',
    )
    retries: int | None = option(
        None,
        "start again so often after a failure, from the newest checkpoint; 0: never; default: 3",
        doc="how often the run starts again after a failure, from its newest checkpoint, 0 to 100:"
        " [Runs that survive](training.md#runs-that-survive). Default: 3 for runs with checkpoints",
        at_least=0,
        at_most=MOST_RETRIES,
    )
    spare: bool = option(
        True,
        "keep no process with the framework ready on each host for a retry",
        doc="no process with the framework on each host, ready for a retry:"
        " [Runs that survive](training.md#runs-that-survive)",
        flag="no-spare",
    )
    takeover: bool = option(
        False,
        "the second host continues the run if the chief is lost; needs a bucket",
        doc="the second host continues the run if the chief is lost:"
        " [A lost chief](reliability.md#a-lost-chief). Needs a bucket, two hosts and retries",
    )
    deploy: str | None = option(
        None,
        "after a success, serve the model as the endpoint of this name",
        doc="after a success, serve the model as the endpoint of this name, as"
        " [`fab deploy`](#deploy) does",
    )
    wait: bool = option(
        True,
        "return when the run has started",
        doc="start the run and return; `fab attach` watches it",
        flag="detach",
    )


@dataclass(frozen=True)
class EvaluateOptions:
    """Which model is evaluated, and where."""

    run: str | None = option(
        None,
        "a run id; default: the last run",
        doc="the id of the run, also without the name: `fab evaluate RUN`. Default: the last run",
    )
    here: bool = option(
        False,
        "evaluate on this computer instead of the hosts",
        doc="evaluate on this computer, as one rank without a GPU (Linux on x86_64, Python 3.10"
        " to 3.12)",
    )
    model: str | None = option(
        None,
        "which model of the run: a path in its results",
        doc="if the run has several `.keras` files: which one, as a path in its results; not with"
        " `--script`",
    )


@dataclass(frozen=True)
class ReportOptions:
    """Which runs a page shows, and where it is written."""

    runs: str | None = option(
        None,
        "ids of runs, comma-separated, or folders of results; default: the last run",
        doc="ids of runs, or folders of results, separated by commas; also without the name:"
        " `fab report ID,ID`. Default: the last run",
    )
    to: str | None = option(
        None,
        "the folder for the page",
        doc="the folder for the page. Default: the results of the run; for several runs"
        " `results/report-ID-and-N-more`",
    )
    by: str | None = option(
        None,
        "the metric that decides which run is best; default: the one that most runs have",
        doc="the metric that decides which run is best. Default: the one that most runs have; if"
        " several are equally frequent, `accuracy`, then `loss`, then `mae`",
    )
    open: bool = option(
        False,
        "show the page in the browser of this computer",
        doc="show the page in the browser of this computer",
    )


@dataclass(frozen=True)
class ListOptions:
    """The order of the runs."""

    sort: str = option(
        "time",
        "time, duration, cost, or a metric such as accuracy: the best first",
        doc="`time`: the newest first. `duration`, `cost`: the smallest first. A metric, such as"
        " `accuracy` or `loss`: the best first",
    )


@dataclass(frozen=True)
class CostsOptions:
    """Of which time, and whose costs."""

    since: float = option(
        30.0,
        "how far back, such as 12h or 7d; a number is days",
        at_least=0.01,
        at_most=3660,
        unit="d",
    )
    by: str = option("stack", "run, stack or person", choices=("run", "stack", "person"))
    bill: bool = option(
        False,
        "also what the cloud has billed, by the tags; AWS takes 0.01 USD a page, Google up to 0.10",
        doc="also what the cloud has billed, by the tags: Cost Explorer, 0.01 USD a page, or"
        " BigQuery, at most 0.10 USD",
    )


@dataclass(frozen=True)
class SweepOptions:
    """The trials of a sweep."""

    values: Mapping[str, tuple[str, ...]] = option(
        {},
        "values of a setting, or of an argument of --script: NAME=A,B; repeatable",
        doc="`NAME=VALUE,VALUE,...`: values of a setting or, with `--script`, of the script's"
        " argument `--NAME`. At most 100 combinations",
        python='values of settings, or of arguments of the script: {"lr": [0.1, 0.01]}',
        flag="set",
        form="NAME=VALUE,VALUE,...",
        separator=",",
        each_once=True,
    )
    random: int | None = option(
        None,
        "train this number of randomly drawn combinations instead of all",
        doc="train this number of randomly drawn combinations instead of all, 1 to 100; the same"
        " command always draws the same ones",
        at_least=1,
        at_most=100,
    )
    at_once: int = option(
        1,
        "trials at the same time, each on an equal slice of the hosts",
        doc="number of trials at the same time, each on an equal slice of the hosts. It must"
        " divide the number of hosts",
        at_least=1,
        at_most=100,
    )
    to_end: bool = option(
        False,
        "do not end hopeless trials early",
        doc="do not end hopeless trials early",
    )


@dataclass(frozen=True)
class ScaleOptions:
    """The numbers of hosts that are compared."""

    counts: tuple[int, ...] = option(
        (),
        "numbers of hosts, comma-separated: 1,2,4",
        doc="numbers of hosts, at least two: `1,2,4`",
        separator=",",
        at_least=1,
        at_most=1024,
    )
    of: tuple[str, ...] = option(
        (),
        "ids of existing runs, comma-separated: compare them, train nothing",
        doc="ids of existing runs, separated by commas: compare these, train nothing",
        separator=",",
    )


@dataclass(frozen=True)
class LogOptions:
    """Which log is printed."""

    rank: str = option(
        "0",
        "whose log: a rank's number, mpirun or supervisor",
        doc="whose log: the number of a rank, `mpirun` or `supervisor`",
    )
    follow: bool = option(
        False,
        "print new lines until the run ends",
        doc="print new lines until the run ends; `-f` is the same",
        short="f",
    )
    endpoint: str | None = option(
        None,
        "print the log of this endpoint's server, instead of a run's log",
        doc="an endpoint's name: print the log of its server, instead of a run's log",
    )


@dataclass(frozen=True)
class FetchOptions:
    """What is fetched, and to where."""

    to: str | None = option(
        None,
        "a folder for the results; default: results/ in the folder where fab train was typed",
        doc="a folder for the results, instead of `results/` in the folder where `fab train` was"
        " typed; it is recorded for later commands",
    )
    checkpoints: bool = option(
        False,
        "also fetch the newest checkpoint",
        doc="also fetch the newest checkpoint, into `checkpoints/`; for a script, the whole"
        " checkpoint folder. It may be large",
    )


@dataclass(frozen=True)
class PruneOptions:
    """How many runs are kept."""

    keep: int = option(
        10,
        "the number of newest runs to keep",
        doc="the number of newest runs to keep, 0 to 10000",
        at_least=0,
        at_most=10_000,
    )


@dataclass(frozen=True)
class PushOptions:
    """What is uploaded, and to where."""

    folder: str = option(
        help="a folder or a file on this computer",
        doc="a folder or a file on this computer; the option's name may be omitted:"
        " `fab data push FOLDER URI`",
        positional=True,
    )
    uri: str = option(
        help=f"{FORMS}, or bucket: the stack's bucket",
        doc="`s3://...`, `gs://...`, or `bucket` for the stack's bucket; the option's name may be"
        " omitted",
        positional=True,
    )


@dataclass(frozen=True)
class BucketOptions:
    """Which objects are listed."""

    uri: str | None = option(
        None,
        f"{FORMS}, or bucket: the stack's bucket",
        doc="`s3://...`, `gs://...`, or `bucket` for the stack's bucket; also without the name",
    )


@dataclass(frozen=True)
class ShardOptions:
    """Which samples are written as shards, and to where."""

    source: str = option(
        help=f"a folder or a file on this computer, {PREFIXES}",
        doc="a folder or a file on this computer, `s3://...` or `gs://...`; the option's name may"
        " be omitted",
        positional=True,
    )
    destination: str = option(
        help=f"a new folder on this computer, or {FORMS}",
        doc="a new folder on this computer, or a new prefix of a bucket; the option's name may be"
        " omitted",
        positional=True,
    )
    split: str = option(
        "train",
        "train, validation or test: which samples are written",
        doc="which samples of the source are written: `train`, `validation` or `test`",
    )
    shards: int = option(
        16,
        "number of files; a multiple of 8 reads fastest",
        doc="number of files, 1 to 100000; a multiple of 8 reads fastest",
        at_least=1,
        at_most=100_000,
    )


@dataclass(frozen=True)
class IndexOptions:
    """Which TFRecord files get an index, and where it is."""

    source: str = option(
        help=f"a folder on this computer, {PREFIXES}",
        doc="a folder on this computer, `s3://...` or `gs://...`; the option's name may be omitted",
        positional=True,
    )
    to: str | None = option(
        None,
        "another folder or prefix for the index; default: beside the files",
        doc="another folder or prefix for the index. Default: beside the files",
    )
    split: str = option(
        "train",
        "train, validation or test: of which files",
        doc="files whose names say `train`, `validation` or `test`; or no split",
    )
