"""Transcripts in the documentation are real: their commands are typed again, and compared.

A block ```console WORLD contains commands after `$ ` and what they print; docs/contributing.md says
which worlds there are. `...` stands for any lines, and VOLATILE for what differs between runs.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from draws import drawn
from e2e import kept_environments
from e2e.local_hosts import Operator, cluster, marked, wait_until
from e2e.scripts import JOIN
from e2e.transcripts import PAGES, blocks, matches, steady
from places import ROOT
from samples.forks import copy_with_a_model
from standins import warm_ranks
from standins.installed import Installed, build

from bootstrap.inventory import local_state

pytestmark = pytest.mark.skipif(
    shutil.which("nvidia-smi") is not None, reason="transcripts are of hosts without a GPU"
)

# Of the blocks of the story that no later one needs and that train, each run of the tests types
# one, which has these words.
DRAWN = (
    "train.py --args='--epochs 3'",
    "min_accuracy=0.9",
    "train.py --no-keras-patches\n",
    "fab health",
    "examples/horovod_tape.py",
    "examples/multiworker_fit.py",
    "examples/parameter_server.py",
    "--set model=mine",
)
STORY = (
    "getting-started.md",
    "tasks-train.md",
    "own-script.md",
    "tasks-results.md",
    "tasks-serve.md",
    "tasks-hosts.md",
    "tasks-cloud.md",
    "troubleshooting.md",
    "examples.md",
)  # the `run` blocks, in order

# They join the ranks without the seconds of an import of TensorFlow.
SCRIPTS = {
    "show.py": JOIN
    + """
print("arguments", sys.argv[1:])
print("greeting", os.environ["GREETING"])
print("@railhead", json.dumps({"kind": "message", "text": f"a word from {rank}"}))
""",
    "sleeper.py": JOIN + "time.sleep(600)\n",
    "exits.py": JOIN + "print('no data on rank', rank)\nsys.exit(3)\n",
}


@dataclass(frozen=True)
class Reader(Operator):
    """Somebody who types what the pages say, in their own home."""

    machines: Path  # the home of the local hosts

    @classmethod
    def at(cls, home: Path, caches: Path, machines: Path) -> Reader:
        """A folder with the scripts that the pages speak of."""
        folder = home / "project"
        for path in (folder, home / ".ssh"):
            path.mkdir(parents=True, mode=0o700)
        (shown,) = re.findall(r"```python\n(.*?)```", PAGES["getting-started.md"], re.DOTALL)
        for name, text in {**SCRIPTS, "train.py": shown}.items():
            (folder / name).write_text(text)
        return cls(home, folder, caches, machines)

    def know(self, hosts: Path) -> None:
        """Give the local hosts the names alpha and beta, in ~/.ssh/config."""
        text = ""
        for name, host in zip(("alpha", "beta"), record_of(hosts), strict=True):
            text += f"Host {name}\n  HostName {host[0]}\n  Port {host[1]}\n  User {host[2]}\n"
            text += f"  IdentityFile {hosts}/.railhead/clusters/lab/key\n  IdentitiesOnly yes\n"
        (self.home / ".ssh" / "config").write_text(text)

    def types(self, command: str, last: int) -> tuple[str, int]:
        """Type a command; what it printed, and its exit code. `last`: that of the one before."""
        if command == "echo $?":
            return f"{last}\n", 0
        program, *words = shlex.split(command)
        assert program == "fab", command
        command_run = self.fab(*words, seconds=1500)
        if "--detach" in words:
            wait_until(self.has_all_ranks, 60, "both ranks and their helpers run")
        if words[0] == "exec":  # the lines of the hosts as they come: on the page, of one by one
            lines = command_run.out.splitlines(keepends=True)
            return "".join(sorted(lines, key=host_of)), command_run.code
        return command_run.out, command_run.code

    def has_all_ranks(self) -> bool:
        """Whether both ranks of a run are there, each with the helper that forwards its output."""
        return sum("rank.rank" in line for line in marked(self.machines)) >= 4

    def follows(self, block: str) -> None:
        """Type a block's commands and compare what they print."""
        places = {rf"{self.machines}/\S*?/home\b": "~", str(self.home): "~"}
        last = 0
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            printed, last = self.types(command, last)
            if "energy so far" not in expected:  # of a run of over a minute, on a busy machine
                printed = re.sub(r"^energy so far: .*\n", "", printed, flags=re.MULTILINE)
            same = matches(steady(expected, {}), steady(printed, places))
            assert same, f"$ {command}\nprinted:\n{printed}\nthe page says:\n{expected}"


