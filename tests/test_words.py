"""What no file of ours holds: paths of a developer's machine, registries' names, wrong words."""

from __future__ import annotations

import re
import subprocess
from functools import cache

import pytest
from places import ROOT

# The people of our examples. Anybody else's home is a developer's.
PEOPLE = ("ann", "bob", "rail", "ubuntu", "user", "you")
HOMES = re.compile(  # a web page's /home/ stands behind its site's name
    rf"(?<!\w)/(?:home|Users)/(?!(?:{'|'.join(PEOPLE)})\b)[A-Za-z]\w*|/root/\.pyenv"
)
# Taken apart, so that this file holds none of them.
REGISTRIES = re.compile(
    "|".join(
        re.escape(".".join(parts))
        for parts in [
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("npmjs", "org"),
            ("anaconda", "org"),
            ("docker", "io"),
            ("ghcr", "io"),
            ("quay", "io"),
            ("deb", "debian", "org"),
            ("archive", "ubuntu", "com"),
            ("crates", "io"),
        ]
    ),
    re.IGNORECASE,
)
# Where nvcc comes from on a system that does not have Debian's archive among its own.
HAS_ARCHIVE = ("bootstrap/plan/downloads.py", "bootstrap/host/scripts/cuda.sh")
# A machine is a host here. The other word is mpirun's, whose messages we read by patterns like
# r"on node \S+", or means a tree's.
NOT_HOST = re.compile(
    r"\b(?<!--)(?<!--num-)(?:nodes?(?! \\S| \")|ClusterSpec)\b",  # --num-nodes: of other programs
    re.IGNORECASE,
)
OF_OTHERS = "bootstrap/cli/command_line/habits.py"  # what people type for other programs
# Names and texts that leave open who does what to whom.
VAGUE = re.compile(r"(?<![a-z])(?:un)?(?:told|said|asked)(?![a-z])", re.IGNORECASE)
MAY_BE_VAGUE = ("tests/test_words.py",)  # this file
CODE = ("bootstrap/", "stacks/", "training/", "tests/", "benchmarks/", "scripts/", "railhead/")
OURS = ("README.md", "CHANGELOG.md", "docs/", "bootstrap/", "stacks/", "training/", "scripts/")


def tracked() -> list[str]:
    """The files that git knows; none where this is not a clone."""
    process = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    return [name for name in process.stdout.split("\0") if name and (ROOT / name).is_file()]


try:
    FILES = tracked()
except FileNotFoundError:
    FILES = []
here = pytest.mark.skipif(not FILES, reason="no git, or no clone: the tracked files are unknown")


@cache
def text_of(name: str) -> str:
    """A tracked file; empty for a binary one."""
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def hits(pattern: re.Pattern[str], names: list[str]) -> list[str]:
    """Where a pattern matches: file:line: the match."""
    return [
        f"{name}:{number}: {match[0]}"
        for name in names
        if pattern.search(text_of(name))  # a fifth of the time that all lines take
        for number, line in enumerate(text_of(name).splitlines(), 1)
        for match in pattern.finditer(line)
    ]


@here
def test_no_file_names_a_developers_home() -> None:
    assert hits(HOMES, FILES) == []


@here
@pytest.mark.skipif(len(ROOT.parts) < 3, reason="a path as short as this one means nothing")
def test_no_file_names_the_place_of_this_clone() -> None:
    assert hits(re.compile(re.escape(str(ROOT)) + r"\b"), FILES) == []


@here
def test_no_file_names_a_registry() -> None:
    assert hits(REGISTRIES, [name for name in FILES if name not in HAS_ARCHIVE]) == []


@here
def test_a_machine_is_called_a_host() -> None:
    names = [name for name in FILES if name.startswith(OURS) and name != OF_OTHERS]
    assert hits(NOT_HOST, names) == []


@here
def test_code_and_tests_use_plain_words() -> None:
    code = [name for name in FILES if name.startswith(CODE) and name.endswith((".py", ".sh"))]
    assert hits(VAGUE, [name for name in code if name not in MAY_BE_VAGUE]) == []


@pytest.mark.parametrize(
    ("pattern", "text", "caught"),
    [
        (HOMES, "/home/" + "carol/x", True),
        (HOMES, "/Users/" + "dave", True),
        (HOMES, "https://site.com/pages/home/" + "services", False),
        (HOMES, "/home/ann/.railhead", False),
        (HOMES, "/home/" + "annabelle", True),
        (REGISTRIES, "https://" + "pypi" + ".org/simple", True),
        (REGISTRIES, "pip install fabric", False),
        (VAGUE, "test_a_host_is_told_apart", True),
        (VAGUE, "unsaid", True),
        (VAGUE, "masked_crc", False),
        (NOT_HOST, "every Node of it", True),
        (NOT_HOST, "nodename", False),
        (NOT_HOST, "--num-nodes", False),
        (NOT_HOST, r"PID \d+ on node \S+ exited", False),
    ],
)
def test_the_patterns_catch_what_they_mean(
    pattern: re.Pattern[str], text: str, caught: bool
) -> None:
    assert bool(pattern.search(text)) is caught
