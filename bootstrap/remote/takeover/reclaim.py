"""Decides whether a host that lost the lease of a run leads it again.

takeover.reclaim FOLDER s3://bucket/runs/ID|gs://bucket/runs/ID

It claims the next term. If no other host has it, none has taken the run over, and none can any
more: the term begins in the run's folder. Exit code OTHER_LEADS if another host has
it. The stopper of the machines starts it with the Python of the uploader's environment. Python
3.10.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from ..run import upload
from . import held
from .holder import SILENCE, claim_of
from .lease import OTHER_LEADS
from .terms import Terms


def reclaim(folder: str, terms: Terms) -> bool:
    """Begin the next term, unless another host has it. That the results are complete does not
    matter: they are those of this host."""
    term = held.term_of(folder)
    assert term
    following = replace(term, number=term.number + 1)
    sent, claim = held.now(), claim_of(following)
    if not terms.claim(following.number, claim) and terms.chief(following.number) != claim:
        return False
    held.begin(folder, following, sent)
    return True


def main(folder: str, url: str) -> None:
    """Claim the term."""
    if not reclaim(folder, Terms(upload.destination(url, silence=SILENCE))):
        sys.exit(OTHER_LEADS)
