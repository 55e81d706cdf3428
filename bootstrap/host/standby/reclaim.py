"""Decides whether a host that lost the lease of a run leads it again.

standby.reclaim FOLDER s3://bucket/runs/ID|gs://bucket/runs/ID

It claims the next term. If no other host has it, none has taken the run over, and none can any
more: the term begins in the run's folder. Exit code OTHER_LEADS if another host has it. The stopper
of the machines starts it with the Python of the uploader's environment.
"""

from __future__ import annotations

import sys

from railhead.documents.lazy import replace

from ..buckets.folder import bucket_folder
from ..buckets.repeats import outlasting
from ..lease.holder import SILENCE
from ..lease.terms import Terms
from ..run import held
from ..run.lease import OTHER_LEADS


def reclaim(folder: str, terms: Terms) -> bool:
    """Begin the next term, unless another host has it."""
    term, sent = held.term_of(folder), held.now()
    assert term
    if not terms.close(term):
        return False
    held.begin(folder, replace(term, number=term.number + 1), sent)
    return True


@outlasting(SILENCE)
def main(folder: str, url: str) -> None:
    """Claim the term."""
    if not reclaim(folder, Terms(bucket_folder(url, silence=SILENCE))):
        sys.exit(OTHER_LEADS)
