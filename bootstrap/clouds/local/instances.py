"""Local hosts as a cloud has machines: their sshd runs or is stopped, as /proc says."""

from __future__ import annotations

from bootstrap.clouds.base import Cost, Deadline, InstanceState, utc_now
from bootstrap.clouds.local import cluster
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory


class Local:
    """The SSH hosts of one cluster on this machine. Nothing here stops anything but their sshd."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory

    def instance_states(self) -> dict[str, InstanceState]:
        """Whether each host's sshd runs."""
        name, now = self.inventory.name, utc_now()
        names = [h.name for h in self.inventory.hosts]
        folders = local_state.cluster_folder(name) / "hosts"
        if not any((folders / each).exists() for each in names):
            return dict.fromkeys(names, InstanceState("gone", None, "no folder of it", now))
        try:
            said = cluster.read(name)
        except UsageError as error:
            unknown = InstanceState("unknown", None, "its record", now, reason=error.message)
            return dict.fromkeys(names, unknown)
        return {each: _standing(said.get(each), now) for each in names}

    def start(self) -> None:
        """Start the hosts that do not run, at the addresses that they have."""
        base = self.inventory.chief.address.rpartition(".")[0]
        cluster.start(self.inventory.name, len(self.inventory.hosts), base)

    def stop(self) -> None:
        """End every host's sshd and its processes.

        Raises:
            RailheadError: some are still there.
        """
        for name, said in cluster.stop(self.inventory.name).items():
            if said["left"]:
                raise RailheadError(f"{name}: processes {said['left']} do not end")

    def deadline(self) -> Deadline | None:
        """None: they cost nothing."""
        return None

    def set_deadline(self, hours: float) -> None:
        """Nothing: they have no deadline of a cloud."""

    def costs(self) -> list[Cost]:
        """Nothing."""
        return []

    def account(self) -> str:
        """Where they are."""
        return "this machine"

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        """The keys that stand in the inventory: they were made here."""
        return {h.name: (h.host_key,) for h in self.inventory.hosts if h.host_key}

    def allowed_cidrs(self) -> tuple[str, ...]:
        """This machine alone."""
        return ("127.0.0.0/8",)


def _standing(said: dict[str, object] | None, now: str) -> InstanceState:
    if said is None:
        return InstanceState("gone", None, "its cluster's record", now)
    state = "running" if said["running"] else "stopped"
    port = said["port"]
    assert isinstance(port, int)
    return InstanceState(state, str(said["address"]), "/proc", now, port=port)
