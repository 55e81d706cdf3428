"""Health: what drivers, logs and measurements say becomes findings that say what to do.

What drivers print here has the form that public reports of V100, T4 and A100 machines have; none
of it was printed by a machine of ours.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from places import CASES

from bootstrap.console.text import table_lines
from bootstrap.errors import Command
from bootstrap.facts import xid as xid_facts
from bootstrap.facts.host import HostFacts, parse
from bootstrap.facts.xid import Memory, Xid
from bootstrap.health import checks
from bootstrap.health.checks import (
    ClockOffset,
    Finding,
    HostReadings,
    Reduction,
    TensorFlowReadings,
)
from bootstrap.health.report import HealthReport, finding_lines, matrix, reduction_lines
from bootstrap.plan.hostfile import Link, Peer
from railhead.documents.health import Device

HEALTHY = ClockOffset(0.0002, 0.0004)


@pytest.fixture(scope="session")
def four() -> HostFacts:
    """The facts of a host with four V100, all shown by its driver."""
    facts = parse("\n".join(json.loads((CASES / "facts/gpu.json").read_text())["output"]))
    assert len(facts.gpus) == len(facts.gpu.cards) == 4
    return facts


# --- The driver and the kernel's log -------------------------------------------------------

DRIVERS = {
    "V100, well": (
        "@pages\n00000000:00:1B.0, 0, No\n00000000:00:1C.0, 0, No\n"
        "@rows\n00000000:00:1B.0, [N/A], [N/A]\n00000000:00:1C.0, [N/A], [N/A]\n@log\n",
        [],
    ),
    "T4, two bad bits and a page that waits": (
        "@pages\n00000000:00:1E.0, 2, Yes\n@rows\n00000000:00:1E.0, [N/A], [N/A]\n@log\n",
        [
            ("GPU 0000:00:1e.0: 2 memory errors that ECC cannot correct", "nvidia-smi --gpu-reset"),
            ("GPU 0000:00:1e.0: bad memory will be disabled", "-i 0000:00:1e.0"),
        ],
    ),
    "A100, a row that waits": (
        "@pages\n00000000:07:00.0, 0, [N/A]\n@rows\n00000000:07:00.0, Yes, No\n@log\n",
        [("bad memory will be disabled at the next reset", "restart the machine")],
    ),
    "A100, a row that cannot be remapped": (
        "@pages\n00000000:07:00.0, 1, [N/A]\n@rows\n00000000:07:00.0, No, Yes\n@log\n",
        [
            ("1 memory error that ECC", "use another machine"),
            ("bad memory could not be disabled", "use another machine"),
        ],
    ),
    "a driver too old for rows": (
        "@pages\n00000000:00:1E.0, 0, No\n@rows\nInvalid combination of input arguments.\n@log\n",
        [],
    ),
    "ECC off": (
        "@pages\n00000000:01:00.0, [N/A], [N/A]\n@rows\n00000000:01:00.0, N/A, N/A\n@log\n",
        [],
    ),
    "a card that wants a reset": (
        "@pages\n00000000:00:1E.0, [GPU requires reset], [GPU requires reset]\n@rows\n@log\n",
        [("the driver reports that it requires a reset", "nvidia-smi --gpu-reset -i 0000:00:1e.0")],
    ),
    "no driver": (
        "@pages\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        "Make sure that the latest NVIDIA driver is installed and running.\n\n"
        "@rows\nsh: 1: nvidia-smi: not found\n@log\n",
        [],
    ),
    "off the bus": (
        "@pages\nUnable to determine the device handle for GPU 0000:00:1E.0: GPU is lost.  "
        "Reboot the system to recover this GPU\n@rows\n"
        "@log\n[ 1843.308] NVRM: Xid (PCI:0000:00:1e): 79, pid='<unknown>', name=<unknown>, "
        "GPU has fallen off the bus.\n",
        [("GPU 0000:00:1e: Xid 79: the GPU has fallen off the bus", "stop the machine and start")],
    ),
    "a log that is closed to us": (
        "@pages\n00000000:00:1E.0, 0, No\n@rows\n@log\n@closed\n\n",
        [("the kernel's log cannot be read", "adduser")],
    ),
}


@pytest.mark.parametrize(("output", "reported"), DRIVERS.values(), ids=DRIVERS)
def test_what_a_driver_reports_becomes_findings(
    output: str, reported: list[tuple[str, str]]
) -> None:
    findings = list(checks.error_findings("h1", xid_facts.parse(output)))
    assert len(findings) == len(reported)
    for finding, (problem, action) in zip(findings, reported, strict=True):
        assert finding.host == "h1"
        assert problem in finding.problem and action in str(finding.action)


LOGS = {
    "old": ("NVRM: Xid (0000:01:00): 31, Ch 0000000b, engmask 00000120", ("0000:01:00", 31, 1)),
    "new": (
        "[Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:0000:9B:00): 119, pid=20, name=nvidia-smi, "
        "Timeout after 6s of waiting for RPC response from GPU4 GSP!",
        ("0000:9b:00", 119, 1),
    ),
    "journal": (
        "Oct 01 13:00:00 box kernel: NVRM: Xid (PCI:0000:06:00): 63, pid=1896, Row Remapper: "
        "New row marked for remapping, reset gpu to activate.",
        ("0000:06:00", 63, 1),
    ),
    "thrice": ("NVRM: Xid (PCI:0000:65:00): 48, x\n" * 3, ("0000:65:00", 48, 3)),
}


@pytest.mark.parametrize(("log", "xid"), LOGS.values(), ids=LOGS)
def test_an_xid_is_read_from_each_form_of_the_log(log: str, xid: tuple[str, int, int]) -> None:
    assert xid_facts.read_log(f"NVRM: GPU at PCI:0000:9b:00\n{log}\n") == (Xid(*xid),)


def finding_of(number: int) -> checks.Finding:
    (finding,) = checks.error_findings(
        "h1", xid_facts.parse(f"@log\nNVRM: Xid (PCI:0000:65:00): {number}, x")
    )
    return finding


@pytest.mark.parametrize("number", [48, 64, 74, 79, 94, 95, 119, 120])
def test_an_xid_of_broken_hardware_counts(number: int) -> None:
    finding = finding_of(number)
    assert finding.counts and "machine" in str(finding.action) and "{" not in str(finding.action)


@pytest.mark.parametrize("number", [13, 31, 43, 45, 63])
def test_an_xid_that_is_a_programs_or_mended_is_a_note(number: int) -> None:
    assert not finding_of(number).counts


def test_an_xid_that_we_do_not_know_counts_and_reports_where_to_look() -> None:
    finding = finding_of(999)
    assert finding.counts and "docs.nvidia.com" in str(finding.action)


def test_a_cards_address_is_written_as_the_kernel_does() -> None:
    assert xid_facts.short("00000000:00:1E.0") == "0000:00:1e.0"
    assert xid_facts.short("0000:00:1E.0") == "0000:00:1e.0"
    (memory,) = xid_facts.parse("@pages\n00000001:00:00.0, 0, No\n").memory
    assert memory == Memory("0001:00:00.0", 0, pending=False, failed=None, reset=False)


BUS = "00000000:00:1E.0"


@pytest.mark.parametrize(
    ("pages", "rows", "pending"),
    [
        ("Yes", "No", True),  # V100, T4: pages
        ("No", "Yes", True),
        ("N/A", "1", True),  # A100 and later: rows
        ("N/A", "0", False),
        ("No", "N/A", False),
        ("[N/A]", "[N/A]", None),
    ],
)
def test_memory_that_waits_for_a_restart_is_seen_in_pages_and_in_rows(
    pages: str, rows: str, pending: bool | None
) -> None:
    output = f"@pages\n{BUS}, 0, {pages}\n@rows\n{BUS}, {rows}, No\n"
    errors = xid_facts.parse(output)
    assert [memory.pending for memory in errors.memory] == [pending]
    counted = [each for each in checks.error_findings("h1", errors) if each.counts]
    assert len(counted) == (1 if pending else 0)


def test_rows_belong_to_the_card_with_their_address() -> None:
    other = "00000000:00:1F.0"
    output = f"@pages\n{BUS}, 0, N/A\n{other}, 0, N/A\n@rows\n{other}, Yes, Yes\n{BUS}, No, No\n"
    first, second = xid_facts.parse(output).memory
    assert (first.pending, first.failed) == (False, False)
    assert (second.pending, second.failed) == (True, True)


def test_the_page_has_every_xid_of_the_table_and_reports_which_are_notes() -> None:
    page = (CASES.parents[1] / "docs" / "tasks-hosts.md").read_text()
    values: dict[int, bool] = {}
    for numbers, action in re.findall(r"^\| ([\d, ]+) \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE):
        values |= {int(number): action.startswith("note") for number in numbers.split(",")}
    assert values == {number: meaning.harmless for number, meaning in xid_facts.XIDS.items()}


# --- Counts --------------------------------------------------------------------------------


def broken(four: HostFacts, **changes: Any) -> HostFacts:
    """The four V100 with a driver that shows none."""
    expected = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    return replace(four, gpus=(), gpu=replace(four.gpu, smi=expected, **changes))


def test_as_many_gpus_on_the_bus_as_by_the_driver_is_well(four: HostFacts) -> None:
    assert not list(checks.gpu_findings("h1", four))


def test_a_gpu_that_the_driver_lost_is_found(four: HostFacts) -> None:
    (findings,) = checks.gpu_findings("h1", replace(four, gpus=four.gpus[:3]))
    assert findings.problem == "4 GPUs on the PCI bus, 3 by nvidia-smi"
    assert "restart the machine" in str(findings.action)


def test_a_driver_that_fails_is_reported_in_its_own_text(four: HostFacts) -> None:
    (findings,) = checks.gpu_findings("h1", broken(four))
    assert findings.problem.startswith(
        "4 GPUs on the PCI bus, none by nvidia-smi: NVIDIA-SMI has failed"
    )
    assert "restart the machine" in str(findings.action)


def test_no_driver_at_all_is_a_case_for_bootstrap(four: HostFacts) -> None:
    (findings,) = checks.gpu_findings("h1", broken(four, driver=None))
    assert str(findings.action).startswith("fab bootstrap ")


def test_a_host_without_gpus_and_one_whose_bus_is_hidden_have_none_to_miss(
    debian: HostFacts, four: HostFacts
) -> None:
    hidden = replace(four, gpu=replace(four.gpu, cards=()))
    assert not [*checks.gpu_findings("h1", debian), *checks.gpu_findings("h1", hidden)]


@pytest.mark.parametrize(
    ("bench", "problem"),
    [
        (TensorFlowReadings(4), None),
        (
            TensorFlowReadings(0, output="Cannot dlopen some GPU libraries."),
            "no GPU: it would train on the CPU",
        ),
        (TensorFlowReadings(3), "4 GPUs by nvidia-smi, TensorFlow sees only 3"),
        (
            TensorFlowReadings(None, output="ImportError: libnccl.so.2"),
            "does not run: ImportError: libnccl",
        ),
    ],
)
def test_tensorflow_must_see_every_gpu(
    four: HostFacts, bench: TensorFlowReadings, problem: str | None
) -> None:
    findings = list(checks.fallback_findings("h1", four, bench))
    assert len(findings) == (problem is not None)
    for finding in findings:
        assert problem and problem in finding.problem and str(finding.action).startswith("fab ")
        assert bench.output in finding.problem


def test_a_cpu_host_needs_no_gpu(debian: HostFacts) -> None:
    assert not list(checks.fallback_findings("h1", debian, TensorFlowReadings(0)))


# --- Clocks and room -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clocks", "where"),
    [
        ({"h1": HEALTHY}, []),
        ({"h1": ClockOffset(0.9, 0.01), "h2": ClockOffset(-0.9, 0.01)}, []),
        ({"h1": ClockOffset(1.2, 0.3), "h2": HEALTHY}, []),  # it may be within a second
        ({"h1": ClockOffset(1.4, 0.3), "h2": HEALTHY}, ["h1"]),
        ({"h1": ClockOffset(-90, 0.1), "h2": HEALTHY, "h3": ClockOffset(5, 0.1)}, ["h1", "h3"]),
        ({"h1": ClockOffset(-90, 0.1)}, ["h1"]),
        ({"h1": ClockOffset(-90, 0.1), "h2": ClockOffset(-90.4, 0.1)}, ["here"]),
        ({"h1": ClockOffset(-90, 0.1), "h2": ClockOffset(90, 0.1)}, ["h1", "h2"]),
    ],
)
def test_a_clock_that_is_off_is_named_also_when_it_is_ours(
    clocks: dict[str, ClockOffset], where: list[str]
) -> None:
    findings = list(checks.clock_findings(clocks))
    assert [finding.host for finding in findings] == where
    assert all("timedatectl" in str(finding.action) for finding in findings)


def test_a_clock_is_reported_as_ahead_or_behind() -> None:
    assert checks.shown_skew(0.0004) == "0.4 ms ahead"
    assert checks.shown_skew(-90.04) == "90.0 s behind"
    (findings,) = checks.clock_findings({"h1": ClockOffset(-90, 0.1), "h2": ClockOffset(-90, 0.1)})
    assert "90.0 s ahead, compared with every host's" in findings.problem


@pytest.mark.parametrize(
    ("disk", "memory", "ranks", "text"),
    [
        (2_000_000_000, 4_000_000_000, 4, []),
        (1_999_999_999, 4_000_000_000, 4, ["2.0 GB free on the disk"]),
        (
            9_000_000_000,
            3_999_999_999,
            4,
            ["of memory free, at least 4.0 GB are needed for 4 ranks"],
        ),
        (0, 0, 1, ["0 B free on the disk", "0 B of memory free"]),
    ],
)
def test_room_for_a_run_is_a_matter_of_ranks(
    disk: int, memory: int, ranks: int, text: list[str]
) -> None:
    findings = list(checks.capacity_findings("h1", disk, memory, ranks))
    assert len(findings) == len(text)
    assert all(word in f.problem for word, f in zip(text, findings, strict=True))


# --- Speed ---------------------------------------------------------------------------------


def bench(*seconds: float, right: bool = True) -> TensorFlowReadings:
    """A host whose devices take so long."""
    devices = tuple(Device(f"GPU:{i}", 1000, s, right) for i, s in enumerate(seconds))
    return TensorFlowReadings(len(devices), devices)


def test_a_devices_speed_is_two_operations_for_each_of_width_cubed() -> None:
    assert Device("CPU", 1000, 0.5, right=True).speed == 4e9


@pytest.mark.parametrize(
    ("hosts", "slow"),
    [
        ([bench(1), bench(1.9)], []),
        ([bench(1), bench(2.1)], ["h1"]),
        ([bench(1), bench(1.1), bench(2.5), bench(0.9)], ["h2"]),
        ([bench(1, 1, 1, 3), bench(1, 1, 1, 1)], ["h0"]),
        ([bench(7)], []),
        ([TensorFlowReadings(None), bench(1)], []),
        ([], []),
    ],
)
def test_the_host_that_others_wait_for_is_found(
    hosts: list[TensorFlowReadings], slow: list[str]
) -> None:
    tensorflow_readings = {f"h{i}": b for i, b in enumerate(hosts)}
    findings = list(
        checks.speed_findings(tensorflow_readings, {name: name for name in tensorflow_readings})
    )
    assert [finding.host for finding in findings] == slow
    assert not list(
        checks.speed_findings(
            tensorflow_readings, dict.fromkeys(tensorflow_readings, "one machine")
        )
    )


def test_a_device_that_multiplies_wrong_is_found() -> None:
    (findings,) = checks.speed_findings({"h1": bench(1, right=False)}, {"h1": "m"})
    assert findings.problem == "GPU:0: a product of matrices was wrong"


def test_bandwidth_is_bytes_over_time_and_on_the_wire_what_a_ring_sends() -> None:
    findings = Reduction(ranks=4, size=64_000_000, seconds=0.5, pairs={})
    assert (findings.algorithm, findings.bus) == (128e6, 192e6)
    (line,) = reduction_lines(findings, ["h1", "h2"])
    assert line.startswith("all-reduce of 64 MB over 4 ranks: 500.0 ms, 128 MB/s (bytes / time)")
    assert "192 MB/s on the wire (times 2(n-1)/n)" in line


@pytest.mark.parametrize(("hosts", "pairs"), [(1, 0), (2, 0), (3, 3), (8, 28), (9, 9), (16, 16)])
def test_all_pairs_are_measured_or_each_host_with_the_next(hosts: int, pairs: int) -> None:
    names = [f"h{i}" for i in range(hosts)]
    chosen = checks.pairs_of(names)
    assert len(chosen) == len({frozenset(pair) for pair in chosen}) == pairs
    assert not pairs or {name for pair in chosen for name in pair} == set(names)


RATES = {("h1", "h2"): 900e6, ("h1", "h3"): 12e6, ("h2", "h3"): 880e6}


def test_a_slow_pair_is_found_and_the_matrix_names_the_slowest() -> None:
    (findings,) = checks.pair_findings(RATES)
    assert findings.host == "h1 and h3"
    assert findings.problem == "12 MB/s between them, good pairs reach 900 MB/s"
    assert matrix(RATES, ["h1", "h2", "h3"]) == [
        "pairs  h1        h2        h3",
        "h1     .         900 MB/s  12 MB/s",
        "h2     900 MB/s  .         880 MB/s",
        "h3     12 MB/s   880 MB/s  .",
        "the slowest pair is h1 and h3: 12 MB/s, the median pair reaches 880 MB/s",
    ]


def test_a_host_on_a_bad_link_is_in_all_the_slow_pairs() -> None:
    pairs = checks.pairs_of(["h1", "h2", "h3"])
    rates = {pair: 12e6 if "h3" in pair else 900e6 for pair in pairs}
    assert [f.host for f in checks.pair_findings(rates)] == ["h1 and h3", "h2 and h3"]


@pytest.mark.parametrize(("rate", "is_found"), [(0.45, True), (0.55, False)])
def test_a_pair_at_less_than_half_the_bandwidth_of_the_others_is_found(
    rate: float, is_found: bool
) -> None:
    rates = {pair: 900e6 for pair in RATES} | {("h1", "h3"): rate * 900e6}
    assert bool([*checks.pair_findings(rates)]) is is_found


def test_pairs_that_are_alike_are_not_a_finding() -> None:
    assert not list(checks.pair_findings({p: 500e6 + i for i, p in enumerate(RATES)}))
    assert not list(checks.pair_findings({}))


# --- For people ----------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_host(debian: HostFacts, four: HostFacts) -> None:
    peers = [Peer(n, f"10.0.1.{i}", 22, "ann", 1, "k") for i, n in ((5, "gpu"), (6, "cpu"))]
    chart = HealthReport(
        facts={"gpu": replace(four, gpus=four.gpus[:3], disk_free=90_000_000_000), "cpu": debian},
        readings={
            "gpu": HostReadings(ClockOffset(-12, 0.001), 8_000_000_000),
            "cpu": HostReadings(HEALTHY, 900_000_000),
        },
        peers=peers,
        links=[Link("ens5", "10.0.1.0/24"), Link(None, "10.0.1.6/32")],
        tensorflow_readings={
            "gpu": TensorFlowReadings(0, (Device("CPU", 1000, 0.5, right=True),)),
            "cpu": TensorFlowReadings(None),
        },
    )
    head, gpu, cpu = chart.lines()
    assert head.split("  ")[0] == "host"
    assert "4 by PCI, 3 by nvidia-smi, 0 by TensorFlow" in gpu
    assert "12.0 s behind, +-1.0 ms" in gpu and "4 GFLOP/s in 500.0 ms" in gpu
    assert gpu.endswith("ens5 10.0.1.5") and cpu.endswith("behind a NAT 10.0.1.6")
    assert "none" in cpu and "  -  " in cpu


def test_the_slowest_host_is_named_against_the_median(debian: HostFacts) -> None:
    names = ["h1", "h2", "h3"]
    chart = HealthReport(
        facts=dict.fromkeys(names, debian),
        readings=dict.fromkeys(names, HostReadings(HEALTHY, 1)),
        tensorflow_readings={"h1": bench(1), "h2": bench(1.5), "h3": bench(1.2)},
    )
    assert chart.lines()[-1] == "the slowest host is h2: its matmul takes 1.2 times the median's"


def test_text_of_a_host_reaches_no_terminal_as_it_is() -> None:
    findings = Finding("h1", "mpirun failed\n\x1b[2Jand more", Command("bootstrap"), counts=False)
    assert finding_lines([findings], {"stack": "gpu"}) == [
        "[h1] note: mpirun failed",
        "  | and more",
        "  do: fab bootstrap --stack gpu",
    ]
    assert table_lines([("a", "b"), ("\x1b[31mred", "c")]) == ["a    b", "red  c"]
