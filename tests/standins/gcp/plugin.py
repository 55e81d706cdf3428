"""Serves a Cloud to a real engine, in the place of Pulumi's provider for Google Cloud.

PULUMI_DEBUG_PROVIDERS=gcp:PORT makes the engine ask here. What the Cloud does not know, and
what Google's descriptions forbid, ends the engine's step with an error, at preview already.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from .cloud import FIXED, INSTANCE, NAMED, Cloud, Refused
from .discovery import Wrong

SIGNATURE, SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
MISSING = object()
# What the provider reads of a machine and compares with the program: in its schema these blocks are
# `Optional` and not `Computed`.
MADE_BY_GOOGLE = {"scratchDisks"}


@contextmanager
def serving(cloud: Cloud) -> Iterator[int]:
    """The port on which the cloud listens while the block runs."""
    server = grpc.server(ThreadPoolExecutor(16))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Plugin(cloud), server)
    port: int = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


class Plugin(provider_pb2_grpc.ResourceProviderServicer):
    """The calls that an engine makes, and no more: all others are unimplemented."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse()

    def Attach(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="10.2.0")

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        return _diff(_changes(_plain(request.olds), _plain(request.news)), ())

    def Configure(self, request: Any, context: Any) -> Any:
        self.cloud.settings = _plain(request.args)
        self.cloud.defaults = json.loads(self.cloud.settings.get("defaultLabels") or "{}")
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Check(self, request: Any, context: Any) -> Any:
        kind, name = _kind_and_name(request.urn)
        news = json_format.MessageToDict(request.news)
        if kind in NAMED and not news.get("name"):
            random = hashlib.sha256(request.randomSeed + name.encode()).hexdigest()[:7]
            news["name"] = _plain(request.olds).get("name") or f"{name}-{random}"
        failures = []
        try:
            self.cloud.check(kind, _integers(news), name)
        except Wrong as error:
            failures.append(provider_pb2.CheckFailure(reason=str(error)))
        return provider_pb2.CheckResponse(inputs=_struct(news), failures=failures)

    def Diff(self, request: Any, context: Any) -> Any:
        kind, _ = _kind_and_name(request.urn)
        olds, news = _plain(request.old_inputs), _plain(request.news)
        compared = MADE_BY_GOOGLE - {*request.ignoreChanges}
        olds |= {key: value for key, value in _plain(request.olds).items() if key in compared}
        return _diff(_changes(olds, news), FIXED[kind])

    def Create(self, request: Any, context: Any) -> Any:
        kind, name = _kind_and_name(request.urn)
        inputs = _plain(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=_struct(inputs))
        self.cloud.watch(f"before create {kind}")
        with _refusals(context):
            path = self.cloud.create(kind, inputs, name)
            outputs = self.cloud.things[path].outputs
            self.cloud.watch(f"after create {kind}")
            if kind == INSTANCE:
                time.sleep(self.cloud.slow)
            return provider_pb2.CreateResponse(id=path, properties=_struct(outputs))

    def Read(self, request: Any, context: Any) -> Any:
        thing = self.cloud.things.get(request.id)
        if thing is None:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(
            id=request.id, properties=_struct(thing.outputs), inputs=request.inputs
        )

    def Update(self, request: Any, context: Any) -> Any:
        _, name = _kind_and_name(request.urn)
        news = _plain(request.news)
        if request.preview:
            return provider_pb2.UpdateResponse(properties=_struct(news))
        with _refusals(context):
            self.cloud.update(request.id, news, name)
            outputs = self.cloud.things[request.id].outputs
            return provider_pb2.UpdateResponse(properties=_struct(outputs))

    def Delete(self, request: Any, context: Any) -> Any:
        kind, _ = _kind_and_name(request.urn)
        self.cloud.watch(f"before delete {kind}")
        with _refusals(context):
            self.cloud.delete(request.id, _plain(request.properties))
            self.cloud.watch(f"after delete {kind}")
            return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:
        with _refusals(context):
            answer = self.cloud.invoke(request.tok, _plain(request.args))
            output = provider_pb2.InvokeResponse()
            getattr(output, "return").CopyFrom(_struct(answer))
            return output


@contextmanager
def _refusals(context: Any) -> Iterator[None]:
    """Tell the engine why something cannot be done."""
    try:
        yield
    except (Wrong, Refused) as error:
        context.abort(grpc.StatusCode.UNKNOWN, str(error))


def _kind_and_name(urn: str) -> tuple[str, str]:
    *_, kinds, name = urn.split("::")
    return kinds.split("$")[-1], name


def _struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    found = struct_pb2.Struct()
    found.update(dict(values))
    return found


def _plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    values: dict[str, Any] = _integers(json_format.MessageToDict(struct))
    return values


def _integers(value: Any) -> Any:
    """Without the shell of secrets, and with whole numbers whole: a Struct has floats only."""
    if isinstance(value, dict):
        if value.get(SIGNATURE) == SECRET:
            return _integers(value["value"])
        return {key: _integers(inner) for key, inner in value.items() if key != "__defaults"}
    if isinstance(value, list):
        return [_integers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _changes(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """The paths at which two values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            inner = f"{path}.{key}" if path else key
            yield from _changes(old.get(key, MISSING), new.get(key, MISSING), inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(before, after, f"{path}[{number}]")
    elif old != new:
        yield path


def _diff(changes: Iterable[str], fixed: tuple[str, ...]) -> provider_pb2.DiffResponse:
    replaced = {path: _is_fixed(path, fixed) for path in changes}
    some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
    update = provider_pb2.PropertyDiff.UPDATE, provider_pb2.PropertyDiff.UPDATE_REPLACE
    return provider_pb2.DiffResponse(
        changes=some if replaced else none,
        diffs=sorted({_top(path) for path in replaced}),
        replaces=sorted({_top(path) for path, is_fixed in replaced.items() if is_fixed}),
        # As the real provider: by path, for what a program itself replaces for a change.
        detailedDiff={
            path: provider_pb2.PropertyDiff(kind=update[is_fixed], inputDiff=True)
            for path, is_fixed in replaced.items()
        },
        hasDetailedDiff=True,
    )


def _is_fixed(path: str, fixed: tuple[str, ...]) -> bool:
    return any(
        one == "*" or path == one or path.startswith((one + ".", one + "[")) for one in fixed
    )


def _top(path: str) -> str:
    return path.split(".")[0].split("[")[0]
