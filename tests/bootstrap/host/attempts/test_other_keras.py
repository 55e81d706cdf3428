"""A run that starts again with the other Keras: the supervisor's part, with a command of the test
in place of mpirun; and how a host is prepared."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from standins.runs.supervised_run import Run, hashed, says

from bootstrap.host.agent.temporary import make_temporary
from bootstrap.host.attempts import prepare
from bootstrap.host.base.programs import BUNDLE
from railhead.documents.agent.files import BundleFile
from railhead.documents.agent.runs import MakeTemporary
from railhead.documents.codec import decode, encode
from railhead.documents.runs.run import RunDocument

ERROR = "ImportError: `keras.optimizers.legacy` is not supported in Keras 3."
ENDED = '@railhead {"kind": "ended", "exit": 1}'
LEGACY = f"{says(1, ERROR)}; {says(1, ENDED)}; exit 1"
PROGRAM = {"train.py": "import tf\n", "lib/net.py": "x = 1\n"}


def by_keras(first: str, second: str) -> str:
    """A command that does one thing with Keras 3, another with Keras 2."""
    return f"if grep -q '\"keras\": 3' run.json; then {first}; else {second}; fi"


def auto_run(home: Path, script: str, **changes: Any) -> Run:
    """A run of a script that decided for Keras 3, with its files in place."""
    run = Run(home, script, keras_auto=True, keras=3, **changes)
    place_program(run.folder)
    return run


def place_program(folder: Path) -> None:
    """Put a program into work/, with its list and the contents that a host stores."""
    blobs = folder.parents[1] / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    files = []
    for path, text in PROGRAM.items():
        digest = hashlib.sha256(text.encode()).hexdigest()
        (blobs / digest).write_text(text)
        (folder / "work" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "work" / path).write_text(text)
        files.append(BundleFile(path, digest, len(text), False))
    (folder / BUNDLE).write_text(json.dumps(encode(files)))


def programs_in(folder: Path) -> dict[str, str]:
    """The files of work/, by path."""
    work = folder / "work"
    paths = [path for path in work.rglob("*") if path.is_file()]
    return {path.relative_to(work).as_posix(): path.read_text() for path in paths}


def test_a_run_that_needs_the_other_keras_starts_again_with_it(home: Path) -> None:
    spoil = "mkdir -p work/__pycache__ work/made; echo 3 >work/__pycache__/train.pyc"
    spoil += "; echo 4 >work/made/events.out.tfevents.1"
    check = "cat work/train.py >seen; ls work results >>seen"
    run = auto_run(home, by_keras(f"{spoil}; {LEGACY}", f"{check}; {says(0, 'trained')}"))
    result = run.result()
    assert (result["state"], result["exit_code"], result["culprit"]) == ("succeeded", 0, None)
    (attempt,) = result["attempts"]
    assert (attempt["keras"], attempt["culprit"]["rank"]) == (3, 1)
    assert attempt["culprit"]["lines"][-1] == ERROR
    assert 0 < attempt["seconds"] <= result["seconds"]
    assert (run.read("run.json")["keras"], run.read("run.json")["keras_auto"]) == (2, False)
    seen = (run.folder / "seen").read_text().split()
    assert seen[:2] == ["import", "tf"] and not {"made", "__pycache__"} & {*seen}
    assert run.log("rank-1").splitlines()[0] == ERROR, "the log of the first attempt stays"
    again = f"railhead: Keras 3 failed ({ERROR}): started again with Keras 2"
    assert run.log("rank-0").splitlines() == [again, "trained"]
    assert run.read("state.json")["attempts"] == result["attempts"]
    assert "work/__pycache__/train.pyc" not in hashed(run)


ONCE = {
    "a step was complete": says(0, "10/10 [====] - 1s"),
    "a checkpoint was written": "mkdir -p checkpoints/step-00000001; echo 1 >checkpoints/w.h5",
    "it had written a file": "echo 3 >work/predictions.csv",
    "it had changed its own file": "echo 2 >work/train.py",
    "it had written a result": "echo 4 >results/early",
    "its files are not known": f"rm {BUNDLE}",
    "another host was not prepared": "printf '#!/bin/sh\\nexit 9\\n' >../../../bin/ssh",
}


@pytest.mark.parametrize("before", ONCE.values(), ids=ONCE)
def test_otherwise_it_fails_at_once(home: Path, before: str) -> None:
    run = auto_run(home, by_keras(f"{before}; {LEGACY}", "touch never"))
    result = run.result()
    assert (result["state"], result["culprit"]["lines"][-1]) == ("failed", ERROR)
    assert "attempts" not in result and not (run.folder / "never").exists()


WHY = {
    f"rm {BUNDLE}": "not started again with Keras 2: a: ",
    "echo 3 >work/new": "not started again with Keras 2: its script has already written work/new",
}


@pytest.mark.parametrize(("before", "why"), WHY.items())
def test_why_it_did_not_start_again_is_in_the_result(home: Path, before: str, why: str) -> None:
    run = auto_run(home, by_keras(f"{before}; {LEGACY}", "touch never"))
    assert why in run.result()["trouble"]


def test_a_run_with_thresholds_starts_again_too(home: Path) -> None:
    limits = [{"metric": "loss", "bound": "max", "value": 1.0}]
    script = by_keras(LEGACY, says(0, '@railhead {"kind": "evaluation", "loss": 0.5}'))
    result = auto_run(home, script, thresholds=limits).result()
    assert (result["state"], len(result["attempts"])) == ("succeeded", 1)


def test_secrets_are_removed_where_it_does_not_start_again(home: Path) -> None:
    run = auto_run(home, "", secrets=["TOKEN"])
    make_temporary(MakeTemporary(str(run.folder)))
    run.write("memory/secrets.json", {"TOKEN": "hunter2"})
    spoil = "rm -r ../../blobs; ln -s /nowhere work/train.pyc"
    script = by_keras(f"{spoil}; {LEGACY}", "touch never")
    run.mpirun(script)
    assert run.result()["state"] == "failed"
    assert not [*run.folder.glob("memory/*")] and run.read("run.json")["keras"] == 3


def test_a_run_whose_keras_was_given_never_starts_again(home: Path) -> None:
    run = auto_run(home, by_keras(LEGACY, "touch never"))
    run.write("run.json", {**run.read("run.json"), "keras_auto": False})
    assert run.result()["state"] == "failed" and not (run.folder / "never").exists()


def test_it_never_starts_a_third_time(home: Path) -> None:
    """Both attempts fail, each with an error that the other Keras does not have."""
    other = says(0, "ImportError: cannot import name 'ops' from 'tf_keras'")
    ended = '@railhead {"kind": "ended", "exit": 7}'
    run = auto_run(home, by_keras(LEGACY, f"{other}; {says(0, ended)}; exit 7"))
    result = run.result()
    assert (result["state"], result["exit_code"], result["culprit"]["exit"]) == ("failed", 7, 7)
    assert [attempt["keras"] for attempt in result["attempts"]] == [3]


def test_max_hours_are_those_of_both_attempts(home: Path) -> None:
    first = f"sleep 2; {LEGACY}"
    run = auto_run(home, by_keras(first, "exec sleep 600"), max_hours=4 / 3600)
    result = run.result()
    assert (result["state"], result["seconds"] < 30) == ("cancelled", True)


def test_secrets_reach_both_attempts_and_no_file(home: Path) -> None:
    use = "cat memory/secrets-0.json >>seen.json; rm memory/secrets-0.json"
    run = auto_run(home, "", secrets=["TOKEN"], hosts=[{"name": "a", "slots": 2}])
    make_temporary(MakeTemporary(str(run.folder)))
    for name in ("secrets.json", "secrets-0.json", "secrets-1.json"):
        run.write(f"memory/{name}", {"TOKEN": "hunter2"})
    script = by_keras(f"{use}; {LEGACY}", f"{use}; ls memory >left; {says(0, 'it is hunter2')}")
    run.mpirun(script)
    assert run.result()["state"] == "succeeded"
    assert (run.folder / "seen.json").read_text() == '{"TOKEN": "hunter2"}' * 2
    assert (run.folder / "left").read_text().split() == ["secrets-1.json"]
    assert run.log("rank-0").splitlines()[-1] == "it is [secret]"
    assert not [*run.folder.glob("memory/*")]


def test_a_host_is_as_before_the_start_but_for_the_keras(home: Path) -> None:
    run = auto_run(home, "true", secrets=["TOKEN"])
    folder = run.folder
    (folder / "work/lib/net.py").write_text("changed")
    (folder / "work/lib/__pycache__").mkdir()
    (folder / "work/lib/__pycache__/net.pyc").write_text("compiled")
    (folder / "work/out").symlink_to("/nowhere")
    (folder / "results/metrics.jsonl").write_text("{}\n")
    (folder / "results/notes").mkdir()
    document = decode(RunDocument, {**run.read("run.json"), "keras": 2})
    start = prepare.Start(document, str(folder), {"TOKEN": "x"}, as_new=True)
    for _ in range(2):  # hosts may share a home
        prepare.prepare(start, 1)
    assert programs_in(folder) == PROGRAM
    assert sorted(path.name for path in (folder / "work").rglob("*")) == [
        "lib",
        "net.py",
        "train.py",
    ]
    assert [path.name for path in (folder / "results").iterdir()] == ["metrics.jsonl"]
    secrets = [*folder.glob("memory/*")]
    assert [path.name for path in secrets] == ["secrets-1.json"]
    assert secrets[0].stat().st_mode & 0o777 == 0o600
    assert (folder / "tmp").is_dir() and run.read("run.json")["keras"] == 2
    shutil.rmtree((folder / "memory").resolve())
