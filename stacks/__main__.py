"""What `pulumi up` runs: settings -> one cloud's cluster -> the cluster document."""

from __future__ import annotations

import importlib
import re
import sys

import pulumi

from stacks import ending, settings
from stacks.rules import ConfigError

TOLD = 32  # to Pulumi: the person knows what is wrong; a RunError adds "unhandled" to it
MODULES = {"aws": "stacks.aws.cluster", "gcp": "stacks.gcp.cluster", "local": "stacks.local"}


def main() -> None:
    """Register the cluster of this stack; a broken rule is told before any resource exists."""
    values = settings.of_project(pulumi.runtime.get_config_env(), pulumi.get_project())
    try:
        config = settings.read(values, stack=pulumi.get_stack())
        pulumi.log.info(f"the whole cluster: {ending.cost(config)}")
        # Only the chosen cloud's SDK is imported: each costs a second and 50 MB.
        cluster = importlib.import_module(MODULES[config.cloud]).Cluster(config.name, config)
    except ConfigError as error:
        for problem in re.split(r"\n(?! )", str(error)):
            pulumi.log.error(problem)
        sys.exit(TOLD)
    pulumi.export("cluster", cluster.document)
    pulumi.export("next", cluster.document.apply(lambda said: ending.told(config, said)))


main()
