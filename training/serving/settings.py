"""What is served, where, and within which limits. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from railhead.documents.rule import Rule, Unfit

RULES = {
    "name": Rule(
        pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}",
        words="1 to 63 letters, digits, '_', '.' and '-', beginning with a letter or digit",
    ),
    "port": Rule(int, at_least=1, at_most=65535),
    "max_batch": Rule(int, at_least=1, at_most=4096),
    "max_delay_ms": Rule(float, at_least=0, at_most=1000),
    "max_body_mb": Rule(int, at_least=1, at_most=1024),
    "max_requests": Rule(int, at_least=1, at_most=65536),
    "timeout_s": Rule(float, at_least=0.1, at_most=3600),
}


class SettingsError(ValueError):
    """A setting breaks its rule; the message gives the rule and the value."""


@dataclass(frozen=True)
class ServeSettings:
    """`model` is a folder of versions (1/, 2/), a SavedModel or a .keras file."""

    model: Path
    name: str
    port: int = 8501
    host: str = "127.0.0.1"
    max_batch: int = 32  # samples in one call of the model; 1 = no batching
    max_delay_ms: float = 2.0  # that a sample waits for others
    max_body_mb: int = 32
    max_requests: int = 256  # whose body has arrived, at the same time; more are refused with 503
    timeout_s: float = 60.0  # for the body of a request to arrive, and then for its result

    def __post_init__(self) -> None:
        for name, rule in RULES.items():
            try:
                rule.reader()(getattr(self, name))
            except Unfit as wrong:
                raise SettingsError(wrong.of(name)) from None
        if not self.model.exists():
            raise SettingsError(f"model: there is no {self.model}")

    @property
    def max_body(self) -> int:
        """Bytes that the body of a request may have."""
        return self.max_body_mb * 1_000_000

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The sizes that batches are padded to: powers of two, and `max_batch`."""
        powers = [1 << bit for bit in range(self.max_batch.bit_length())]
        return (*(size for size in powers if size < self.max_batch), self.max_batch)

    def padded(self, rows: int) -> int:
        """The size that a batch is padded to; above `max_batch`, for large requests, the next power
        of two."""
        fitting = (size for size in self.batch_sizes if size >= rows)
        return next(fitting, 1 << (rows - 1).bit_length())
