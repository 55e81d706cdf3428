"""What an endpoint leaves to others: the models of their versions, and the run that it serves."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bootstrap.errors import UsageError
from bootstrap.serving import deploy
from bootstrap.serving.model import remove_unused_models
from bootstrap.serving.request import DeployRequest
from railhead.documents.codec import encode
from railhead.documents.options.serving import RAILHEAD, TENSORFLOW_SERVING
from railhead.documents.serving.endpoint import Deployed, EndpointDocument


class Here:
    """A session whose host is a home on this computer; `written` are the texts of its files."""

    def __init__(self, home: Path) -> None:
        self.home, self.written = home, list[str]()

    def run(self, argv: list[str], **_: Any) -> Any:
        environment = {**os.environ, "HOME": str(self.home)}
        argv = [word.replace("~", str(self.home)) for word in argv]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True)
        return SimpleNamespace(rc=done.returncode, tail=done.stdout.splitlines())

    def write(self, *files: Any) -> None:
        self.written += [file.text for file in files]


def test_models_of_all_versions_of_other_endpoints_stay(home: Path) -> None:
    """Two endpoints are left, of which one has two versions; the model of none is removed."""
    used = {"b": ("m2", "m3"), "c": ("m2",)}
    for name in ("m1", "m2", "m3"):
        (home / ".railhead/models" / name).mkdir(parents=True)
    for endpoint, models in used.items():
        versions = home / ".railhead/endpoints" / endpoint / "versions"
        versions.mkdir(parents=True)
        for number, model in enumerate(models, 1):
            (versions / str(number)).symlink_to(f"../../../models/{model}")
    session: Any = Here(home)
    remove_unused_models(session)
    remaining = sorted(path.name for path in (home / ".railhead/models").iterdir())
    assert remaining == ["m2", "m3"]


BEFORE = EndpointDocument(
    name="e", run_id="r-old", port=8501, stop=None, argv=("x",), until=1.0, env={}
)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs of the endpoints that are recorded here, of which the host has BEFORE."""
    runs: list[str] = []
    monkeypatch.setattr(deploy, "clock_of", lambda _: 0.0)
    monkeypatch.setattr(deploy, "read_document", lambda *_: BEFORE)
    monkeypatch.setattr("bootstrap.serving.records.save", lambda entry: runs.append(entry.run_id))
    return runs


def update(session: Any, server: str = RAILHEAD) -> None:
    """Serve the model m, a Keras file, of another run; `--server` is given too."""
    place: Any = SimpleNamespace(session=session)
    request = DeployRequest("e", server=server)
    deploy.update(place, request, Deployed("e", "c", "h1", 8501, "r-new"), "m", lambda line: None)


def test_an_update_records_the_new_run_once_it_is_served(
    home: Path, recorded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Here(home)
    at_wait: list[list[str]] = []
    monkeypatch.setattr(deploy, "read_state", lambda *_: None)
    monkeypatch.setattr(deploy, "_wait", lambda *_: at_wait.append([*session.written]))
    (home / ".railhead/endpoints/e/versions").mkdir(parents=True)
    update(session)
    assert ["r-old" in text for text in at_wait[0]] == [True], "the old version serves until then"
    assert "r-new" in session.written[-1] and "r-old" not in session.written[-1]
    assert recorded == ["r-new"] and encode(BEFORE)["run_id"] == "r-old"


@pytest.mark.parametrize("typed", [RAILHEAD, TENSORFLOW_SERVING])
@pytest.mark.parametrize("present", [RAILHEAD, TENSORFLOW_SERVING])
def test_an_update_is_for_the_server_that_serves_whichever_is_typed(
    home: Path, recorded: list[str], monkeypatch: pytest.MonkeyPatch, present: str, typed: str
) -> None:
    """TensorFlow Serving loads no Keras file."""
    session = Here(home)
    monkeypatch.setattr(deploy, "read_document", lambda *_: replace(BEFORE, server=present))
    monkeypatch.setattr(deploy, "_wait", lambda *_: None)
    (home / ".railhead/endpoints/e/versions").mkdir(parents=True)
    if present == TENSORFLOW_SERVING:
        with pytest.raises(UsageError, match="serves a SavedModel"):
            update(session, typed)
    else:
        update(session, typed)
    assert bool(session.written) == bool(recorded) == (present == RAILHEAD)


@pytest.mark.parametrize(("answer", "number"), [([], 1), (["99999999999", "-5", "x", "8"], 9)])
def test_what_a_host_invents_is_no_version(
    recorded: list[str], monkeypatch: pytest.MonkeyPatch, answer: list[str], number: int
) -> None:
    """TensorFlow Serving reads versions as int64: one above the highest must exist."""
    links: list[int] = []
    monkeypatch.setattr(deploy, "_wait", lambda *_: None)
    monkeypatch.setattr(deploy, "_link_version", lambda *args: links.append(args[-1]))
    answered = SimpleNamespace(rc=0, tail=answer)
    update(SimpleNamespace(run=lambda _: answered, write=lambda *_: None))
    assert links == [number]
