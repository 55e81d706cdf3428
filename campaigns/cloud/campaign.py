"""For a person with an account: one command from `fab doctor` to `fab leaks`, on two machines.

    RAILHEAD_CLOUD_TEST=aws RAILHEAD_SSH_CIDR=203.0.113.7/32 make test-cloud

It shows the price and the time, and asks. At its end, after an error, and when the budget is spent
it destroys the machines; tested-on/<cloud>.json has all that it saw. After an interruption the same
command continues, or destroys.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from places import ROOT

from bootstrap.gpu_tools import tested_on
from campaigns.cloud import parts
from campaigns.cloud.clean_up import typed
from campaigns.cloud.parts import STACK, Campaign, Run
from campaigns.cloud.record import NothingLeft, Part, Record, unfinished
from railhead.money.table import shipped

COMMON = {"count": "2", "deadline_hours": "2", "cloud": ""}
CONFIG = {
    "aws": {"machine_type": "g4dn.xlarge", "region": "us-east-1"},
    "gcp": {"machine_type": "n1-standard-4", "region": "us-central1"},
    "local": {},
}
BUDGET_USD, USUAL_MINUTES = 5.0, 75


def config_of(variables: Mapping[str, str]) -> dict[str, str]:
    """The stack's config from variables of the environment; SystemExit for what is missing."""
    cloud = variables.get("RAILHEAD_CLOUD_TEST", "")
    if cloud not in CONFIG:
        raise SystemExit(f"RAILHEAD_CLOUD_TEST={cloud}: one of {', '.join(CONFIG)}")
    if cloud == "local":
        return {**COMMON, "cloud": cloud, "deadline_hours": "2"}
    config = {**COMMON, "cloud": cloud, **CONFIG[cloud]}
    config["ssh_cidrs"] = variables.get("RAILHEAD_SSH_CIDR", "")
    if cloud == "gcp":
        config["project"] = variables.get("RAILHEAD_PROJECT", "")
    missing = [key for key in ("ssh_cidrs", "project") if config.get(key) == ""]
    if missing:
        names = {"ssh_cidrs": "RAILHEAD_SSH_CIDR", "project": "RAILHEAD_PROJECT"}
        raise SystemExit(f"not set: {', '.join(names[key] for key in missing)}")
    if machine := variables.get("RAILHEAD_CLOUD_MACHINE"):
        config["machine_type"] = machine
    return config


def usd_per_hour(config: Mapping[str, str]) -> float:
    """The price of all machines; SystemExit where it is not known, as no budget could end it."""
    if config["cloud"] == "local":
        return 0.0
    gpu = ("nvidia-tesla-t4", 1) if config["machine_type"].startswith("n1-") else None
    rates, region = shipped(config["cloud"]), config["region"]
    price = rates.machine(config["machine_type"], region, gpu, spot=False).amount.exact
    if price is None:
        raise SystemExit(
            f"the price of {config['machine_type']} is not known: another machine type"
        )
    return float(price * int(config["count"]))


def agreed(record: Record) -> bool:
    """Say what it costs, and ask."""
    per_hour, machine = record.usd_per_hour or 0.0, record.config.get("machine_type", "local hosts")
    print(
        f"{record.config['count']} {machine} at {record.cloud}: {per_hour:.2f} USD per hour by the "
        f"price list. About {USUAL_MINUTES} minutes, {per_hour * USUAL_MINUTES / 60:.2f} USD. "
        f"At {record.budget_usd:g} USD it destroys them and ends.",
        flush=True,
    )
    if not per_hour:
        return True
    return input("Type yes to create them: ").strip() == "yes"


def run(campaign: Campaign, root: Path = ROOT) -> list[Part]:
    """Run the parts that have not passed, and return those that fail. The machines are destroyed in
    any case."""
    record = campaign.record
    record.parts = [part for part in record.parts if not part.error]
    try:
        if not record.began:
            _init(campaign)
            if not _part(campaign, parts.doctor, root):
                return record.failed
            record.began = time.time()
            record.save(root)
        for part in parts.WITH_MACHINES:
            if part.__name__ not in record.passed and not _part(campaign, part, root):
                break
    finally:
        _end(campaign, root)
    return record.failed


def _init(campaign: Campaign) -> None:
    stacks = typed("pulumi", "stack", "ls", folder=campaign.folder)
    if STACK not in stacks:
        typed("pulumi", "stack", "init", STACK, folder=campaign.folder)
    for key, value in campaign.record.config.items():
        argv = ("pulumi", "config", "set", key, value, "--stack", STACK)
        typed(*argv, folder=campaign.folder)


def _part(campaign: Campaign, part: Run, root: Path) -> bool:
    """Whether a part passed; what it saw is recorded in any case."""
    begun, record = time.monotonic(), campaign.record
    ended = Part(part.__name__, 0.0)
    print(f"== {part.__name__}: {record.hours * 60:.0f} min, {record.usd:.2f} USD", flush=True)
    try:
        ended.figures = part(campaign)
    except (AssertionError, NothingLeft, OSError, ValueError, LookupError) as error:
        ended.error = f"{type(error).__name__}: {error}"[:2000]
    except KeyboardInterrupt:
        ended.error = "interrupted"
        raise
    finally:
        ended.seconds = round(time.monotonic() - begun, 1)
        record.parts.append(ended)
        record.save(root)
    return not ended.error


def _end(campaign: Campaign, root: Path) -> None:
    """Destroy, whatever the budget says; `ended` is set only if nothing is left."""
    record = campaign.record
    campaign.bounded = False
    passed = [_part(campaign, part, root) for part in parts.AT_THE_END]
    record.ended = time.time() if all(passed) else None
    record.save(root)


def main() -> int:
    """The exit code: 0 if all parts passed."""
    config = config_of(os.environ)
    record = unfinished(config["cloud"], config)
    if record:
        print(f"continues, with {', '.join(sorted(record.passed))} done")
    else:
        budget = float(os.environ.get("RAILHEAD_CLOUD_BUDGET", BUDGET_USD))
        record = Record(config["cloud"], config, budget, usd_per_hour(config))
        if not agreed(record):
            print("nothing was created")
            return 2
    failed = run(Campaign(record, ROOT))
    tested_on.write_row()
    for part in failed:
        print(f"FAILED {part.name}: {part.error}")
    print(
        f"{record.hours * 60:.0f} min, at most {record.usd:.2f} USD: tested-on/{record.cloud}.json"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
