"""Calls a served model: the REST contract of TensorFlow Serving, over an open connection."""

from __future__ import annotations

import http.client
import io
import json
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from paramiko.ssh_exception import SSHException

from railhead.documents.codec import decode
from railhead.documents.lazy import dataclass
from railhead.documents.lenient import Shown
from railhead.documents.serving.signature import ModelMetadata, Shape, TensorInfo

from ...console.text import clean
from ...errors import RailheadError, UsageError
from ...ssh.local_session import HERE
from ...ssh.session import Session
from ...ssh.tunnel import open_channel
from ...untrusted.decode import json_object, outputs
from ...untrusted.unpack import Hostile

SECONDS = 120.0  # for an answer
MOST_ANSWER = 256_000_000  # bytes
PIECE = 1 << 16  # bytes
MOST_TEXT = 600  # characters of a refusal
NOT_VALID = "a model's metadata that is not valid"
MOST_TENSORS, MOST_DIMENSIONS = 1000, 32
KINDS = {
    "DT_FLOAT": "float32", "DT_DOUBLE": "float64", "DT_HALF": "float16", "DT_BFLOAT16": "bfloat16",
    "DT_INT8": "int8", "DT_INT16": "int16", "DT_INT32": "int32", "DT_INT64": "int64",
    "DT_UINT8": "uint8", "DT_UINT16": "uint16", "DT_UINT32": "uint32", "DT_UINT64": "uint64",
    "DT_BOOL": "bool", "DT_STRING": "string",
}  # fmt: skip


