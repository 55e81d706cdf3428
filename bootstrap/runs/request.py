"""From the words of a command to what is to run: checked here, before any host hears of it."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bootstrap.console import log
from bootstrap.errors import UsageError
from bootstrap.plan.runtimes import REPO
from bootstrap.runs.launch import Program, RunOptions
from bootstrap.ssh.bundle import Bundle, pack_script, pack_training

# The pieces of a shell's words; `open` is a quote that nothing closes.
_PIECE = re.compile(
    r"""(?P<blank>[ \t\n]+)|(?P<joined>\\\n)|'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)\"
    |\\(?P<escaped>.)|(?P<plain>[^ \t\n'"\\]+|\\\Z)|(?P<open>['"])""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True)
class TrainArgs:
    """The options of `fab train` about the program, as they were typed."""

    launcher: str = "horovod"
    strategy: str | None = None
    preset: str | None = None
    settings: tuple[str, ...] = ()
    script: str | None = None
    workdir: str | None = None
    args: str | None = None
    keras: str | None = None
    env: tuple[str, ...] = ()
    env_file: str | None = None
    secrets: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunRequest:
    """What is to run: validated options, the program, its files, and the secrets' values."""

    ask: RunOptions
    program: Program
    bundle: Bundle
    secrets: Mapping[str, str]


def read_request(words: TrainArgs, environment: Mapping[str, str] = os.environ) -> RunRequest:
    """Check everything that can be checked without a host.

    Raises:
        UsageError: an option breaks a rule; the message names rule, value and choices.
    """
    secrets = _secrets(words.secrets, environment)
    ask = RunOptions(
        launcher=words.launcher,
        strategy=words.strategy,
        script=words.script is not None,
        keras=_keras(words.keras),
        env=_variables(words),
        secrets=tuple(secrets),
        outputs=words.outputs or ("**",),
    )
    if words.script is None:
        _refuse_script_options(words)
        settings = training_settings(words.preset, ask, words.settings)
        return RunRequest(ask, Program("training", settings=settings), pack_training(REPO), secrets)
    if words.preset or words.settings:
        raise UsageError("--preset and --set are for our own training; a script takes --args")
    args = split(words.args or "")
    bundle, path = pack_script(Path(words.script), Path(words.workdir) if words.workdir else None)
    return RunRequest(ask, Program("script", path=path, args=args), bundle, secrets)


def _refuse_script_options(words: TrainArgs) -> None:
    for name in ("args", "workdir"):
        if getattr(words, name) is not None:
            raise UsageError(f"--{name} goes with --script", hint="fab train --script train.py ...")


def _keras(text: str | None) -> int | None:
    if text not in (None, "2", "3"):
        raise UsageError(f"--keras {text!r}: 2 or 3")
    return int(text) if text else None


def split(text: str) -> tuple[str, ...]:
    """The words of `text` as a shell splits and unquotes them; nothing in them is expanded.

    (`shlex` keeps the backslash of "\\$" and of a line that goes on.)

    Raises:
        UsageError: a quote is not closed.
    """
    words: list[str] = []
    between = True
    for piece in _PIECE.finditer(text):
        if piece["open"]:
            raise UsageError(f"--args {text!r}: the quote {piece['open']} is not closed")
        if piece["blank"]:
            between = True
        elif not piece["joined"]:
            if between:
                words.append("")
            words[-1] += _bare(piece)
            between = False
    return tuple(words)


def _bare(piece: re.Match[str]) -> str:
    """What a piece stands for, without its quotes and backslashes."""
    if piece["double"] is not None:
        return re.sub(r"\\([$`\"\\\n])", lambda m: m[1].strip("\n"), piece["double"])
    return next(x for x in (piece["single"], piece["escaped"], piece["plain"]) if x is not None)


def _secrets(names: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    missing = [name for name in names if not environment.get(name)]
    if missing:
        raise UsageError(
            f"--secret {', '.join(missing)}: not set here, or empty",
            hint=f"export {missing[0]}=...   # in this shell, then the same command again",
        )
    for name in names:
        log.add_secret(environment[name])
    return {name: environment[name] for name in names}


def _variables(words: TrainArgs) -> dict[str, str]:
    entries = _env_file(words.env_file) if words.env_file else []
    entries += [(f"--env {entry!r}", entry) for entry in words.env]
    pairs = {}
    for where, entry in entries:
        name, equals, value = entry.removeprefix("export ").partition("=")
        if not equals:
            raise UsageError(f"{where}: write NAME=value")
        pairs[name] = value
    return pairs


def _env_file(path: str) -> list[tuple[str, str]]:
    """The lines that say something, each with where it stands: what it says may be private."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as error:
        raise UsageError(f"--env-file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--env-file {path}: not a text in UTF-8") from None
    said = [(f"--env-file {path}, line {i}", line.strip()) for i, line in enumerate(lines, 1)]
    return [(where, line) for where, line in said if line and not line.startswith("#")]


def training_settings(
    preset: str | None, ask: RunOptions, settings: Sequence[str]
) -> dict[str, Any]:
    """Ask our own training, through its `--check`, what these settings come to.

    It runs without site-packages: the check needs neither TensorFlow nor anything of ours.
    """
    argv = [sys.executable, "-S", "-B", "-m", "training", "--check", "--json"]
    argv += ["--preset", preset] if preset else []
    for setting in settings:
        argv += ["--set", setting]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RAILHEAD_", "PYTHON"))}
    done = log.run(argv, cwd=REPO, env=environment, capture_output=True)
    if done.returncode:
        raise UsageError(done.stderr.strip())
    resolved: dict[str, Any] = json.loads(done.stdout)["settings"]
    return resolved
