"""States that a full disk cut, in the folders of pulumi 3.259.0, whose words the stand-in has."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from standins.pulumi_command import PulumiCommand, resource

from bootstrap.errors import UsageError
from bootstrap.inventory import damaged_state, pulumi_cli, pulumi_stack
from bootstrap.inventory.pulumi_stack import NoMachines

UNREADABLE = "echo 'error: failed to load checkpoint: unexpected end of JSON input' >&2; exit 1"
ATTRIBUTES = '{"user.cache_control":""}'


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder .pulumi of a backend, with a pulumi that does not read stack `gpu`."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    monkeypatch.setattr(pulumi_cli, "CLONE", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: railhead\n")
    broken = "echo 'error: place 1: unexpected end of JSON input' >&2; exit 1"
    PulumiCommand(tmp_path / "bin").answers(stack_export=UNREADABLE, stack_ls=broken)
    pulumi_stack._say.cache_clear()
    for folder in ("stacks/railhead", "backups/railhead/gpu"):
        (tmp_path / ".pulumi" / folder).mkdir(parents=True)
    return tmp_path / ".pulumi"


def state(*instances: str) -> str:
    """A file of the backend with these machines."""
    made: list[Any] = [resource("aws:ec2/instance:Instance", id=id_) for id_ in instances]
    return json.dumps({"version": 3, "checkpoint": {"latest": {"resources": made}}})


def machines() -> list[str]:
    return [machine.id for machine in pulumi_stack.state("gpu").machines]


@pytest.mark.parametrize("size", [0, 1, 300])
def test_a_cut_state_is_read_from_the_one_before_it(
    backend: Path, capsys: pytest.CaptureFixture[str], size: int
) -> None:
    cut = backend / "stacks/railhead/gpu.json"
    cut.write_text(state("i-1", "i-2")[:size])
    (backend / "stacks/railhead/gpu.json.bak").write_text(state("i-1"))
    (backend / "backups/railhead/gpu/gpu.17.json").write_text(state())
    assert machines() == machines() == ["i-1"]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and f"{cut} is not whole ({size} bytes)" in lines[0]
    assert f"cp {cut}.bak {cut}" in lines[1] and "fab status --stack gpu" in lines[1]
    with pytest.raises(UsageError, match="is not whole"):
        pulumi_stack.refuse_damaged(pulumi_stack.state("gpu"))


def test_of_backups_the_newest_whole_one_is_read(backend: Path) -> None:
    """Also a compressed one, and none of another stack or of attributes."""
    for name in ("gpu.json", "gpu.json.bak"):
        (backend / "stacks/railhead" / name).write_text("{")
    folder = backend / "backups/railhead/gpu"
    (folder / "gpu.11.json").write_text(state("i-1"))
    (folder / "gpu.12.json.gz").write_bytes(gzip.compress(state("i-1", "i-2").encode()))
    (folder / "gpu.13.json").write_text(state("i-3")[:-9])
    (folder / "gpu.14.json.attrs").write_text(state("i-4"))
    (folder / "gpu2.15.json").write_text(state("i-5"))
    assert machines() == ["i-1", "i-2"]


def test_without_a_whole_copy_machines_are_searched_by_the_stacks_id(backend: Path) -> None:
    """As for a lost state: `fab adopt` then stops and ends them."""
    (backend / "stacks/railhead/gpu.json").write_text("")
    with pytest.raises(NoMachines, match="no copy is whole"):
        pulumi_stack.state("gpu")


def test_damaged_attributes_are_named_and_the_state_is_not(backend: Path) -> None:
    (backend / "stacks/railhead/gpu.json").write_text(state("i-1"))
    (backend / "stacks/railhead/gpu.json.attrs").write_text(ATTRIBUTES[:-1])
    with pytest.raises(UsageError) as caught:
        pulumi_stack.state("gpu")
    assert not isinstance(caught.value, NoMachines)
    assert caught.value.hint.startswith(
        f"rm {backend}/stacks/railhead/gpu.json.attrs && fab status"
    )


def test_a_full_disk_is_named(backend: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (backend / "stacks/railhead/gpu.json").write_text("")
    monkeypatch.setattr(damaged_state, "FULL", 1 << 60)
    assert "the disk is full" in damaged_state.find("gpu").message


def test_a_backend_that_is_no_folder_has_the_machines_in_the_cloud(
    backend: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://states")
    with pytest.raises(UsageError, match="machines may run") as caught:
        pulumi_stack.state("gpu")
    assert caught.value.hint == "fab leaks"


def test_one_damaged_state_hides_no_other_stack(backend: Path) -> None:
    """`pulumi stack ls` fails for all. With PULUMI_DIY_BACKEND_ZSTD, pulumi 3.259.0 writes
    STACK.json.zst (backend/diy/store.go)."""
    for name in ("gpu.json", "cpu.json", "gpu.json.bak", "gpu.json.attrs", "tpu.json.zst"):
        (backend / "stacks/railhead" / name).write_text("")
    assert pulumi_stack.all_stacks() == ["cpu", "gpu", "tpu"]
