"""The APIs that must be enabled in the project: a disabled one breaks an `up` in the middle."""

from __future__ import annotations

import pulumi

from ...config.settings import ClusterConfig
from ...rules.validators import ConfigError
from .rest import Google, LookupFailed


def needed(config: ClusterConfig) -> tuple[str, ...]:
    """The APIs that this stack uses, as in "compute.googleapis.com"."""
    names = ["compute", "cloudquotas"]
    if config.bucket or config.data_buckets:
        names += ["iam", "storage"]
    if config.oslogin:
        names += ["oslogin", "cloudresourcemanager"]
    return tuple(f"{name}.googleapis.com" for name in names)


def check(config: ClusterConfig, google: Google | None) -> None:
    """Look up which APIs are enabled. If Google does not list them, that is logged. ConfigError:
    one is not; the message has the command that enables them."""
    if google is None:
        return
    names = needed(config)
    project = f"projects/{config.project}"
    query = "&".join(f"names={project}/services/{name}" for name in names)
    try:
        response = google.get("serviceusage", f"v1/{project}/services:batchGet?{query}")
    except LookupFailed as why:
        pulumi.log.warn(
            f"the APIs of {config.project} cannot be listed: {why}; needed: {', '.join(names)}"
        )
        return
    states = {
        str(service.get("name", "")).rpartition("/")[2]: service.get("state")
        for service in response.get("services", ())
    }
    off = [name for name in names if states.get(name) != "ENABLED"]
    if off:
        raise ConfigError(
            f"project: these APIs are not enabled in {config.project}: {', '.join(off)}",
            f"gcloud services enable {' '.join(off)} --project {config.project}",
        )
