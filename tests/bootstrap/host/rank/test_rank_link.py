"""A rank's helper ends the run on a host that is cut off from the chief, and only there."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from e2e.local_hosts import wait_until
from hosts.ranks import command, lay_out, script
from standins import programs

from bootstrap.host.base import sockets
from bootstrap.host.rank import rank, rank_link

LOOKS = int(rank_link.LIMIT / rank.BEAT)
HEAD = "sl local_address rem_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n"
ROW = (
    "   {}: 0C014D0A:E530 0B014D0A:A39B 01 {}:00000000 {}:0000078E {}     0        {} {} 1 0 20 4\n"
)


def table(*rows: tuple[str, str, str, int, int]) -> str:
    """/proc/net/tcp with rows of (sent queue, timer, retrnsmt, timeout, inode)."""
    return HEAD + "".join(ROW.format(number, *row) for number, row in enumerate(rows))


IDLE = ("00000000", "02", "00000000", 0, 11)
TABLES = {
    "nothing is connected": (table(), 0),
    "idle, with keepalive": (table(IDLE), 0),
    "sent just now": (table(("00000990", "01", "00000000", 0, 11)), 0),
    "sent again nine times": (table(("00003604", "01", "00000009", 0, 11)), 9),
    "eleven times: the number is hexadecimal": (table(("00003604", "01", "0000000B", 0, 11)), 11),
    "never left this host": (table(("00003604", "04", "00000000", 7, 11)), 7),
    "of two connections": (table(IDLE, ("00000990", "01", "00000003", 0, 12)), 3),
    "another program's": (table(("00003604", "01", "00000009", 0, 13)), 0),
    "half a row": (HEAD + "   0: 0C014D0A:E530 0B0", 0),
}


@pytest.mark.parametrize("text, tries", TABLES.values(), ids=TABLES)
def test_the_kernels_table_says_how_often_data_was_sent_again(text: str, tries: int) -> None:
    rows = sockets.rows_among(text.splitlines(), {"socket:[11]", "socket:[12]", "/dev/null"})
    assert rank_link.most_tries(rows) == tries


def cut_after(monkeypatch: pytest.MonkeyPatch, tries: list[int]) -> int | None:
    """The number of looks after which a link is taken for cut; None if it never is."""
    link = rank_link.Link(1)
    for number, count in enumerate(tries, 1):
        monkeypatch.setattr(rank_link, "most_tries", lambda rows, count=count: count)
        if link.is_cut(rank.BEAT):
            return number
    return None


COUNTS: dict[str, tuple[list[int], int | None]] = {
    "answered": ([0] * 100, None),
    "cut": ([4, 5, 6, 6] + [7] * 100, LOOKS),
    "cut a while later": ([0, 1, 0, 4] + [7] * 100, LOOKS + 3),
    "an answer each time": ([1, 0] * 100, None),
    "a lossy network: each count is a new one": ([1, 2, 1, 3] * 100, None),
    "back just in time": ([7] * (LOOKS - 1) + [0] * 100, None),
}


@pytest.mark.parametrize("tries, looks", COUNTS.values(), ids=COUNTS)
def test_only_a_link_without_any_answer_is_cut(
    monkeypatch: pytest.MonkeyPatch, tries: list[int], looks: int | None
) -> None:
    assert cut_after(monkeypatch, tries) == looks


def test_a_chief_that_reads_nothing_is_not_cut_off() -> None:
    """Its kernel answers: the receiver's window is closed, and probed again."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()
        with sender, receiver:
            sender.setblocking(False)
            with pytest.raises(BlockingIOError):
                while True:
                    sender.send(b"x" * 65536)
            own = {str(Path(f"/proc/self/fd/{sender.fileno()}").readlink())}

            def answered() -> bool:
                table = Path("/proc/self/net/tcp").read_text().splitlines()
                return rank_link.most_tries(sockets.rows_among(table, own)) == 0

            pause = threading.Event()
            for _ in range(50):
                pause.wait(0.02)
                wait_until(answered, 60, "the kernel of the receiver answers")


