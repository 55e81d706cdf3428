"""Turns the options of `fab train` into a validated run request, before any host is contacted."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from railhead.documents import sagemaker
from railhead.documents.codec import encode
from railhead.documents.lazy import dataclass
from railhead.documents.options.option import from_values, options_in, text_value
from railhead.documents.options.runs import ProgramOptions
from railhead.documents.rule import shortened
from railhead.documents.runs.run import BuiltIn, Program, Script
from railhead.documents.runs.run_record import GivenOptions
from railhead.documents.sagemaker import TOOLKIT, Hyperparameters

from ..console import log
from ..data.inputs import DataInput, read_inputs
from ..data.spec import parse_all
from ..errors import Command, Hint, UsageError
from ..inventory.files import refuse_of_others, text_given
from ..inventory.git import git
from ..plan.runtimes import REPO
from ..ssh.bundle import PACKAGES, Bundle, pack_script, pack_training
from .keras.alone import alone_as
from .keras.choice import (
    KerasChoice,
    choose,
    evidence_in_bundle,
    evidence_in_requirements,
    reader_of,
    undecided,
)
from .keras.evidence import PINNED, Evidence
from .launch import RunOptions
from .metrics.options import (
    read_metric,
    read_thresholds,
    require_metrics,
)
from .strategies import SCRIPTS_ONLY, launcher_for

# The tokens of a shell command line; `open`: an unclosed quote.
_PIECE = re.compile(
    r"""(?P<blank>[ \t\n]+)|(?P<joined>\\\n)|'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)\"
    |\\(?P<escaped>.)|(?P<plain>[^ \t\n'"\\]+|\\\Z)|(?P<open>['"])""",
    re.DOTALL | re.VERBOSE,
)

ENV_FILE_BYTES = 1_000_000
_OWN = ("local", "worktree", "command")  # git's scopes of a repository's own settings
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?(-dirty)?")


def record_of(program: ProgramOptions) -> GivenOptions:
    """The options, with the folder to which their paths are relative."""
    return GivenOptions(str(Path.cwd()), encode(program))


def program_of(recorded: Mapping[str, Any]) -> ProgramOptions:
    """The options of a record; an older record has them as typed. Options that this version does
    not know are ignored.

    Raises:
        TypeError: the record is damaged.
    """
    values = {
        one.name: recorded.get(one.name, recorded.get(one.rule.was))
        for one in options_in(ProgramOptions)
    }
    return from_values(ProgramOptions, values, TypeError)


@dataclass(frozen=True)
class RunRequest:
    """A run to start: validated options, the program and its files, the values of its secrets, its
    data.

    `record`: the options as typed, for a run that resumes this one. `commit`: the program's.
    `alone`: the advice about a script whose ranks cannot join each other; "" for all other
    programs.
    """

    options: RunOptions
    program: Program
    bundle: Bundle
    secrets: Mapping[str, str]
    data: tuple[DataInput, ...] = ()
    record: GivenOptions | None = None
    commit: str | None = None
    alone: str = ""


def read_request(
    args: ProgramOptions,
    environment: Mapping[str, str] = os.environ,
    *,
    resumes: str | None = None,
    keras: KerasChoice | None = None,
) -> RunRequest:
    """Check everything that can be checked without a host.

    Args:
        resumes: the id of the run whose checkpoints this one continues.
        keras: the Keras for a script that shows neither.

    Raises:
        UsageError: an option is not valid; the message has the rule, the value and the choices.
    """
    given, args = args, as_script(args)
    secrets = read_secrets(args.secrets, environment)
    options = run_options(args, resumes=resumes)
    data = read_inputs(parse_all(args.data, script=args.script is not None))
    if args.script is None:
        _refuse_script_options(args)
        repo = training_repo(args.training)
        check = check_settings(args.preset, args.settings, repo)
        _check_training_data(check["settings"]["data"], check["folder"], data)
        require_metrics(options.thresholds, check["metrics"])
        built_in = BuiltIn("training", check["settings"])
        bundle = pack_training(repo)
        return RunRequest(
            options, built_in, bundle, secrets, data, record_of(args), commit_of(repo)
        )
    if args.preset or args.settings or args.training:
        raise UsageError(
            "--preset, --set and --training are for the built-in training; a script takes --args"
        )
    given_whole = hyperparameters(args)
    argv = split(args.args or "") if given_whole is None else spelled(given_whole, args)
    bundle, path = pack_script(Path(args.script), Path(args.workdir) if args.workdir else None)
    program = Script(
        "script",
        path,
        argv,
        args.sagemaker is not None,
        args.module or "",
        args.sagemaker or TOOLKIT,
        "" if given_whole is None else json.dumps(given_whole),
    )
    choice = _keras_of(args, options, bundle, path, keras)
    if resumes:
        choice = replace(choice, why=f"that of run {resumes}")
    options = replace(options, keras=choice)
    commit = commit_of(Path(args.script).resolve().parent)
    alone = "" if args.independent else alone_as(path, reader_of(bundle), options.launcher)
    return RunRequest(options, program, bundle, secrets, data, record_of(given), commit, alone)


def as_script(args: ProgramOptions) -> ProgramOptions:
    """The options with the file of --module as --script, and with that file's folder.

    Raises:
        UsageError: --module is not the name of a module, or has no file.
    """
    if args.module is None:
        return args
    if args.script is not None:
        raise UsageError("--module and --script: name one of them")
    if not all(part.isidentifier() for part in args.module.split(".")):
        raise UsageError(f"--module {args.module}: write a name such as trainer.task")
    folder = Path(args.workdir or ".")
    if args.workdir is None and Path.home().resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            f"--module {args.module}: {folder.resolve()} would be uploaded as a whole",
            hint="choose another folder with --workdir",
        )
    path = folder.joinpath(*args.module.split("."))
    file = next((f for f in (path.with_suffix(".py"), path / "__main__.py") if f.is_file()), None)
    if file is None:
        raise UsageError(
            f"--module {args.module}: there is no {path.with_suffix('.py')}",
            hint="the folder that contains its first package: --workdir FOLDER",
        )
    return replace(args, script=str(file), workdir=str(folder))


