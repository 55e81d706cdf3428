"""`make test-cloud`, whole, on a stack of this computer: the real engine, hosts and trainings."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e import kept_environments
from engine.clones import clone, environment
from standins import warm_ranks

from bootstrap.gpu_tools import tested_on
from bootstrap.inventory import pulumi_cli
from campaigns.cloud import campaign, parts
from campaigns.cloud.record import Record

__all__ = ["clone"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_all_parts_pass_on_a_local_stack_and_are_recorded(
    engine: Path, clone: Path, shared_caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(clone, engine, shared_caches).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pulumi_cli, "CLONE", clone)

    def up(one: parts.Campaign) -> object:
        figures = parts.up(one)
        with kept_environments.alone(shared_caches) as kept:
            kept_environments.give_to_hosts(kept, clone.parent)
        warm_ranks.serve(clone.parent, shared_caches)
        return figures

    monkeypatch.setattr(parts, "WITH_MACHINES", (up, *parts.WITH_MACHINES[1:]))
    config = campaign.config_of({"RAILHEAD_CLOUD_TEST": "local"})
    record = Record("local", config, 1.0, campaign.usd_per_hour(config))
    # Horovod on a local stack: test_stack_lifecycle.py.
    failed = campaign.run(
        parts.Campaign(record, clone, 0.2, launcher="tensorflow", epochs=40), clone
    )
    assert not failed, failed
    names = [part.__name__ for part in (parts.doctor, *parts.WITH_MACHINES, *parts.AT_THE_END)]
    written = tested_on.record(clone / "tested-on/local.json").content
    assert [part["name"] for part in written["parts"]] == names and written["ended"]
    by_name = {part.name: part.figures for part in record.parts}
    assert by_name["train"]["ranks"] == 2 and by_name["train"]["first_step_s"] > 0
    assert by_name["kill_a_rank"]["named"] == 1