# Without the fault of a network: the table is a file whose count rises with each look.
CUT = """
count = 0
def most_tries(rows):
    global count
    count += 1
    return count
"""


def folder_of_two(home: Path, text: str) -> Path:
    """A run of two hosts whose chief never answers; two looks at it, a second, are the limit."""
    folder = home / ".railhead" / "runs" / "r1"
    folder.mkdir(parents=True)
    hosts = [{"name": name, "slots": 1} for name in ("a", "b")]
    lay_out(folder, script(folder, text), hosts=hosts, size=2, run_id="r1")
    programs.change(folder, "rank/rank.py", "BEAT = 5.0", "BEAT = 0.1")
    programs.change(folder, "rank/rank_link.py", "= 120.0", "= 0.2")
    programs.append(folder, "rank/rank_link.py", CUT)
    return folder


def started(folder: Path, number: int) -> subprocess.Popen[bytes]:
    """A rank with the marks of its run, as orted starts it in a home's .railhead/runs/r1."""
    home = str(folder.parents[2])
    world = {"OMPI_COMM_WORLD_RANK": str(number), "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
    marks = {"RAILHEAD_RUN": "r1", "RAILHEAD_HOME": home, "HOME": home}
    return subprocess.Popen(
        command(folder),
        cwd=folder / "work",
        env={"PATH": os.environ["PATH"], **marks, **world},
        stdout=subprocess.PIPE,
    )


FORKS = """
import os, subprocess, time
subprocess.Popen(["sleep", "600"], env={})
print("started", flush=True)
time.sleep(600)
"""


def marked(folder: Path) -> list[int]:
    """The processes that work in the folder of the run."""
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cwd").readlink().is_relative_to(folder):
                pids.append(int(path.name))
        except OSError:
            continue
    return pids


def test_the_helper_of_a_host_that_is_cut_off_ends_all_of_the_run_there(tmp_path: Path) -> None:
    folder = folder_of_two(tmp_path, FORKS)
    (folder / "secrets.json").write_text("{}")
    process = started(folder, 1)
    assert process.wait(60) < 0
    wait_until(lambda: not marked(folder), 60, "nothing of the run is left")
    assert not (folder / "secrets.json").exists()


SEEN = "import json, os, sys\nfile = open('seen', 'w')\n"
SEEN += "json.dump([sys.argv[1:], os.getcwd(), dict(os.environ)], file)"
ENDS = "import sys; sys.path.insert(0, sys.argv[1] + '/railhead.pyz'); "
ENDS += "from host.rank import rank_link; rank_link.end_run_here(sys.argv[1], 'r1')"


def test_what_ends_the_run_is_not_a_process_of_it(tmp_path: Path) -> None:
    """Else the helpers of two ranks would end each other, and nothing else."""
    lay_out(tmp_path, script(tmp_path, ""))
    (programs.own(tmp_path) / "__main__.py").write_text(SEEN)
    marks = {"RAILHEAD_RUN": "r1", "RAILHEAD_HOME": "/h", "PYTHONPATH": str(tmp_path)}
    argv = [sys.executable, "-c", ENDS, str(tmp_path)]
    subprocess.run(argv, cwd=tmp_path / "work", env=marks, check=True)
    words, folder, environment = json.loads((tmp_path / "seen").read_text())
    assert (words, folder) == (["run.end_processes", "r1"], str(tmp_path))
    assert "RAILHEAD_RUN" not in environment and environment["PYTHONPATH"] == str(tmp_path)


def test_ranks_on_the_chief_are_not_ended_by_it(tmp_path: Path) -> None:
    folder = folder_of_two(tmp_path, "import time; time.sleep(3); print('done')")
    out, _ = started(folder, 0).communicate(timeout=60)
    assert b"done" in out
