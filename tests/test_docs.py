"""The documentation is whole: what the program has, the pages name, with its default."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from places import ROOT, parsed
from standins.runs.run_documents import run_document

import fabfile
from bootstrap.cli import generate
from bootstrap.data import through_bucket
from bootstrap.host.rank import rank_sagemaker
from bootstrap.host.rank.rank_data import RankPlace
from pages import __main__ as pages_main
from pages import tasks as tasks_page
from pages.marked import anchors, filled, marked
from railhead.documents.cluster import (
    ClusterDocument,
    ClusterPrice,
    DocumentDeadline,
    DocumentHost,
    Gpu,
    Ssh,
)
from railhead.documents.runs.run import RunData, RunDocument, Script
from railhead.documents.runs.run_record import GivenOptions, RunRecord
from training import __main__ as training_command
from training.config import STRATEGIES
from training.data import __main__ as data_command
from training.data import feeder
from training.data.shards import stream
from training.registry import DATASETS, MODELS
from training.tasks import TASKS

BOOTSTRAP = ROOT / "bootstrap"
HOST_PROGRAMS = BOOTSTRAP / "host"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
PROSE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def section(text: str, heading: str) -> str:
    """What stands below a `##` heading, up to the next one."""
    match = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    assert match, f"no section {heading!r}"
    return match[1]


def named(text: str) -> set[str]:
    """Every word that stands in backticks, without the `hosts[].` before a key."""
    quoted = re.findall(r"`([^`\n]+)`", text)
    return {word.removeprefix("hosts[].") for word in quoted}


# --- Tasks ---------------------------------------------------------------------------------

OPTIONS = [
    (name, argument)
    for name, task in sorted(fabfile.ns.tasks.items())
    for argument in task.get_arguments()
]


def test_every_option_has_its_help() -> None:
    assert len(OPTIONS) > 100 and all(argument.help for _, argument in OPTIONS)


def test_what_follows_from_the_options_is_current() -> None:
    """`make generate` writes the tables of the pages and the methods of the interface."""
    for path, content in {**generate.files(), **pages_main.files()}.items():
        assert path.read_text() == content, f"{path.name} is not what `make generate` writes"


def test_an_option_that_a_task_shares_is_described_once() -> None:
    tables = tasks_page.parts()
    assert "| `[--script] PATH` |" in tables["options-train"]
    assert "| `[--script] PATH` |" not in tables["options-sweep"]
    assert re.search(r"^As with .*`--script`", tables["options-sweep"], re.MULTILINE)
    for name, argument in OPTIONS:
        flag = argument.name.replace("_", "-")
        assert re.search(rf"`\[?--{flag}[\] `]", tables[f"options-{name}"]), f"{name} {flag}"


def test_every_strategy_is_described() -> None:
    assert set(STRATEGIES) <= named(page("training.md"))


def test_a_page_without_the_mark_of_a_part_is_noticed() -> None:
    for page_text in ("", marked("keys", "") * 2, marked("keys", "") + marked("other", "")):
        with pytest.raises(SystemExit):
            filled(page_text, {"keys": "| new |\n"})
    assert filled(marked("keys", "| old |\n"), {"keys": "| new |\n"}) == marked("keys", "| new |\n")


# --- Training and data -----------------------------------------------------------------------


REGISTRIES = {
    "models": ("training.md", MODELS),
    "tasks": ("training.md", TASKS),
    "strategies": ("training.md", STRATEGIES),
    "formats": ("data.md", DATASETS),
}


@pytest.mark.parametrize(("file", "names"), REGISTRIES.values(), ids=REGISTRIES)
def test_every_name_that_may_be_chosen_has_its_row(file: str, names: Iterable[str]) -> None:
    rows = re.findall(r"^\| (`[^|]*`) \|", page(file), re.MULTILINE)
    listed = {name for cell in rows for name in named(cell)}
    assert set(names) <= listed


def test_the_files_of_the_training_package_lie_where_the_page_says() -> None:
    listed = re.findall(r"^\| (`[^|]*`) \|", section(page("training.md"), "The files"), re.M)
    paths = {path for cell in listed for path in named(cell)}
    assert {"train.py", "data/assignment.py"} <= paths
    assert [path for path in paths if not (ROOT / "training" / path).exists()] == []


COMMANDS = re.findall(r"^python -m training([^#\n]*)", page("training.md") + page("data.md"), re.M)


@pytest.mark.parametrize("command", [*dict.fromkeys(map(str.strip, COMMANDS))])
def test_the_commands_of_the_training_package_are_understood(command: str) -> None:
    words = shlex.split(command)
    if words[0].startswith("."):
        data_command.parser().parse_args(words[1:])
    else:
        training_command.parser().parse_args(words)


SIZES = {
    f"files of at most {stream.SEGMENT[1] >> 20} MB in memory": "stream.SEGMENT",
    f"at most about {stream.BUDGET >> 20} MB each": "stream.BUDGET",
    f"TFRecord files of about {feeder.SEGMENT >> 20} MB": "feeder.SEGMENT",
    f"At most {feeder.FILES} of the small files wait": "feeder.FILES",
    f"{through_bucket.MIN_BYTES // 10**6} MB or more are uploaded": "through_bucket.MIN_BYTES",
}


def test_the_reader_of_streams_has_as_many_lines_as_the_page_about_data_says() -> None:
    reader = re.search(r"A reader of (\d+) lines.*?```python\n(.*?)```", page("data.md"), re.DOTALL)
    assert reader and int(reader[1]) == len([x for x in reader[2].splitlines() if x])


@pytest.mark.parametrize("text", SIZES, ids=SIZES.values())
def test_the_sizes_of_the_page_about_data_are_those_of_the_code(text: str) -> None:
    assert text in " ".join(page("data.md").split())


def test_the_variables_of_sagemaker_are_in_the_page_about_data(tmp_path: Path) -> None:
    run = run_document(data=(RunData("train", "s3://b", "shard", "file", None),))
    script, place = (
        Script("script", "train.py", ("--lr", "1")),
        RankPlace(str(tmp_path), *[(0, 1)] * 3),
    )
    set_here = rank_sagemaker.variables(run, script, place, {"train": str(tmp_path)})
    script = replace(script, sagemaker_sdk=3)
    set_here |= rank_sagemaker.variables(run, script, place, {"train": str(tmp_path)})
    shown = {"SM_CHANNEL_TRAIN": "SM_CHANNEL_<NAME>", "SM_HP_LR": "SM_HP_<NAME>"}
    table = re.findall(r"^\| (`[^|]*) \|", page("data.md"), re.M)
    listed = {n for cell in table for n in named(cell) if n.startswith(("SM_", "TRAINING_"))}
    assert {shown.get(name, name) for name in set_here} == listed


# --- Documents -----------------------------------------------------------------------------


def keys_of_kind(kind: Any) -> set[str]:
    """Every key of a document's dataclass, at every depth."""
    if not is_dataclass(kind):
        return set().union(*map(keys_of_kind, get_args(kind)))
    hints = get_type_hints(kind).items()
    return {name for name, _ in hints}.union(*(keys_of_kind(inner) for _, inner in hints))