def _keras_of(
    args: ProgramOptions,
    options: RunOptions,
    bundle: Bundle,
    script: str,
    otherwise: KerasChoice | None,
) -> KerasChoice:
    """The Keras for a script. Raises as `choose` and `evidence_in_requirements`; UsageError for
    Keras 2 with a framework other than TensorFlow."""
    if options.launcher in SCRIPTS_ONLY:
        if args.keras == "2":
            raise UsageError(
                f"--keras 2 needs TensorFlow, which launcher {options.launcher} does not use"
            )
        return KerasChoice(3, f"the only one of launcher {options.launcher}")
    evidence = [*evidence_in_bundle(bundle, script)]
    if args.requirements:
        evidence += evidence_in_requirements(Path(args.requirements))
    if options.env.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        evidence.append(Evidence(2, PINNED, "--env", "sets TF_USE_LEGACY_KERAS"))
    return choose(args.keras, evidence, otherwise or undecided(script))


def run_options(args: ProgramOptions, *, resumes: str | None = None) -> RunOptions:
    """The options of a run; UsageError for an invalid value."""
    return RunOptions(
        launcher=launcher_for(args.launcher, args.strategy),
        strategy=args.strategy,
        any_launcher=args.launcher is None,
        servers=args.ps or 0,
        script=args.script is not None,
        keras=choose(args.keras, [], KerasChoice()),
        keras_patches=args.keras_patches,
        independent=args.independent,
        env=_variables(args),
        secrets=tuple(dict.fromkeys(args.secrets)),
        outputs=args.outputs or ("**",),
        metrics=tuple(read_metric(*item) for item in args.metrics.items()),
        resumes=resumes,
        thresholds=read_thresholds(args.minimum, args.maximum),
    )


