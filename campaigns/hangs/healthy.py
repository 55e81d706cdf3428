"""Healthy programs that take long now and then: none of them may be taken for a stall.

Times are multiples of the limit of --stall-after, which is short here.
"""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from e2e.local_hosts import Operator

from .kinds import HEAD, HEAVY, LIGHT
from .light import result_of
from .runs import AFTER, RANKS, train

# What a rank does for `seconds`; the others wait for it in an allreduce, or do the same.
WAYS = {
    "computes": "end = time.time() + seconds\nwhile time.time() < end: sum(range(10**5))",
    "writes a file slowly": (
        "end = time.time() + seconds\n"
        'with open("slow", "wb", buffering=0) as file:\n'
        "    while time.time() < end:\n"
        "        file.write(bytes(1000)); time.sleep(0.2)"
    ),
    "compresses": (
        "import zlib\nend = time.time() + seconds\n"
        "while time.time() < end: zlib.compress(os.urandom(10**6))"
    ),
    "reads from a slow socket": (
        "a, b = socket.socketpair()\n"
        "def send():\n"
        "    end = time.time() + seconds\n"
        "    while time.time() < end:\n"
        "        b.send(bytes(10)); time.sleep(0.05)\n"
        "    b.close()\n"
        "threading.Thread(target=send).start()\n"
        "while a.recv(10): pass"
    ),
    "starts a program that computes": (
        'code = f"import time\\nend = time.time() + {seconds}\\n'
        'while time.time() < end: sum(range(10**5))"\n'
        'subprocess.run([sys.executable, "-c", code], check=True)'
    ),
    "starts a program that writes": (
        "code = f\"import time\\nend = time.time() + {seconds}\\nfile = open('part', 'w')\\n"
        "while time.time() < end: file.write('x'); file.flush(); time.sleep(0.1)\"\n"
        'subprocess.run([sys.executable, "-c", code], check=True)'
    ),
    "waits for half of the limit": "time.sleep(LIMIT / 2)",
}
IN_TENSORFLOW = {
    "evaluates in TensorFlow": (
        "@tf.function\n"
        "def evaluate(limit):\n"
        "    total = tf.zeros((300, 300))\n"
        "    while tf.timestamp() < limit:\n"
        "        total += tf.random.normal((300, 300)) @ tf.random.normal((300, 300))\n"
        "    return total\n"
        "evaluate(tf.constant(time.time() + seconds, tf.float64))"
    ),
    "waits for slow input": (
        "def rows():\n"
        "    for number in range(int(seconds) + 1):\n"
        "        time.sleep(1)\n"
        "        yield number\n"
        "signature = tf.TensorSpec((), tf.int32)\n"
        "for row in tf.data.Dataset.from_generator(rows, output_signature=signature): pass"
    ),
}
SCRIPT = """
LIMIT = {limit}
init()
def long(seconds):
{body}
time.sleep({first})  # the first step: loads and traces
for step in range(40):
    reduce()
    if rank == 0:
        print("step", step, "loss: 0.5", flush=True)
    time.sleep({pace})
    if step in {at} and ({everyone} or rank == RANK):
        long({seconds})
reduce()
"""


def program(chance: random.Random, light: bool) -> tuple[str, str]:
    """(what it does, a script)."""
    ways = WAYS if light else {**WAYS, **IN_TENSORFLOW}
    way = chance.choice(sorted(ways))
    everyone = chance.random() < 0.5
    factor = chance.uniform(1.2, 4.0)
    first = chance.choice((0, chance.uniform(1, 6)))
    text = SCRIPT.format(
        limit=AFTER,
        body="\n".join(f"    {line}" for line in ways[way].splitlines()),
        first=round(first * AFTER, 1),
        pace=round(chance.uniform(0.01, 0.1), 3),
        at=sorted(chance.sample(range(5, 40), 2)),
        everyone=everyone,
        seconds=round(factor * AFTER, 1),
    )
    who = "each rank" if everyone else "a rank"
    about = f"{who} {way} for {factor:.1f} limits, first step {first:.1f} limits"
    return about, HEAD + (LIGHT if light else HEAVY) + text


def quiet(about: str, result: Any, records: str) -> bool:
    """Whether a run has succeeded without a stall; prints it. A long step may be shown."""
    good = result["state"] == "succeeded" and '"kind": "stall"' not in records
    records += json.dumps(result["culprit"])
    print(f"{'quiet' if good else 'ALARM'}  {about}{'' if good else records[-1500:]}", flush=True)
    return good


def light_runs(chance: random.Random, count: int, at_once: int) -> int:
    """Run this many without TensorFlow; the number of those that were not quiet."""
    programs = [(*program(chance, light=True), chance.randrange(RANKS)) for _ in range(count)]

    def run_one(item: tuple[str, str, int]) -> bool:
        about, script, hangs = item
        result, records = result_of(script, hangs)
        return quiet(about, result, records)

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(run_one, programs)).count(False)


def runs_on_hosts(operator: Operator, chance: random.Random, count: int) -> int:
    """Run this many with Horovod on two hosts; the number of those that were not quiet."""
    alarms = 0
    for _ in range(count):
        about, script = program(chance, light=False)
        train(operator, script, hangs=chance.randrange(RANKS))
        result = json.loads((operator.last / "result.json").read_text())
        records = (operator.last / "metrics.jsonl").read_text()
        alarms += not quiet(about, result, records)
    return alarms
