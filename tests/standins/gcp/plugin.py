"""Serves a Cloud to a real engine, in the place of Pulumi's provider for Google Cloud.

PULUMI_DEBUG_PROVIDERS=gcp:PORT makes the engine ask here. What the Cloud does not know, and
what Google's descriptions forbid, ends the engine's step with an error, at preview already.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc
from standins import fields

from .cloud import INSTANCE, MEMBER, NAMED, Cloud, Refused
from .discovery import Wrong

SIGNATURE, SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
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
        return fields.difference(fields.effects("", _plain(request.olds), _plain(request.news)))

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
        changed = fields.effects(kind, olds, news)
        if kind == MEMBER:  # every field of it is ForceNew, in the provider's code for all of IAM
            changed = dict.fromkeys(changed, True)
        return fields.difference(changed)

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
    struct = struct_pb2.Struct()
    struct.update(dict(values))
    return struct


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
