"""Which of a run's files is its model: one search, here and on the chief."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bootstrap.cli import serving_tasks
from bootstrap.cli.running import Exit
from bootstrap.errors import Command, UsageError
from bootstrap.inventory import local_state
from bootstrap.runs.model_files import H5, KERAS, SAVED_MODEL, ModelSearch
from bootstrap.runs.run import Run
from bootstrap.serving import records
from bootstrap.serving.model import needs_trust, pack_model
from bootstrap.serving.place import EndpointPlace
from bootstrap.serving.source import ModelSource, source_of
from bootstrap.ssh.connect import start_agent
from bootstrap.ssh.local_session import local_session
from railhead.documents.runs.manifest import home_name
from railhead.documents.runs.run_record import RunRecord
from railhead.documents.serving.endpoint import Deployed

SAFE_FIRST = (KERAS, SAVED_MODEL, H5)
FOUND: dict[str, tuple[list[str], str | None]] = {
    "SageMaker's folder": (["model/1/saved_model.pb", "model/1/variables/x.h5"], "model/1"),
    "an estimator's export": (["export/Servo/123/saved_model.pb"], "export/Servo/123"),
    "the highest version": (["m/9/saved_model.pb", "m/10/saved_model.pb"], "m/10"),
    "versions of a file": (["m/9/model.keras", "m/10/model.keras"], "m/10/model.keras"),
    "the folder itself": (["saved_model.pb", "assets/a.keras"], "."),
    "deep": (["outputs/a/b/c/net.keras", "metrics.jsonl"], "outputs/a/b/c/net.keras"),
    "Horovod's examples": (["outputs/keras_mnist.h5"], "outputs/keras_mnist.h5"),
    "both formats of one model": (["model.keras", "saved_model/saved_model.pb"], "saved_model"),
    "weights": (["model.weights.h5", "metrics.jsonl"], None),
    "another evaluation": (["evaluations/r2/model.keras", "logs/x.keras"], None),
    "a file in the making": ([".partial.model.keras"], None),
    "checkpoints": (["checkpoints/step-3/model.keras", "outputs/checkpoint-7.h5"], None),
    "a model beside checkpoints": (["a.keras", "ckpt/9/saved_model.pb"], "a.keras"),
    "no model": (["metrics.jsonl"], None),
}
SEVERAL: dict[str, list[str]] = {
    "two files": ["best.keras", "model.keras"],
    "two formats": ["outputs/best.keras", "model/1/saved_model.pb"],
    "two with versions": ["a/1/saved_model.pb", "b/1/saved_model.pb"],
}


def search(name: str | None = None, formats: tuple[str, ...] | None = None) -> ModelSearch:
    all_formats = ModelSearch("run r1", Command("deploy", "r1"), name)
    return replace(all_formats, formats=formats) if formats else all_formats


@pytest.mark.parametrize(("names", "path"), FOUND.values(), ids=FOUND)
def test_a_model_is_found_at_any_depth(names: list[str], path: str | None) -> None:
    for order in (names, names[::-1]):
        model = search().choose(order)
        assert (model.path if model else None) == path


@pytest.mark.parametrize("names", SEVERAL.values(), ids=SEVERAL)
def test_several_models_are_refused_with_the_choices(names: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        search().choose(names)
    paths = {name.removesuffix("/saved_model.pb") for name in names}
    assert all(path in refused.value.message for path in paths)
    named = refused.value.hint.split("   #")[0].removeprefix("fab deploy r1 --model ")
    assert named in paths
    model = search(named).choose(names)
    assert model and model.path == named, "the command that the hint names chooses it"


def test_what_is_named_is_taken_also_a_checkpoint_or_the_versions_of_a_folder() -> None:
    names = ["best.keras", "m/1/saved_model.pb", "m/2/saved_model.pb", "checkpoint-1.h5"]
    for name, path in (
        ("best.keras", "best.keras"), ("./m/", "m/2"), ("m/1", "m/1"),
        ("checkpoint-1.h5", "checkpoint-1.h5"),
    ):  # fmt: skip
        model = search(name).choose(names)
        assert model and model.path == path
    with pytest.raises(UsageError, match=r"--model other: run r1 has .*best\.keras.*m/2"):
        search("other").choose(names)
    assert search("other").choose(["metrics.jsonl"]) is None


def test_checkpoints_alone_are_offered_the_last_one_first() -> None:
    names = [f"outputs/checkpoint-{number}.h5" for number in range(1, 25)]
    assert search().choose(names) is None
    with pytest.raises(UsageError, match=r"checkpoint-24\.h5 and 16 more") as refused:
        search().refuse_checkpoints(names)
    assert "--model outputs/checkpoint-24.h5" in refused.value.hint
    search().refuse_checkpoints(["metrics.jsonl"])


def test_on_this_computer_a_keras_file_comes_before_a_saved_model() -> None:
    names = ["saved_model/saved_model.pb", "model.keras", "model.h5"]
    for formats, path in ((SAFE_FIRST, "model.keras"), (None, "saved_model")):
        model = search(formats=formats).choose(names)
        assert model and model.path == path


# --- Here and on the chief -------------------------------------------------------------------


def write_run(home: Path, names: Sequence[str]) -> Path:
    """The folder of run r1 on its chief, which has ended with these files."""
    folder = home / ".railhead/runs/r1"
    entries = []
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
        digest = hashlib.sha256(name.encode()).hexdigest()
        entries.append({"path": name, "bytes": len(name), "sha256": digest})
    (folder / "results").mkdir(exist_ok=True)
    (folder / "results/manifest.json").write_text(json.dumps({"files": entries, "skipped": []}))
    return folder


@contextmanager
def chief(home: Path) -> Iterator[EndpointPlace]:
    """This machine with its agent, as the chief."""
    facts: Any = SimpleNamespace(home=str(home))
    with local_session() as session:
        start_agent(session)
        yield EndpointPlace(session, "python3", facts)


ON_CHIEF: dict[str, tuple[list[str], list[str] | None]] = {
    "a SavedModel": (
        ["results/model/1/saved_model.pb", "results/model/1/variables/v", "results/metrics.jsonl"],
        ["saved_model.pb", "variables"],
    ),
    "a file that the program wrote": (["work/model.h5", "logs/rank-0.log"], ["model.h5"]),
    "none": (["results/metrics.jsonl"], None),
}


def test_a_model_is_found_by_the_same_name_on_the_chief_and_copied_once(home: Path) -> None:
    (home / ".gitignore").write_text("*.pb\n*.h5\n")  # a model is sent all the same
    with chief(home) as place:
        for names, files in ON_CHIEF.values():
            folder = write_run(home, names)
            results = home / "results"  # the same files, as they were fetched
            for name in names:
                (results / home_name(name)).parent.mkdir(parents=True, exist_ok=True)
                (results / home_name(name)).write_text(name)
            path = ModelSource(Run("r1", results)).found_here()
            on_chief = ModelSource(Run("r1", home / "nothing"))
            if files is None:
                with pytest.raises(UsageError, match="run r1 has no model"):
                    on_chief.place_model(place)
                continue
            assert path and sorted(x.path.split("/")[0] for x in pack_model(path).bundle.files) == (
                files
            )
            copy = on_chief.place_model(place)
            assert on_chief.place_model(place) == copy
            assert sorted(x.name for x in Path(copy).iterdir()) == files
            shutil.rmtree(folder)
            shutil.rmtree(results)


def test_the_chief_is_searched_with_the_same_rules(home: Path) -> None:
    write_run(home, ["work/best.keras", "results/model.keras"])
    with chief(home) as place:
        run = Run("r1", home / "nothing")
        with pytest.raises(UsageError, match=r"several models: model\.keras, outputs/best\.keras"):
            ModelSource(run).place_model(place)
        copies = [ModelSource(run, name=n).place_model(place) for n in ("model.keras", "outputs/")]
        assert [[x.name for x in Path(copy).iterdir()] for copy in copies] == [
            ["model.keras"],
            ["best.keras"],
        ]
        write_run(home, ["work/checkpoint-1.h5"])
        with pytest.raises(UsageError, match="checkpoints, and no model: outputs/checkpoint-1.h5"):
            ModelSource(run).place_model(place)


def test_model_names_one_of_the_run_or_a_path_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "results/r1"
    for name in ("best.keras", "model/1/saved_model.pb"):
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        (results / name).touch()
    local_state.save_run(RunRecord("r1", "c", str(results)))
    for name in ("best.keras", "results/r1/best.keras", str(results / "best.keras")):
        source = source_of("r1", name)
        assert (source.run_id, source.found_here()) == ("r1", results / "best.keras")
    assert source_of("r1", "model").found_here() == results / "model/1"
    assert source_of(None, "results/r1/model").found_here() == Path("results/r1/model/1")
    assert source_of(None, "results/r1/best.keras").run_id is None
    with pytest.raises(UsageError) as several:
        source_of(None, "results/r1").found_here()
    assert "fab deploy --model results/r1/" in several.value.hint
    with pytest.raises(UsageError) as missing:
        source_of(None, "best.keras")
    assert "fab deploy RUN --model best.keras" in missing.value.hint


# --- On this computer ------------------------------------------------------------------------


def keras_file(path: Path, version: object) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": version}))
    return path


def test_only_a_file_of_keras_3_is_loaded_here_without_trust(tmp_path: Path) -> None:
    assert not needs_trust(keras_file(tmp_path / "3.keras", "3.15.1"))
    (tmp_path / "saved_model.pb").touch()
    (tmp_path / "no zip.keras").write_bytes(b"\x89HDF")
    with zipfile.ZipFile(tmp_path / "no number.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    with zipfile.ZipFile(tmp_path / "deep.keras", "w") as archive:
        archive.writestr("metadata.json", "[" * 90_000)
    shutil.copy(tmp_path / "3.keras", tmp_path / "3.h5")
    unsafe = ["no zip.keras", "no number.keras", "deep.keras", "3.h5", ".", "missing.keras"]
    assert all(needs_trust(tmp_path / name) for name in unsafe)
    for version in ("2.18.0", "30.1", "", 3, None, ["3."], "3." + "0" * 200_000):
        assert needs_trust(keras_file(tmp_path / "x.keras", version)), version


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "stdin is not a terminal"),
        ("n", "is not trusted"),
        ("y", "is already on h2 of other"),
        ("--trust-model", "is already on h2 of other"),
        ("a .keras file", "is already on h2 of other"),
        ("a .keras file of Keras 2", "stdin is not a terminal"),
    ],
)
def test_a_saved_model_of_a_run_is_loaded_here_only_with_consent(
    answer: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After consent comes the next check: that no endpoint elsewhere has this name."""
    results = tmp_path / "results/r1"
    (results / "saved_model").mkdir(parents=True)
    (results / "saved_model/saved_model.pb").touch()
    local_state.save_run(RunRecord("r1", "c", str(results)))
    records.save(Deployed("m", "other", "h2", 8501, None))
    if answer in ("n", "y"):
        monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    if answer == "a .keras file":  # the same model, in a format that is safe
        keras_file(results / "model.keras", "3.15.1")
    if answer == "a .keras file of Keras 2":
        keras_file(results / "model.keras", "2.18.0")
    trusted = answer == "--trust-model"
    with pytest.raises(Exit, match=message) as refused:
        serving_tasks.deploy(run="r1", name="m", here=True, trust_model=trusted)
    assert refused.value.code == 2


def test_trust_is_refused_where_it_means_nothing() -> None:
    with pytest.raises(Exit, match="--trust-model is for --here"):
        serving_tasks.deploy(run="r1", trust_model=True)


class Terminal(io.StringIO):
    """A terminal at which an answer was typed."""

    def isatty(self) -> bool:
        return True
