"""Options: the program of a run, its end, its results, and series of runs."""

from __future__ import annotations

from collections.abc import Mapping

from railhead.documents.lazy import dataclass
from railhead.documents.options.option import option
from railhead.documents.runs.run import LONGEST_STALL, MOST_RETRIES, ON_STALL, STALL_AFTER
from railhead.documents.sagemaker import SDKS, TOOLKIT

ID = {"doc": "the id of a run; default: the last"}


@dataclass(frozen=True)
class ProgramOptions:
    """What runs, on which data and in which environment. `fab train --resume` uses all these
    options again, with the values in the run's record."""

    launcher: str | None = option(
        None,
        "`horovod`: one rank per slot. `tensorflow`: TensorFlow's own strategies. `jax`, "
        "`torch`: for [scripts of JAX and PyTorch](#jax-and-pytorch). Default: that of "
        "`--strategy`, otherwise `horovod`",
    )
    strategy: str | None = option(
        None,
        "`horovod`, `multiworker`, `mirrored`, `one-device`, `parameter-server`, `jax`, `torch` or "
        "`auto`: [Strategies](training.md#strategies). Default of `tensorflow`: `multiworker`, on "
        "one host `mirrored`",
    )
    ps: int | None = option(
        None,
        "with `--strategy parameter-server`: the number of [parameter "
        "servers](#parameter-servers); default: 1",
        at_least=1,
        at_most=64,
    )
    preset: str | None = option(
        None,
        "a named set of settings for the built-in training, such as `digits`, `smoke`: "
        "[Presets](#presets-and-settings)",
    )
    settings: Mapping[str, str] = option(
        {},
        "a setting of the built-in training, `name=value`; overrides the preset",
        python='settings of the built-in training by name: {"epochs": 3}',
        flag="set",
        form="name=value",
    )
    training: str | None = option(
        None,
        "a folder named `training`: your modified copy of the built-in training, which is "
        "uploaded instead: [A copy of your own](training.md#a-copy-of-your-own)",
        path=True,
    )
    script: str | None = option(
        None,
        "your own program instead of the built-in training: [Your own script](#your-own-script)",
        path=True,
    )
    module: str | None = option(
        None,
        "as `--script`, but run by `python -m`: a module of the current folder or of "
        "`--workdir`, such as `trainer.task`",
    )
    workdir: str | None = option(
        None,
        "with `--script`: the folder that is uploaded, and where the script starts; it "
        "contains the script. Default: the folder of the script",
        path=True,
    )
    args: str | None = option(
        None,
        "arguments of `--script`, as you would type them in a shell: `--args='--epochs 3'`",
        python='arguments of the script: text, a list, or a mapping: {"epochs": 3} is --epochs 3',
        joined=" ",
        whole_with="sagemaker",
    )
    data: Mapping[str, str] = option(
        {},
        r"`NAME=URI[,shard\|replicate][,file\|stream]`: a local folder or file, `host:/path`, "
        "`s3://` or `gs://`: [Data](data.md#data-of-a-run)",
        python='the data, by name: {"train": "~/mnist"}; URI[,shard|replicate][,file|stream]',
        form="NAME=URI[,shard|replicate][,file|stream]",
        each_once=True,
    )
    sagemaker: int | None = option(
        None,
        "with `--script`: set the variables and folders of Amazon SageMaker, as its SDK `2` (the "
        "default: estimators) or `3` does: [Data](data.md#scripts-written-for-sagemaker)",
        python="set Amazon SageMaker's variables for --script, as its SDK 2 or 3 does; True: 2, the"
        " SDK of estimators. A mapping in args is its hyperparameters",
        choices=SDKS,
        bare=TOOLKIT,
    )
    keras: str | None = option(
        None,
        "with `--script`: the version of Keras. Default: `auto`, which decides from the script: "
        "[Keras 2 or 3](#keras-2-or-3). The built-in training needs 3",
        choices=("auto", "2", "3"),
    )
    keras_patches: bool = option(
        True,
        "with `--script`: leave Keras 3 and Horovod as they are. Without this option they are"
        " patched where the strategy needs it",
        flag="no-keras-patches",
    )
    independent: bool = option(
        False,
        "with `--script`: its ranks work independently. Without this option, a script whose "
        "ranks never join each other is terminated",
    )
    env: Mapping[str, str] = option(
        {},
        "a variable for the program, `NAME=value`",
        python="environment variables of the program by name",
        form="NAME=value",
    )
    env_file: str | None = option(
        None,
        "a file with `NAME=value` lines; blank lines and lines that begin with `#` are "
        "skipped; `--env` overrides it",
        path=True,
    )
    secrets: tuple[str, ...] = option(
        (),
        "the name of a variable of this shell: the program receives it, no log contains it: "
        "[Secrets](#secrets)",
        flag="secret",
    )
    outputs: tuple[str, ...] = option(
        (),
        "a pattern of the files to fetch from the script's folder, such as `'*.h5'`; `*` also"
        " matches `/`. Default: all new or changed files",
    )
    metrics: Mapping[str, str] = option(
        {},
        "with `--script`: `NAME=REGEX`, a number in its output to plot as a curve: "
        "[Metrics](#metrics-of-a-script)",
        python="patterns of numbers in the output of the script by name, each with one group",
        flag="metric",
        form="NAME=REGEX, with one group around the number: loss='loss: ([0-9.]+)'",
        each_once=True,
    )
    minimum: Mapping[str, float] = option(
        {},
        "`NAME=NUMBER`: a metric of the evaluation must be at least this, otherwise the exit "
        "code is 3: [Thresholds](#thresholds)",
        python='minima of metrics of the evaluation: {"accuracy": 0.97}',
        flag="min",
        form="NAME=NUMBER",
        each_once=True,
        was="mins",
    )
    maximum: Mapping[str, float] = option(
        {},
        "`NAME=NUMBER`: a metric of the evaluation must be at most this, otherwise the exit "
        "code is 3",
        python='maxima of metrics of the evaluation: {"loss": 0.3}',
        flag="max",
        form="NAME=NUMBER",
        each_once=True,
        was="maxs",
    )
    requirements: str | None = option(
        None, "a file with additional packages: [Packages](#packages)", path=True
    )
    runtime: str | None = option(
        None,
        "`tf2.18`, `tf2.21`, `jax0.6` or `torch2.10`: [Runtimes](#runtimes). Default: by the "
        "launcher and the hosts' Python",
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
        "machines of a stack: how long they run after a failure or cancel; default: 20 minutes",
        at_least=0,
        at_most=1440,
        unit="m",
    )
    stop: bool = option(True, "machines of a stack: do not stop them after the run", flag="no-stop")
    max_hours: float | None = option(
        None,
        "cancel the run after this time. Earlier deadlines are moved; on Google Cloud, not "
        "beyond `maxRunDuration`",
        at_least=0.01,
        at_most=168,
        unit="h",
    )
    budget: float | None = option(
        None,
        "US dollars for the hosts: before they are spent, the run is cancelled and machines "
        "stop; refused without a known price",
        at_least=0.01,
        at_most=1_000_000,
    )
    on_stall: str = option(
        "restart",
        "without progress ([stalls](troubleshooting.md#a-run-that-stalls)): `restart` starts "
        "again from a checkpoint, `stop` ends the run, `wait` shows it",
        choices=ON_STALL,
    )
    stall_after: float = option(
        STALL_AFTER,
        "the shortest time without a step after which the ranks are examined for a stall",
        at_least=1,
        at_most=LONGEST_STALL,
        unit="s",
    )


