"""Hosts with cards, made from the facts of one without."""

from __future__ import annotations

from dataclasses import replace

from bootstrap.facts.gpu import CARDS, Card
from bootstrap.facts.host import HostFacts

CARD_OF = {
    "pascal": "10de:1bb3",
    "volta": "10de:1db1",
    "turing": "10de:1eb8",
    "ampere": "10de:2237",
    "ada": "10de:27b8",
    "hopper": "10de:2330",
}


def card(device: str, arch: str | None) -> Card:
    """A card by its device, "10de:1eb8"."""
    return Card("0000:00:1e.0", device, CARDS.get(int(device[5:], 16)), arch)


def with_cards(host: HostFacts, arch: str, count: int = 1) -> HostFacts:
    """The host with cards of a generation in it, and no driver."""
    cards = (card(CARD_OF[arch], arch),) * count
    return replace(host, gpu=replace(host.gpu, cards=cards), gpus=())
