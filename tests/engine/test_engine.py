"""The engine itself, with programs of a few lines: what the other tests here stand on."""

from __future__ import annotations

import json
from pathlib import Path

from engine.stack import Stack

PROGRAM = """
import os
import pulumi

config = pulumi.Config()
if config.get("broken"):
    raise RuntimeError("broken by choice")
pulumi.export("where", os.getcwd())
pulumi.export("text", config.get("text"))
"""


def test_a_program_goes_through_all_its_life(engine: Path, tmp_path: Path) -> None:
    stack = Stack(engine, tmp_path / "project", program=PROGRAM).config(text="--hello 3")
    assert stack.preview().ended(0).summary == {"create": 1}
    assert stack.up().ended(0).changed == {"railhead-test": "create"}
    assert stack.output() == {"where": str(tmp_path / "project" / "stacks"), "text": "--hello 3"}
    of = ("--stack", "test")
    assert json.loads(stack.run("stack", "output", "--json", *of).text) == stack.output()
    exported = json.loads(stack.run("stack", "export", *of).text)["deployment"]
    assert exported["resources"] == stack.resources()
    assert stack.up("--expect-no-changes").ended(0).summary == {"same": 1}
    stack.refresh("--expect-no-changes").ended(0)
    stack.destroy().ended(0)
    assert stack.resources() == []


def test_settings_are_written_as_the_command_writes_them(engine: Path, tmp_path: Path) -> None:
    ours, pulumis = (Stack(engine, tmp_path / name, program=PROGRAM) for name in ("a", "b"))
    ours.config(text="--hello 3", count=3, broken=True, **{"aws:profile": "1e3"}).config(count=None)
    values = ("text=--hello 3", "broken=true", "aws:profile=1e3")
    plain = [word for value in values for word in ("--plaintext", value)]
    pulumis.run("config", "set-all", "--stack", "test", *plain).ended(0)
    ours_read, pulumis_read = (
        json.loads(stack.run("config", "--json", "--stack", "test").ended(0).text)
        for stack in (ours, pulumis)
    )
    assert ours_read == pulumis_read and {"railhead:text", "aws:profile"} < ours_read.keys()


def test_a_program_that_raises_fails_with_its_text(engine: Path, tmp_path: Path) -> None:
    stack = Stack(engine, tmp_path / "project", program=PROGRAM).config(broken=True)
    done = stack.up().ended(1)
    assert "RuntimeError: broken by choice" in done.problems[0]
    assert stack.config(broken=None).up().ended(0).problems == []


def test_the_file_that_a_killed_pulumi_damages_can_be_removed(engine: Path, tmp_path: Path) -> None:
    """SIGKILL between the two writes of a state in a folder; `fab` names the file."""
    stack = Stack(engine, tmp_path / "project", program=PROGRAM)
    (damaged,) = (tmp_path / "project" / "state").rglob("test.json.attrs")
    damaged.write_text("")
    assert "failed to load checkpoint" in stack.run("stack", "export", "--stack", "test").text
    damaged.unlink()
    stack.up().ended(0)
    assert stack.output()["where"] and damaged.exists(), "Pulumi makes it anew"


def test_a_state_that_a_full_disk_cut_is_read_from_the_one_before_it(
    engine: Path, tmp_path: Path
) -> None:
    """pulumi 3.259.0 then reads no stack, and lists none."""
    stack = Stack(engine, tmp_path / "project", program=PROGRAM)
    stack.up().ended(0)
    stack.config(text="changed").up().ended(0)
    (cut,) = (tmp_path / "project" / "state").rglob("stacks/*/test.json")
    cut.write_bytes(cut.read_bytes()[:100])
    of = ("--stack", "test")
    assert "failed to load checkpoint" in stack.run("stack", "export", *of).text
    assert stack.run("stack", "ls", "--all", "--json").code
    shown = stack.fab("status", *of).text
    assert f"{cut} is not whole (100 bytes)" in shown and f"cp {cut}.bak {cut} && rm" in shown
    cut.write_bytes(Path(f"{cut}.bak").read_bytes())
    Path(f"{cut}.attrs").unlink()
    assert stack.up().ended(0).summary == {"same": 1}
