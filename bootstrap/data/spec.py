"""`--data NAME=URI[,shard|replicate][,file|stream]`: parsed and checked before a host is contacted.

Options are read from the right, so a URI may contain commas. Pure, except that it checks whether a
local path exists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from railhead.documents.lazy import dataclass
from railhead.documents.rule import nearest
from railhead.documents.runs.run import DISTRIBUTIONS, MODES
from railhead.documents.uri import FORMS, bucket_uri, scheme_of

from ..errors import Command, Hint, UsageError
from ..inventory.files import existing_path

OF_TRAINING = ("train", "validation", "test")
ON_HOSTS = "host:"
FORM = "--data NAME=URI[,shard|replicate][,file|stream]"
EXAMPLES = f"a local folder or file, host:/path, {FORMS}"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class DataSpec:
    """One `--data` option. `kind` is `local` (a path here), `host` (a path on every host) or
    `bucket`; `distribution` and `mode` are None if the built-in training decides."""

    name: str
    uri: str
    kind: str
    distribution: str | None = None
    mode: str | None = None

    @property
    def path(self) -> str:
        """The path of local data, or of data that is on the hosts already."""
        return self.uri.removeprefix(ON_HOSTS) if self.kind == "host" else self.uri


def parse_all(data: Mapping[str, str], *, script: bool) -> tuple[DataSpec, ...]:
    """The `--data` options of a command, for a script or for the built-in training.

    Raises:
        UsageError: an option is not valid; the message gives the rule and the choices.
    """
    specs = parse_each(data, script=script)
    names = [spec.name for spec in specs]
    if specs and not script and "train" not in names:
        raise UsageError(
            f"--data {names[0]} without --data train: the built-in training needs its training data"
            " too",
            hint=Hint(Command("train", data="train=FOLDER"), " ..."),
        )
    return specs


def parse_each(data: Mapping[str, str], *, script: bool) -> tuple[DataSpec, ...]:
    """The `--data` options, with any names; UsageError if one is not valid."""
    return tuple(parse(name, value, script=script) for name, value in data.items())


def parse(name: str, value: str, *, script: bool) -> DataSpec:
    """One `--data NAME=VALUE`; UsageError if it is not valid."""
    text = f"{name}={value}"
    if not value:
        raise UsageError(
            f"--data {text!r}: write {FORM}", hint=Command("train", data="train=FOLDER")
        )
    _check_name(name, script=script)
    uri, distribution, mode = _split_options(text, value)
    if not script and distribution is not None:
        raise UsageError(
            f"--data {text!r}: {distribution} is for --script; in the built-in training each rank"
            " picks its records itself"
        )
    if script:
        distribution, mode = distribution or "replicate", mode or "file"
    return DataSpec(name, uri, _kind(text, uri), distribution, mode)


def _check_name(name: str, *, script: bool) -> None:
    if not script and name not in OF_TRAINING:
        raise UsageError(
            f"--data {name!r}: the built-in training accepts {', '.join(OF_TRAINING)}; other names"
            " need --script"
        )
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--data {name!r}: a name is a small letter, then small letters, digits and '_':"
            " it becomes RAILHEAD_DATA_<NAME>"
        )
    if name == "cache" or name.endswith("_mode"):
        raise UsageError(f"--data {name!r}: RAILHEAD_DATA_{name.upper()} has another meaning")


def _split_options(text: str, value: str) -> tuple[str, str | None, str | None]:
    """The URI, the distribution and the mode; options are read from the right."""
    chosen: dict[str, str] = {}
    uri = value
    while "," in uri:
        rest, _, option = uri.rpartition(",")
        group = next((group for group in (DISTRIBUTIONS, MODES) if option in group), None)
        if group is None:
            break
        if group[0] in chosen:
            raise UsageError(f"--data {text!r}: {' or '.join(group)}, not both or twice")
        chosen[group[0]] = option
        uri = rest
    _refuse_unknown_option(text, uri)
    return uri, chosen.get(DISTRIBUTIONS[0]), chosen.get(MODES[0])


def _refuse_unknown_option(text: str, uri: str) -> None:
    """Refuse a last word after a comma that looks like an option and is not part of a path."""
    before, comma, word = uri.rpartition(",")
    if not comma or not re.fullmatch(r"[A-Za-z]*", word) or existing_path(uri):
        return
    choices = [*DISTRIBUTIONS, *MODES]
    near = nearest(word, choices, 0.5)
    guess = f"did you mean {near}? " if near else ""
    raise UsageError(
        f"--data {text!r}: unknown option {word!r} after the comma; choices: {', '.join(choices)}",
        hint=f"{guess}If the comma is part of the path, end it with a slash: {uri}/",
    )


def _kind(text: str, uri: str) -> str:
    """`local`, `host` or `bucket`; UsageError for any other URI."""
    if not uri:
        raise UsageError(f"--data {text!r}: no URI; write {EXAMPLES}")
    if scheme_of(uri):
        bucket_uri(uri, error=lambda why: UsageError(f"--data {text!r}: {why}"))
        return "bucket"
    if uri.startswith(ON_HOSTS):
        return _host_kind(text, uri.removeprefix(ON_HOSTS))
    if existing_path(uri) is None:
        raise UsageError(f"--data {text!r}: there is no file or folder {uri} here", hint=_hint(uri))
    return "local"


def _host_kind(text: str, path: str) -> str:
    if not path.startswith(("/", "~/")) or "\n" in path or "\0" in path:
        raise UsageError(f"--data {text!r}: host: takes an absolute path, host:/path")
    return "host"


def _hint(uri: str) -> str:
    """What a path that does not exist here probably means."""
    if re.match(r"[\w.@-]+:/", uri):
        return f"for data that is on all hosts already: {ON_HOSTS}{uri.partition(':')[2]}"
    return f"write {EXAMPLES}"
