"""The examples of docs/stacks.md for other Pulumi programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from engine.stack import Stack
from places import ROOT

from stacks.config.settings import of_project, read

PAGE = (ROOT / "docs/stacks.md").read_text()
PROJECT = "name: reader\nruntime: python\n"


@pytest.fixture
def stack(engine: Path, tmp_path: Path) -> Iterator[Stack]:
    made = Stack(engine, tmp_path / "project", "lab").config(cloud="local", count=1)
    yield made
    made.destroy()


def example(language: str, word: str) -> str:
    """The only code block of the page in a language that contains a word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (block,) = (one for one in blocks if word in one)
    return str(block)


def test_another_program_reads_the_outputs_of_a_stack(stack: Stack, tmp_path: Path) -> None:
    up = stack.up().ended(0)
    assert "[secret]" not in up.text, "nothing in the document is one"
    document = stack.output()["cluster"]
    reader = tmp_path / "reader"
    reader.mkdir()
    (reader / "Pulumi.yaml").write_text(PROJECT)
    (reader / "__main__.py").write_text(example("python", "StackReference"))
    here = ("--cwd", str(reader), "--stack", "reader")
    stack.run("stack", "init", "reader", "--cwd", str(reader)).ended(0)
    stack.run("config", "set", "cluster", "organization/railhead/lab", *here).ended(0)
    stack.run("up", "--yes", "--skip-preview", *here).ended(0)
    outputs = json.loads(stack.run("stack", "output", "--json", *here).ended(0).text)
    assert outputs == {"addresses": [document["hosts"][0]["address"]], "slots": 1}


def test_the_environment_has_a_valid_config(tmp_path: Path) -> None:
    """Only Pulumi Cloud evaluates environments: here the program reads what one would give."""
    values = yaml.safe_load(example("yaml", "pulumiConfig"))["values"]
    config = {key: text(value) for key, value in values["pulumiConfig"].items()}
    key = tmp_path / "key.pub"
    key.write_text(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBTkB+CnT0vqWgcl2EcN2m8yWFOXPHwWBQz5x0YMTLj4"
    )
    config["railhead:public_key_file"] = str(key)
    settings = read(of_project(config, "railhead"), stack="gpu", others=config)
    assert (settings.count, settings.spot, settings.ssh_cidrs) == (4, True, ("203.0.113.7/32",))


def text(value: Any) -> str:
    """A value as Pulumi passes it to the program."""
    plain = value["fn::secret"] if isinstance(value, dict) else value
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


def test_a_secret_value_and_defaults_reach_the_program(stack: Stack) -> None:
    """Pulumi itself refuses a value of another type."""
    stack.run("config", "set", "--secret", "owner", "ann-the-first", "--stack", "lab").ended(0)
    preview = stack.preview().ended(0)
    assert "ann-the-first" not in preview.text
    shown = json.loads(stack.run("config", "--json", "--stack", "lab").ended(0).text)
    assert shown["railhead:disk_gb"]["value"] == "100" and shown["railhead:owner"]["secret"]
    stack.config(count="many").preview().ended(1, "count", "must be of type 'integer'")
    stack.config(count=1)
