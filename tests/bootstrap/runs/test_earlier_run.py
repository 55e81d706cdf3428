"""`--resume` takes program and options from the record of a run; what contradicts it is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from samples.forks import copy_with_a_model
from standins.options import program
from standins.runs.run_documents import record_run, run_document, settings_of

from bootstrap.errors import UsageError
from bootstrap.inventory import local_state
from bootstrap.runs.earlier_run import (
    changed_data,
    changed_program,
    earlier_run,
    resumed_request,
    unsure_keras,
)
from bootstrap.runs.keras.choice import KerasChoice
from bootstrap.runs.launch import Retries
from bootstrap.runs.request import RunRequest, program_of, read_request, record_of
from bootstrap.workflows.resume import with_retries
from railhead.documents.codec import encode
from railhead.documents.options.runs import ProgramOptions, StartOptions
from railhead.documents.runs.run import RunData
from railhead.documents.runs.run_record import RunRecord

pytestmark = pytest.mark.usefixtures("remembered_checks")

SCRIPT = program(
    script="train.py",
    args="--epochs '3 4'",
    env=("A=1", "B=x=y"),
    launcher="tensorflow",
    metrics=("loss=l ([0-9]+)",),
    outputs=("*.h5",),
)
TRAINING = program(preset="smoke", settings=("seed=7",), strategy="auto")

COPY = program(training="training", settings=("model=mine",))


@pytest.fixture
def project(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script, in which the first command is typed."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    monkeypatch.chdir(folder)
    return folder


def recorded(args: ProgramOptions, cluster: str = "c", **changes: Any) -> RunRequest:
    """A run with these options, recorded as one that was started."""
    request = read_request(args)
    document = run_document(
        cluster=cluster,
        bundle=request.bundle.digest,
        program=request.program,
        env=request.options.env,
        **changes,
    )
    record_run(Path.cwd() / "results/r1", document, request.record)
    return request


@pytest.mark.parametrize("args", [SCRIPT, TRAINING, COPY], ids=["script", "training", "copy"])
def test_the_same_program_and_options_from_another_folder(
    project: Path, args: ProgramOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    if args.training:
        copy_with_a_model(project)
    before = recorded(args)
    monkeypatch.chdir(project.parent)
    again, _ = resumed_request(earlier_run("r1"), program())
    of_script = KerasChoice(3, "that of run r1")
    keras = before.options.keras if args.script is None else of_script
    assert again.options == replace(before.options, resumes="r1", keras=keras)
    assert again.program == before.program and again.bundle.digest == before.bundle.digest
    assert changed_program(earlier_run("r1"), again) == []
    assert Path.cwd() == project.parent


def test_files_of_the_options_are_those_of_the_first_command(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requirements are read after the request, in the folder of the second command."""
    (project / "requirements.txt").write_text("six\n")
    recorded(program(script="train.py", requirements="requirements.txt"))
    monkeypatch.chdir(project.parent)
    _, args = resumed_request(earlier_run("r1"), program())
    assert args.requirements == str(project / "requirements.txt")


def test_variables_are_those_of_the_run_even_if_their_file_has_changed(project: Path) -> None:
    (project / "env").write_text("A=1\nB=2\n")
    recorded(program(script="train.py", env_file="env", env=("B=3",)))
    (project / "env").unlink()
    again, _ = resumed_request(earlier_run("r1"), program())
    assert again.options.env == {"A": "1", "B": "3"}


@pytest.mark.parametrize("args", [SCRIPT, TRAINING], ids=["script", "training"])
def test_secrets_have_their_present_values(
    project: Path, args: ProgramOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "of-then")
    recorded(replace(args, secrets=("TOKEN",)))
    monkeypatch.setenv("TOKEN", "of-now")
    again, _ = resumed_request(earlier_run("r1"), program())
    assert (again.options.secrets, again.secrets) == (("TOKEN",), {"TOKEN": "of-now"})


def test_a_resumed_run_can_be_resumed(project: Path) -> None:
    recorded(TRAINING)
    again, args = resumed_request(earlier_run("r1"), program())
    assert read_request(args).program == again.program
    assert again.record and again.record.folder == str(project)


def test_settings_are_those_of_the_run_even_if_the_preset_has_changed(project: Path) -> None:
    recorded(TRAINING)
    path = next((local_state.home() / "clusters").glob("*/runs/r1.json"))
    entry = json.loads(path.read_text())
    entry["document"]["program"]["settings"]["epochs"] = 99
    path.write_text(json.dumps(entry))
    again, _ = resumed_request(earlier_run("r1"), program())
    settings = settings_of(again.program)
    assert settings["epochs"] == 99 and settings["seed"] == 7


