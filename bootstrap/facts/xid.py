"""GPU errors that the driver reports: counters of nvidia-smi, and Xids in the kernel log. Pure.

The meaning of each Xid and its remedy are from NVIDIA's catalog:
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
"""

from __future__ import annotations

import re
from collections import Counter

from railhead.documents.lazy import dataclass

RESET = "restart the machine, or as root: nvidia-smi --gpu-reset -i {bus}"
REPLACE = f"{RESET}; if it happens again, the card is broken: use another machine"
PROGRAM = "usually an error in the program: run it under compute-sanitizer; the GPU is fine"
CATALOG = "look it up: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"


@dataclass(frozen=True)
class Meaning:
    """What an Xid means and what to do; `harmless` ones do not disturb a run."""

    problem: str
    todo: str
    harmless: bool = False


XIDS = {
    13: Meaning("exception in the graphics engine", PROGRAM, harmless=True),
    31: Meaning("page fault in the GPU's memory", PROGRAM, harmless=True),
    43: Meaning("a program was stopped for its own error", PROGRAM, harmless=True),
    45: Meaning(
        "clean-up after a program was killed or another error",
        "look at the Xids before it; alone it means nothing",
        harmless=True,
    ),
    48: Meaning("memory error that ECC cannot correct", REPLACE),
    63: Meaning(
        "bad memory was retired or remapped",
        "nothing now; the next restart of the machine puts it into effect",
        harmless=True,
    ),
    64: Meaning("bad memory could not be retired or remapped", REPLACE),
    74: Meaning("NVLink error", f"nvidia-smi nvlink -e   # which link; then {REPLACE}"),
    79: Meaning(
        "the GPU has fallen off the bus",
        "stop the machine and start it again (a reset does not reach the card); "
        "if it happens again, use another machine",
    ),
    94: Meaning("memory error, contained to one program", f"soon: {RESET}"),
    95: Meaning("memory error, not contained: it hit several programs", REPLACE),
    119: Meaning("the GPU's own processor (GSP) does not answer", REPLACE),
    120: Meaning("error in the GPU's own processor (GSP)", REPLACE),
}


@dataclass(frozen=True)
class Xid:
    """An Xid in the kernel log since the boot: its number, its card and its count."""

    bus: str
    number: int
    times: int

    @property
    def meaning(self) -> Meaning:
        """The meaning from our table; for an unknown Xid, a link to the catalog."""
        return XIDS.get(self.number, Meaning("not in our table", CATALOG))


@dataclass(frozen=True)
class Memory:
    """A card's memory: errors that ECC could not correct since the driver was loaded, whether pages
    or rows wait for a restart to be retired, and whether that failed.

    A field is None if this type of card does not report it.
    """

    bus: str
    uncorrected: int | None
    pending: bool | None
    failed: bool | None
    reset: bool


def script() -> str:
    """POSIX sh that queries the driver and reads the kernel log; writes nothing.

    Pages and rows are separate queries: one unknown field makes the driver refuse a whole query.
    """
    pages = "pci.bus_id,ecc.errors.uncorrected.volatile.total,retired_pages.pending"
    rows = "gpu_bus_id,remapped_rows.pending,remapped_rows.failure"
    return f"""echo @pages; nvidia-smi --query-gpu={pages} --format=csv,noheader 2>&1
echo @rows; nvidia-smi --query-remapped-rows={rows} --format=csv,noheader 2>&1
echo @log; l=$(dmesg 2>/dev/null) || l=$(sudo -n dmesg 2>/dev/null) ||
  l=$(journalctl -k -b -q --no-pager 2>/dev/null) || echo @closed
printf '%s\\n' "$l" | grep -a 'NVRM: Xid'"""


@dataclass(frozen=True)
class Errors:
    """The result of `script`; `xids` is None if the kernel log is not readable."""

    memory: tuple[Memory, ...]
    xids: tuple[Xid, ...] | None


def parse(output: str) -> Errors:
    """Parse what `script` printed into the errors of the cards."""
    parts = re.split(r"^@(pages|rows|log)\n", output, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    log = sections.get("log", "@closed")
    xids = None if "@closed" in log else read_log(log)
    return Errors(_memory(sections.get("pages", ""), sections.get("rows", "")), xids)


def read_log(log: str) -> tuple[Xid, ...]:
    """The Xids in a kernel log, one entry per card and number."""
    entries = re.findall(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)", log)
    times = Counter((bus.lower(), int(number)) for bus, number in entries)
    return tuple(Xid(bus, number, count) for (bus, number), count in times.items())


def _memory(pages: str, rows: str) -> tuple[Memory, ...]:
    remapped = {row[0]: row for row in _table(rows, 3)}
    cards = []
    for bus, uncorrected, pending in _table(pages, 3):
        _, rows_pending, failure = remapped.get(bus, (bus, "N/A", "N/A"))
        pendings = [x for x in (_yes(pending), _yes(rows_pending)) if x is not None]
        cards.append(
            Memory(
                bus=short(bus),
                uncorrected=int(uncorrected) if uncorrected.isdigit() else None,
                pending=any(pendings) if pendings else None,
                failed=_yes(failure),
                reset="requires reset" in f"{uncorrected} {pending} {rows_pending}".lower(),
            )
        )
    return tuple(cards)


def _table(text: str, width: int) -> list[list[str]]:
    """The rows of a CSV text that begin with the address of a card; skips all other lines."""
    rows = [[field.strip() for field in line.split(",")] for line in text.splitlines()]
    bus = re.compile(r"[0-9a-fA-F]{8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d")
    return [row for row in rows if len(row) == width and bus.fullmatch(row[0])]


def _yes(field: str) -> bool | None:
    return {"yes": True, "no": False, "1": True, "0": False}.get(field.lower())


def short(bus: str) -> str:
    """A card's address in the kernel's form: 00000000:00:1E.0 becomes 0000:00:1e.0."""
    return bus.lower()[4:] if len(bus) == 16 else bus.lower()
