"""Which replies of a host have an item for each thing that was requested."""

from __future__ import annotations

import pytest

from railhead.documents.agent.data import DataFolder, DataFolders, DataState, PathKinds, PathsState
from railhead.documents.agent.network import Dial, Dialed, FindPort, FoundPort, FreePorts, Ports

FOLDER = DataFolder(complete=False, there=0)


@pytest.mark.parametrize(
    ("ports", "answered"), [((1, 2), True), ((1,), False), ((1, 2, 3), False), ((1, 1), False)]
)
def test_as_many_different_ports_as_were_requested(ports: tuple[int, ...], answered: bool) -> None:
    assert Ports(2).is_answered_by(FreePorts(ports)) is answered


@pytest.mark.parametrize(("port", "answered"), [(1, True), (3, True), (None, True), (4, False)])
def test_a_port_of_the_range_or_none(port: int | None, answered: bool) -> None:
    assert FindPort(1, 3).is_answered_by(FoundPort(port)) is answered


def test_one_outcome_for_each_peer() -> None:
    dial = Dial((("a", 1), ("b", 1)), timeout=1)
    assert dial.is_answered_by(Dialed((None, "refused")))
    assert not dial.is_answered_by(Dialed((None,)))


def test_every_folder_and_every_path() -> None:
    assert DataState(("a", "b")).is_answered_by(DataFolders({"b": FOLDER, "a": FOLDER}, 0))
    assert not DataState(("a", "b")).is_answered_by(DataFolders({"a": FOLDER}, 0))
    assert PathsState(("/a",)).is_answered_by(PathKinds({"/a": "file"}))
    assert not PathsState(("/a",)).is_answered_by(PathKinds({"/b": "file"}))
