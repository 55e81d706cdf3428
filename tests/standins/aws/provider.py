"""A stand-in for Pulumi's AWS provider: the real engine speaks with it, and it with moto.

It serves the provider's protocol over gRPC and carries it out through boto3. It ends in
an error for a type, an invoke or an input that it does not know.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
from botocore.exceptions import ClientError
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc
from standins import fields
from standins.aws import machines, network, rights, storage
from standins.aws.cloud import Cloud
from standins.aws.invokes import INVOKES
from standins.aws.kinds import Kind
from standins.waiting import wait_until

VERSION = "7.51.1"
SIGNATURE, SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
MODULES = (network, machines, storage, rights)
KINDS: dict[str, Kind] = {kind.type: kind for module in MODULES for kind in module.KINDS}
INSTANCE = "aws:ec2/instance:Instance"
PROVIDER_KNOWS = {"region", "defaultTags", "version"}
# Pulumi's SDK says these by itself.
PROVIDER_KNOWS |= {"skipCredentialsValidation", "skipRegionValidation"}


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """One provider for one moto. `faults` makes the n-th create of a type fail."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.region = "us-east-1"
        self.tags: dict[str, str] = {}
        self.faults: dict[tuple[str, int], tuple[ClientError, int]] = {}
        self.denied: set[str] = set()  # invokes for which the person has no right
        self.created: dict[str, int] = {}
        self.watch: Callable[[str], None] = lambda moment: None  # sees each create and delete
        # From RunInstances until the provider has seen an instance run: of the n-th (0: of all).
        self.slow_instance = (0, 0.0)
        self.finished: list[str] = []  # the types that were created, in order
        self.lock = threading.Lock()  # moto is not made for the engine's many threads

    def fail(self, type: str, number: int, code: str, message: str, *, after: int = 0) -> None:
        """Refuse the n-th create of a type (from 1), once, as AWS would: when `after` creates of
        the type have begun. The engine begins no step after a refusal."""
        answer: Any = {"Error": {"Code": code, "Message": message}}
        self.faults[type, number] = ClientError(answer, "RunInstances"), after

    # --- The plugin and its configuration -----------------------------------------------------

    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse()

    def Attach(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetSchema(self, request: Any, context: Any) -> Any:
        schema = json.dumps({"name": "aws", "version": VERSION})
        return provider_pb2.GetSchemaResponse(schema=schema)

    def CheckConfig(self, request: Any, context: Any) -> Any:
        strange = set(plain(request.news)) - PROVIDER_KNOWS
        if strange:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"no provider setting {strange}")
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        return fields.difference(fields.effects("", plain(request.olds), plain(request.news)))

    def Configure(self, request: Any, context: Any) -> Any:
        args = plain(request.args)
        self.region = args.get("region") or self.region
        output = args.get("defaultTags") or {}
        output = json.loads(output) if isinstance(output, str) else output
        self.tags = dict(output.get("tags") or {})
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    # --- Resources ----------------------------------------------------------------------------

    def Check(self, request: Any, context: Any) -> Any:
        kind = self._kind(request.urn, context)
        inputs, name = plain(request.news), request.urn.split("::")[-1]
        strange = set(inputs) - set(kind.knows.split()) - ({"tags"} if kind.tagged else set())
        if strange:
            expected = f"the stand-in does not know {', '.join(sorted(strange))} of {kind.type}"
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, expected)
        if kind.name and kind.name not in inputs:
            end = hashlib.sha256(request.randomSeed).hexdigest()[:7]
            inputs[kind.name] = plain(request.olds).get(kind.name) or f"{name}-{end}"
        if kind.tagged:
            inputs["tagsAll"] = {**self.tags, **(inputs.get("tags") or {})}
        return provider_pb2.CheckResponse(inputs=packed(inputs))

    def Diff(self, request: Any, context: Any) -> Any:
        kind = self._kind(request.urn, context)
        olds, news = plain(request.old_inputs), plain(request.news)
        return fields.difference(fields.effects(kind.type, olds, news))

    def Create(self, request: Any, context: Any) -> Any:
        kind, inputs = self._kind(request.urn, context), plain(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=packed(inputs))
        self.watch(f"before create {kind.type}")
        with self.lock:
            number = self.created[kind.type] = self.created.get(kind.type, 0) + 1
            fault, after = self.faults.pop((kind.type, number), (None, 0))
        if fault:
            wait_until(lambda: self.created[kind.type] >= after)
        with self._refusals(context, f"creating {kind.type}"):
            if fault:
                raise fault
            id, added = kind.create(self._client, {**inputs, "defaultTags": self.tags})
        self.watch(f"after create {kind.type}")
        slow, seconds = self.slow_instance
        if kind.type == INSTANCE and slow in (0, number):
            time.sleep(seconds)
        self.finished.append(kind.type)
        return provider_pb2.CreateResponse(id=id, properties=packed({**inputs, **added}))

    def Read(self, request: Any, context: Any) -> Any:
        kind, state = self._kind(request.urn, context), plain(request.properties)
        with self._refusals(context, f"reading {kind.type}"):
            added = kind.read(self._client, request.id, plain(request.inputs))
        if added is None:
            return provider_pb2.ReadResponse()
        seen = {**plain(request.inputs), **{k: v for k, v in added.items() if k in kind.knows}}
        return provider_pb2.ReadResponse(
            id=request.id, properties=packed({**state, **added}), inputs=packed(seen)
        )

    def Update(self, request: Any, context: Any) -> Any:
        kind, old, new = self._kind(request.urn, context), plain(request.olds), plain(request.news)
        state = {**old, **new}
        if not request.preview:
            with self._refusals(context, f"updating {kind.type}"):
                kind.update(self._client, request.id, plain(request.old_inputs), new)
                state |= kind.read(self._client, request.id, new) or {}
        return provider_pb2.UpdateResponse(properties=packed(state))

    def Delete(self, request: Any, context: Any) -> Any:
        kind = self._kind(request.urn, context)
        self.watch(f"before delete {kind.type}")
        with self._refusals(context, f"deleting {kind.type}"):
            try:
                kind.delete(self._client, request.id, plain(request.properties))
            except ClientError as error:
                # A resource that is already gone is not an error, as in the provider.
                if not re.search(
                    "NotFound|NoSuchEntity|NoSuchBucket", error.response["Error"]["Code"]
                ):
                    raise
        self.watch(f"after delete {kind.type}")
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:
        if request.tok not in INVOKES:
            expected = f"the stand-in does not know the invoke {request.tok}"
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, expected)
        if request.tok in self.denied:
            context.abort(grpc.StatusCode.UNKNOWN, "api error AccessDeniedException: no right")
        with self._refusals(context, request.tok):
            answer = INVOKES[request.tok](self._client, plain(request.args))
        options: dict[str, Any] = {"return": packed(answer)}
        return provider_pb2.InvokeResponse(**options)

    # ------------------------------------------------------------------------------------------

    def _client(self, service: str) -> Any:
        return self.cloud.client(service, self.region)

    def _kind(self, urn: str, context: Any) -> Kind:
        type = urn.split("::")[2].split("$")[-1]
        if type not in KINDS:
            expected = f"the stand-in does not know the resource {type}"
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, expected)
        return KINDS[type]

    @contextmanager
    def _refusals(self, context: Any, doing: str) -> Iterator[None]:
        """One at a time; AWS's refusal, or what the stand-in cannot do, in the provider's words."""
        with self.lock:
            try:
                yield
            except ClientError as error:
                output = error.response["Error"]
                expected = f"{doing}: api error {output['Code']}: {output['Message']}"
                context.abort(grpc.StatusCode.UNKNOWN, expected)
            except (NotImplementedError, ValueError, KeyError) as error:
                expected = f"{doing}: the stand-in cannot: {error!r}"
                context.abort(grpc.StatusCode.UNIMPLEMENTED, expected)


@contextmanager
def serve(cloud: Cloud) -> Iterator[tuple[Provider, int]]:
    """The provider on a port, until the block ends."""
    provider = Provider(cloud)
    server = grpc.server(futures.ThreadPoolExecutor(8))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield provider, port
    finally:
        server.stop(1).wait()


def plain(message: struct_pb2.Struct) -> dict[str, Any]:
    """A message's properties as Python has them: whole numbers, no marks of secrets, no nulls."""
    values: dict[str, Any] = _plain(json_format.MessageToDict(message))
    return {key: value for key, value in values.items() if not key.startswith("__")}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.get(SIGNATURE) == SECRET:
            return _plain(value.get("value"))
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def packed(properties: Mapping[str, Any]) -> struct_pb2.Struct:
    """Properties as a message."""
    made = struct_pb2.Struct()
    made.update(dict(properties))
    return made
