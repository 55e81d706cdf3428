"""When a machine that nobody uses powers itself off: the decision, and what it reads."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from stacks.aws.user_data import cloud_config
from stacks.timer import idle
from stacks.timer.idle import GAP, LOAD, Facts, Seen, decide

HOME = "/home/" + "railhead"  # of the user on Google Cloud
BOOT = -1.0  # in place of seconds
MOST_USER_DATA = 16 * 1024  # bytes that EC2 takes


class Schedule:
    """Hours of a machine: when it is looked at, what is found, and how its clock behaves."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.minutes = draw.choice((15, 30, 60))
        self.looks, self.boots, self.used = list[Facts](), list[bool](), list[bool]()
        up, until = draw.uniform(0, 100), draw.uniform(0, 4 * 3600)
        for _ in range(draw.randrange(200, 600)):
            step = draw.choice((30.0,) * 300 + (45.0, GAP, GAP + 1, 700.0, 18_000.0, -300.0, BOOT))
            up = draw.uniform(0, 60) if step == BOOT else up + step
            if step == BOOT or up > until + draw.choice((1200, 4000, 9000)):
                until = up + draw.choice((0, 40, 600, 5000))
            self.boots.append(step == BOOT)
            self.used.append(up <= until)
            self.looks.append(self.facts(draw, up, used=up <= until))

    @staticmethod
    def facts(draw: random.Random, up: float, *, used: bool) -> Facts:
        """In use by one thing alone; otherwise below all limits."""
        quiet = Facts(up, (), draw.uniform(0, LOAD * 0.99), draw.uniform(0, LOAD * 0.99))
        ways = (
            Facts(up, ("a login",)),
            Facts(up, (), LOAD),
            Facts(up, (), 0.0, LOAD),
            Facts(up, (), 0.0, None),
        )
        return draw.choice(ways) if used else quiet

    def quiet_seconds(self, number: int) -> float:
        """How long, at a look, every look before found nobody, without a gap or a reboot."""
        begin = number
        while begin and not self.used[begin] and not self.breaks(begin):
            begin -= 1
        return self.looks[number].up - self.looks[begin].up

    def breaks(self, number: int) -> bool:
        """Whether nobody knows what was before a look: it came too late, or after a reboot."""
        after = self.looks[number].up - self.looks[number - 1].up
        return self.boots[number] or not 0 <= after <= GAP


def test_a_machine_never_stops_while_something_works_and_always_after_its_minutes() -> None:
    """1,000 random schedules, with clocks that jump, looks that are left out, and reboots. What a
    machine has to do is computed from the whole schedule, not from one look to the next."""
    stopped = 0
    for seed in range(1000):
        schedule, seen = Schedule(seed), None
        for number, facts in enumerate(schedule.looks):
            seen = None if schedule.boots[number] else seen  # the memory is lost
            seen, stops = decide(facts, seen, schedule.minutes)
            quiet = schedule.quiet_seconds(number) >= schedule.minutes * 60
            assert stops == (quiet and not schedule.used[number]), (seed, number, facts, seen)
            stopped += stops
    assert stopped > 1000


def test_zero_minutes_is_never() -> None:
    seen = Seen(0, 1e6)
    assert decide(Facts(1e6 + 1), seen, 0) == (Seen(0, 1e6 + 1), False)
    assert decide(Facts(1e6 + 1), seen, 15)[1]


USED = {
    "sshd: ann@pts/0": "a login",
    "sshd-session: ann@notty": "a login",
    "sshd: railhead": "a login",
    "login -- ann": "a login",
    "/bin/login -p --": "a login",
    "/usr/bin/ssm-session-worker ann-0a": "a login",
    "/home/ann/.railhead/envs/7a/bin/python -I -S /x/railhead.pyz run.supervisor": "Railhead",
    f"{HOME}/.railhead/serving/notebook-1/bin/jupyter-lab": "Railhead",
    "sh -c echo /usr/local/share/railhead; sleep 1": "Railhead",
    "apt-get install -y nvidia-driver": "packages",
    "/usr/bin/dpkg --configure -a": "packages",
    "/usr/bin/python3 /usr/bin/cloud-init modules --mode=final": "packages",
    "/usr/bin/cloud-init": "packages",
    "/usr/bin/python3 /usr/bin/unattended-upgrade": "packages",
}
UNUSED = (
    "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups",
    "sshd: unknown [priv]",
    "sshd: [accepted]",
    "sshd-session: root [preauth]",
    "/usr/sbin/sshd -D",
    "/sbin/agetty -o -p -- \\u --keep-baud 115200 ttyS0",
    "/usr/bin/python3 /usr/share/unattended-upgrades/unattended-upgrade-shutdown --wait-for-signal",
    "/lib/systemd/systemd --user",
    "/lib/systemd/systemd-logind",
    "/bin/sh /usr/lib/cloud-init/own-daemon",
    f"{HOME}/own-daemon",
)


@pytest.mark.parametrize("line", [*USED, *UNUSED])
def test_who_uses_a_machine_is_known_by_its_processes(line: str) -> None:
    uses = [name for name, pattern in idle.USES.items() if pattern.search(line)]
    assert USED[line] in uses if line in USED else uses == []


def test_a_process_of_a_run_is_known_by_its_environment() -> None:
    argv = [sys.executable, "-c", "input()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env={"RAILHEAD_RUN": "r"}) as process:
        assert "a run" in set(idle.used_by(set()))
        others = {int(p.name) for p in Path("/proc").glob("[0-9]*")} - {process.pid}
        assert "a run" in set(idle.used_by(others))
        assert "a run" not in set(idle.used_by(others | {process.pid}))
        process.kill()


def smi(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> float | None:
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setattr(idle, "SMI", (str(folder / "nvidia-smi"),))
    return idle.gpu_load()


def test_the_load_of_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "SMI", ("/no/nvidia-smi",))
    assert idle.gpu_load() == 0.0
    assert smi(tmp_path, monkeypatch, "echo 0; echo 61") == 0.61
    assert smi(tmp_path, monkeypatch, "echo 0; echo '[N/A]'") is None
    assert smi(tmp_path, monkeypatch, "echo no driver; exit 9") == 0.0
    monkeypatch.setattr(idle, "ANSWER", 0.2)
    assert smi(tmp_path, monkeypatch, "exec sleep 60") is None


def test_two_looks_make_a_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "MEMORY", tmp_path / "idle.json")
    for damaged in ("", "[]", "{}", '{"since": 1}'):
        idle.MEMORY.write_text(damaged)
        assert idle.remembered() is None
    kept = []
    for _ in range(2):
        idle.main(15)
        kept.append(idle.remembered())
    for before, after in pairwise(kept):
        assert before and after and before.looked <= after.looked and before.total <= after.total


def test_user_data_is_within_what_ec2_takes() -> None:
    key = "x" * 450, "x" * 450
    assert len(cloud_config(8, 30, key).encode()) < MOST_USER_DATA
