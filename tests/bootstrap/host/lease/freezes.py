"""Cases of `make campaign-freezes`: a chief that stands still at a random moment of its training or
of its end, loses the lease, and wakes up while its successor uploads. Not a part of `make test`."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest
from standins.runs.leased_chief import Chief, send
from standins.runs.supervised_run import is_alive
from standins.waiting import wait_until

from bootstrap.host.lease import fence
from bootstrap.host.lease.terms import claim_of
from bootstrap.host.run import held
from bootstrap.host.upload import live_upload, restore_checkpoints, upload
from bootstrap.host.upload.live_upload import CheckpointUpload
from railhead.documents.runs.takeover import Term

SEEDS = 10_000
SECOND = Term(2, "b", "mark-2")
# Writes a checkpoint every 0.15 s, and fails when its rank is killed.
TRAINS = """sleep 600 & echo $! >ranks
n=1
while kill -0 $(cat ranks); do
  n=$((n + 1)); step=checkpoints/step-$(printf %08d $n); mkdir -p $step
  head -c 2000000 /dev/urandom >$step/state.npz; echo '{}' >$step/manifest.json
  rm -rf checkpoints/step-$(printf %08d $((n - 2))); echo line $n; sleep 0.15
done
exit 3"""


class Successor:
    """The host that takes the run over: it restores the checkpoints, and uploads newer ones."""

    def __init__(self, chief: Chief, folder: Path) -> None:
        bucket = chief.terms.bucket
        for name in ("checkpoints", "results", "logs"):
            (folder / name).mkdir(parents=True)
        held.begin(str(folder), SECOND, held.now())
        adopted = fence.rewrite_checkpoints(bucket, 2)
        target = str(folder / "checkpoints")
        assert restore_checkpoints.restore(bucket, target, keep_times=True).damaged == ()
        live_upload.save_status(str(folder), adopted)
        url = f"s3://{chief.bucket}/runs/r1"
        self.folder, self.uploads = (
            folder,
            CheckpointUpload(str(folder), upload.destination(url, str(folder))),
        )

    def checkpoint(self, step: int) -> None:
        """Write and upload a checkpoint."""
        folder = self.folder / f"checkpoints/step-{step:08d}"
        folder.mkdir()
        (folder / "state.npz").write_text(str(step))
        (folder / "manifest.json").write_text("{}")
        assert self.uploads.step()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_chief_that_wakes_up_harms_nothing(chief: Chief, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    chief.run.write("mpirun.json", ["sh", "-c", TRAINS])
    chief.train()
    time.sleep(draw.uniform(0, 3))
    if draw.random() < 0.5:
        os.kill(chief.rank(), signal.SIGTERM)
        time.sleep(draw.uniform(0, 4))
    frozen = chief.processes()
    send(frozen, signal.SIGSTOP)
    if not chief.seconds_pass(held.LEASE) or not chief.terms.claim(2, claim_of(SECOND)):
        print(f"\nFIGURE seed {seed}: nobody could take it over any more")
        return
    successor = Successor(chief, tmp_path / "b")
    successor.checkpoint(90_000_000)
    commands = chief.run.home / "commands"
    earlier, before = commands.read_text() if commands.exists() else "", chief.objects()
    send(frozen, signal.SIGCONT)
    time.sleep(draw.uniform(0, 1))
    successor.checkpoint(90_000_001)
    wait_until(lambda: not chief.processes())

    assert commands.read_text() == f"{earlier}chief stops\n"
    assert not is_alive(chief.rank()) and not chief.has_results
    after = chief.objects()
    assert json.loads(after["runs/r1/checkpoints/manifest.json"])["term"] == 2
    back = restore_checkpoints.restore(chief.terms.bucket, str(tmp_path / "back"))
    assert back.damaged == ()
    numbers = {
        f"runs/r1/checkpoints/files/{upload.object:04d}" for upload in successor.uploads.files
    }
    changed = {name for name in after if after[name] != before.get(name)} - numbers
    landed = sorted(changed - {"runs/r1/checkpoints/manifest.json"})
    print(f"\nFIGURE seed {seed}: uploads that were under way and arrived later: {len(landed)}")
    assert len(landed) <= 3, landed