def test_each_key_of_the_run_document_is_described_once() -> None:
    text = section(page("architecture.md"), "The run document")
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert rows == [field.name for field in fields(RunDocument)]
    assert keys_of_kind(RunDocument) <= named(text)
    stored = named(section(page("architecture.md"), "Where files are stored"))
    assert keys_of_kind(RunRecord) | keys_of_kind(GivenOptions) <= stored


def test_every_key_of_the_cluster_document_is_described() -> None:
    kinds = (ClusterDocument, Ssh, DocumentHost, Gpu, DocumentDeadline, ClusterPrice)
    keys = {key.name for kind in kinds for key in fields(kind)}
    assert keys <= named(section(page("architecture.md"), "The cluster document"))


def test_every_record_is_described() -> None:
    text = section(page("architecture.md"), "The records")
    for path in (ROOT / "training").rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "emit":
                parameters = {k.arg for k in node.keywords if k.arg}
                parameters |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
                assert parameters <= named(text), f"{path.name}: {parameters - named(text)}"


def variables() -> set[str]:
    """The variables that a rank's environment gets from us."""
    names = set(re.findall(r"export (\w+)=", (ROOT / "bootstrap" / "runs/start.py").read_text()))
    names |= set(re.findall(r"env ([A-Z_]+)=", (ROOT / "bootstrap" / "runs/launch.py").read_text()))
    rank = (HOST_PROGRAMS / "rank/rank.py").read_text()
    names |= set(re.findall(r"^        ([A-Z_]+)=", rank, re.MULTILINE))
    names |= set(re.findall(r"os\.environ\[\"([A-Z_]+)\"\]", rank))
    return names | set(re.findall(r"os\.environ\.setdefault\(\"([A-Z_]+)\"", rank))


def test_every_variable_that_a_script_receives_is_named() -> None:
    assert {"RAILHEAD_RANK", "TF_CONFIG", "PYTHONUNBUFFERED", "RAILHEAD_RUN"} <= variables()
    assert variables() <= named(page("own-script.md"))


