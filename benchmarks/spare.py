"""How long a killed rank of PyTorch or JAX takes to its next operation, with the spare of its host
and without. Runs on a host, also one without an SSH server:

    PYTHON -m benchmarks.spare [--kills 3] [torch|jax ...]

PYTHON is a runtime's, which has the framework; on a GPU where there is one. The operation is a
product of two matrices. In turns: with the spare, without. Exit code 1: the spare saves nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from hosts.ranks import command, lay_out, script, text_of  # noqa: E402

from bootstrap.host.run import end_processes  # noqa: E402

SECONDS = 120.0  # of a start
MULTIPLY = {
    "torch": "import torch\nwhere = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
    "x = torch.ones(1000, 1000, device=where)\n",
    "jax": "import jax\nwhere = jax.devices()[0]\nx = jax.numpy.ones((1000, 1000))\n",
}
THEN = """
assert float((x @ x).sum()) == 1e9
import railhead_ticks, time
railhead_ticks.tick()
print("multiplied on", where, flush=True)
time.sleep(600)
"""


class Host:
    """A folder with a run of one rank, which is started and killed."""

    def __init__(self, folder: Path, launcher: str, spare: bool) -> None:
        self.folder, self.run = folder, f"bench-{os.getpid()}-{time.monotonic_ns()}"
        (folder / "work").mkdir()
        program = script(folder, MULTIPLY[launcher] + THEN)
        settings = {"launcher": launcher, "coordinator": "127.0.0.1:9"}
        lay_out(folder, program, run_id=self.run, retries=1, spare=spare, **settings)

    def until(self, text: str) -> str:
        """Wait until the rank has printed this; the line."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            printed = text_of((self.folder / "out").read_text(errors="replace"))
            if match := re.search(f".*{text}.*", printed):
                return match[0]
            time.sleep(0.005)
        raise SystemExit(f"no {text!r} within {SECONDS:.0f} s: {printed[-2000:]}")

    def start(self) -> tuple[float, subprocess.Popen[bytes]]:
        """Start the rank; the seconds to its operation."""
        rank = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
        marks = {"RAILHEAD_RUN": self.run, "RAILHEAD_HOME": str(self.folder)}
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **rank, **marks}
        began = time.monotonic()
        with (self.folder / "out").open("wb") as out:
            process = subprocess.Popen(
                command(self.folder), cwd=self.folder / "work", stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, env=env, start_new_session=True,
            )  # fmt: skip
        self.until("multiplied on")
        return time.monotonic() - began, process


def restart(launcher: str, spare: bool) -> tuple[float, str]:
    """The seconds from the second start of a rank to its operation; the line of the rank about
    its spare, or about where it has multiplied."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        end_processes.HOME = name
        host = Host(Path(name), launcher, spare)
        try:
            process = host.start()[1]
            about = host.until("spare process" if spare else "multiplied on")
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            seconds, process = host.start()
            return seconds, about
        finally:
            end_processes.end_run(host.run)


def main() -> int:
    """Kill and start again; returns 0 if the spare saves time."""
    parser = argparse.ArgumentParser(prog="benchmarks.spare")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("launchers", nargs="*", metavar="torch|jax", default=["torch", "jax"])
    options, code = parser.parse_args(), 0
    for launcher in options.launchers:
        pairs = [(restart(launcher, True), restart(launcher, False)) for _ in range(options.kills)]
        with_spare, without = ([s for s, _ in side] for side in zip(*pairs, strict=True))
        print(f"{launcher}: {pairs[0][0][1]}; {pairs[0][1][1]}")
        for label, some in (("with the spare", with_spare), ("without", without)):
            print(f"  {label}: {median(some):.2f} s ({min(some):.2f} to {max(some):.2f})")
        code |= median(with_spare) >= median(without)
    return code


if __name__ == "__main__":
    sys.exit(main())
