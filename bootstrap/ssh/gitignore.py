"""Decides which files .gitignore excludes, as git does. Pure.

Git applies its rules to one folder entry at a time, from the top down, and never enters an excluded
folder. `bundle_files` does the same; this module decides about one entry. We do not use pathspec,
because it matches whole paths and differs from git: with it, `!folder/` re-includes files that a
later rule excludes, and `data/**` with `!data/.gitkeep` loses both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from railhead.documents.lazy import dataclass

_TOKEN = re.compile(
    r"""(?P<deep>(?:^|(?<=/))\*{2,}(?:\\?/|$))    # `**` that fills a whole part of the path
      | (?P<many>\*+) | (?P<one>\?)
      | (?P<set>\[[!^]?(?:\[:[a-z]+:\]|\\.|[^\\])(?:\[:[a-z]+:\]|\\.|[^]\\])*\])
      | (?P<escaped>\\.) | (?P<plain>[^*?[\\]) | (?P<broken>.)""",
    re.VERBOSE | re.DOTALL,
)
_MEMBER = re.compile(
    r"\[:(?P<kind>[a-z]+):\]|(?P<low>\\?.)-(?P<high>\\?.)|(?P<char>\\?.)", re.DOTALL
)
_KINDS = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


@dataclass(frozen=True)
class Rule:
    """One line of a .gitignore. `whole` rules match the path, the others its last part."""

    regex: re.Pattern[str]
    keeps: bool
    folders_only: bool
    whole: bool

    def matches(self, path: str, folder: bool) -> bool:
        """Whether the rule matches exactly this entry (not the entries below it)."""
        if self.folders_only and not folder:
            return False
        subject = path if self.whole else path.rpartition("/")[2]
        return self.regex.fullmatch(subject) is not None


@dataclass(frozen=True)
class IgnoreFile:
    """The rules of one .gitignore; `base` is its folder: empty, or a path that ends with `/`."""

    base: str
    rules: tuple[Rule, ...]

    def verdict(self, path: str, folder: bool) -> bool | None:
        """True: exclude. False: keep. None: no rule matches. The last match wins."""
        below = path[len(self.base) :]
        for rule in reversed(self.rules):
            if rule.matches(below, folder):
                return not rule.keeps
        return None


def ignored(files: Sequence[IgnoreFile], path: str, *, folder: bool) -> bool:
    """Whether an entry is excluded. `files` go from the outermost folder to the entry's own."""
    for file in reversed(files):
        verdict = file.verdict(path, folder)
        if verdict is not None:
            return verdict
    return False


def parse(content: bytes, base: str) -> IgnoreFile:
    """The rules of a .gitignore in the folder `base`. A rule that git cannot read is dropped."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return IgnoreFile(base, tuple(rule for line in lines for rule in _rules(line)))


def _rules(line: str) -> Iterator[Rule]:
    """The rule in a line; none when the line is blank, a comment or malformed."""
    if line.startswith("#"):
        return
    spaces = re.fullmatch(r"((?:\\.|[^\\])*?) *", line)  # an escaped last space counts
    pattern = spaces[1] if spaces else line
    keeps, pattern = pattern.startswith("!"), pattern.removeprefix("!")
    folders_only, pattern = pattern.endswith("/"), pattern.removesuffix("/")
    regex = _regex(pattern.removeprefix("/"))
    if pattern and regex is not None:
        yield Rule(re.compile(regex, re.DOTALL), keeps, folders_only, "/" in pattern)


def _regex(pattern: str) -> str | None:
    """A git glob as a regular expression; None when the glob is malformed (it matches nothing)."""
    parts = [_part(token) for token in _TOKEN.finditer(pattern)]
    return None if None in parts else "".join(part for part in parts if part)


def _part(token: re.Match[str]) -> str | None:
    """The regular expression of one token of a glob; None when it is malformed."""
    text = token[0]
    if token["deep"]:
        return "(?:.*/)?" if text.endswith("/") else ".*"
    if token["many"]:
        return "[^/]*"
    if token["one"]:
        return "[^/]"
    if token["set"]:
        return _set(text[1:-1])
    return None if token["broken"] else re.escape(text[-1])


def _set(body: str) -> str | None:
    """The inside of `[...]`; it never matches a slash. None if a `[:kind:]` is unknown."""
    negated = body[0] in "!^"
    members = [_member(match) for match in _MEMBER.finditer(body[1:] if negated else body)]
    if None in members:
        return None
    inside = "".join(member for member in members if member)
    return f"(?!/)[{'^' if negated else ''}{inside}]"


def _member(match: re.Match[str]) -> str | None:
    """One member of a set: a kind, a character or a range (of a reversed range git uses the
    start)."""
    if match["kind"]:
        return _KINDS.get(match["kind"])
    if match["char"]:
        return re.escape(match["char"][-1])
    low, high = match["low"][-1], match["high"][-1]
    return f"{re.escape(low)}-{re.escape(high)}" if low <= high else re.escape(low)
