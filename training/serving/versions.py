"""The versions of a model: the newest one serves; a new one replaces it after its warm-up."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .batching import Batcher
from .model import Model, ModelError, find
from .row_check import find_mixed
from .settings import ServeSettings

if TYPE_CHECKING:  # needs prometheus_client, which only a server has
    from .metrics import ServingMetrics

EVERY = 0.5  # seconds between two checks for a new version
Load = Callable[[Path], Model]
Report = Callable[[str], None]


class NotFound(LookupError):
    """No such model or version; answered with 404."""


def not_found(name: str, number: int | None) -> NotFound:
    """The error for a model or version that does not serve; without a number: the newest one."""
    spec = f"Latest({name})" if number is None else f"Specific({name}, {number})"
    return NotFound(f"Servable not found for request: {spec}")


@dataclass(eq=False)
class Version:
    """A loaded version with a batcher for each signature; `calls` counts those in progress."""

    number: int
    model: Model
    batchers: dict[str, Batcher]
    calls: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """While a request is answered the version is not closed."""
        self.calls += 1
        try:
            yield
        finally:
            self.calls -= 1
            if not self.calls:
                self.idle.set()


class Versions:
    """Watches the folder of a model. `states` is {version: (state, error)} of the contract."""

    def __init__(
        self, settings: ServeSettings, load: Load, metrics: ServingMetrics, report: Report
    ) -> None:
        self.settings, self.load = settings, load
        self.metrics, self.report = metrics, report
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="model")  # one call at a time
        self.loader = ThreadPoolExecutor(1, thread_name_prefix="loader")
        self.current: Version | None = None
        self.ready = asyncio.Event()
        self.states: dict[int, tuple[str, str]] = {}
        self._failed: dict[int, int] = {}  # version -> time of change of its folder, in ns
        self._closing: set[asyncio.Task[None]] = set()

    async def watch(self) -> None:
        """Load the newest version, then every newer one, for ever.

        Raises:
            ModelError: the first version does not load.
        """
        while True:
            await self.look()
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Load the newest version that loads, if it is not the one that serves.

        Raises:
            ModelError: none loads, and none serves.
        """
        for number, path in versions_in(self.settings.model):
            if self.current and self.current.number == number:
                return
            if await self._try(number, path):
                return
        if self.current is None:
            reasons = [error for _, error in self.states.values() if error]
            raise ModelError(reasons[0] if reasons else f"no model in {self.settings.model}")

    async def _try(self, number: int, path: Path) -> bool:
        """Change to a version; False if it does not load, now or at an earlier check."""
        changed = path.stat().st_mtime_ns
        if self._failed.get(number) == changed:
            return False
        try:
            await self._change_to(number, path)
        except ModelError as error:
            self._failed[number] = changed
            self.states[number] = ("END", str(error))
            self.report(f"version {number} does not serve: {error}")
            return False
        return True

    def get(self, number: int | None) -> Version:
        """The version that serves; NotFound if another one is wanted."""
        version = self.current
        if version is None or number not in (None, version.number):
            raise not_found(self.settings.name, number)
        return version

    async def _change_to(self, number: int, path: Path) -> None:
        began = time.monotonic()
        self.states[number] = ("LOADING", "")
        model = await asyncio.get_running_loop().run_in_executor(self.loader, self._load, path)
        old, self.current = self.current, self._version(number, model)
        self.states[number] = ("AVAILABLE", "")
        self.metrics.version = number
        self.ready.set()
        self.report(f"version {number} serves after {time.monotonic() - began:.1f} s")
        if old:
            self.states[old.number] = ("UNLOADING", "")
            task = asyncio.create_task(self._unload(old))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _load(self, path: Path) -> Model:
        """Load and warm up, in the loader's thread."""
        model = self.load(path)
        if self.settings.max_batch > 1:
            model, mixed = find_mixed(model, self.settings.max_batch)
            for name in mixed:
                self.report(f"signature {name}: each request is a call, as its rows may mix")
        for failure in model.warm_up(self.settings.batch_sizes):
            self.report(f"the warm-up with zeros failed, the first request may be slow: {failure}")
        return model

    def _version(self, number: int, model: Model) -> Version:
        batchers = {
            name: Batcher(model.functions[name], signature, self.settings, self.metrics, self.pool)
            for name, signature in model.signatures.items()
        }
        return Version(number, model, batchers)

    async def _unload(self, old: Version) -> None:
        """Close an old version when its last request is answered."""
        while old.calls:
            old.idle.clear()
            await old.idle.wait()
        for batcher in old.batchers.values():
            batcher.close()
        self.states[old.number] = ("END", "")


def versions_in(folder: Path) -> list[tuple[int, Path]]:
    """The numbers and folders of the versions, the newest first; a model without versions is
    version 1."""
    inside = list(folder.iterdir()) if folder.is_dir() else []
    names = [path.name for path in inside if path.name.isdecimal() and path.is_dir()]
    numbers = [int(name) for name in names if str(int(name)) == name]
    if numbers:
        return [(number, folder / str(number)) for number in sorted(numbers, reverse=True)]
    return [(1, folder)] if find(folder) else []
