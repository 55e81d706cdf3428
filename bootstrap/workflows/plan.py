"""`fab plan`: the options, the facts, the decision. Changes nothing on the hosts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from railhead.documents.options.hosts import ReadyOptions
from railhead.documents.options.runs import ProgramOptions

from ..console.output import print_lines
from ..console.text import clean
from ..errors import UsageError
from ..inventory import local_state
from ..inventory.files import read_given
from ..inventory.hosts import Inventory, check_peer_address
from ..lifecycle import reach
from ..plan import decide
from ..plan.cluster import Options, SurveyedCluster
from ..plan.internet import MOST_CERTIFICATES, Internet, check_certificates, read_proxy
from ..plan.runtimes import row_named
from ..plan.steps import Plan
from ..provision import survey
from ..ssh.cluster import ConnectedCluster


def ready_options(
    ready: ReadyOptions, program: ProgramOptions, *, launcher: str | None = None
) -> Options:
    """The options of a plan, from the options of a command; UsageError for an invalid value.

    Args:
        launcher: that of the run; it limits the choice of the runtime.
    """
    if program.runtime is not None:
        row_named(program.runtime, launcher)
    proxy = read_proxy(ready.proxy, os.environ.get("RAILHEAD_PROXY", ""))
    return Options(
        ready.system,
        _requirements(program.requirements),
        tuple(check_peer_address(text) for text in ready.peer_address),
        launcher,
        program.runtime,
        ready.allow_mixed,
        _debian_mirror(),
        Internet(proxy, _certificates(ready.ca) if ready.ca else ""),
    )


def _requirements(file: str | None) -> Path | None:
    """The file of --requirements, checked. Raises as `read_requirements`."""
    if not file:
        return None
    from ..provision.requirements.lines import read_requirements

    read_requirements(file)
    return Path(file)


def _certificates(file: str) -> str:
    """The text of the certificates in a file; UsageError if it is not such a file."""
    data = read_given(file, f"--ca {file}", MOST_CERTIFICATES)
    return check_certificates(file, data.decode(errors="replace"))


def _debian_mirror() -> str:
    """The Debian mirror in $DEBIAN_MIRROR, or ""; UsageError if it is not a URL."""
    url = os.environ.get("DEBIAN_MIRROR", "")
    if url and not re.fullmatch(r"https?://[^\s@/]+(/\S*)?", url):
        rule = "an address like http://archive.example/debian, without a name and password"
        raise UsageError(f"DEBIAN_MIRROR: {rule}")
    return url


def plan(inventory: Inventory, options: Options, json_out: TextIO | None = None) -> None:
    """Print what `bootstrap` and `train` would do on each host, and why."""
    with surveyed(inventory, options) as cluster:
        print_plan(survey.with_egress(cluster), options, json_out)
        print_lines(*price_lines(inventory))
        print_lines("nothing was changed")


def price_lines(inventory: Inventory) -> list[str]:
    """What the hosts cost per hour and until their deadline, and for an epoch of the last run
    here that has a cost; nothing for hosts without a price."""
    from railhead.money import host  # imported late: a training prints no price
    from railhead.money.table import shipped

    from ..lifecycle import deadlines

    hosts = len(inventory.hosts)
    parts = host.read(inventory.price, hosts)
    if not parts:
        return []
    text = host.describe(parts, hosts, deadlines.default_hours(inventory))
    besides = host.by_use(
        inventory.region, shipped(inventory.cloud), bucket=inventory.bucket is not None
    )
    return [f"price: {text}", besides, *epoch_lines(inventory)]


def epoch_lines(inventory: Inventory) -> list[str]:
    """What an epoch of the newest run with epochs on these hosts cost."""
    from ..report.facts import read_run  # imported late, with the pages of reports
    from ..report.scaling import epoch_seconds

    for path in reversed(local_state.runs(inventory.name)):
        run = read_run(path.stem)
        seconds = epoch_seconds(run) if len(run.hosts) == len(inventory.hosts) else None
        if seconds and (cost := run.cost_of(seconds)):
            return [f"price of an epoch, as in run {run.run_id}: {clean(cost.text(digits=4))}"]
    return []


@contextmanager
def surveyed(inventory: Inventory, options: Options) -> Iterator[ConnectedCluster]:
    """The cluster with its facts and an open session with each host."""
    with reach.sessions(inventory) as sessions:
        yield survey.survey(sessions, options)


def print_plan(cluster: SurveyedCluster, options: Options, json_out: TextIO | None) -> Plan:
    """Decide the plan and print it: as text, and as JSON to `json_out`."""
    decided = decide.decide(cluster, options)
    print_lines(*decided.describe())
    if json_out:
        print(json.dumps(decided.document()), file=json_out, flush=True)
    return decided
