"""Runs of sweeps and scalings that need no host: a started run has results when it was followed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins import registered_cloud
from standins.pulumi_command import PulumiCommand, exported, resource
from standins.runs.run_documents import RUN, record_run, run_document, settings_of

from bootstrap.clouds.base import InstanceState
from bootstrap.inventory import local_state
from bootstrap.inventory.document import to_document
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import stop
from bootstrap.runs import results
from bootstrap.runs.launch import RunOptions
from bootstrap.runs.request import RunRequest
from bootstrap.ssh.bundle import Bundle
from bootstrap.workflows import attach, bootstrap, train
from bootstrap.workflows.series.trials import Hopeless
from railhead.documents.codec import decode
from railhead.documents.runs.records import Record
from railhead.documents.runs.run import BuiltIn
from railhead.documents.runs.run_record import GivenOptions

INVENTORY = Inventory("c", (Host("h1", "10.0.0.1"), Host("h2", "10.0.0.2")))


class Runs:
    """Stands for the hosts: a started run has results when it was followed."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.started: list[str] = []
        self.cancelled: list[str] = []
        self.fault: dict[str, Callable[[], Exception]] = {}
        self.hosts: dict[str, str] = {}
        self.retries: list[int] = []  # of each run
        self.whole = INVENTORY
        self.metric = "val_accuracy"
        self.lock = threading.Lock()
        self.before_records: Callable[[], object] = lambda: None
        patch.setattr(bootstrap, "bootstrap_idle", lambda *_: None)
        patch.setattr(train, "train", self.train)
        patch.setattr(attach, "connected", self.connected)
        patch.setattr(attach, "attach", lambda _, run_id: self.follow(self.connection(run_id)))
        patch.setattr(attach, "follow", self.follow)
        patch.setattr(attach, "finish", lambda connection: None)
        patch.setattr(results, "fetch", lambda *_: None)
        patch.setattr(attach, "cancel", lambda _, run_id: self.cancelled.append(run_id))

    def train(self, inventory: Inventory, options: train.TrainOptions) -> Any:
        settings = settings_of(options.request.program)
        if fault := self.fault.pop(f"start on {inventory.chief.name}", None):
            raise fault()
        with self.lock:
            run_id = f"20261122-10000{len(self.started)}-0001"
            self.started.append(run_id)
        self.hosts[run_id] = " ".join(inventory.names)
        self.retries.append(options.request.options.retries.most)
        hosts = tuple(replace(RUN.hosts[0], name=host.name) for host in inventory.hosts)
        document = run_document(
            run_id=run_id,
            cluster=inventory.name,
            size=len(hosts),
            program=BuiltIn("training", settings),
            hosts=hosts,
            bundle=options.request.bundle.digest,
        )
        folder = options.results / run_id
        record_run(folder, document, GivenOptions("/", {}))
        assert options.detach and options.whole in (None, self.whole)
        assert options.whole or inventory == self.whole, "a part would replace the record"
        return SimpleNamespace(run_id=run_id, results=folder)

    def second_created_again(self, patch: pytest.MonkeyPatch, pulumi: PulumiCommand) -> Inventory:
        """The hosts of before, of which the second is gone; from now on each run is on those that
        the stack has. No machine stops."""
        before = replace(INVENTORY, cloud="local", stack="dev")
        before = replace(before, hosts=tuple(replace(h, id=f"old-{h.name}") for h in before.hosts))
        again = Host("h2", "10.0.0.9", id="new-h2", port=2222)
        self.whole = replace(before, hosts=(before.hosts[0], again))
        cluster = resource("railhead:local:Cluster", outputs={"document": to_document(self.whole)})
        pulumi.answers(stack_export=exported(cluster))
        states = {
            host.name: InstanceState(state, host.address, "here", "now", port=host.port)
            for host, state in zip(self.whole.hosts, ("running", "gone"), strict=True)
        }
        cloud = SimpleNamespace(instance_states=lambda: states)
        registered_cloud.register(patch, "local", cloud)
        patch.setattr(stop, "stop", lambda *_, **__: None)
        return before

    @contextmanager
    def connected(self, inventory: Inventory, run: Any) -> Iterator[Any]:
        yield SimpleNamespace(run=run, chief=None, watch=None)

    def connection(self, run_id: str) -> Any:
        folder = Path(local_state.recorded_run(run_id).results)
        return SimpleNamespace(run=SimpleNamespace(run_id=run_id, results=folder), watch=None)

    def follow(self, connection: Any) -> None:
        run = connection.run
        chief = self.hosts[run.run_id].split()[0]
        if fault := self.fault.pop(run.run_id, self.fault.pop(f"follow on {chief}", None)):
            raise fault()
        self.before_records()
        if run.run_id in self.cancelled:
            return
        document = local_state.recorded_run(run.run_id).run
        assert document
        settings = settings_of(document.program)
        self.write(run.results, settings, connection.watch or (lambda record: None))

    def write(self, folder: Path, settings: Any, watch: Callable[[Any], None]) -> None:
        """The results of a run, whose metric is its learning rate."""
        folder.mkdir(parents=True)
        rate = settings["learning_rate"]
        state, records = "succeeded", []
        for epoch in range(1, 5):
            record = {"kind": "epoch", "epoch": epoch, "epochs": 4, self.metric: rate}
            speed = {"samples_per_s": 100.0 * rate, "time": 1000.0 + 10 * epoch}
            records.append({**record, **speed})
            try:
                watch(decode(Record, record))
            except Hopeless:
                state = "cancelled"
                break
        (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
        (folder / "result.json").write_text(json.dumps({"state": state, "seconds": 1.0}))
        if state == "cancelled":
            raise Hopeless


def request(rate: float) -> Any:
    settings = {"learning_rate": rate, "model": "cnn"}
    return RunRequest(RunOptions(), BuiltIn("training", settings), Bundle(Path(), ()), {})
