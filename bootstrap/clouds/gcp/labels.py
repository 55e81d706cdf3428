"""The labels of a cluster's resources on Google Cloud, and the descriptions of those without any.

stacks/gcp/labels.py writes them.
"""

from __future__ import annotations

import re

from railhead.documents.lazy import dataclass

CLUSTER, ID, OWNER = "railhead-cluster", "railhead-id", "railhead-owner"
STACK = "railhead-stack"
# Until 0.1.0 it had only the cluster.
DESCRIPTION = re.compile(
    r"Railhead cluster (?P<cluster>[a-z0-9-]+)"
    r"(?:, id (?P<cluster_id>[0-9a-f]+), owner (?P<owner>[a-z0-9_-]+))?"
)


@dataclass(frozen=True)
class Described:
    """What a description says."""

    cluster: str | None = None
    cluster_id: str | None = None
    owner: str | None = None


def read_description(text: str) -> Described:
    """What the description of a resource without labels says; nothing if Railhead did not write
    it."""
    match = DESCRIPTION.fullmatch(text)
    return Described(**match.groupdict()) if match else Described()
