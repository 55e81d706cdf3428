"""The mock tests themselves: they cannot pass without having asserted."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest

from tests.stacks.mocks import Refused, World, make, preview, refused

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.py"))
WORLD = World({"ours:a/ask:ask": lambda args: {"reply": args["word"].upper()}})
KIND = "ours:a/thing:Thing"


class Thing(pulumi.CustomResource):
    seen: pulumi.Output[str]

    def __init__(self, name: str, **inputs: Any) -> None:
        super().__init__(KIND, name, {"seen": None, **inputs})


def a_program() -> None:
    first = Thing("one", size=3)
    Thing("two", size=4, of=first.id, nested={"from": first.id.apply(lambda id: [id])})
    pulumi.export("one", first.id)
    pulumi.log.warn("careful")


def test_a_program_has_ended_and_its_values_are_plain() -> None:
    made = make(a_program, WORLD)
    first, second = made.every(KIND)
    assert second.inputs == {"size": 4, "of": "one-id", "nested": {"from": ["one-id"]}}
    assert second.depends_on == (first.urn,)
    assert made.outputs == {"one": "one-id"}
    assert made.text == "WARNING: careful"


def test_what_is_asserted_inside_of_an_output_is_waited_for() -> None:
    def fails_late() -> None:
        Thing("one").id.apply(lambda id: pytest.fail(f"saw {id}"))

    with pytest.raises(BaseException, match="saw one-id"):
        make(fails_late, WORLD)


def test_an_unknown_value_is_refused_and_a_preview_shows_none() -> None:
    def unknown() -> None:
        Thing("one", of=pulumi.Output.from_input(pulumi.UNKNOWN))

    with pytest.raises(AssertionError, match="unknown"):
        make(unknown, WORLD)
    seen = preview(a_program, WORLD)
    assert [resource.inputs for resource in seen.every(KIND)] == [{}, {}]
    assert not seen.outputs and seen.text == "WARNING: careful"


def test_none_of_a_kind_is_no_proof() -> None:
    made = make(a_program, WORLD)
    with pytest.raises(LookupError, match="no ours:b"):
        made.every("ours:b/other:Other")
    with pytest.raises(LookupError, match="2 of"):
        made.one(KIND)


def test_an_unprepared_invoke_is_an_error() -> None:
    request = make(lambda: pulumi.runtime.invoke("ours:a/ask:ask", {"word": "x"}), WORLD)
    assert [call.args for call in request.calls] == [{"word": "x"}]
    message, _ = refused(lambda: pulumi.runtime.invoke("ours:a/other:other", {}), WORLD)
    assert "no answer is prepared for ours:a/other:other" in message


def test_what_the_cloud_refuses_can_be_caught_and_a_mistake_cannot() -> None:
    """As on the engine: only the cloud's own refusal leaves the program alive."""

    def no(args: dict[str, Any]) -> dict[str, Any]:
        raise Refused("not you") if args["word"] == "no" else ZeroDivisionError("mine")

    def careful(word: str) -> None:
        with contextlib.suppress(Exception):
            pulumi.runtime.invoke("ours:a/ask:ask", {"word": word})

    strict = World({"ours:a/ask:ask": no})
    assert len(make(lambda: careful("no"), strict).calls) == 1
    assert "mine" in refused(lambda: careful("other"), strict)[0]


def test_a_program_that_has_to_fail_and_does_not_is_an_error() -> None:
    with pytest.raises(AssertionError, match="ended well"):
        refused(a_program, WORLD)


def test_the_example_for_stacks_of_others_passes() -> None:
    text = (HERE.parents[1] / "docs/stacks.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (example,) = (block for block in blocks if "tests.stacks.mocks" in block)
    names: dict[str, Any] = {}
    exec(compile(example, "docs/stacks.md", "exec"), names)
    names["test_two_machines_and_a_topic"]()


def each_test(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):  # noqa: SIM102
            if node.name.startswith("test_"):
                yield node


def own_nodes(test: ast.AST) -> Iterator[ast.AST]:
    """What stands in a function itself, not in one that it defines."""
    for child in ast.iter_child_nodes(test):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.Lambda)):
            yield from own_nodes(child)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_test_returns_or_defers_what_it_asserts(path: Path) -> None:
    """An Output or a coroutine that a test hands back is never looked at."""
    for test in each_test(path):
        assert isinstance(test, ast.FunctionDef), f"{path.name}: {test.name} is asynchronous"
        handed = [n for n in own_nodes(test) if isinstance(n, (ast.Return, ast.Yield))]
        assert not [n for n in handed if n.value is not None], f"{path.name}: {test.name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_pulumis_own_way_is_not_used_here(path: Path) -> None:
    """`set_mocks` belongs to mocks.py, and `@pulumi.runtime.test` to nobody."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    names |= {n.name for n in ast.walk(tree) if isinstance(n, ast.alias)}
    decorators = {ast.unparse(d) for test in each_test(path) for d in test.decorator_list}
    assert not [d for d in decorators if d.endswith("runtime.test")]
    assert path.name == "mocks.py" or not {"set_mocks"} & names
