"""The calls of Cloud Storage that fab and its hosts make, served on this machine.

Every call, those inside a batch too, is held against Google's own discovery document; one that is
not in it, or a parameter or key that is not, is an AssertionError and ends with 500. What Google
does and no document says is written as it was seen: a download that is not there is answered in
plain text, and an upload whose crc32c or MD5 is another is refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from standins.gcp.discovery import Request, check, document

CALLS = ("buckets.get", "objects.list", "objects.get", "objects.insert", "objects.delete")
Headers = Mapping[str, str] | Message


@dataclass(frozen=True)
class Answer:
    """One answer of the server."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Store:
    """All buckets: name to every version of every object, the oldest first."""

    buckets: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    page: int = 1000  # how many objects a page has at most
    token: str = ""  # what whoever asks must bear
    requests: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)  # how many calls each had
    denied: tuple[int, str, str] | None = None
    busy: int = 0  # so many next calls are answered with 503
    held: dict[str, str] = field(default_factory=dict)  # objects that are not removed, and why
    flips: bool = False  # whether a byte of what is uploaded flips on its way
    cuts: bool = False  # whether downloads end in their middle
    base: str = ""
    wrong: list[str] = field(default_factory=list)  # what no document allows
    sessions: dict[str, tuple[str, dict[str, Any], bytes]] = field(default_factory=dict)
    generation: int = 1700000000000000

    def put(self, bucket: str, name: str, data: bytes, **options: Any) -> dict[str, Any]:
        """Write an object; the one before it becomes an old version."""
        self.generation += 1
        for old in self.live(bucket, name):
            old["timeDeleted"] = "2026-11-21T00:00:00Z"
        version = {
            "name": name,
            "bucket": bucket,
            "generation": str(self.generation),
            "size": str(len(data)),
            "crc32c": crc32c(data),
            "md5Hash": md5(data),
            **options,
            "data": data,
        }
        self.buckets[bucket].append(version)
        return version

    def live(self, bucket: str, name: str) -> list[dict[str, Any]]:
        """The object of a name as it is now, in a list, or an empty one."""
        versions = self.buckets[bucket]
        return [o for o in versions if o["name"] == name and "timeDeleted" not in o]

    def names(self, bucket: str) -> list[str]:
        """The names of all objects that are there now."""
        return sorted(o["name"] for o in self.buckets[bucket] if "timeDeleted" not in o)

    def answer(self, method: str, target: str, headers: Headers, body: bytes) -> Answer:
        """The response to one call."""
        self.requests.append(f"{method} {unquote(target)}")
        path, query = urlsplit(target).path, dict(parse_qsl(urlsplit(target).query))
        if path == "/token":
            return json_answer(200, {"access_token": self.token, "expires_in": 3600})
        if self.busy:
            self.busy -= 1
            return error(503, "backendError", "busy")
        if self.token and headers.get("Authorization") != f"Bearer {self.token}":
            return error(401, "authError", "Invalid Credentials")
        if self.denied:
            return error(*self.denied)
        if path == "/batch/storage/v1":
            return self._batch(headers, body)
        if path.startswith("/upload/"):
            return self._upload(method, path.removeprefix("/upload"), query, headers, body)
        return self._call(method, path, query)

    def _call(self, method: str, path: str, query: dict[str, str]) -> Answer:
        name, params = self._known(method, path, query, {})
        bucket = params["bucket"]
        if bucket not in self.buckets:
            return error(404, "notFound", "The specified bucket does not exist.")
        if name == "buckets.get":  # Google's library asks beside its work, as a host that may not
            return error(403, "forbidden", "x does not have storage.buckets.get access")
        if name == "objects.list":
            return self._list(bucket, query)
        if name == "objects.delete":
            return self._delete(bucket, params["object"], query.get("generation"))
        return self._get(bucket, params["object"], query)

    def _known(
        self, method: str, path: str, query: dict[str, str], body: dict[str, Any]
    ) -> tuple[str, dict[str, str]]:
        """The call of the document that this is, with its parameters."""
        for name in CALLS:
            output = document("storage").methods[f"storage.{name}"]
            shape = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", f"/storage/v1/{output['path']}")
            match = re.fullmatch(shape, path)
            if match and output["httpMethod"] == method:
                params = {k: unquote(v) for k, v in match.groupdict().items()} | query
                check(Request(output["id"], params, body))
                return name, params
        raise AssertionError(f"no call {method} {path}")

    def _list(self, bucket: str, query: dict[str, str]) -> Answer:
        every = query.get("versions", "").lower() == "true"
        versions = [o for o in self.buckets[bucket] if every or "timeDeleted" not in o]
        versions = [o for o in versions if o["name"].startswith(query.get("prefix", ""))]
        versions.sort(key=place)
        after = query.get("pageToken")
        rest = [o for o in versions if after is None or place(o) > json.loads(after)]
        most = min(int(query.get("maxResults", 1000)), self.page)
        values: dict[str, Any] = {"items": [shown(o) for o in rest[:most]]} if rest else {}
        if rest[most:]:
            values["nextPageToken"] = json.dumps(place(rest[most - 1]))
        return json_answer(200, {"kind": "storage#objects"} | values, query.get("fields"))

    def _get(self, bucket: str, name: str, query: dict[str, str]) -> Answer:
        there = self.live(bucket, name)
        if query.get("alt") != "media":
            return (
                json_answer(200, shown(there[0]))
                if there
                else error(404, "notFound", f"No such object: {bucket}/{name}")
            )
        if not there:
            plain = {"Content-Type": "text/html; charset=UTF-8"}
            return Answer(404, f"No such object: {bucket}/{name}".encode(), plain)
        sums = f"crc32c={there[0]['crc32c']},md5={there[0]['md5Hash']}"
        headers = {"x-goog-hash": sums}
        return Answer(200, there[0]["data"], headers)

    def _delete(self, bucket: str, name: str, generation: str | None) -> Answer:
        versions = [o for o in self.buckets[bucket] if o["name"] == name]
        versions = [o for o in versions if generation in (None, o["generation"])]
        if not versions:
            return error(404, "notFound", f"No such object: {bucket}/{name}")
        if name in self.held:
            return error(403, "retentionPolicyNotMet", self.held[name])
        if generation:
            self.buckets[bucket].remove(versions[0])
        for version in self.live(bucket, name) if not generation else []:
            version["timeDeleted"] = "2026-11-21T00:00:00Z"
        return Answer(204)

    def _batch(self, headers: Headers, body: bytes) -> Answer:
        calls = list(parts(headers["Content-Type"], body))
        self.batches.append(len(calls))
        assert 0 < len(calls) <= 100, "a batch has at most 100 calls"
        lines = []
        for call in calls:
            line = bytes(call.get_payload(decode=True)).decode().splitlines()[0]
            method, target, version = line.split(" ")
            assert version == "HTTP/1.1" and call.get_content_type() == "application/http"
            path, query = urlsplit(target).path, dict(parse_qsl(urlsplit(target).query))
            answer = self._call(method, path, query)
            lines.append((call.get("Content-ID", ""), answer))
        return Answer(200, packed(lines), {"Content-Type": "multipart/mixed; boundary=batch_x="})

    def _upload(
        self, method: str, path: str, query: dict[str, str], headers: Headers, body: bytes
    ) -> Answer:
        if method == "PUT":
            return self._piece(query["upload_id"], headers, body)
        kind = query["uploadType"]
        if kind == "multipart":
            first, second = parts(headers["Content-Type"], body)
            resource = json.loads(first.get_payload(decode=True))
            return self._insert(path, query, resource, bytes(second.get_payload(decode=True)))
        assert kind == "resumable", f"no upload of kind {kind}"
        number = str(len(self.sessions))
        self.sessions[number] = path, json.loads(body), b""
        where = f"{self.base}/upload{path}?uploadType=resumable&upload_id={number}"
        return Answer(200, b"", {"Location": where})

    def _piece(self, number: str, headers: Headers, body: bytes) -> Answer:
        path, resource, before = self.sessions[number]
        _, total = headers["Content-Range"].split("/")
        data = before + body
        self.sessions[number] = path, resource, data
        if total == "*" or len(data) < int(total):
            return Answer(308, b"", {"Range": f"bytes=0-{len(data) - 1}"})
        return self._insert(path, {}, resource, data)

    def _insert(
        self, path: str, query: dict[str, str], resource: dict[str, Any], data: bytes
    ) -> Answer:
        _, params = self._known("POST", path, query, resource)
        if params["bucket"] not in self.buckets:
            return error(404, "notFound", "The specified bucket does not exist.")
        if self.flips and data:
            data = flipped(data)
        if resource.get("crc32c", crc32c(data)) != crc32c(data):
            return error(400, "invalid", "Provided CRC32C does not match calculated CRC32C")
        if resource.get("md5Hash", md5(data)) != md5(data):
            return error(400, "invalid", "Provided MD5 hash does not match calculated MD5 hash")
        options = {key: resource[key] for key in ("metadata", "contentType") if key in resource}
        version = self.put(params["bucket"], resource["name"], data, **options)
        return json_answer(200, shown(version), query.get("fields"))

    def serve(self) -> ThreadingHTTPServer:
        """Start serving."""
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _reply(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                try:
                    output = store.answer(self.command, self.path, self.headers, body)
                except Exception as wrong:  # noqa: BLE001 - a test must see it, not wait for it
                    store.wrong.append(repr(wrong))
                    output = error(500, "wrong", repr(wrong))
                self.send_response(output.status)
                for key, value in output.headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(output.body)))
                self.end_headers()
                cut = store.cuts and output.headers.get("x-goog-hash")
                self.wfile.write(output.body[: len(output.body) // 2] if cut else output.body)
                self.close_connection = bool(cut)

            do_GET = do_POST = do_PUT = do_DELETE = _reply

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.base = f"http://127.0.0.1:{server.server_port}"
        return server


def place(version: Mapping[str, Any]) -> list[str]:
    """Where a version stands in a listing."""
    return [version["name"], version["generation"]]


def shown(version: Mapping[str, Any]) -> dict[str, Any]:
    """An object as the API shows it."""
    return {"kind": "storage#object"} | {k: v for k, v in version.items() if k != "data"}


def json_answer(status: int, values: dict[str, Any], fields: str | None = None) -> Answer:
    """An answer in JSON; with `fields` only those, as `items(name,size),nextPageToken`."""
    if fields is not None:
        values = dict(chosen(values, fields))
    head = {"Content-Type": "application/json; charset=UTF-8"}
    return Answer(status, json.dumps(values).encode(), head)


def chosen(output: Mapping[str, Any], fields: str) -> Iterator[tuple[str, Any]]:
    """What a selector of fields leaves."""
    for name, inner in re.findall(r"(\w+)(?:\(([^)]*)\))?", fields):
        if name in output and inner:
            keys = inner.split(",")
            yield name, [{k: item[k] for k in keys if k in item} for item in output[name]]
        elif name in output:
            yield name, output[name]


def error(status: int, reason: str, message: str) -> Answer:
    """A refusal, as the API words it."""
    cause = {"message": message, "domain": "global", "reason": reason}
    return json_answer(status, {"error": {"code": status, "message": message, "errors": [cause]}})


def parts(content_type: str, body: bytes) -> Iterator[Any]:
    """The parts of a body that has several."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = BytesParser().parsebytes(head + body)
    assert message.is_multipart(), "not in several parts"
    yield from message.get_payload()


def packed(answers: list[tuple[str, Answer]]) -> bytes:
    """The answers to a batch, in the form of Google's own example."""
    text = b""
    for number, answer in answers:
        name = f"Content-ID: <response-{number.strip('<>')}>\r\n" if number else ""
        text += f"--batch_x=\r\nContent-Type: application/http\r\n{name}\r\n".encode()
        text += f"HTTP/1.1 {answer.status} Reason\r\n".encode()
        head = {**answer.headers, "Content-Length": str(len(answer.body))}
        text += "".join(f"{k}: {v}\r\n" for k, v in head.items()).encode()
        text += b"\r\n" + answer.body + b"\r\n"
    return text + b"--batch_x=--"


def flipped(data: bytes) -> bytes:
    """The same with one bit of its middle another."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def md5(data: bytes) -> str:
    """As Google writes it: base64."""
    return base64.b64encode(hashlib.md5(data).digest()).decode()


def _table() -> Iterator[int]:
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        yield number


TABLE = tuple(_table())


def crc32c(data: bytes) -> str:
    """As Google writes it: base64 of four bytes, the highest first."""
    value, table = 0xFFFFFFFF, TABLE
    for byte in data:
        value = table[(value ^ byte) & 255] ^ value >> 8
    return base64.b64encode((value ^ 0xFFFFFFFF).to_bytes(4, "big")).decode()