def test_every_variable_of_ours_is_described() -> None:
    """Those that a user sets, and those that a program receives."""
    names = {
        name
        for path in (*BOOTSTRAP.rglob("*.py"), *(ROOT / "training").rglob("*.py"))
        for name in re.findall(r"[\"'](RAILHEAD_[A-Z_]+[A-Z])[\"']", path.read_text())
    }
    assert {"RAILHEAD_PROXY", "RAILHEAD_MIRROR_NETWORKS", "RAILHEAD_RESULTS"} <= names
    assert names - OF_OUR_PROCESSES <= named(
        page("tasks.md") + page("own-script.md") + page("training.md")
    )


OF_OUR_PROCESSES = {
    "RAILHEAD_ENDPOINT",
    "RAILHEAD_KEY_AGENT",
    "RAILHEAD_LOCAL",
}  # marks that no program reads


# --- Errors --------------------------------------------------------------------------------


HOLE = "\0"


def template(node: ast.AST) -> str:
    """The text that an expression makes, with a hole for each value that is not known here."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    return HOLE


def called(node: ast.Call) -> str:
    """The name of what is called, without what stands before its last dot."""
    return str(getattr(node.func, "id", getattr(node.func, "attr", "")))


def errors(trees: Iterable[ast.Module]) -> set[str]:
    """The names of RailheadError and of all classes below it."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    names = {"RailheadError"}
    for _ in classes:
        names |= {c.name for c in classes if names & {getattr(b, "id", "") for b in c.bases}}
    return names


@dataclass(frozen=True)
class Message:
    """The message of an error that bootstrap raises. `hinted`: it names its next command."""

    file: str
    kind: str
    text: str
    hinted: bool

    @property
    def has_rule(self) -> bool:
        """Whether a wrong value is answered with its rule or the choices."""
        return self.kind in ("UsageError", "Exit") and bool(RULE.search(self.text))


# A message with such words says what is allowed instead of the value that it shows.
RULE = re.compile(
    r"\b(?:must|one of|as in|at most|is for|needs?|takes?|goes with|goes without|give one of|both"
    r"|name it once|write|remove it|more than|each name once|one for each|is reserved|expected)\b"
    r"|[Cc]hoices: |letters, digits|they have: |is not a number from|name hosts of one kind"
    r"|they are known for|locked for x86_64 only|cannot be used with|has another meaning"
    r"|is not closed|name another folder|use different ones|contradict each other"
    r"|can only read|is not projects/|the model has the inputs"
    r"|is not (?:a|an|the|JSON|UTF-8)\b|not UTF-8|there is no|is given twice|has no files|groups:"
    r"|without a NUL|a fixed number|is longer than|has no certificate|the run has|it has \0"
    r"|never ends|not of this computer|this computer has|can have this name|there are \0|, not here"
)
# Every one of them lists the hosts, each with its own message.
LISTS = {"HostsFailed", "HostsNotReady", "HostsBusy"}


@cache
def messages() -> tuple[Message, ...]:
    """The message of every error that bootstrap raises."""
    return tuple(_messages())


def _messages() -> Iterator[Message]:
    trees = {path: parsed(path) for path in sorted(BOOTSTRAP.rglob("*.py"))}
    names = {*errors(trees.values()), "Exit"}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and called(node) in names and node.args:
                text = template(node.args[0])
                hinted = any(k.arg == "hint" for k in node.keywords) or "\n  next: " in text
                if called(node) == "Hostile":  # which puts its one text around it
                    text = f"the host sent {text}: nothing of it was kept"
                if len(text.replace(HOLE, "").strip(" :;,.'()\n")) > 3:
                    file = path.relative_to(BOOTSTRAP).as_posix()
                    yield Message(file, called(node), text, hinted)


def test_the_messages_of_all_folders_are_found() -> None:
    assert len(messages()) > 200
    folders = {one.file.partition("/")[0] for one in messages()}
    assert {"cli", "clouds", "plan", "provision", "runs", "ssh", "lifecycle", "health"} <= folders
    assert sum(one.hinted for one in messages()) > len(messages()) / 3


def quoted_messages() -> list[re.Pattern[str]]:
    """What the lines `Messages:` of troubleshooting quote; `...` stands for any words."""
    lines = re.findall(r"^Messages: (.*(?:\n.+)*)", page("troubleshooting.md"), re.MULTILINE)
    quotes = [q for line in lines for q in re.findall(r"`([^`]{5,})`", " ".join(line.split()))]
    pieces = [quote.split("...") for quote in quotes]
    return [re.compile(".*".join(map(re.escape, some)), re.DOTALL) for some in pieces]


