"""A cluster whose sessions are stand-ins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from bootstrap.plan.cluster import SurveyedCluster
from bootstrap.ssh.cluster import ConnectedCluster
from bootstrap.ssh.connect import Sessions


def connected(cluster: SurveyedCluster, sessions: Mapping[str, Any]) -> ConnectedCluster:
    """The cluster with these sessions, by host name."""
    known = {field.name: getattr(cluster, field.name) for field in fields(SurveyedCluster)}
    return ConnectedCluster(**known, sessions=Sessions(cluster.inventory, sessions))
