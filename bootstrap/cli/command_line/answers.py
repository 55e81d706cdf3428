"""What to type instead of a command line that is wrong: by habit (`habits.py`), or by a slip. Pure.

A word that is answered is replaced in the line that was typed, so that the next line is complete.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from railhead.documents.lazy import dataclass
from railhead.documents.options.option import Option
from railhead.installation import PROGRAM

from ...inventory.files import RUN_ID
from ..task import CLOUD, Task, typed
from .arguments import CORE, Wrong, flags_of, takes_value
from .habits import OPTIONS, PROGRAMS, TASKS

ALIKE = 0.75  # of difflib: a name and its slip
# They start or end machines, or change when they end: never the answer to a slip.
MACHINES = ("adopt", "extend", "start", "stop", "teardown", "up")
STARTERS = ("accelerate", "horovodrun", "mpirun", "python", "python3", "torchrun")  # of a script
SENT = (".csv", ".jpeg", ".jpg", ".json", ".npy", ".png")  # the ends of files for `fab predict`
FILES = {  # by the end of what is typed as a script or a job
    ".ipynb": "train train.py   # written by: jupyter nbconvert --to script NOTEBOOK",
    ".sh": "train train.py   # a script is Python; what the shell exports: --env NAME=VALUE",
    ".yaml": "train --save railhead.toml   # a job file is TOML, with the options of train",
    ".yml": "train --save railhead.toml   # a job file is TOML, with the options of train",
}
NUMBERS = {
    "extend": "hours",
    "logs": "rank",
    "notebook": "port",
    "scale": "counts",
    "start": "hours",
}
DURATION = re.compile(r"\+?\d+[smhd]")
FORWARD = re.compile(r"(\d+):(?:[\w.-]+:)?(\d+)")  # as ssh -L and kubectl port-forward take it
SEVERAL = re.compile(r"[\w.@:*-]+(,[\w.@:*-]+)+")  # hosts
BLANK = re.compile(r"\{([^{}]*)\}")


class Answer(NamedTuple):
    """What is wrong with a command line, and what to type."""

    rule: str
    next: str


def answer(
    words: Sequence[str],
    tasks: Mapping[str, Task],
    is_job: Callable[[str], bool] = lambda name: False,
) -> Answer | None:
    """The answer to a command line that is wrong by habit; None if no habit applies.

    Args:
        words: the name of the task, then what was typed before and after it. tasks: by their names.
        is_job: whether the job file has this job.
    """
    if not words or words[0] not in tasks:
        return _unknown_task(words, tasks) if words else None
    task, number = tasks[words[0]], 0
    for index, word in enumerate(words[1:], 1):
        if takes_value(words[index - 1], word, task):
            continue
        place = Place(task, words, index, number, is_job)
        if word.startswith("-"):
            if (reply := place.option()) or not place.is_known:
                return reply  # of an unknown option, the next word may be the value
        elif word in tasks and not place.takes_word:
            return together(task, word)
        elif reply := place.value():
            return reply
        else:
            number += 1
    return None


def after_dashes(words: Sequence[str], after: Sequence[str]) -> Answer | None:
    """The answer to words after `--`, which only `exec` has; None if it is right."""
    values = [word for word in words[1:] if not word.startswith("-")]
    if not words or not after or (words[0] == "exec" and (not values or len(words) > 2)):
        return None
    if words[0] == "exec":
        return Answer("hosts need --hosts", f"exec --hosts {values[0]} --{_shown(after)}")
    rule = f"{PROGRAM} {typed(words[0])} takes nothing after --"
    if words[0] not in ("evaluate", "scale", "sweep", "train"):
        return Answer(rule, f"--help {typed(words[0])}")
    return Answer(rule, f"{shlex.join(words)} --args={shlex.quote(shlex.join(after))}")


def _unknown_task(words: Sequence[str], tasks: Mapping[str, Task]) -> Answer | None:
    word, rest = words[0], words[1:]
    if word in PROGRAMS and rest and (reply := answer(rest, tasks)):
        return reply
    line = TASKS.get(word)
    if line is None:
        return None
    bare = [] if any(argument.startswith("-") for argument in rest) else rest
    line = _filled(line.replace(" *", _shown(bare)), rest[0] if rest else "", "", rest)
    reply = answer(shlex.split(line), tasks) if "*" in TASKS[word] else None
    return Answer(f"{PROGRAM} has no task {word}", reply.next if reply else line)


@dataclass(frozen=True)
class Place:
    """A word of a command line, after the name of its task, and `number` words without options."""

    task: Task
    words: Sequence[str]
    index: int
    number: int = 0
    is_job: Callable[[str], bool] = lambda name: False

    @property
    def word(self) -> str:
        return self.words[self.index]

    @property
    def flag(self) -> str:
        return self.word.partition("=")[0]

    @property
    def options(self) -> list[Option]:
        """The options of the task."""
        return [*self.task.options()]

    @property
    def name(self) -> str:
        """The task's."""
        return self.task.name

    @property
    def names(self) -> set[str]:
        """The names of the task's options."""
        return {option.flag for option in self.options}

    @property
    def flags(self) -> set[str]:
        """The task's options as they are typed."""
        return {flag for option in self.options for flag in flags_of(option)}

    @property
    def is_known(self) -> bool:
        """Whether the word is an option of the task, or of all tasks."""
        return self.flag in self.flags or any(self.flag in flags_of(option) for option in CORE)

    @property
    def following(self) -> list[str]:
        """The words after this one, up to the next option."""
        words = self.words[self.index + 1 :]
        end = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
        return list(words[:end])

    @property
    def script(self) -> str:
        """The script among the words; empty without one."""
        return next((word for word in self.words if word.endswith(".py")), "")

    @property
    def line(self) -> str:
        """The habit's answer to an option; empty without one."""
        flag = self.flag.replace("_", "-")
        return OPTIONS.get(self.name, {}).get(flag) or OPTIONS[""].get(flag, "")

    def option(self) -> Answer | None:
        """The answer to an option that the task does not have, or whose value has another form."""
        if self.flag not in self.flags:
            return self._habit(self.line) if self.line else None
        values = self.following
        hosts = [*self.word.split("=")[1:], *values]
        if self.flag == "--hosts" and len(hosts) > 1 and self._are_hosts(hosts[1:]):
            new = ["--hosts", ",".join(host.strip(",") for host in hosts)]
            return self._instead(new, 1 + len(values), "hosts are separated by commas")
        if self.flag in ("--set", "--env") and len(values) == 2 and "=" not in values[0]:
            return self._instead([self.flag, "=".join(values)], 3, f"{self.flag} takes NAME=VALUE")
        if self.word == "--data" and self.name == "train" and values and "=" not in values[0]:
            return self._instead(["--data", f"train={values[0]}"], 2, "--data takes NAME=URI")
        return None

    def _are_hosts(self, words: Sequence[str]) -> bool:
        """Whether words can be nothing else here."""
        if "job" in self.task.first:
            return not self.script and not any(map(self.is_job, words))
        return not self.takes_word

    @property
    def takes_word(self) -> bool:
        """Whether the task takes a word without an option."""
        return bool(self.task.first) or any(option.rule.positional for option in self.options)

    def _habit(self, line: str) -> Answer:
        rule = f"{PROGRAM} {self.task.typed} has no option {self.flag}"
        value = self.word.partition("=")[2] or next(iter(self.following), "")
        if line.startswith("--set ") and self.script and self.name == "train":
            return self.for_script()
        filled = _filled(line, value, self.task.typed, self.words)
        if not line.startswith("-") or line.startswith("--help"):
            return Answer(rule, filled)
        takes = value and "=" not in self.word and (" " in line or line == "--json")
        new = [_filled(token, value, "", ()) for token in line.split()]
        return self._instead(new, 2 if takes else 1, rule)

    def for_script(self) -> Answer:
        """The answer to an option of the script: all that follows is the script's."""
        rule = f"{PROGRAM} {self.task.typed} has no option {self.flag}"
        args = f"--args={shlex.quote(shlex.join(self.words[self.index :]))}"
        before = shlex.join([typed(self.words[0]), *self.words[1 : self.index]])
        return Answer(rule, f"{before} {args}   # for the script")

    def value(self) -> Answer | None:
        """The answer to a word that has another place, such as hosts without --hosts."""
        word = self.word
        if DURATION.fullmatch(word) and "hours" in self.names:
            return self._instead(["--hours", word], 1, f"{word} needs --hours")
        if word.isdigit():
            return self._number()
        if "job" in self.task.first and not self.is_job(word) and (reply := self._program()):
            return reply
        if self.name in ("exec", "ssh") and self.number:
            line = shlex.join(self.words[1:] if self.name == "exec" else self.words[self.index :])
            host = "a,b" if self.name == "exec" else self.words[self.index - 1]
            return Answer("a command is typed after --", f"exec --hosts {host} -- {line}")
        if self.name == "predict" and word.endswith(SENT):
            new = [*([] if self.number else ["model"]), "--file", word]
            return self._instead(new, 1, f"{word} needs --file")
        if self.name == "tunnel" and (ports := FORWARD.fullmatch(word)):
            return self._instead(
                [ports[2], "--local-port", ports[1]], 1, "PORT is a port of the host"
            )
        if "stack" in self.names and self.task.group == CLOUD and not self.task.first:
            return self._instead(["--stack", word], 1, f"{word} needs --stack")
        if "hosts" in self.names and (SEVERAL.fullmatch(word) if self.takes_word else True):
            words = [word, *self.following]
            hosts = ",".join(name.strip(",") for name in words)
            return self._instead(["--hosts", hosts], len(words), f"{word} needs --hosts")
        return None

    def _number(self) -> Answer | None:
        """The answer to a number, which is not the id of a run."""
        if option := NUMBERS.get(self.name):
            rule = f"{self.word} needs --{option}"
            return self._instead([f"--{option}", self.word], 1, rule)
        if "run" in self.task.first:
            return Answer(f"{self.word} is not the id of a run", "runs")
        return None

    def _program(self) -> Answer | None:
        """The answer to a word that is neither a script nor a job."""
        word = self.word
        if word in STARTERS:
            return self._instead([], 1, f"{word}: the launcher starts Python itself")
        if line := FILES.get(word[word.rfind(".") :] if "." in word else ""):
            return Answer(f"{word} is not a Python program", line)
        if re.fullmatch(r"\w+=.*", word):
            args = f"--{word.replace('=', ' ', 1)}"
            new = ["--args", args] if self.script else ["--set", word]
            return self._instead(new, 1, f"{word} needs {new[0]}")
        return None

    def _instead(self, new: Sequence[str], length: int, rule: str) -> Answer:
        """The line with other words in place of some."""
        rest = self.words[self.index + length :]
        line = [*self.words[1 : self.index], *new, *rest]
        return Answer(rule, f"{typed(self.words[0])}{_shown(line)}")


