"""The program of a stack: settings -> one cloud's cluster -> the cluster document."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi

from railhead.documents.codec import encode
from railhead.installation import PREFIX

from .clouds import CLOUDS
from .config import settings
from .cost import check_budget, whole
from .live_prices import live_rates
from .place import NotKnown, Place
from .rules.validators import ConfigError
from .summary import Summary, summary

ENGINE = ">=3.259.0"  # stashes and error hooks
LOGICAL_NAME = "cluster"  # constant: another name of the cluster replaces nothing
SECONDS = 120  # for the search in the stack's previous place
ERROR_SHOWN = 32  # Pulumi: the program has reported its error; no "unhandled exception" is added


def main() -> None:
    """Register the cluster of this stack; report a broken rule before any resource exists."""
    _check_engine()
    every = pulumi.runtime.get_config_env()
    values = settings.of_project(every, pulumi.get_project())
    try:
        config = settings.read(values, stack=pulumi.get_stack(), others=every)
        config = replace(config, rates=live_rates(config))
        pulumi.log.info(f"the whole cluster: {whole(config)}")
        check_budget(config)
        component = importlib.import_module(CLOUDS[config.cloud].component)
        cluster = component.Cluster(LOGICAL_NAME, config, existing=_existing)
    except ConfigError as error:
        problems = settings.mended(error, values.get("cloud", ""))
        for message in ConfigError(problems=problems).shown(pulumi.get_stack()):
            pulumi.log.error(message)
        sys.exit(ERROR_SHOWN)

    def summarized(values: list[Any]) -> Summary:
        return summary(config, values[0], pulumi.get_stack(), values[1])

    short = pulumi.Output.all(cluster.document, cluster.gone).apply(summarized)
    pulumi.export("cluster", cluster.document.apply(encode))
    pulumi.export("next", short.apply(lambda outputs: outputs.next))
    pulumi.export("hosts", short.apply(lambda outputs: outputs.hosts))
    pulumi.export("deadline", short.apply(lambda outputs: outputs.deadline))
    pulumi.export("idle", short.apply(lambda outputs: outputs.idle))


def _existing(own_id: str, place: Place) -> Mapping[str, list[str]]:
    """What exists with the id, found by `bootstrap` in a separate process: for every cloud, also a
    former one of the stack. NotKnown: the cloud does not answer, or refuses."""
    argv = [sys.executable, "-m", f"{PREFIX}bootstrap.clouds.existing", own_id, json.dumps(place)]
    try:
        process = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
        )
        why = process.stderr.strip()
    except subprocess.TimeoutExpired:
        raise NotKnown(f"there was no answer within {SECONDS} s") from None
    if why or process.returncode:
        raise NotKnown(why)
    existing: dict[str, list[str]] = json.loads(process.stdout)
    return existing


def _check_engine() -> None:
    """Exit with a message if the Pulumi CLI is older than the version that this was tested with."""
    try:
        pulumi.require_pulumi_version(ENGINE)
    except Exception as error:  # the only type that it raises
        pulumi.log.error(f"{error}\n  next: https://www.pulumi.com/docs/install/")
        sys.exit(ERROR_SHOWN)
