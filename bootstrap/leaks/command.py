"""`fab leaks`: list all that has Railhead's tags, and remove what belongs to no living stack."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain
from typing import TextIO

from railhead.documents.codec import encode
from railhead.documents.leaks import LEAKED, Leak, LeakReport
from railhead.documents.names import COMMON_LOGINS, login_name
from railhead.documents.options.hosts import LeaksOptions, TeardownOptions

from ..clouds.base import utc_now
from ..console.output import print_lines
from ..errors import Command, Hint, UsageError
from ..inventory.owner import owner_of
from . import living, report
from .end import Ending
from .report import Judge
from .survey import Survey, again, survey


def leaks(
    options: LeaksOptions, removal: TeardownOptions, owner: str | None, file: TextIO | None
) -> None:
    """Print the report, as lines or as JSON in `file`; with --end --yes remove what leaked first.
    RailheadError: something leaks, a machine of a lost stack runs, or an area or a stack could not
    be read."""
    if (removal.yes or removal.with_bucket) and not options.end:
        raise UsageError("--yes and --with-bucket need --end", hint=Command("leaks", end=True))
    if options.end and owner is None and login_name() in COMMON_LOGINS:
        raise UsageError(
            f"--end needs --owner here: {login_name()} is the login name of many computers, and "
            "what other people's stacks created there would be removed too",
            hint=Hint(
                Command("leaks", end=True, owner=login_name()),
                f"   # if all with owner {login_name()} is yours; set `owner` in the config",
            ),
        )
    judge = Judge(living.read(), owner_of(owner))
    surveyed = survey(judge.living.places)
    judge = judge.knowing(r for listing in surveyed.listings for r in listing.resources)
    # A stack may have been created since its state was read.
    if any(row.status == LEAKED for row in _rows(judge, surveyed)):
        judge = replace(judge, living=living.read())
    ended: list[str] = []
    if options.end and removal.yes:
        ended, surveyed = _end(judge, surveyed, with_bucket=removal.with_bucket)
    document = LeakReport(
        report.SCHEMA,
        utc_now(),
        judge.owner,
        surveyed.areas,
        tuple(_rows(judge, surveyed)),
        judge.living.unread,
        tuple(ended),
    )
    print_lines(*report.describe(document))
    if file:
        print(json.dumps(encode(document), indent=1), file=file)
    if options.end and not removal.yes:
        print_lines("nothing was removed: --end needs --yes")
    report.check(document, judge.living.lost, judge.living.next)


def _rows(judge: Judge, surveyed: Survey) -> list[Leak]:
    rows = (judge.leaks(listing.area, listing.resources) for listing in surveyed.listings)
    return [leak for leak, _ in chain.from_iterable(rows)]


def _end(judge: Judge, surveyed: Survey, *, with_bucket: bool) -> tuple[list[str], Survey]:
    """Remove what leaked; the ids of what is gone, and what there is then."""
    ended = Ending(judge, print_lines, with_bucket).end(surveyed)
    now = again(surveyed.listings)
    without_areas = tuple(area for area in surveyed.areas if not area.name)
    return ended, Survey(now.listings, (*without_areas, *now.areas))
