"""One agent for all tests of a file: its start is a quarter of a second of CPU time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from standins.agent_process import Agent


class SharedAgent:
    """An agent in its own home; one that a test left in the middle of an operation, or that
    has ended, is replaced."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.agent: Agent | None = None

    def ready(self) -> Agent:
        """The agent, between two operations."""
        if self.agent and not self.agent.is_idle:
            self.close()
        self.agent = self.agent or Agent(self.home)
        return self.agent

    def close(self) -> None:
        """End it."""
        if self.agent:
            self.agent.process.kill()
            self.agent.process.communicate()
        self.agent = None

    def clear(self) -> None:
        """Remove everything from its home."""
        for path in self.home.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.fixture(scope="module")
def shared_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedAgent]:
    """The agent of this file."""
    shared = SharedAgent(tmp_path_factory.mktemp("host"))
    yield shared
    shared.close()


@pytest.fixture
def home(home: Path, shared_agent: SharedAgent, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home of the agent, empty; also that of this test."""
    monkeypatch.setenv("HOME", str(shared_agent.home))
    yield shared_agent.home
    shared_agent.clear()


@pytest.fixture
def agent(home: Path, shared_agent: SharedAgent) -> Agent:
    """The agent, at home in this test's home."""
    return shared_agent.ready()