def _shown(words: Iterable[str]) -> str:
    """Words as they are typed, each after a space."""
    return "".join(f" {shlex.quote(word)}" for word in words)


def _filled(line: str, typed: str, task: str, words: Sequence[str]) -> str:
    """An answer with what was typed in its blanks."""
    known = {"task": task, "fab": PROGRAM}
    line = line.replace(" <run>", _shown(word for word in words if RUN_ID.fullmatch(word)))
    line = line.replace(" <script>", _shown([name for name in words if name.endswith(".py")][:1]))
    return BLANK.sub(lambda blank: known.get(blank[1], typed.removeprefix("ml.") or blank[1]), line)


def without_habit(wrong: Wrong, words: Sequence[str], tasks: Mapping[str, Task]) -> Answer:
    """The answer to a task or an option that is unknown: the line without the slip, otherwise the
    line that lists what there is."""
    unknown, task = wrong.unknown, tasks.get(words[0]) if words else None
    if wrong.next:
        return Answer(str(wrong), wrong.next)
    if task is None:
        if unknown.startswith("-"):
            return Answer(str(wrong), TASKS.get(unknown, "--help"))
        near = slip(unknown, map(typed, tasks))
        return Answer(
            str(wrong), TASKS.get(unknown) or (near and near + _shown(words[1:])) or "--list"
        )
    if not unknown:
        return Answer(str(wrong), f"--help {task.typed}")
    matches = (n for n, word in enumerate(words) if n and word.partition("=")[0] == unknown)
    place = Place(task, words, next(matches, len(words)))
    if unknown.startswith("-"):
        flags = [
            f"--{option.flag}" for option in (*CORE, *task.options()) if not option.rule.positional
        ]
        if near := slip(unknown, flags):
            return place._instead([near + place.word.removeprefix(unknown)], 1, str(wrong))
        if "args" in place.names and place.script and unknown.startswith("--"):
            return place.for_script()
    elif unknown in tasks:
        return together(task, unknown)
    return Answer(str(wrong), f"--help {task.typed}")


def together(task: Task, other: str) -> Answer:
    """The answer to two tasks in one line."""
    rule = f"{PROGRAM} {task.typed} does not take {other}: one task at a time"
    return Answer(rule, f"{task.typed} ... && {PROGRAM} {typed(other)} ...")


def slip(unknown: str, names: Iterable[str]) -> str:
    """The name from which an unknown one differs by a slip; empty if there is none, or if it starts
    or ends machines."""
    near = get_close_matches(unknown, [*names], 1, ALIKE)
    return near[0] if near and near[0] not in MACHINES else ""
