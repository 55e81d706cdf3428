"""`fab demo` on a computer without a compiler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.errors import UsageError
from bootstrap.facts.host import HostFacts
from bootstrap.provision import local_wheel
from bootstrap.provision.wheel_store import folder_of_built_here
from bootstrap.workflows.demo import demo


class Started(Exception):
    """Hosts were started."""


@pytest.fixture
def here(debian: HostFacts, monkeypatch: pytest.MonkeyPatch) -> HostFacts:
    """The facts of this computer, which has MPI but no compiler; hosts are not really started."""
    tools = {name: path for name, path in debian.tools.items() if name != "g++"}
    facts = replace(debian, tools=tools)

    def start(name: str, hosts: int) -> None:
        raise Started

    monkeypatch.setattr(local_wheel, "facts_here", lambda: facts)
    monkeypatch.setattr(local_cluster, "start", start)
    return facts


def test_horovod_without_a_compiler_is_refused_before_hosts_are_started(
    here: HostFacts, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"to build Horovod: g\+\+\n") as caught:
        demo(tmp_path / "results", "horovod")
    assert str(caught.value.hint).endswith("install -y --no-install-recommends g++")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("strategy", [None, "parameter-server"])
def test_what_is_not_compiled_needs_no_compiler(
    here: HostFacts, tmp_path: Path, strategy: str | None
) -> None:
    with pytest.raises(Started):
        demo(tmp_path, strategy)


def test_a_wheel_that_is_there_needs_no_compiler(
    here: HostFacts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of_built_here(local_wheel.environment_here(here), here)
    folder.mkdir()
    (folder / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl").touch()
    with pytest.raises(Started):
        demo(tmp_path, "horovod")
    assert "compiled" not in capsys.readouterr().out
