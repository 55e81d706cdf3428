"""`make gpu-check`: checks on this machine's GPUs, written to tested-on/<gpu>.json.

It checks the driver, TensorFlow, NCCL and Horovod, then trains with `training/` itself, and records
a figure or an error for each. The row in README names these checks only: `fab train` is not run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

from ..console import log
from ..errors import RailheadError, UsageError
from ..facts.host import HostFacts
from ..inventory import caches
from ..plan import drivers, runtimes
from ..plan.runtimes import Environment
from ..provision import local_wheel
from . import tested_on, trainings
from .tested_on import Check, Machine

PROBED = ("TensorFlow", "matmul", "all-reduce", "fused tensors", "scaled tensors", "training step")
JOINED = re.compile(r"NCCL INFO .*\brank (\d+) nranks (\d+) .*Init COMPLETE")
REDUCED = re.compile(r"NCCL INFO AllReduce: opCount")
TRAINED = tuple(map(trainings.name_of, trainings.STRATEGIES))
MINUTES = 10
VERSIONS = """import importlib.metadata as m, json
names = ("tensorflow", "keras", "horovod", "nvidia-nccl-cu12", "nvidia-cudnn-cu12")
print(json.dumps({name: m.version(name) for name in names}))"""


def main(facts: HostFacts | None = None) -> int:
    """Run all checks and write the file; returns 0 if all passed, 1 if not, 2 without a GPU.

    Args:
        facts: those of this machine; None: read them.
    """
    try:
        facts = facts or local_wheel.facts_here()
        if not facts.gpu.cards and not facts.gpus:
            raise UsageError("there is no NVIDIA GPU in this machine: nothing was checked")
        machine = check(facts, local_wheel.environment_here(facts, gpu=True))
        path = machine.save()
        tested_on.write_row()
    except RailheadError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return error.code
    print(f"written: {path.relative_to(tested_on.REPO)}, and README's row")
    return 1 if machine.failed else 0


def check(facts: HostFacts, environment: Environment) -> Machine:
    """Run every check on this machine; prints each result when the check ends."""
    checks = [shown(driver(facts))]
    versions: dict[str, str] = {}
    if facts.gpus:
        folder = ready(facts, environment)
        versions = json.loads(local_wheel.run([str(folder / "bin" / "python"), "-c", VERSIONS]))
        checks += probe(folder / "bin" / "python", len(facts.gpus), "gpu")
        checks += train(folder / "bin" / "python", len(facts.gpus))
    else:
        checks += [shown(Check(name, False, "not reached")) for name in ("NCCL", *PROBED, *TRAINED)]
    return Machine(
        gpu=facts.gpus[0] if facts.gpus else str(facts.gpu.cards[0]),
        count=len(facts.gpus) or len(facts.gpu.cards),
        driver=f"{facts.gpu.driver.version} ({facts.gpu.driver.flavour})"
        if facts.gpu.driver
        else "none",
        date=f"{datetime.now(timezone.utc):%Y-%m-%d}",
        system=f"{facts.os}, Linux {facts.system.kernel}, Python {environment.python}",
        versions=versions,
        checks=tuple(checks),
    )


def shown(result: Check) -> Check:
    """Print the result of a check and return it."""
    print(f"{'ok    ' if result.passed else 'FAILED'}  {result.name}: {result.figure}", flush=True)
    return result


def driver(facts: HostFacts) -> Check:
    """Whether the installed driver supports this machine, and its row in the driver table."""
    wrong = drivers.wrong(facts)
    loaded = facts.gpu.driver
    name = f"{loaded.version} ({loaded.flavour}) works" if loaded else "nvidia-smi answers"
    try:
        row = drivers.row(facts)
        table = f"row {row.branch} {row.flavour}"
    except UsageError as none:
        table = none.message
    return Check("driver", not wrong, f"{wrong or name}; {table}")


def ready(facts: HostFacts, environment: Environment) -> Path:
    """The GPU runtime with its Horovod wheel, in the cache; installed once."""
    folder = caches.cache("gpu-check") / environment.digest
    if not (folder / ".ok").exists():
        wheel = local_wheel.make(environment, facts)
        shutil.rmtree(folder, ignore_errors=True)
        print(f"fetching the runtime, about {environment.megabytes} MB, once", flush=True)
        python = facts.pythons[environment.python]
        local_wheel.install(folder, python, environment.runtime.lock)
        local_wheel.install_wheel(folder, wheel)
        (folder / ".ok").touch()
    return folder


def probe(python: Path, ranks: int, kind: str) -> list[Check]:
    """Run the checks of gpu_probe.py with one rank per GPU, and the check of NCCL."""
    argv = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", str(python)]
    argv += [str(runtimes.PROBES / "gpu_probe.py"), kind]
    variables = {**runtimes.TRY_VARIABLES, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,COLL"}
    out = listen(argv, variables)
    results = [read(text) for text in re.findall(r"@check (\{.*\})", out)]
    # If any rank failed a check, its result replaces that of a rank that passed.
    by_name = {done.name: done for done in sorted(results, key=lambda done: not done.passed)}
    tail = " / ".join(out.strip().splitlines()[-3:])[-300:]
    missing = [name for name in PROBED if name not in by_name]
    for name in missing:
        reason = f"not reached: {tail}" if name == missing[0] else "not reached"
        by_name[name] = shown(Check(name, False, reason))
    return [by_name[name] for name in PROBED] + [shown(nccl(out, ranks))]


def train(python: Path, gpus: int) -> list[Check]:
    """One check for each strategy that trains on several devices."""
    return [shown(trainings.train(python, name, gpus)) for name in trainings.STRATEGIES]


def listen(argv: list[str], variables: dict[str, str]) -> str:
    """The output of all ranks; they are stopped after MINUTES. Prints each check as it arrives."""
    environment = {**os.environ, **variables}
    bounded = [*trainings.LIMIT, str(60 * MINUTES), *argv]
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    lines = []
    none = subprocess.DEVNULL
    with log.started(
        bounded, env=environment, cwd="/", stdin=none, stdout=pipe, stderr=both, text=True
    ) as running:
        assert running.stdout
        for line in running.stdout:
            lines.append(line)
            for text in re.findall(r"@check (\{.*\})", line):
                shown(read(text))
        running.wait()
    return "".join(lines)


def read(text: str) -> Check:
    """Parse the JSON of one check that a rank printed."""
    return Check(**json.loads(text))


def nccl(out: str, ranks: int) -> Check:
    """Whether NCCL's own log shows that all ranks joined and that NCCL did the all-reduces."""
    joined = {int(rank) for rank, size in JOINED.findall(out) if int(size) == ranks}
    sums = len(REDUCED.findall(out))
    figure = f"{len(joined)} of {ranks} ranks joined, {sums} sums by NCCL"
    if ranks == 1:
        figure += "; no link between GPUs was tried, there is one"
    return Check("NCCL", joined == set(range(ranks)) and sums > 0, figure)


if __name__ == "__main__":
    sys.exit(main())