@dataclass(frozen=True)
class StartOptions:
    """How `fab train` starts a run."""

    name: str | None = option(
        None,
        "a name for the run, which [`fab runs`](tasks-results.md#runs) shows: at most 40 "
        "letters, digits, dots, `-` and `_`",
        short="n",
    )
    resume: str | None = option(
        None, "the id of an earlier run: continue from its checkpoints: [Resume](#resume)"
    )
    elastic: str | None = option(
        None,
        "`MIN:MAX` hosts: after a failure the run continues on those that answer; the others join"
        " again when they answer: [Elastic runs](training.md#elastic-runs)",
        python='"MIN:MAX", numbers of hosts: a retry continues without hosts that do not answer',
    )
    retries: int | None = option(
        None,
        "how often the run starts again after a failure, from its newest checkpoint: [Runs "
        "that survive](training.md#runs-that-survive). Default: 3 with checkpoints",
        at_least=0,
        at_most=MOST_RETRIES,
    )
    spare: bool = option(
        True,
        "do not keep a process with the imported framework on each host for a retry: [Runs that "
        "survive](training.md#runs-that-survive)",
        flag="no-spare",
    )
    takeover: bool = option(
        False,
        "the second host continues the run if the chief is lost: [A lost "
        "chief](reliability.md#a-lost-chief). Needs a bucket, two hosts and retries",
    )
    deploy: str | None = option(
        None,
        "after a success, serve the model as the endpoint of this name, as [`fab "
        "deploy`](#deploy) does",
    )
    wait: bool = option(True, "start the run and return; `fab attach` watches it", flag="detach")


@dataclass(frozen=True)
class EvaluateOptions:
    """Which model is evaluated, and where."""

    run: str | None = option(None, "the id of the run. Default: the last run")
    here: bool = option(
        False,
        "evaluate on this computer, as one rank without a GPU (Linux on x86_64, Python 3.10 "
        "to 3.12)",
    )
    model: str | None = option(
        None,
        "if the run has several `.keras` files: which one, as a path in its results; not with"
        " `--script`",
    )