def host_of(line: str) -> str:
    """The host that a line begins with, or none."""
    return line.partition("]")[0] if line.startswith("[") else ""


def record_of(home: Path) -> list[tuple[str, int, str]]:
    """Address, port and user of the local hosts in `home`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        return [
            (h.address, h.port or 22, h.user or "") for h in local_state.load_cluster("lab").hosts
        ]


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """A reader with no host."""
    return Reader.at(tmp_path / "reader", tmp_path / "caches", tmp_path / "machines")


@pytest.fixture
def with_hosts(reader: Reader) -> Iterator[Reader]:
    """A reader with two fresh hosts, alpha and beta, whose keys are trusted."""
    with cluster(reader.machines, "lab", reader.caches):
        reader.know(reader.machines)
        reader.fab("trust", "--hosts", "alpha,beta", "--yes").ended(0)
        yield reader


PAGES_ALONE = [name for name in PAGES if blocks(name, "alone")]
PAGES_WITH_HOSTS = [name for name in PAGES if blocks(name, "hosts")]


@pytest.mark.parametrize("page", PAGES_ALONE)
def test_what_needs_no_host(page: str, reader: Reader) -> None:
    for block in blocks(page, "alone"):
        reader.follows(block)


@pytest.mark.parametrize("page", PAGES_WITH_HOSTS)
def test_what_needs_two_hosts(page: str, with_hosts: Reader) -> None:
    for block in blocks(page, "hosts"):
        with_hosts.follows(block)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_story_of_the_runs(tmp_path: Path, shared_caches: Path) -> None:
    reader = Reader.at(tmp_path / "reader", shared_caches, tmp_path / "machines")
    shutil.copytree(ROOT / "examples", reader.folder / "examples")
    copy_with_a_model(reader.folder / "mine")
    left_out = {*DRAWN} - {drawn(DRAWN)}
    with cluster(reader.machines, "lab", reader.caches):
        reader.know(reader.machines)
        warm_ranks.serve(reader.machines, shared_caches)
        for page in STORY:
            for block in blocks(page, "run"):
                if any(words in block for words in left_out):
                    continue
                if "fab train" in block:  # after the plans that show what hosts lack
                    give_runtime(reader)
                reader.follows(block)


def give_runtime(reader: Reader) -> None:
    """The runtime that the next command would install; test_the_demo installs it."""
    with kept_environments.alone(reader.caches) as kept:
        kept_environments.give_to_hosts(kept, reader.machines)


@dataclass(frozen=True)
class ReaderOfTheWheel(Reader):
    """Somebody who types `railhead demo` where the page says `make demo`, and reads `fab`."""

    def types(self, command: str, last: int) -> tuple[str, int]:
        assert command == "make demo"
        wheel = build(ROOT, self.home / "wheel", "--wheel", caches=self.caches)
        env = Installed.with_packages_of_the_tests(self.home / "env", wheel, self.caches)
        done = env.run("railhead", "demo", folder=self.folder, **self.environment())
        return done.stdout.replace("next: railhead ", "next: fab ") + done.stderr, done.returncode


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_demo(tmp_path: Path, shared_caches: Path) -> None:
    reader = ReaderOfTheWheel.at(tmp_path / "reader", shared_caches, tmp_path / "reader")
    reader.folder.rename(reader.home / "railhead")
    reader.folder.symlink_to(reader.home / "railhead")
    kept_environments.give_bytecode(shared_caches)
    (block,) = blocks("README.md", "demo")
    reader.follows(block)


def test_every_transcript_is_of_a_world_that_is_typed_again() -> None:
    for name, text in PAGES.items():
        worlds = re.findall(r"^```console ?(.*)$", text, re.MULTILINE)
        assert set(worlds) <= {"alone", "hosts", "run", "demo", "stack"}, name
        assert "run" not in worlds or name in STORY
        assert "demo" not in worlds or name == "README.md"
        assert "stack" not in worlds or name == "stacks.md"  # tests/engine/test_stack_lifecycle.py


def test_words_of_the_draw_are_in_one_block_each() -> None:
    for words in DRAWN:
        assert sum(words in block for page in STORY for block in blocks(page, "run")) == 1, words


def test_a_line_that_nobody_printed_is_noticed() -> None:
    assert matches(steady("a 1.5 s\n...\nz\n", {}), ["a QUANTITY", "b", "z"])
    assert not matches(["a", "z"], ["a", "b", "z"])
    assert not matches(["a", "...", "y"], ["a", "b", "z"])
