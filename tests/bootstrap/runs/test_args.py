"""`--args`: split as a real shell splits its arguments."""

from __future__ import annotations

import random
import subprocess

import pytest

from bootstrap.errors import UsageError
from bootstrap.runs.request import split

# Prints its arguments; globs are off, because splitting is compared and not expansion.
SHELL = """set -f; words() { for w; do printf '%s\\0' "$w"; done; }
words """


def by_shell(text: str) -> tuple[str, ...]:
    """The arguments in `text`, split by a real sh."""
    done = subprocess.run(["/bin/sh", "-c", SHELL + text], capture_output=True, check=True)
    return tuple(done.stdout.decode().split("\0")[:-1])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "--epochs 3",
        "  --epochs\t3  ",
        "-- --epochs -- 3",
        "''",
        '"" a ""',
        "a''b '' c",
        "'a b' \"c d\" e\\ f",
        "--name='it'\\''s'",
        """--name "it's" 'say "hi"'""",
        r"'\n' \\n \n",
        r'"\n" "\\" "\"" "\a"',
        r'"cost: \$5" "\`x\`" \$HOME',
        "'$HOME' '$(id)' '`id`' '*' '~' '#x' '!' ';' '&' '|' '>x'",
        r"\* \~ \# \; \& \| \> \< \( \)",
        "a#b x=~ {a,b}",
        "'line one\nline two'",
        '"line one\nline two"',
        "--epochs 3 \\\n  --batch 4",
        "a\\\nb",
        '"a\\\nb"',
        "'a\\\nb'",
        "a \\\n",
        "ends in a backslash\\",
        "a\rb",
        "naïve 日本 \N{NO-BREAK SPACE}x",
        '--json=\'{"a": [1, 2], "b": "$x"}\'',
    ],
)
def test_args_are_split_exactly_as_a_shell_splits_them(text: str) -> None:
    assert split(text) == by_shell(text)


LETTERS = "ab=-'\"\\$`*?~#;&|<>(){}[]! \t\né日"


def quoted(text: str, dice: random.Random) -> str:
    """One of a shell's many ways to quote an argument."""
    written = ""
    for letter in text:
        ways = [f"'{letter}'", f"{letter}" if letter in "ab=-é日" else f"'{letter}'"]
        if letter != "\n":
            ways.append("\\" + letter)
        ways.append(f'"\\{letter}"' if letter in '$`"\\' else f'"{letter}"')
        ways = [way for way in ways if way != "'''"]
        written += dice.choice(ways) + dice.choice(["", "", "", "''", '""', "\\\n"])
    return written or dice.choice(["''", '""'])


@pytest.mark.parametrize("seed", range(150))
def test_any_arguments_reach_the_script_unchanged(seed: int) -> None:
    dice = random.Random(seed)
    args = ["".join(dice.choices(LETTERS, k=dice.randint(0, 7))) for _ in range(dice.randint(0, 5))]
    gaps = [" ", "\t", "  ", " \\\n"]
    text = "".join(dice.choice(gaps) + quoted(word, dice) for word in args)
    assert split(text) == tuple(args)
    assert by_shell(text) == tuple(args)


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("$HOME *.py ~ `id` $(id)", ("$HOME", "*.py", "~", "`id`", "$(id)")),
        ("a; b && c | d > e", ("a;", "b", "&&", "c", "|", "d", ">", "e")),
        ("--tag #3", ("--tag", "#3")),
        ("--epochs 3\n--batch 4", ("--epochs", "3", "--batch", "4")),
    ],
)
def test_nothing_is_expanded_or_run(text: str, args: tuple[str, ...]) -> None:
    assert split(text) == args


@pytest.mark.parametrize(("text", "quote"), [("it's", "'"), ('say "hi', '"'), ("'a\\'b'", "'")])
def test_an_unclosed_quote_is_refused_with_the_text(text: str, quote: str) -> None:
    with pytest.raises(UsageError, match=f"the quote {quote} is not closed") as caught:
        split(text)
    assert repr(text) in caught.value.message