@dataclass(frozen=True)
class ReportOptions:
    """Which runs a page shows, and where it is written."""

    runs: str | None = option(
        None, "ids of runs, or folders of results, separated by commas. Default: the last run"
    )
    to: str | None = option(
        None,
        "the folder for the page. Default: the results of the run; for several runs "
        "`results/report-ID-and-N-more`",
    )
    by: str | None = option(
        None,
        "the metric that decides which run is best. Default: the most frequent one, then "
        "`accuracy`, `loss`, `mae`",
    )
    open: bool = option(False, "show the page in the browser of this computer")


@dataclass(frozen=True)
class ListOptions:
    """The order of the runs."""

    sort: str = option(
        "time",
        "`time`: the newest first. `duration`, `cost`: the smallest first. A metric, such as "
        "`accuracy` or `loss`: the best first",
    )


@dataclass(frozen=True)
class CostsOptions:
    """The time span of the costs, and their rows."""

    since: float = option(30.0, "how far back", at_least=0.01, at_most=3660, unit="d")
    by: str = option(
        "stack", "one row for each run, stack or person", choices=("run", "stack", "person")
    )
    bill: bool = option(
        False,
        "also what the cloud has billed, by the tags: Cost Explorer, 0.01 USD a page, or "
        "BigQuery, at most 0.10 USD",
    )


@dataclass(frozen=True)
class SweepOptions:
    """The trials of a sweep."""

    values: Mapping[str, tuple[str, ...]] = option(
        {},
        "`NAME=VALUE,VALUE,...`: values of a setting or, with `--script`, of the script's "
        "argument `--NAME`. At most 100 combinations",
        python='values of settings, or of arguments of the script: {"lr": [0.1, 0.01]}',
        flag="set",
        form="NAME=VALUE,VALUE,...",
        separator=",",
        each_once=True,
    )
    random: int | None = option(
        None,
        "train this number of randomly drawn combinations instead of all; the same command "
        "always draws the same ones",
        at_least=1,
        at_most=100,
    )
    at_once: int = option(
        1,
        "trials at the same time, each on an equal slice of the hosts; must divide the number of "
        "hosts",
        at_least=1,
        at_most=100,
    )
    to_end: bool = option(False, "do not end hopeless trials early")


@dataclass(frozen=True)
class ScaleOptions:
    """The numbers of hosts that are compared."""

    counts: tuple[int, ...] = option(
        (), "numbers of hosts, at least two: `1,2,4`", separator=",", at_least=1, at_most=1024
    )
    of: tuple[str, ...] = option(
        (), "ids of existing runs: compare these, train nothing", separator=","
    )


@dataclass(frozen=True)
class LogOptions:
    """Which log is printed."""

    rank: str = option("0", "whose log: the number of a rank, `mpirun` or `supervisor`")
    follow: bool = option(False, "print new lines until the run ends", short="f")
    endpoint: str | None = option(
        None, "an endpoint's name: print the log of its server, instead of a run's log"
    )


@dataclass(frozen=True)
class FetchOptions:
    """What is fetched, and to where."""

    to: str | None = option(
        None,
        "a folder for the results, instead of `results/` in the folder where `fab train` was "
        "typed; recorded for later commands",
    )
    checkpoints: bool = option(
        False,
        "also fetch the newest checkpoint, into `checkpoints/`; for a script, the whole "
        "checkpoint folder. It may be large",
    )


@dataclass(frozen=True)
class PruneOptions:
    """How many runs are kept."""

    keep: int = option(10, "the number of newest runs to keep", at_least=0, at_most=10_000)


@dataclass(frozen=True)
class PushOptions:
    """What is uploaded, and to where."""

    folder: str = option(text="a folder or a file on this computer", positional=True)
    uri: str = option(
        text="`s3://...`, `gs://...`, or `bucket` for the stack's bucket", positional=True
    )


@dataclass(frozen=True)
class BucketOptions:
    """Which objects are listed."""

    uri: str | None = option(None, "`s3://...`, `gs://...`, or `bucket` for the stack's bucket")


@dataclass(frozen=True)
class ShardOptions:
    """Which samples are written as shards, and to where."""

    source: str = option(
        text="a folder or a file on this computer, `s3://...` or `gs://...`", positional=True
    )
    destination: str = option(
        text="a new folder on this computer, or a new prefix of a bucket", positional=True
    )
    split: str = option(
        "train", "which samples of the source are written: `train`, `validation` or `test`"
    )
    shards: int = option(
        16, "number of files; a multiple of 8 is read fastest", at_least=1, at_most=100_000
    )


@dataclass(frozen=True)
class IndexOptions:
    """Which TFRecord files get an index, and where it is."""

    source: str = option(
        text="a folder on this computer, `s3://...` or `gs://...`", positional=True
    )
    to: str | None = option(
        None, "another folder or prefix for the index. Default: beside the files"
    )
    split: str = option(
        "train",
        "the split to index, from the files' names: `train`, `validation` or `test`; all files if "
        "no name has one",
    )
