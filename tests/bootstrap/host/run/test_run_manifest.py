"""The manifest of a run's results."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from standins.runs.manifests import manifest as remote_manifest
from standins.runs.supervised_run import Run, says
from standins.waiting import wait_until

from bootstrap.host.base import regular_files


def test_the_manifest_holds_every_result_with_its_hash(home: Path) -> None:
    run = Run(home, f"{says(0, 'hello')}; mkdir -p work/ckpt; printf abc >work/ckpt/w.h5")
    run.result()
    files = {f["path"]: f for f in run.read("results/manifest.json")["files"]}
    assert {"run.json", "results/result.json", "logs/rank-0.log", "work/ckpt/w.h5"} <= files.keys()
    assert not {"logs/supervisor.log", "results/outputs.json"} & files.keys()
    for path, entry in files.items():
        data = (run.folder / path).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())


def test_the_manifest_holds_whole_trees_and_names_what_is_not_a_file(home: Path) -> None:
    make = [
        "mkdir -p results/model/variables logs/trace work/ckpt results/work",
        "echo w >results/model/variables/v.data; echo p >results/model/saved_model.pb",
        "echo t >logs/trace/host.xplane; echo r >results/work/x; echo s >results/x.part.old",
        "ln -s model results/latest; ln -s /etc/passwd results/model/secret",
        "mkfifo results/pipe work/ckpt/pipe; ln -s w work/ckpt/link; echo w >work/ckpt/w",
        "mkdir -p results/outputs/ckpt; echo first >results/outputs/ckpt/w",
        "touch \"results/$(printf 'a\\033b')\" results/state.json",
    ]
    run = Run(home, "; ".join(make))
    assert run.result()["state"] == "succeeded", "a FIFO holds nothing up"
    whole = run.read("results/manifest.json")
    paths = {entry["path"] for entry in whole["files"]}
    assert {
        "results/model/saved_model.pb",
        "results/model/variables/v.data",
        "results/x.part.old",
        "results/work/x",
        "results/outputs/ckpt/w",
        "logs/trace/host.xplane",
    } <= paths
    assert {entry["path"]: entry["kind"] for entry in whole["skipped"]} == {
        "results/latest": "link",
        "results/model/secret": "link",
        "results/pipe": "FIFO",
        "work/ckpt/pipe": "FIFO",
        "work/ckpt/link": "link",
        "work/ckpt/w": "another file comes back as outputs/ckpt/w",
        "results/a\x1bb": "its name has control characters or is not UTF-8",
        "results/state.json": "another file comes back as state.json",
    }


def test_a_killed_supervisor_leaves_its_outputs_in_the_manifest(home: Path) -> None:
    run = Run(home, "mkdir work/ckpt; printf weights >work/ckpt/w.h5; touch work/made; sleep 600")
    (run.folder / "work" / "shipped").write_text("program")
    process = run.start()
    run.running()
    wait_until((run.folder / "work/made").exists)
    process.kill()
    process.wait()
    paths = {entry["path"] for entry in remote_manifest(str(run.folder))["files"]}
    assert {"work/ckpt/w.h5", "work/made"} <= paths
    assert "work/shipped" not in paths


def test_a_link_that_replaces_a_file_is_not_followed(tmp_path: Path) -> None:
    """The program may make one after the files were listed."""
    (tmp_path / "secret").write_text("of somebody else")
    (tmp_path / "result.json").symlink_to(tmp_path / "secret")
    for path in (tmp_path / "result.json", tmp_path):
        with pytest.raises(OSError):
            regular_files.open_regular(str(path))
