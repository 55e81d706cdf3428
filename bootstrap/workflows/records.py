"""The records of a run as they are written, for `run.records()` of the Python interface."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue
from threading import Thread

from railhead.documents.agent.runs import Follow, MetricLine, RunEvent

from ..inventory.hosts import Inventory
from ..untrusted.decode import JsonObject, json_line
from .attach import connected, find_on


def live(inventory: Inventory, run_id: str) -> Iterator[JsonObject]:
    """Each record of a run, from its first one, until the run ends. Ending the iteration ends the
    connection; the run continues.

    Raises:
        ConnectionLost: the connection broke.
    """
    run = find_on(inventory, run_id)
    events: SimpleQueue[RunEvent | BaseException | None] = SimpleQueue()
    with connected(inventory, run) as connection:
        chief = connection.chief

        def read() -> None:
            try:
                chief.call(Follow(run.folder), on_event=events.put)
            except BaseException as error:
                events.put(error)
            else:
                events.put(None)

        Thread(target=read, daemon=True).start()
        while (event := events.get()) is not None:
            if isinstance(event, BaseException):
                raise event
            if isinstance(event, MetricLine) and (one := json_line(event.metrics)):
                yield one