def _refuse_script_options(args: ProgramOptions) -> None:
    script_options = {"args": args.args, "workdir": args.workdir, "metric": args.metrics}
    for name, value in script_options.items():
        if value not in (None, {}):
            raise UsageError(
                f"--{name} needs --script",
                hint=Hint(Command("train", script="train.py"), " ..."),
            )
    if args.sagemaker:
        raise UsageError("--sagemaker is for scripts that were written for SageMaker: --script")


def hyperparameters(args: ProgramOptions) -> Hyperparameters | None:
    """With --sagemaker, the hyperparameters if --args is a JSON object; otherwise None."""
    try:
        return sagemaker.object_in(args.args) if args.sagemaker else None
    except ValueError as error:
        raise UsageError(
            f"--args {shortened(args.args)}: not a JSON object: {error}",
            hint=Hint(Command("train", args='{"epochs": 3}', sagemaker=args.sagemaker), " ..."),
        ) from None


def spelled(given: Hyperparameters, args: ProgramOptions) -> tuple[str, ...]:
    """Hyperparameters as arguments of the script; UsageError if they cannot be arguments, or their
    names cannot be names of variables."""
    words = sagemaker.words(given, args.sagemaker or TOOLKIT)
    for name in given:
        if "=" in name:
            raise UsageError(
                f"--args {shortened(name)}: write the name of a hyperparameter without ="
            )
    for word in words:
        text_value(word, UsageError)
    return words


def split(text: str) -> tuple[str, ...]:
    """The arguments in `text`, split and unquoted as a POSIX shell does; nothing is expanded.

    Not `shlex.split`: it keeps the backslash of "\\$" and of a line continuation.

    Raises:
        UsageError: a quote is not closed.
    """
    argv: list[str] = []
    between = True
    for piece in _PIECE.finditer(text):
        if piece["open"]:
            raise UsageError(f"--args {text!r}: the quote {piece['open']} is not closed")
        if piece["blank"]:
            between = True
        elif not piece["joined"]:
            if between:
                argv.append("")
            argv[-1] += _unquoted(piece)
            between = False
    return tuple(argv)


def _unquoted(piece: re.Match[str]) -> str:
    """The text of a piece, without its quotes and backslashes."""
    if piece["double"] is not None:
        return re.sub(r"\\([$`\"\\\n])", lambda m: m[1].strip("\n"), piece["double"])
    return next(x for x in (piece["single"], piece["escaped"], piece["plain"]) if x is not None)