CONTRADICTIONS: dict[str, tuple[ProgramOptions, ProgramOptions]] = {
    "--preset digits contradicts run r1, which has smoke": (TRAINING, program(preset="digits")),
    "--set seed=8 contradicts run r1, which has seed=7": (TRAINING, program(settings=("seed=8",))),
    "--script train.py contradicts run r1, which has none": (TRAINING, program(script="train.py")),
    "--keras 2 contradicts run r1, which has 3": (SCRIPT, program(keras="2")),
    "--metric x=(.) contradicts": (SCRIPT, program(metrics=("x=(.)",))),
    "--script other.py contradicts run r1, which has train.py": (
        SCRIPT,
        program(script="other.py"),
    ),
    "--sagemaker 2 contradicts": (SCRIPT, program(sagemaker="2")),
    "--sagemaker 3 contradicts run r1, which has 2": (
        program(script="train.py", sagemaker="2"),
        program(sagemaker="3"),
    ),
}


@pytest.mark.parametrize("message", CONTRADICTIONS)
def test_an_option_that_contradicts_the_run_is_refused(project: Path, message: str) -> None:
    before, typed = CONTRADICTIONS[message]
    recorded(before)
    with pytest.raises(UsageError) as refused:
        resumed_request(earlier_run("r1"), typed)
    assert message in refused.value.message


def fetched(keras: int) -> None:
    """What the supervisor leaves in the results of a run that ended with this Keras."""
    folder = Path.cwd() / "results/r1"
    folder.mkdir(parents=True)
    document = run_document(keras=keras, keras_auto=False)
    (folder / "run.json").write_text(json.dumps(encode(document)))


@pytest.mark.parametrize("keras", [2, 3])
def test_a_script_continues_with_the_keras_that_wrote_its_checkpoints(
    project: Path, keras: int
) -> None:
    """That of the second attempt, of which the record here does not know."""
    recorded(SCRIPT, keras_auto=False)
    assert unsure_keras(earlier_run("r1"), program()) == [], "it has not tried the other one"
    recorded(SCRIPT, keras_auto=True)
    fetched(keras)
    assert unsure_keras(earlier_run("r1"), program()) == []
    chosen = resumed_request(earlier_run("r1"), program())[0].options.keras
    assert (chosen.version, chosen.auto) == (keras, False)
    with pytest.raises(UsageError, match=f"which has {keras}"):
        resumed_request(earlier_run("r1"), program(keras=str(5 - keras)))


def test_a_keras_that_only_the_hosts_know_is_that_of_the_begin_or_named(project: Path) -> None:
    """The hosts may be lost: the command that was printed must not be refused."""
    recorded(SCRIPT, keras_auto=True)
    earlier = earlier_run("r1")
    begun = earlier.document.keras
    assert resumed_request(earlier, program())[0].options.keras.version == begun
    assert len(unsure_keras(earlier, program())) == 1
    for keras in (2, 3):
        assert unsure_keras(earlier, program(keras=str(keras))) == []
        typed = program(keras=str(keras))
        assert resumed_request(earlier_run("r1"), typed)[0].options.keras.version == keras


def test_options_that_agree_with_the_run_are_accepted(project: Path) -> None:
    recorded(SCRIPT)
    typed = program(script=str(project / "train.py"), env=("A=1",), launcher="tensorflow")
    assert resumed_request(earlier_run("r1"), typed)[0].options.resumes == "r1"


def test_a_changed_script_is_reported(project: Path) -> None:
    recorded(SCRIPT)
    (project / "train.py").write_text("print(2)\n")
    again, _ = resumed_request(earlier_run("r1"), program())
    assert changed_program(earlier_run("r1"), again) == [
        "the program has changed since run r1: its present files are used"
    ]


def test_changed_data_is_reported_but_not_a_share_of_a_host(project: Path) -> None:
    """Shares depend on the number of hosts; data of a bucket has no paths."""

    def data(name: str, how: str, *paths: str) -> RunData:
        return RunData(name, "here", how, "file", paths or None)

    before = (data("same", "replicate", "/1", "/1"), data("other", "replicate", "/1", "/1"))
    shares = (data("share", "shard", "/1", "/2"), data("bucket", "replicate"))
    recorded(SCRIPT, data=(*before, *shares))
    now = [before[0], data("other", "replicate", "/2"), data("share", "shard", "/3"), shares[1]]
    assert changed_data(earlier_run("r1"), now) == [
        "data other has changed since run r1: its present files are used"
    ]


