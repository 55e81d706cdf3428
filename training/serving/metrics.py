"""What `GET /metrics` shows, for Prometheus."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ROWS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)


class ServingMetrics:
    """The metrics of one server. `in_flight` and `version` are for the server to set."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.in_flight = self.version = 0
        self.registry = registry = CollectorRegistry()
        labels = ("method", "code")
        self._requests = Counter("railhead_requests", "Requests", labels, registry=registry)
        self._latency = Histogram(
            "railhead_predict_seconds", "Seconds of an answered prediction",
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self._batch_rows = Histogram(
            "railhead_batch_rows", "Samples in a call of the model, without the padding",
            buckets=ROWS, registry=registry,
        )  # fmt: skip
        in_flight = Gauge("railhead_requests_in_flight", "Predictions now", registry=registry)
        in_flight.set_function(lambda: self.in_flight)
        version = Gauge("railhead_model_version", "The version that serves", registry=registry)
        version.set_function(lambda: self.version)

    @property
    def requests(self) -> int:
        """The number of all requests."""
        return sum(int(s.value) for m in self._requests.collect() for s in m.samples)

    def count_request(self, method: str, code: int, seconds: float) -> None:
        """Count a request; predictions also by their time, which fast refusals would hide."""
        self._requests.labels(method, code).inc()
        if method == "predict" and code == 200:
            self._latency.observe(seconds)

    def count_batch(self, rows: int) -> None:
        """Count a call of the model with `rows` samples, without the padding."""
        self._batch_rows.observe(rows)

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self.registry)
