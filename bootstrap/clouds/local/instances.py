"""Local hosts as instances of a cloud: /proc shows whether their sshd runs."""

from __future__ import annotations

from ...errors import RailheadError, UsageError
from ...inventory import local_state
from ...inventory.hosts import Inventory
from ..base import Cost, Deadline, InstanceState, utc_now
from . import cluster


class Local:
    """The SSH hosts of one cluster on this computer. Only their processes are stopped."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory

    def instance_states(self) -> dict[str, InstanceState]:
        """Whether each host's sshd runs."""
        name, now = self.inventory.name, utc_now()
        names = list(self.inventory.names)
        folders = local_state.cluster_folder(name) / "hosts"
        if not any((folders / host).exists() for host in names):
            gone = InstanceState("gone", None, "its folder is gone", now, certain=True)
            return dict.fromkeys(names, gone)
        try:
            hosts = cluster.read(name)
        except UsageError as error:
            unknown = InstanceState("unknown", None, "its record", now, reason=error.message)
            return dict.fromkeys(names, unknown)
        return {host: _instance_state(hosts.get(host), now) for host in names}

    def start(self) -> None:
        """Start the hosts that exist and do not run, at the addresses that they have."""
        cluster.start_again(self.inventory.name)

    def stop(self) -> None:
        """End every host's sshd and its processes. RailheadError: some processes still run."""
        for name, result in cluster.stop(self.inventory.name).items():
            if result.left:
                raise RailheadError(f"{name}: processes {[*result.left]} still run")

    def terminate(self) -> None:
        """As `stop`, unless all hosts are gone already. Their stack removes the homes."""
        if any(state.state != "gone" for state in self.instance_states().values()):
            self.stop()

    def cannot_stop(self) -> list[str]:
        """None: every local host can be stopped."""
        return []

    def deadlines(self) -> dict[str, Deadline]:
        """No deadlines: local hosts are free."""
        return {}

    def set_deadline(self, hours: float) -> None:
        """Do nothing: local hosts have no deadline."""

    def costs(self) -> list[Cost]:
        """No costs: local hosts are free."""
        return []

    def account(self) -> str:
        """The owner of the hosts."""
        return "this computer"

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        """The keys in the inventory, which were created here."""
        return {h.name: (h.host_key,) for h in self.inventory.hosts if h.host_key}

    def allowed_cidrs(self) -> tuple[str, ...]:
        """The loopback network: only this computer connects."""
        return ("127.0.0.0/8",)


def _instance_state(host: cluster.HostState | None, now: str) -> InstanceState:
    if host is None:
        return InstanceState("gone", None, "its cluster's record", now, certain=True)
    state = "running" if host.running else "stopped"
    return InstanceState(state, host.address, "/proc", now, port=host.port, certain=True)
