"""Runs a Pulumi program without an engine, to its end, and hands back plain data.

Tests of `pulumi.runtime.set_mocks` pass falsely in two ways: an assertion inside an Output runs
only if somebody waits for it, and never where the Output is unknown. Here the program has ended
and every value is known before a test sees the first one; tests/stacks/test_mocks.py proves both,
and forbids the usual way in this folder. What is empty is an error too: a rule that holds for
all of no resources says nothing.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from google.protobuf import empty_pb2
from pulumi.runtime import mocks, resource, rpc, set_mocks, settings
from pulumi.runtime._callbacks import _CallbackServicer
from pulumi.runtime.proto import resource_pb2, source_pb2
from pulumi.runtime.stack import run_in_stack

Answer = Callable[[dict[str, Any]], Mapping[str, Any]]
Computed = Callable[[str, dict[str, Any]], Mapping[str, Any]]
PROVIDERS = "pulumi:providers:"
STASH = "pulumi:index:Stash"
CLUSTER_ID = "0a1b2c3d4e5f"
_NOBODY: Any = object()
# Nobody reads where in the program a resource was made, and to find it out takes long.
resource._get_stack_trace = source_pb2.StackTrace


@dataclass(frozen=True)
class Resource:
    """One registration: its inputs as the engine would see them, and the options it came with."""

    type: str
    name: str
    inputs: dict[str, Any]
    urn: str
    custom: bool
    parent: str
    provider: str
    depends_on: tuple[str, ...]
    refers: dict[str, tuple[str, ...]]  # of an input: the URNs that its value came from
    ignore_changes: tuple[str, ...]
    replace_on_changes: tuple[str, ...]
    delete_before_replace: bool
    retain_on_delete: bool
    protect: bool
    deleted_with: str
    secret_outputs: tuple[str, ...]
    aliases: tuple[str, ...]  # those that are whole URNs
    former: tuple[str, ...]  # those that are names
    hooks: dict[str, tuple[str, ...]]  # their names, by when they run, such as before_create


@dataclass(frozen=True)
class Call:
    """One invoke: its token and arguments."""

    token: str
    args: dict[str, Any]
    provider: str


@dataclass
class Made:
    """What a program registered, called, exported and logged, when it had ended."""

    resources: list[Resource] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    messages: list[tuple[str, str]] = field(default_factory=list)  # (INFO | WARNING | ERROR, text)

    def every(self, kind: str) -> list[Resource]:
        """All resources of a type, by name; LookupError where there is none."""
        matching = [each for each in self.resources if each.type == kind]
        if not matching:
            raise LookupError(f"no {kind} was made; there are {', '.join(sorted(self.kinds))}")
        return sorted(matching, key=lambda each: each.name)

    def one(self, kind: str) -> Resource:
        """The only resource of a type; LookupError where there is none, or more."""
        matching = self.every(kind)
        if len(matching) > 1:
            raise LookupError(
                f"{len(matching)} of {kind}: {', '.join(each.name for each in matching)}"
            )
        return matching[0]

    @property
    def kinds(self) -> set[str]:
        """The types of all that was made in the cloud: no components, no providers, no
        value that the engine alone keeps."""
        ours = {each.type for each in self.resources if each.custom}
        return {kind for kind in ours if not kind.startswith((PROVIDERS, STASH))}

    @property
    def text(self) -> str:
        """All that was logged, a line each, the level in front."""
        return "\n".join(f"{level}: {text}" for level, text in self.messages)


class Refused(Exception):
    """Raised by an answer: the cloud says no. Any other exception is the test's own mistake."""