def read_secrets(
    names: Sequence[str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The values of --secret; UsageError if one is not set."""
    missing = [name for name in names if not environment.get(name)]
    if missing:
        raise UsageError(
            f"--secret {', '.join(missing)}: not set here, or empty",
            hint=f"export {missing[0]}=...   # in this shell, then the same command again",
        )
    for name in names:
        log.add_secret(environment[name])
    return {name: environment[name] for name in names}


def _variables(args: ProgramOptions) -> dict[str, str]:
    pairs = {}
    for where, entry in _env_file(args.env_file) if args.env_file else []:
        name, equals, value = entry.removeprefix("export ").partition("=")
        if not equals:
            raise UsageError(f"{where}: write NAME=value")
        if "\0" in value:
            raise UsageError(f"{where}: a text without a NUL character")
        pairs[name] = value
    return {**pairs, **{name.removeprefix("export "): text for name, text in args.env.items()}}


def _env_file(path: str) -> list[tuple[str, str]]:
    """(location, entry) of each line of a file. Errors show only the location: an entry may be
    secret."""
    lines = text_given(path, f"--env-file {path}", ENV_FILE_BYTES).splitlines()
    numbered = [(f"--env-file {path}, line {i}", line.strip()) for i, line in enumerate(lines, 1)]
    return [(where, line) for where, line in numbered if line and not line.startswith("#")]


def training_repo(folder: str | None) -> Path:
    """The folder that contains `training/`: the value of --training, or this clone.

    Raises:
        UsageError: it is not a copy of the built-in training.
    """
    if folder is None:
        return REPO
    path = Path(folder).expanduser().resolve()
    if path.name != "training" or not (path / "__main__.py").is_file():
        raise UsageError(
            f"--training {folder}: not a folder named training with a __main__.py, like the"
            " built-in one",
            hint=f"cp -r {REPO / 'training'} mine/training   # change it, then --training"
            " mine/training",
        )
    refuse_of_others(path / "__main__.py")  # the check of settings runs its code here
    return path.parent


def check_settings(
    preset: str | None, settings: Mapping[str, str], repo: Path = REPO
) -> dict[str, Any]:
    """The output of `python -m training --check --json` in `repo`: the resolved `settings`,
    `folder` (whether they need data), and `metrics`.

    It runs without site-packages: the check needs neither TensorFlow nor other parts of Railhead.
    It gets no secrets: --training may be somebody else's code.

    Raises:
        UsageError: a setting is wrong, or the training in `repo` cannot check them.
    """
    argv = [sys.executable, "-S", "-B", "-m", "training", "--check", "--json"]
    argv += ["--preset", preset] if preset else []
    for name, value in settings.items():
        argv += ["--set", f"{name}={value}"]
    environment = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "LC_ALL")}
    environment["PYTHONPATH"] = str(PACKAGES)  # a copy of `training` imports railhead.documents
    process = log.run(argv, cwd=repo, env=environment, capture_output=True)
    error = process.stderr.strip()
    if process.returncode == 2:
        raise UsageError(error)
    document = _checked(process.stdout)
    if process.returncode or document is None:
        raise UsageError(
            f"{repo}/training cannot check its settings: "
            f"{error.splitlines()[-1] if error else 'its output is not that of --check --json'}",
            hint=f"cd {shlex.quote(str(repo))} && python -S -m training --check --json",
        )
    return document


def _checked(text: str) -> dict[str, Any] | None:
    """The output of `--check --json`; None if a part is missing."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    parts = {"settings": dict, "folder": str, "metrics": list}
    if not isinstance(document, dict):
        return None
    right = all(isinstance(document.get(name), kind) for name, kind in parts.items())
    return document if right and isinstance(document["settings"].get("data"), str) else None


def _check_training_data(name: str, folder: str, data: Sequence[DataInput]) -> None:
    """UsageError if the data set `name` needs data that is missing, or accepts no data. `folder` is
    `required`, `optional` or `none`; shards are recognised for any data set."""
    if folder == "required" and not data:
        raise UsageError(
            f"data={name} needs a folder of data",
            hint=Hint(Command("train", data="train=FOLDER"), " ..."),
        )
    for item in data if folder == "none" else ():
        if item.files and "manifest.json" not in {file.path for file in item.files.files}:
            raise UsageError(
                f"--data {item.spec.name} with data={name}, which accepts no files: name the kind"
                f" of data in {item.spec.uri}",
                hint="add --set data=images, or another of: mnist, cifar10, imdb, csv, numpy, ...",
            )


def commit_of(folder: Path) -> str | None:
    """The commit that is checked out in the folder's repository, with `-dirty` if tracked files
    differ from it; None outside a repository, or if git does not answer.

    No program that the repository's configuration names is started: somebody else may have written
    it.
    """
    commit = git(folder, "rev-parse", "--verify", "HEAD")
    if commit is None or not _COMMIT.fullmatch(commit.strip()):
        return None
    scopes = git(folder, "config", "--includes", "--show-scope", "--get-regexp", r"^filter\.") or ""
    found = (line.partition("\t") for line in scopes.splitlines())
    names = [name.split()[0].rpartition(".")[0] for scope, _, name in found if scope in _OWN]
    parts = (("clean", ""), ("process", ""), ("required", "false"))
    without = [f"{name}.{part}={value}" for name in dict.fromkeys(names) for part, value in parts]
    status = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    changes = git(folder, *status, settings=without)
    return None if changes is None else commit.strip() + ("-dirty" if changes else "")
