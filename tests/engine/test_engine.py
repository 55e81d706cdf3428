"""The engine itself, with programs of a few lines: what the other tests here stand on."""

from __future__ import annotations

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
    assert stack.up("--expect-no-changes").ended(0).summary == {"same": 1}
    stack.refresh("--expect-no-changes").ended(0)
    stack.destroy().ended(0)
    assert stack.resources() == []


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
