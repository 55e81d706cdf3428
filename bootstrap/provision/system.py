"""System changes on all hosts in parallel: run the script, reboot if needed, read new facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..console.live import Board
from ..console.output import Reporter
from ..errors import HostsFailed
from ..facts.host import HostFacts
from ..plan import downloads
from ..plan.system_changes import Changes
from ..ssh import connect
from ..ssh.as_root import as_root
from ..ssh.connect import Sessions
from ..ssh.session import Session
from .apt_proxy import AptProxy, apt_proxy
from .reboot import reboot
from .system_script import run_system_script

WHAT = "system changes"
# The steps of a plan that this module carries out.
STEPS = ("cloud-init", "mend", "system", "driver", "reboot")

# What a bootstrap leaves on a host where it installed a driver; nothing in it is secret.
LEFT = "cat /var/lib/railhead/held; cat /run/railhead/timers; ls /etc/apt/apt.conf.d/52railhead"
UNDO = """
[ ! -e /var/lib/railhead/held ] || sort -u /var/lib/railhead/held | xargs apt-mark unhold
[ ! -e /run/railhead/timers ] || sort -u /run/railhead/timers | xargs systemctl start
rm -rf /etc/apt/apt.conf.d/52railhead /var/lib/railhead/held /run/railhead
[ ! -d /var/lib/railhead ] || rmdir --ignore-fail-on-non-empty /var/lib/railhead
"""


def undo_system_changes(session: Session) -> tuple[list[str], list[str]]:
    """Unhold packages, restart timers and remove our apt settings. Returns the changes that it
    found, and those that remain."""
    before = _remaining_changes(session)
    if before:
        session.sh(as_root(UNDO))
    return before, _remaining_changes(session) if before else []


def _remaining_changes(session: Session) -> list[str]:
    return sorted({line for line in session.sh(f"({LEFT}) 2>/dev/null").splitlines() if line})


def change_system(
    sessions: Sessions, facts: Mapping[str, HostFacts], changes: Mapping[str, Changes], board: Board
) -> dict[str, HostFacts]:
    """Make these changes; returns the new facts of the changed hosts. A host that reboots gets a
    new session in `sessions`. A host that fails does not stop the others. HostsFailed: some hosts
    failed; it has the outcome of each. The same call again continues."""
    work = _SystemChanges(sessions, facts, changes, board)
    with apt_proxy() as proxy:
        work.on_hosts(lambda session: work.run_system_script(session, proxy), list(changes))
    work.on_hosts(work.reboot, [name for name in changes if changes[name].reboot])
    work.reconnect()
    work.on_hosts(work.read_facts, list(changes))
    if work.failed:
        outcomes = {name: work.failed.get(name, "ok") for name in sessions}
        raise HostsFailed(f"{WHAT} failed on {len(work.failed)} of {len(outcomes)} hosts", outcomes)
    return {name: work.new_facts[name] for name in changes}  # in the order of `changes`


class _SystemChanges:
    """The stages of the system changes, each on all hosts that have not failed before."""

    def __init__(
        self,
        sessions: Sessions,
        facts: Mapping[str, HostFacts],
        changes: Mapping[str, Changes],
        board: Board,
    ) -> None:
        self.sessions, self.facts, self.changes, self.board = sessions, facts, changes, board
        self.failed: dict[str, str] = {}
        self.new_facts: dict[str, HostFacts] = {}

    def on_hosts(self, work: Callable[[Session], None], names: list[str]) -> None:
        """Run `work` on these hosts in parallel; failures are reported at the end."""
        sessions = {name: self.sessions[name] for name in names if name not in self.failed}
        try:
            connect.everywhere(sessions, work, what=WHAT)
        except HostsFailed as error:
            failed = {name: outcome for name, outcome in error.outcomes.items() if outcome != "ok"}
            self.failed.update(failed)
            for name in failed:
                self.board.line(name, "failed", state="failed")

    def run_system_script(self, session: Session, proxy: AptProxy) -> None:
        name = session.host.name
        facts, changes = self.facts[name], self.changes[name]
        with proxy.on(session, downloads.mirrors(facts, changes)) as address:
            run_system_script(session, facts, changes, self._reporter(name), proxy=address)

    def reboot(self, session: Session) -> None:
        name = session.host.name
        report = self._reporter(name)
        self.sessions[name] = reboot(self.sessions.inventory, session, self.facts[name], report)

    def read_facts(self, session: Session) -> None:
        self.new_facts[session.host.name] = session.facts()

    def reconnect(self) -> None:
        """Connect again to hosts whose connection broke because their jump host rebooted."""
        open_ = {name: s.connection.is_connected for name, s in self.sessions.items()}
        lost = [name for name in open_ if not open_[name] and name not in self.failed]
        if lost:
            opened = connect.open_sessions(self.sessions.inventory.only(lost))
            self.sessions.update(opened)
            self.failed.update(opened.reasons)

    def _reporter(self, name: str) -> Reporter:
        return lambda text: self.board.line(name, text)
