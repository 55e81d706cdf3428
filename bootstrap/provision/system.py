"""Root's work on all hosts at once: each does its own, reboots if it has to, and is known anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from bootstrap.console.live import Board
from bootstrap.console.output import Reporter
from bootstrap.errors import HostsFailed
from bootstrap.facts.host import HostFacts
from bootstrap.inventory.hosts import Inventory
from bootstrap.plan import downloads
from bootstrap.plan.system_changes import Changes
from bootstrap.provision.apt_proxy import AptProxy, apt_proxy
from bootstrap.provision.reboot import reboot
from bootstrap.provision.system_script import run_system_script
from bootstrap.ssh import connect
from bootstrap.ssh.as_root import as_root
from bootstrap.ssh.session import Session

WHAT = "system changes"
STEPS = ("cloud-init", "mend", "system", "driver", "reboot")  # of a plan, that are done here

# What a bootstrap left for as long as the driver is ours; none of it is secret.
LEFT = "cat /var/lib/railhead/held; cat /run/railhead/timers; ls /etc/apt/apt.conf.d/52railhead"
TAKE_BACK = """
[ ! -e /var/lib/railhead/held ] || sort -u /var/lib/railhead/held | xargs apt-mark unhold
[ ! -e /run/railhead/timers ] || sort -u /run/railhead/timers | xargs systemctl start
rm -rf /etc/apt/apt.conf.d/52railhead /var/lib/railhead /run/railhead
"""


def take_back(session: Session) -> tuple[list[str], list[str]]:
    """Let go of packages that we held, start timers that we stopped; what there was of that, and
    what is left of it."""
    before = _left_there(session)
    if before:
        session.sh(as_root(TAKE_BACK))
    return before, _left_there(session) if before else []


def _left_there(session: Session) -> list[str]:
    return sorted({line for line in session.sh(f"({LEFT}) 2>/dev/null").splitlines() if line})


def change_system(
    inventory: Inventory,
    facts: Mapping[str, HostFacts],
    wanted: Mapping[str, Changes],
    opened: dict[str, Session],
    board: Board,
) -> dict[str, HostFacts]:
    """Do what is wanted and return the facts of the hosts that it was done on.

    A host that reboots gets a new session in `opened`. One that fails stops no other.

    Raises:
        HostsFailed: some failed; every host's outcome is told, and the same again goes on there.
    """
    work = _Groundwork(inventory, facts, wanted, opened, board)
    with apt_proxy() as proxy:
        work.stage(lambda session: work.run_system_script(session, proxy), list(wanted))
    work.stage(work.reboot, [name for name in wanted if wanted[name].reboot])
    work.revive()
    work.stage(work.look, list(wanted))
    if work.failed:
        told = {name: work.failed.get(name, "ok") for name in opened}
        raise HostsFailed(f"{WHAT} failed on {len(work.failed)} of {len(told)} hosts", told)
    return {name: work.seen[name] for name in wanted}  # in their order, whoever answered first


class _Groundwork:
    """The stages, each on all hosts that have not failed before."""

    def __init__(
        self,
        inventory: Inventory,
        facts: Mapping[str, HostFacts],
        wanted: Mapping[str, Changes],
        opened: dict[str, Session],
        board: Board,
    ) -> None:
        self.inventory, self.facts, self.wanted = inventory, facts, wanted
        self.opened, self.board = opened, board
        self.failed: dict[str, str] = {}
        self.seen: dict[str, HostFacts] = {}

    def stage(self, work: Callable[[Session], None], names: list[str]) -> None:
        """Do one piece of work on these hosts; what fails is kept for the end."""
        sessions = {name: self.opened[name] for name in names if name not in self.failed}
        try:
            connect.everywhere(sessions, work, what=WHAT)
        except HostsFailed as wrong:
            bad = {name: said for name, said in wrong.outcomes.items() if said != "ok"}
            self.failed.update(bad)
            for name in bad:
                self.board.line(name, "failed", state="failed")

    def run_system_script(self, session: Session, proxy: AptProxy) -> None:
        name = session.host.name
        facts, changes = self.facts[name], self.wanted[name]
        with proxy.on(session, downloads.mirrors(facts, changes)) as address:
            run_system_script(session, facts, changes, self._reporter(name), proxy=address)

    def reboot(self, session: Session) -> None:
        name = session.host.name
        report = self._reporter(name)
        self.opened[name] = reboot(self.inventory, session, self.facts[name], report)

    def look(self, session: Session) -> None:
        self.seen[session.host.name] = session.facts()

    def revive(self) -> None:
        """Reach again whoever is cut off because a host on the way to it rebooted."""
        hosts = self.inventory.hosts
        cut = [h for h in hosts if not self.opened[h.name].connection.is_connected]
        cut = [h for h in cut if h.name not in self.failed]
        if not cut:
            return
        again = replace(self.inventory, hosts=tuple(cut))
        found, failed = connect.open_sessions(again)
        self.opened.update(found)
        self.failed.update(
            {h.name: connect.failure_reason(h, failed[h.name]) for h in cut if h.name in failed}
        )

    def _reporter(self, name: str) -> Reporter:
        return lambda text: self.board.line(name, text)