def unanswered(some: Iterable[Message], quotes: Iterable[re.Pattern[str]]) -> list[str]:
    """The messages with no next command, no rule and no entry in troubleshooting."""
    quotes = list(quotes)
    return [
        f"{one.file}: {one.text.replace(HOLE, '{}')}"
        for one in some
        if not (one.hinted or one.has_rule or one.kind in LISTS)
        and not any(quote.search(one.text) for quote in quotes)
    ]


def test_every_message_has_a_next_command_a_rule_or_an_entry() -> None:
    missing = unanswered(messages(), quoted_messages())
    assert not missing, "\n".join(missing)


def test_every_message_that_troubleshooting_quotes_is_one_of_the_code() -> None:
    texts = [one.text for one in messages()]
    assert [q.pattern for q in quoted_messages() if not any(map(q.search, texts))] == []


def test_a_message_that_leaves_its_reader_alone_is_noticed() -> None:
    alone = Message("x.py", "RailheadError", f"it failed: {HOLE}", False)
    assert unanswered([alone], []) == ["x.py: it failed: {}"]
    for answered in (
        replace(alone, hinted=True),
        replace(alone, kind="HostsFailed"),
        replace(alone, kind="UsageError", text="epochs must be at least 1"),
    ):
        assert unanswered([answered], []) == []
    assert unanswered([alone], [re.compile("it failed: .*")]) == []


# --- Pages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", PROSE.sub("", path.read_text()))
    for link in [link for link in links if not link.startswith("https://")]:
        target, _, anchor = link.partition("#")
        there = (path.parent / target).resolve() if target else path
        assert there.exists(), link
        assert not anchor or anchor in anchors(there.read_text()), link


def test_the_first_line_to_type_comes_early() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert lines.index("make demo") < 20
    set_up = [line for line in lines if re.fullmatch(r"make \w+", line)]
    assert set_up == ["make demo", "make test"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_has_nothing_of_the_machine_that_wrote_it(path: Path) -> None:
    assert not re.search(r"(?<![\w>])/(?:root|tmp|home|work)\b", path.read_text())


def links_to_pages(path: Path) -> set[Path]:
    """The pages that a page links to."""
    links = re.findall(r"\]\(([\w/.-]+\.md)(?:#[^)]*)?\)", path.read_text())
    return {(path.parent / link).resolve() for link in links}


def test_every_page_is_at_most_two_clicks_from_the_readme() -> None:
    near = links_to_pages(ROOT / "README.md")
    assert ROOT / "docs/index.md" in near
    reached = near.union(*map(links_to_pages, near))
    assert {*(ROOT / "docs").rglob("*.md")} <= reached


def test_the_readme_is_short_and_fits_a_terminal() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 900
    wide = [line for line in text.splitlines() if len(line) > 80 and not line.startswith("|")]
    assert wide == []


def test_no_line_is_wider_than_140_characters() -> None:
    for path in PAGES:
        lines = [line for line in path.read_text().splitlines() if not line.startswith("|")]
        assert [line for line in lines if len(line) > 140] == [], path.name


# --- Commands ------------------------------------------------------------------------------


def typed_commands(text: str) -> Iterator[str]:
    """The `fab` commands of the blocks of a page that are not typed by test_transcripts.py."""
    blocks = re.findall(r"^```(\w*).*?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for block in [block for language, block in blocks if language in ("", "sh", "yaml")]:
        for line in block.replace("\\\n", " ").splitlines():
            command = re.search(r"(?:^|&& |bin/)(fab .*)", line.split("  #")[0].split("   #")[0])
            if command:
                yield command[1]


COMMANDS_OF_PAGES = sorted({c for path in PAGES for c in typed_commands(path.read_text())})


def test_the_commands_of_all_blocks_are_found() -> None:
    page_text = "```console run\n$ fab nope\n```\n\n```sh\nfab stop  # all\n```\n"
    assert [*typed_commands(page_text)] == ["fab stop"]
    assert len(COMMANDS_OF_PAGES) > 60


@pytest.mark.parametrize("command", COMMANDS_OF_PAGES)
def test_the_commands_of_the_pages_are_those_of_fab(command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    while words and words[0] in ("-r", "--hosts", "-H", "-D", "--debug", "--dry"):
        words = words[1:] if words[0] in ("--debug", "--dry") else words[2:]
    if words in (["--version"], ["--help"], ["--list"]):
        return
    names = {**fabfile.ns.tasks, "data": fabfile.ns.tasks["data-push"]}
    task, rest = names[words[0]], words[1:]
    if words[0] == "data":
        task, rest = fabfile.ns.tasks[f"data-{words[1]}"], words[2:]
    flags = {name for argument in task.get_arguments() for name in argument.names}
    for word in rest:
        if word.startswith("-") and word != "--" and words[0] != "exec":
            assert word.lstrip("-").partition("=")[0] in flags, word