class Pipe(Protocol):
    """The part of a socket or an SSH channel that a call uses."""

    def sendall(self, data: bytes, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...
    def settimeout(self, seconds: float | None, /) -> None: ...
    def close(self) -> None: ...


class Broken(RailheadError):
    """The connection ended before the answer."""


@dataclass(frozen=True)
class Tensor:
    """An input or an output: the NumPy name of its type, or `string`. `shape` has None for a
    dimension of any length, such as the number of samples; it is None if any shape fits."""

    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a model, by name."""

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]


@dataclass(frozen=True)
class Metadata:
    """The version in service, and its signature."""

    version: int
    signature: Signature

    @staticmethod
    def read(document: Any) -> Metadata:
        """Parse the answer to GET /v1/models/NAME/metadata; Hostile if it is not valid."""
        metadata = decode(ModelMetadata, document, what=NOT_VALID, error=Hostile)
        default = metadata.metadata.signature_def.signature_def.serving_default
        signature = Signature(_tensors(default.inputs), _tensors(default.outputs))
        return Metadata(int(metadata.model_spec.version), signature)


def _tensors(infos: Mapping[str, TensorInfo]) -> dict[str, Tensor]:
    if not 0 < len(infos) <= MOST_TENSORS:
        raise Hostile(f"{NOT_VALID}: {len(infos)} tensors")
    return {clean(name): _tensor(tensor) for name, tensor in infos.items()}


def _tensor(info: TensorInfo) -> Tensor:
    shape = info.tensor_shape or Shape()
    kind = KINDS.get(info.dtype, "unknown")
    if shape.unknown_rank:
        return Tensor(kind, None)
    sizes = [int(dimension.size) for dimension in shape.dim or ()]
    if len(sizes) > MOST_DIMENSIONS:
        raise Hostile(f"{NOT_VALID}: {len(sizes)} dimensions")
    return Tensor(kind, tuple(size if size >= 0 else None for size in sizes))


@dataclass(frozen=True)
class Answer:
    """`predictions` is a row per instance, `outputs` a column per output; `error` of a refusal."""

    predictions: Any = None
    outputs: Any = None
    error: Shown = ""


class Client:
    """Calls the endpoint `name` at a port, one call at a time; keeps its connection between calls.
    `dial` opens a connection."""

    def __init__(self, dial: Callable[[], Pipe], name: str, port: int) -> None:
        self._http = _Http(dial, port)
        self._name = name

    def close(self) -> None:
        """End the connection; another call opens one."""
        self._http.close()

    def metadata(self) -> Metadata:
        """The version and the signature."""
        return Metadata.read(self._call("GET", "/metadata"))

    def predict(self, document: Any) -> Answer:
        """The model's answer to {"instances": rows} or {"inputs": columns}; errors as `_call`."""
        return decode(Answer, self._call("POST", ":predict", document), error=Hostile)

    def _call(self, method: str, path: str, document: Any = None) -> Any:
        """The object in the answer to a request below /v1/models/NAME. An idle connection that the
        server has closed is opened again.

        Raises:
            Broken: the connection ended, or could not be opened. UsageError: the request is refused
                (4xx). RailheadError: the endpoint or the model failed, or no answer came in time.
        """
        body = None if document is None else json.dumps(document).encode()
        if self._http.is_open:
            try:
                return self._exchange(method, path, body)
            except Broken:
                pass
        return self._exchange(method, path, body)

    def _exchange(self, method: str, path: str, body: bytes | None) -> Any:
        try:
            self._http.request(method, f"/v1/models/{self._name}{path}", body)
            reply = self._http.getresponse()
            text = _content(reply)
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                why = f"endpoint {self._name} did not answer within {SECONDS:g} s"
                raise RailheadError(why) from None
            if isinstance(error, (OSError, EOFError, SSHException, http.client.HTTPException)):
                raise Broken(
                    f"endpoint {self._name} does not answer: {clean(str(error))}"
                ) from None
            raise
        answer = (json_object if body is None else outputs)(text, "an answer that is not JSON")
        if reply.status == 200:
            return answer
        why = clean(decode(Answer, answer).error).strip()[:MOST_TEXT]
        kind = UsageError if 400 <= reply.status < 500 else RailheadError
        raise kind(f"endpoint {self._name} refused with {reply.status}: {why}")


def _content(reply: http.client.HTTPResponse) -> str:
    """The body of an answer, of a limited size."""
    parts, size = [], 0
    while piece := reply.read(PIECE):
        parts.append(piece)
        size += len(piece)
        if size > MOST_ANSWER:
            raise Hostile(f"an answer of more than {MOST_ANSWER // 1_000_000} MB")
    return b"".join(parts).decode(errors="replace")


class _Http(http.client.HTTPConnection):
    """HTTP over what `dial` opens."""

    def __init__(self, dial: Callable[[], Pipe], port: int) -> None:
        super().__init__("127.0.0.1", port)
        self._dial = dial

    @property
    def is_open(self) -> bool:
        return self.sock is not None

    def connect(self) -> None:
        self.sock: Any = _Wire(self._dial())


class _Wire:
    """A pipe in the form that http.client accepts. A request is sent in one piece: if head and body
    were sent separately, the body would wait for an acknowledgement of the head (Nagle)."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._request = bytearray()

    def sendall(self, data: bytes) -> None:
        self._request += data

    def makefile(self, mode: str) -> io.BufferedReader:
        request, self._request = bytes(self._request), bytearray()
        self._pipe.settimeout(SECONDS)
        self._pipe.sendall(request)
        return io.BufferedReader(_Answer(self._pipe, time.monotonic() + SECONDS), PIECE)

    def close(self) -> None:
        self._pipe.close()


class _Answer(io.RawIOBase):
    """The bytes that a pipe delivers until a deadline."""

    def __init__(self, pipe: Pipe, end: float) -> None:
        super().__init__()
        self._pipe, self._end = pipe, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        remaining = self._end - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._pipe.settimeout(remaining)
        data = self._pipe.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def client(session: Session, name: str, port: int) -> Client:
    """Calls an endpoint on the host of this session, through its SSH connection."""

    def dial() -> Pipe:
        if session.host.name == HERE:
            return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        try:
            pipe: Pipe = open_channel(session, port)
            return pipe
        except RailheadError as error:
            raise Broken(error.message) from None

    return Client(dial, name, port)
