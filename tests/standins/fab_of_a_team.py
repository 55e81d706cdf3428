"""`fab` of a person whose stack has its machines in a cloud: the local hosts of TEAM_HOME.

The cloud shows host keys to those who have CONSOLE, as EC2 does after the first boot alone, and
reports the machines as stopped while the file TEAM_STOPPED exists.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from bootstrap.cli.program import main
from bootstrap.clouds.base import Cost, Deadline, InstanceState
from bootstrap.clouds.local.host import address
from bootstrap.clouds.machines import Listed
from bootstrap.inventory import pulumi_cli
from bootstrap.inventory.clouds import CLOUDS
from bootstrap.lifecycle import cloud_host_keys

HOSTS = Path(os.environ["TEAM_HOME"]) / ".railhead/clusters/ready/hosts"


class Team:
    """The machines, as their cloud reports them."""

    def instance_states(self) -> dict[str, InstanceState]:
        return {folder.name: self._state(folder) for folder in sorted(HOSTS.iterdir())}

    def _state(self, folder: Path) -> InstanceState:
        serial = f"i-{folder.name}"
        port = int((folder / "port").read_text())
        if Path(os.environ["TEAM_STOPPED"]).exists():
            return InstanceState("stopped", None, "Team", "now", serial=serial)
        return InstanceState(
            "running",
            address("ready", int(folder.name[1:])),
            "Team",
            "now",
            port=port,
            serial=serial,
        )

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        if "CONSOLE" not in os.environ:
            return {}
        return {host.name: ((host / "host_key.pub").read_text(),) for host in HOSTS.iterdir()}

    def deadlines(self) -> dict[str, Deadline]:
        return {}

    def costs(self) -> list[Cost]:
        return []

    def account(self) -> str:
        return "account 1234"

    def allowed_cidrs(self) -> tuple[str, ...]:
        return ("127.0.0.0/8",)


pulumi_cli.CLONE = Path.cwd()
cloud_host_keys.WAIT_SECONDS = 0.0
clouds = ModuleType("clouds_of_a_test")
vars(clouds).update(team=lambda inventory: Team(), listed=lambda place: Listed("account 1234", ()))
sys.modules[clouds.__name__] = clouds
instances, machines = f"{clouds.__name__}:team", f"{clouds.__name__}:listed"
CLOUDS["aws"] = replace(CLOUDS["aws"], instances=instances, machines=machines)
main()
