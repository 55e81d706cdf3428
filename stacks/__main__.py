"""What `pulumi up` runs: settings -> one cloud's cluster -> the cluster document."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

import pulumi

from railhead.documents.codec import encode
from stacks.clouds import CLOUDS
from stacks.config import settings
from stacks.config.validators import ConfigError
from stacks.cost import cost
from stacks.summary import summary

ENGINE = ">=3.259.0"  # stashes and error hooks
ERROR_SHOWN = 32  # Pulumi: the program has reported its error; no "unhandled exception" is added


def main() -> None:
    """Register the cluster of this stack; report a broken rule before any resource exists."""
    _check_engine()
    every = pulumi.runtime.get_config_env()
    values = settings.of_project(every, pulumi.get_project())
    try:
        config = settings.read(values, stack=pulumi.get_stack(), others=every)
        pulumi.log.info(f"the whole cluster: {cost(config)}")
        component = importlib.import_module(CLOUDS[config.cloud].component)
        cluster = component.Cluster(config.name, config)
    except ConfigError as error:
        for problem in re.split(r"\n(?! )", str(error)):
            pulumi.log.error(settings.with_command(problem, values.get("cloud", "")))
        sys.exit(ERROR_SHOWN)

    def next_line(values: list[Any]) -> str:
        return summary(config, values[0], pulumi.get_stack(), values[1])

    pulumi.export("cluster", cluster.document.apply(encode))
    pulumi.export("next", pulumi.Output.all(cluster.document, cluster.gone).apply(next_line))


def _check_engine() -> None:
    """End, with a message, where the Pulumi CLI is older than the one that this was tested with."""
    try:
        pulumi.require_pulumi_version(ENGINE)
    except Exception as error:  # the only type that it raises
        pulumi.log.error(f"{error}\n  next: https://www.pulumi.com/docs/install/")
        sys.exit(ERROR_SHOWN)


main()