@pytest.mark.parametrize("wanted", [None, 0, 2])
def test_a_program_that_has_changed_since_is_not_retried(project: Path, wanted: int | None) -> None:
    recorded(SCRIPT)
    begin = StartOptions(resume="r1", retries=wanted)
    again, _ = resumed_request(earlier_run("r1"), program())
    assert with_retries(again, earlier_run("r1"), begin)[0].options.retries.most == (
        3 if wanted is None else wanted
    )
    (project / "train.py").write_text("print(2)\n")
    again, _ = resumed_request(earlier_run("r1"), program())
    if not wanted:
        assert with_retries(again, earlier_run("r1"), begin)[0].options.retries == Retries()
        return
    with pytest.raises(UsageError, match="--retries 2: the program has changed since run r1"):
        with_retries(again, earlier_run("r1"), begin)


@pytest.mark.parametrize(
    ("settings", "why"),
    [((), ""), (("checkpoint_minutes=0",), "checkpoint_steps and checkpoint_minutes are 0")],
)
def test_retries_without_checkpoints_announce_that_they_start_at_step_0(
    settings: tuple[str, ...], why: str
) -> None:
    for retries in (2, None):
        request = read_request(program(preset="smoke", settings=settings))
        request, lines = with_retries(request, None, StartOptions(retries=retries))
        is_announced = bool(why and retries)
        assert lines == [f"--retries 2: {why}, a retry starts at step 0"] * is_announced
        assert request.options.retries.most == (retries or (0 if why else 3))


def test_records_that_do_not_suffice_are_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="'r2' is not recorded here"):
        earlier_run("r2")
    recorded(SCRIPT)
    monkeypatch.chdir(project.parent)
    project.rename(project.with_name("moved"))
    with pytest.raises(UsageError, match="No such file or directory"):
        resumed_request(earlier_run("r1"), program())
    next((local_state.home() / "clusters").glob("*/runs/r1.json")).write_text("{")
    with pytest.raises(UsageError, match="did not record its options"):
        earlier_run("r1")
    local_state.save_run(RunRecord("r3", "c", str(Path.cwd() / "results/r3")))
    with pytest.raises(UsageError, match="did not record its options"):
        earlier_run("r3")
    local_state.save_run(RunRecord("r4", "c", str(Path.cwd() / "results/r4"), elsewhere=True))
    with pytest.raises(UsageError, match="on another computer") as refused:
        earlier_run("r4")
    assert "fab train --resume r4   # there" in str(refused.value.hint)


def test_a_switch_of_an_older_version_is_the_number_that_it_meant(project: Path) -> None:
    """0.1.0 recorded --sagemaker as true or false."""
    options = record_of(program(script="train.py")).options
    of = {typed: program_of({**options, "sagemaker": typed}).sagemaker for typed in (True, False)}
    assert of == {True: 2, False: None}


def test_options_that_this_version_does_not_know_are_left_out(project: Path) -> None:
    assert program_of({**record_of(SCRIPT).options, "new": 1}) == SCRIPT


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no document": lambda entry: entry.pop("document"),
    "a document that is text": lambda entry: entry.update(document="x"),
    "no program": lambda entry: entry["document"].pop("program"),
    "settings of a list": lambda entry: entry["document"]["program"].update(settings=[1]),
    "a variable that is a number": lambda entry: entry["document"].update(env={"A": 1}),
    "data without paths": lambda entry: entry["document"].update(data=[{"name": "x"}]),
    "options of a list": lambda entry: entry["given"].update(options=[]),
    "an option that is a number": lambda entry: entry["given"]["options"].update(env=5),
    "a list that is text": lambda entry: entry["given"]["options"].update(settings="seed=7"),
    "a switch that is text": lambda entry: entry["given"]["options"].update(sagemaker="no"),
    "a folder that is a number": lambda entry: entry["given"].update(folder=5),
    "given that is a list": lambda entry: entry.update(given=["x"]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_record_is_a_usage_error(
    project: Path, damage: Callable[[dict[str, Any]], object]
) -> None:
    recorded(TRAINING)
    path = next((local_state.home() / "clusters").glob("*/runs/r1.json"))
    entry = json.loads(path.read_text())
    damage(entry)
    path.write_text(json.dumps(entry))
    with pytest.raises(UsageError, match="the record of run r1 is damaged") as caught:
        earlier_run("r1")
    assert "without --resume" in caught.value.hint
