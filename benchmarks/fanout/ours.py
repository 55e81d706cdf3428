"""The job by Railhead's own fan-out: one connection and one exec channel per host.

python -m benchmarks.fanout.ours_started JOB commands|whole
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.fanout.job import COMMANDS, Job, load
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import reach
from bootstrap.ssh import connect
from bootstrap.ssh.bundle import Bundle, pack_folder
from bootstrap.ssh.session import Session
from railhead.documents.agent.files import TextFile


def inventory(job: Job) -> Inventory:
    """The hosts as `connect` takes them."""
    hosts = tuple(Host(t.name, t.address, user=t.user, port=t.port) for t in job.targets)
    return Inventory(job.cluster, hosts, key_file=job.key_file)


def main(path: str, phase: str) -> int:
    """Do the job; a host that fails ends it with an error for each host."""
    job = load(Path(path))
    texts = {target.name: target.config for target in job.targets}
    with reach.sessions(inventory(job)) as opened:
        bundle = pack_folder(Path(job.tree)) if phase == "whole" else None

        def work(session: Session) -> None:
            *answers, python = session.sh("\n".join((*COMMANDS, "command -v python3"))).split()
            assert len(answers) == len(COMMANDS), answers
            if bundle:
                place(session, python, bundle, texts[session.host.name], job.hostfile)

        connect.everywhere(opened, work, what="the job")
    return 0


def place(session: Session, python: str, bundle: Bundle, config: str, hostfile: str) -> None:
    """Put the config file, the hostfile and the tree on one host."""
    session.start_agent(python)
    session.write(TextFile("~/ours/config", config), TextFile("~/ours/hostfile", hostfile))
    session.send_tree(bundle, "~/ours/tree")
