"""The address of a server that replaces S3's own: one rule, that of boto3, for all clients.
Standard library only.

The variables, then `endpoint_url` of the AWS config file, that for S3 before that for all services;
none of them if the user has switched them off. boto3 and s3fs obey all of this; obstore 0.11 reads
only AWS_ENDPOINT_URL, so it gets the address from here.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path

VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
PROFILES = ("AWS_DEFAULT_PROFILE", "AWS_PROFILE")  # in the order of boto3
IGNORE = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"


def address() -> str:
    """The address; empty for S3 itself."""
    profile, services = _config()
    ignored = os.environ.get(IGNORE) or profile.get(IGNORE.removeprefix("AWS_").lower(), "")
    if ignored.lower() == "true":
        return ""
    configured = (os.environ.get(name) for name in VARIABLES)
    return next(filter(None, configured), "") or services or profile.get("endpoint_url", "")


def _config() -> tuple[Mapping[str, str], str]:
    """The profile of the AWS config file, and the address of its services section for S3."""
    path = Path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser()
    config = configparser.RawConfigParser(strict=False)
    try:
        config.read(path)
    except (configparser.Error, UnicodeDecodeError):
        return {}, ""
    names = (os.environ.get(name) for name in PROFILES)
    name = next(filter(None, names), "default")
    section = next((s for s in (f"profile {name}", name) if config.has_section(s)), "")
    profile = dict(config.items(section)) if section else {}
    services = f"services {profile.get('services', '')}"
    nested = config.get(services, "s3", fallback="").splitlines()
    pairs = {key.strip(): value.strip() for key, _, value in (n.partition("=") for n in nested)}
    return profile, pairs.get("endpoint_url", "")