class World:
    """What the cloud answers: `answers` by the invoke's token, `computed` by the resource's type.

    A resource gets its inputs back, an id and an arn made from its name, and what `computed`
    adds; an invoke without an answer is an error.
    """

    def __init__(
        self, answers: Mapping[str, Answer], computed: Mapping[str, Computed] | None = None
    ) -> None:
        self.answers = answers
        self.computed = computed or {}

    def state(self, kind: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        if kind == STASH:  # the engine's own: keeps the value of the first `up`
            inputs = {**inputs, "output": CLUSTER_ID if name.endswith("-id") else inputs["input"]}
        compute = self.computed.get(kind)
        added = compute(name, inputs) if compute else {}
        return {"arn": f"arn:mock:{name}", "id": f"{name}-id", **inputs, **added}


def make(program: Callable[[], Any], world: World, *, stack: str = "test") -> Made:
    """Run the program to its end. What it raises, this raises."""
    made, error = _run(program, world, stack, preview=False)
    if error is not None:
        raise error
    for each in made.resources:
        _known(each.inputs, each.urn)
    return made


def preview(program: Callable[[], Any], world: World, *, stack: str = "test") -> Made:
    """Run the program as at a first preview: no resource has an id or a computed value yet.

    No inputs and no outputs come back, for what is unknown in them cannot be asserted.
    """
    made, error = _run(program, world, stack, preview=True)
    if error is not None:
        raise error
    bare = [Resource(**{**vars(each), "inputs": {}}) for each in made.resources]
    return Made(bare, made.calls, {}, made.messages)


def refused(program: Callable[[], Any], world: World, *, stack: str = "test") -> tuple[str, Made]:
    """The message of a program that has to fail, and what it had made by then."""
    made, error = _run(program, world, stack, preview=False)
    if error is None:
        raise AssertionError(f"the program ended well and made {', '.join(sorted(made.kinds))}")
    return str(error), made


def _run(
    program: Callable[[], Any], world: World, stack: str, *, preview: bool
) -> tuple[Made, Exception | None]:
    """In a context of its own: Pulumi keeps its root resource and its settings in one."""
    made = Made()

    def inside() -> Exception | None:
        logger = logging.Logger("pulumi in tests", logging.INFO)
        logger.addHandler(_LogHandler(made))
        monitor = _Monitor(world, made, preview)
        settings.ROOT.set(_NOBODY)  # so that set_mocks makes no stack of its own
        set_mocks(monitor.mocks, "railhead", stack, preview, logger, monitor)
        settings.ROOT.set(None)
        try:
            asyncio.run(run_in_stack(lambda: _without_result(program)))
        except Exception as error:
            return error
        finally:
            settings.SETTINGS.outputs.clear()  # what has failed stays there, for the next program
        return None

    return made, contextvars.Context().run(inside)


def _without_result(program: Callable[[], Any]) -> None:
    program()


def _known(value: Any, where: str) -> None:
    """Refuse a value that is unknown somewhere inside: no assertion would hold it."""
    if isinstance(value, pulumi.output.Unknown) or value == rpc.UNKNOWN:
        raise AssertionError(f"{where} has an unknown value")
    if isinstance(value, dict):
        for key, inner in value.items():
            _known(inner, f"{where}.{key}")
    if isinstance(value, (list, tuple)):
        for inner in value:
            _known(inner, where)


class _LogHandler(logging.Handler):
    """Collects what the program says through pulumi.log."""

    def __init__(self, made: Made) -> None:
        super().__init__()
        self.made = made

    def emit(self, record: logging.LogRecord) -> None:
        self.made.messages.append((record.levelname, record.getMessage()))


class _Mocks(mocks.Mocks):
    """Answers from a World; resources get an id only where they are really made."""

    def __init__(self, world: World, made: Made, preview: bool) -> None:
        self.world, self.made, self.preview = world, made, preview

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]] | None]:
        self.made.calls.append(Call(args.token, args.args, args.provider))
        answer = self.world.answers.get(args.token)
        if answer is None:
            raise LookupError(f"no answer is prepared for {args.token}")
        try:
            return dict(answer(args.args)), []
        except Refused as refused:
            return {}, [("", str(refused))]

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        if args.custom is False or (args.custom and self.preview):  # None: one that is read
            return "", args.inputs
        state = self.world.state(args.typ, args.name, args.inputs)
        return str(state["id"]), state


class _Monitor(mocks.MockMonitor):
    """Does what Pulumi's own mocks leave out: keeps the options of every registration, and runs
    the transforms of a resource and of all above it, as the engine does."""

    def __init__(self, world: World, made: Made, preview: bool) -> None:
        super().__init__(_Mocks(world, made, preview))
        self.made = made
        self.lock = threading.Lock()
        self.transforms: dict[str, list[str]] = {}  # by URN: the tokens, of the nearest first

    def RegisterResource(self, request: Any) -> Any:
        tokens = [callback.token for callback in request.transforms]
        tokens += self.transforms.get(request.parent, ())
        self.transforms[self.make_urn(request.parent, request.type, request.name)] = tokens
        for token in tokens:
            _transform(request, token)
        answer = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        if request.type != "pulumi:pulumi:Stack":
            with self.lock:
                self.made.resources.append(_resource(request, answer.urn))
        return answer

    def RegisterResourceOutputs(self, request: Any) -> Any:
        if "pulumi:pulumi:Stack" in request.urn:
            self.made.outputs.update(rpc.deserialize_properties(request.outputs))
        return empty_pb2.Empty()


def _transform(request: Any, token: str) -> None:
    """Change the request as a transform of the program does."""
    (servicer,) = [each for each in _CallbackServicer._servicers if token in each._callbacks]
    names = {"type": request.type, "name": request.name, "custom": request.custom}
    message = resource_pb2.TransformRequest(**names, properties=request.object)
    call = servicer._callbacks[token](message.SerializeToString())
    answer: Any = asyncio.run_coroutine_threadsafe(call, servicer._loop).result(60)  # type: ignore[arg-type]
    request.object.CopyFrom(answer.properties)
    request.aliases.extend(answer.options.aliases)


def _resource(request: Any, urn: str) -> Resource:
    return Resource(
        type=request.type,
        name=request.name,
        inputs=rpc.deserialize_properties(request.object, keep_unknowns=True),
        urn=urn,
        custom=request.custom,
        parent=request.parent,
        provider=request.provider,
        depends_on=tuple(request.dependencies),
        refers={
            key: tuple(value.urns)
            for key, value in request.propertyDependencies.items()
            if value.urns
        },
        ignore_changes=tuple(request.ignoreChanges),
        replace_on_changes=tuple(request.replaceOnChanges),
        delete_before_replace=request.deleteBeforeReplace,
        retain_on_delete=request.retainOnDelete,
        protect=request.protect,
        deleted_with=request.deletedWith,
        secret_outputs=tuple(request.additionalSecretOutputs),
        aliases=tuple(alias.urn for alias in request.aliases if alias.urn),
        former=tuple(alias.spec.name for alias in request.aliases if alias.spec.name),
        hooks={when.name: tuple(names) for when, names in request.hooks.ListFields()},
    )
