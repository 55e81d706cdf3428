"""Each value in a printed command of another program is quoted, or cannot need a quote. Commands
of `fab` are values that quote themselves (test_next_commands.py)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from places import ROOT

ROOT = ROOT / "bootstrap"
VALUE = "\0"  # in place of a value of an f-string
# A command begins, with its name or with a value and an option; it ends with its line, a comment,
# or a colon before prose. `pulumi up of` and `pulumi could` are prose.
PROGRAMS = "pulumi(?! up of| could)|ssh-copy-id|gcloud|aws|curl|ls|rm|scp"
COMMAND = re.compile(rf"(?:(?:^|[\s(])(?:{PROGRAMS}) |^{VALUE} --)(?!.*(?:#|: |\n))")
QUOTED = {"shlex.quote", "shlex.join"}
SAFE = {"option"}  # quoted options of hosts
NUMBERS = {"int", "float", "len", "round", "max", "min"}
# Every id of a run passes check_name: letters, digits, dashes, dots and underscores.
RUN_ID = {"run_id"}

# The others that need no quotes: {file: {expression: why}}.
ALLOWED: dict[str, dict[str, str]] = {
    "clouds/gcp/gcs.py": {"self.url": "gs:// and the name of a bucket that answered"},
    "workflows/prune.py": {"' '.join(old)": "ids that match RUN_ID"},
}

Function = ast.FunctionDef | ast.Module


class Source:
    """The syntax tree of a file, and what is assigned in its functions."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)

    def scopes(self) -> Iterator[tuple[Function, ast.JoinedStr]]:
        """Each f-string with the innermost function around it."""

        def walk(node: ast.AST, around: Function) -> Iterator[tuple[Function, ast.JoinedStr]]:
            for child in ast.iter_child_nodes(node):
                inner = child if isinstance(child, ast.FunctionDef) else around
                if isinstance(child, ast.JoinedStr):
                    yield inner, child
                yield from walk(child, inner)

        yield from walk(self.tree, self.tree)

    def unquoted(self) -> list[str]:
        """The values in commands that may need quotes."""
        expressions = []
        for around, string in self.scopes():
            before = ""
            for part in string.values:
                if isinstance(part, ast.Constant):
                    before += str(part.value)
                elif isinstance(part, ast.FormattedValue):
                    if COMMAND.search(before) and not is_safe(part, around):
                        expressions.append(ast.unparse(part.value))
                    before += VALUE
        return expressions


def is_safe(node: ast.expr, around: Function) -> bool:
    """Whether a value is a number, a constant, the id of a run, quoted, or made of such values."""
    match node:
        case ast.Constant():
            return True
        case ast.FormattedValue(value=value, format_spec=spec):
            number = spec is not None and ast.unparse(spec)[-2] in "dfg"
            return number or is_safe(value, around)
        case ast.JoinedStr(values=values):
            return all(is_safe(value, around) for value in values)
        case ast.IfExp(body=body, orelse=orelse):
            return is_safe(body, around) and is_safe(orelse, around)
        case ast.BoolOp(values=values):
            return all(is_safe(value, around) for value in values)
        case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mult(), right=right):
            return True  # of numbers
        case ast.BinOp(left=left, right=right):
            return is_safe(left, around) and is_safe(right, around)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
            if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Constant):
                return all(is_safe(arg, around) for arg in args)  # of ", ".join
            return name in SAFE | NUMBERS or ast.unparse(node.func) in QUOTED
        case ast.GeneratorExp(elt=value) | ast.ListComp(elt=value):
            return is_safe(value, around)
        case ast.Attribute(attr=name):
            return name in SAFE | RUN_ID or name.isupper()
        case ast.Name(id=name):
            return name in SAFE | RUN_ID or name.isupper() or is_safe_name(name, around)
    return False


def is_safe_name(name: str, around: Function) -> bool:
    """Whether all that a function assigns to a name is safe, or it is declared as a number."""
    if isinstance(around, ast.FunctionDef):
        arguments = [*around.args.args, *around.args.kwonlyargs]
        for argument in arguments:
            if argument.arg == name:
                return (
                    isinstance(argument.annotation, ast.Name) and argument.annotation.id in NUMBERS
                )
    assigned = [value for target, value in assignments(around) if target == name]
    return bool(assigned) and all(is_safe(value, around) for value in assigned)


def assignments(around: Function) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(around):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                yield from (
                    (n.id, v)
                    for n, v in zip(names, values, strict=False)
                    if isinstance(n, ast.Name)
                )
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                yield name, value


def files() -> list[str]:
    paths = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
    return sorted(path for path in paths if not path.startswith("host/"))


def test_values_in_commands_are_quoted() -> None:
    unquoted = {name: {*Source((ROOT / name).read_text()).unquoted()} for name in files()}
    unquoted = {name: values for name, values in unquoted.items() if values}
    assert unquoted == {name: {*values} for name, values in ALLOWED.items()}


FOUND = {  # code: whether a value in it may need quotes
    'hint = f"aws get --id {name}"': True,
    'hint = f"aws get --id {shlex.quote(name)}"': False,
    'hint = f"aws get --id {run.run_id}   # {name}"': False,
    'hint = f"{command} --stack {name}"': True,
    'print(f"text\\nnext: gcloud push {folder}")': True,
    'print(f"the stack {name} is new")': False,
    "def f(hours: int): return f'pulumi extend --hours {hours}'": False,
    "def f(hours: str): return f'pulumi extend --hours {hours}'": True,
    "def f(x):\n n = shlex.quote(x)\n return f'pulumi up --stack {n}'": False,
    "def f(x):\n n = shlex.quote(x)\n n = x\n return f'pulumi up --stack {n}'": True,
    "f'aws ls {chr(32).join(x for x in y)}'": True,
    "f'aws ls {shlex.join(y)}; pulumi up{c.option} --hours {h:.1f}'": False,
}


@pytest.mark.parametrize("code", FOUND)
def test_a_value_without_quotes_is_found(code: str) -> None:
    assert bool(Source(code).unquoted()) == FOUND[code]
