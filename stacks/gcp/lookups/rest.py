"""Requests to Google's REST APIs that Pulumi's provider does not have, with the provider's token.

All of them only read, except the request for a quota. A failed read is not an error of the stack:
its result counts as unknown, and the caller logs that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib import error, parse, request

import pulumi
from pulumi_gcp import organizations

ADDRESSES = {
    "compute": "https://compute.googleapis.com/compute/v1/",
    "serviceusage": "https://serviceusage.googleapis.com/",
    "cloudresourcemanager": "https://cloudresourcemanager.googleapis.com/",
    "cloudquotas": "https://cloudquotas.googleapis.com/",
    "oslogin": "https://oslogin.googleapis.com/",
}
OVERRIDE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"  # gcloud's own variables for other addresses
SECONDS = 30
MOST_PAGES = 50


class LookupFailed(Exception):
    """Google refused, or could not be reached; the message has the reason."""


class _NoRedirect(request.HTTPRedirectHandler):
    """urllib would send the token to wherever a response points."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True)
class Google:
    """Sends requests with the rights of whoever runs the command; `project` pays for them. Each
    raises LookupFailed if Google refuses, or cannot be reached."""

    project: str
    token: str = field(repr=False)

    def get(self, api: str, path: str, **query: str) -> dict[str, Any]:
        """The JSON at a path of an API."""
        return self.send("GET", api, path, None, **query)

    def pages(self, path: str, condition: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each zone and its items, from a list of Compute over all zones of the project, such as
        "aggregated/instances", with a filter, such as "name=g2-standard-4"."""
        query = {"filter": condition, "maxResults": "500"}
        for page in self.every("compute", f"projects/{self.project}/{path}", **query):
            yield from page.get("items", {}).items()

    def every(self, api: str, path: str, **query: str) -> Iterator[dict[str, Any]]:
        """Each page of a list."""
        for _ in range(MOST_PAGES):
            page = self.get(api, path, **query)
            yield page
            if not page.get("nextPageToken"):
                return
            query["pageToken"] = page["nextPageToken"]

    def send(
        self, method: str, api: str, path: str, body: Mapping[str, Any] | None = None, **query: str
    ) -> dict[str, Any]:
        """The JSON of the response to a request."""
        path += f"?{parse.urlencode(query)}" if query else ""
        content = None if body is None else json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {self.token}",
            "X-Goog-User-Project": self.project,
            "Content-Type": "application/json",
        }
        sent = request.Request(address(api) + path, content, headers, method=method)
        opener = request.build_opener(_NoRedirect)  # with the current proxies
        try:
            with opener.open(sent, timeout=SECONDS) as response:
                answer: dict[str, Any] = json.load(response)
        except error.HTTPError as refusal:
            raise LookupFailed(f"HTTP {refusal.code}: {_reason(refusal.read())}") from None
        except (OSError, ValueError) as failure:
            raise LookupFailed(str(failure)) from None
        return answer


def address(api: str) -> str:
    """Where an API is, with a slash at the end."""
    return os.environ.get(OVERRIDE + api.upper(), ADDRESSES[api]).rstrip("/") + "/"


def connect(project: str, opts: pulumi.InvokeOptions) -> Google | None:
    """Google, with the provider's token; None if it has none."""
    try:
        token = organizations.get_client_config(opts=opts).access_token
    except Exception as failure:  # the type that a failed invoke raises
        pulumi.log.warn(f"Google gave no token, so not everything is checked: {failure}")
        return None
    return Google(project, token) if token else None


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")
