"""Counters and histograms as Prometheus text. Standard library only."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ROWS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)


class Histogram:
    """Counts values by upper bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str) -> Iterator[str]:
        """In Prometheus' text format."""
        yield f"# TYPE {name} histogram"
        count = 0
        for bound, here in zip((*self.bounds, None), self.counts, strict=True):
            count += here
            le = "+Inf" if bound is None else f"{bound:g}"
            yield f'{name}_bucket{{le="{le}"}} {count}'
        yield f"{name}_sum {self.total:.6f}"
        yield f"{name}_count {count}"


class ServingMetrics:
    """What `GET /metrics` shows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests: Counter[tuple[str, int]] = Counter()
        self.latency = Histogram(SECONDS)
        self.batch_rows = Histogram(ROWS)
        self.in_flight = 0
        self.version = 0

    def count_request(self, method: str, code: int, seconds: float) -> None:
        """Count a request; predictions also by their time, which fast refusals would hide."""
        with self._lock:
            self.requests[method, code] += 1
            if method == "predict" and code == 200:
                self.latency.add(seconds)

    def count_batch(self, rows: int) -> None:
        """Count a call of the model with `rows` samples, without the padding."""
        with self._lock:
            self.batch_rows.add(rows)

    def text(self) -> str:
        """In Prometheus' text format."""
        with self._lock:
            return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield "# TYPE railhead_requests_total counter"
        for (method, code), count in sorted(self.requests.items()):
            yield f'railhead_requests_total{{method="{method}",code="{code}"}} {count}'
        yield from self.latency.lines("railhead_predict_seconds")
        yield from self.batch_rows.lines("railhead_batch_rows")
        yield "# TYPE railhead_requests_in_flight gauge"
        yield f"railhead_requests_in_flight {self.in_flight}"
        yield "# TYPE railhead_model_version gauge"
        yield f"railhead_model_version {self.version}"
