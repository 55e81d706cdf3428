"""The cloud's own current prices, which take precedence over the table; `bootstrap` requests and
keeps them."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pulumi

from railhead.documents.codec import Malformed, decode
from railhead.installation import PREFIX
from railhead.money.table import Rates, Row, shipped

from .clouds import CLOUDS
from .config.settings import ClusterConfig

SECONDS = 60  # Google's catalogue has 30,000 entries
ACCOUNT = re.compile(r"arn:\S+|\d{12}")  # in refusals; Pulumi keeps its log


def live_rates(config: ClusterConfig) -> Rates | None:
    """The prices of the machine type in its region; None, with the reason printed, if the table is
    used."""
    if CLOUDS[config.cloud].free or config.price_per_hour is not None or not config.region:
        return None
    argv = [sys.executable, "-m", f"{PREFIX}bootstrap.clouds.prices"]
    argv += [config.cloud, config.region, config.machine_type]
    try:
        process = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
        )
        why = process.stderr.strip()
        if not process.returncode:
            rows = decode(tuple[Row, ...], json.loads(process.stdout))
            return Rates(rows, shipped(config.cloud))
    except subprocess.TimeoutExpired:
        why = f"there was no answer within {SECONDS} s"
    except (OSError, ValueError, Malformed) as error:
        why = str(error)
    why = ACCOUNT.sub("(left out)", why.splitlines()[0] if why else "no answer")
    pulumi.log.info(f"prices are those of the table: {why}")
    return None
