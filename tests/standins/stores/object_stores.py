"""A running S3 or Google Cloud Storage of the tests, and what a test does in it as its owner.

with s3(caches, folder) as store:
    store.make_bucket("data")
    store.put("data", "a/b", b"content")
    program(environ=store.environ, uri=store.uri("data", "a"))
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from standins.stores import xml_uploads
from standins.stores.servers import binary, free_port, free_ports, running

KEY, SECRET = "AKIDTEST", "a-secret-of-the-tests"
GUEST, GUEST_SECRET = "AKIDGUEST", "a-guest-of-the-tests"
REGION = "us-east-1"


@dataclass(frozen=True)
class Version:
    """One version of an object; `marks` are its tags, or on Google Cloud its customTime."""

    name: str
    id: str
    current: bool
    marks: dict[str, str]


@dataclass(frozen=True)
class Store:
    """`environ` are the variables with which the clouds' clients find it."""

    scheme: str
    endpoint: str
    environ: dict[str, str] = field(default_factory=dict)

    def uri(self, bucket: str, prefix: str = "") -> str:
        return f"{self.scheme}://{bucket}/{prefix}"


@dataclass(frozen=True)
class S3(Store):
    """versitygw: S3 over `folder`; it checks signatures, regions and the owner of a bucket."""

    folder: Path = Path()

    @cached_property
    def client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name=REGION,
            config=Config(s3={"addressing_style": "path"}),
        )

    @property
    def guest(self) -> dict[str, str]:
        """The variables of an account that may read no bucket of ours."""
        keys = {"AWS_ACCESS_KEY_ID": GUEST, "AWS_SECRET_ACCESS_KEY": GUEST_SECRET}
        return {**self.environ, **keys}

    def make_bucket(self, bucket: str) -> None:
        self.client.create_bucket(Bucket=bucket)

    def remove_bucket(self, bucket: str) -> None:
        """Remove a bucket with all that is in it, where it is there."""
        for name in ("buckets", "versions"):
            shutil.rmtree(self.folder / name / bucket, ignore_errors=True)

    def keep_versions(self, bucket: str) -> None:
        self.client.put_bucket_versioning(
            Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
        )

    def versions(self, bucket: str) -> list[Version]:
        pages = self.client.get_paginator("list_object_versions").paginate(Bucket=bucket)
        listed = [item for page in pages for item in page.get("Versions", ())]
        return [
            Version(item["Key"], item["VersionId"], item["IsLatest"], self._tags(bucket, item))
            for item in listed
        ]

    def _tags(self, bucket: str, item: dict[str, Any]) -> dict[str, str]:
        where = {"Bucket": bucket, "Key": item["Key"], "VersionId": item["VersionId"]}
        tags = self.client.get_object_tagging(**where)["TagSet"]
        return {tag["Key"]: tag["Value"] for tag in tags}

    def remove_version(self, bucket: str, version: Version) -> None:
        self.client.delete_object(Bucket=bucket, Key=version.name, VersionId=version.id)

    def put(self, bucket: str, name: str, data: bytes) -> None:
        self.client.put_object(Bucket=bucket, Key=name, Body=data)

    def get(self, bucket: str, name: str) -> bytes:
        data: bytes = self.client.get_object(Bucket=bucket, Key=name)["Body"].read()
        return data

    def delete(self, bucket: str, name: str) -> None:
        self.client.delete_object(Bucket=bucket, Key=name)

    def names(self, bucket: str, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return sorted(item["Key"] for page in pages for item in page.get("Contents", []))


@dataclass(frozen=True)
class Gcs(Store):
    """fake-gcs-server with the XML uploads that it lacks; it knows no rights."""

    def make_bucket(self, bucket: str, **values: Any) -> None:
        body = json.dumps({"name": bucket, **values}).encode()
        self._call("POST", "/storage/v1/b?project=test", body)

    def versions(self, bucket: str) -> list[Version]:
        listed = json.loads(self._call("GET", f"/storage/v1/b/{bucket}/o?versions=true"))
        current = {
            name: json.loads(self._call("GET", self._object(bucket, name)))["generation"]
            for name in self.names(bucket)
        }
        return [
            Version(
                item["name"],
                item["generation"],
                current.get(item["name"]) == item["generation"],
                {"customTime": item["customTime"]} if "customTime" in item else {},
            )
            for item in listed["items"]
        ]

    def remove_version(self, bucket: str, version: Version) -> None:
        path = f"{self._object(bucket, version.name)}?generation={version.id}"
        self._call("DELETE", path)

    def put(self, bucket: str, name: str, data: bytes) -> None:
        query = urllib.parse.urlencode({"uploadType": "media", "name": name})
        self._call("POST", f"/upload/storage/v1/b/{bucket}/o?{query}", data)

    def get(self, bucket: str, name: str) -> bytes:
        return self._call("GET", f"{self._object(bucket, name)}?alt=media")

    def delete(self, bucket: str, name: str) -> None:
        self._call("DELETE", self._object(bucket, name))

    def names(self, bucket: str, prefix: str = "") -> list[str]:
        query = urllib.parse.urlencode({"prefix": prefix})
        listed = json.loads(self._call("GET", f"/storage/v1/b/{bucket}/o?{query}"))
        return sorted(item["name"] for item in listed.get("items", []))

    def _object(self, bucket: str, name: str) -> str:
        return f"/storage/v1/b/{bucket}/o/{urllib.parse.quote(name, safe='')}"

    def _call(self, method: str, path: str, data: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.endpoint + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            content: bytes = answer.read()
            return content


@contextlib.contextmanager
def s3(caches: Path, folder: Path, address: str = "127.0.0.1") -> Iterator[S3]:
    """A new S3 with its buckets under `folder`, at an address of this machine; NoServer where it
    was not built."""
    path = binary("versitygw", caches)
    port = free_port()
    endpoint = f"http://{address}:{port}"
    for name in ("buckets", "accounts", "versions"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    accounts = {"accessAccounts": {GUEST: account(GUEST, GUEST_SECRET)}}
    (folder / "accounts/users.json").write_text(json.dumps(accounts))
    options = ["--port", f"{address}:{port}", "--region", REGION, "--quiet"]
    options += ["--iam-dir", str(folder / "accounts")]
    versions = ["--versioning-dir", str(folder / "versions")]
    command = [str(path), *options, "posix", *versions, str(folder / "buckets")]
    keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    environ = {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": REGION}
    environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    with running(command, endpoint, folder / "log", keys):
        yield S3("s3", endpoint, environ, folder)


def account(access: str, secret: str) -> dict[str, Any]:
    """A plain user, as versitygw keeps it."""
    return {"access": access, "secret": secret, "role": "user", "userID": 0, "groupID": 0}


@contextlib.contextmanager
def gcs(caches: Path, folder: Path) -> Iterator[Gcs]:
    """A new Google Cloud Storage, in memory; NoServer where it was not built."""
    path = binary("fake-gcs-server", caches)
    port, behind = free_ports(2)
    folder.mkdir(parents=True, exist_ok=True)
    options = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(behind)]
    options += ["-backend", "memory", "-public-host", f"127.0.0.1:{port}"]
    endpoint = f"http://127.0.0.1:{port}"
    health = f"http://127.0.0.1:{behind}/_internal/healthcheck"
    with (
        running([str(path), *options], health, folder / "log"),
        xml_uploads.serve(port, f"127.0.0.1:{behind}"),
    ):
        yield Gcs("gs", endpoint, {"STORAGE_EMULATOR_HOST": endpoint})


def required() -> bool:
    """RAILHEAD_SERVERS=required makes a missing server an error."""
    return os.environ.get("RAILHEAD_SERVERS") == "required"
