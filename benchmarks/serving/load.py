"""Clients that send one request after another, side by side, over kept connections."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Outcome:
    """What the clients saw: seconds of each answered request, and what was not answered by 200."""

    seconds: float
    latencies: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def throughput(self) -> float:
        """Requests per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """A percentile of the latency in seconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def load(port: int, path: str, body: bytes, *, clients: int, seconds: float) -> Outcome:
    """Send requests from `clients` threads for `seconds`; returns what they saw together."""
    outcome, lock = Outcome(seconds), threading.Lock()
    end = time.monotonic() + seconds

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while (began := time.monotonic()) < end:
            try:
                connection.request("POST", path, body)
                answer = connection.getresponse()
                answer.read()
                problem = "" if answer.status == 200 else f"status {answer.status}"
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                problem = repr(error)
            with lock:
                if problem:
                    outcome.refused.append(problem)
                else:
                    outcome.latencies.append(time.monotonic() - began)
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome


def body_of(row: Sequence[float]) -> bytes:
    """A predict request with one instance."""
    return json.dumps({"instances": [list(row)]}).encode()


def wait_for(port: int, path: str, body: bytes, seconds: float = 120) -> None:
    """Wait until a server answers; RuntimeError if it does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if load(port, path, body, clients=1, seconds=0.05).latencies:
            return
        time.sleep(0.2)
    raise RuntimeError(f"nothing answers on port {port}")
