"""What is left of a run's checkpoints after the bucket's own rules, on real servers.

The clouds apply the rules once a day; here the test does it, to the versions that a server has.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from standins.stores.object_stores import S3, Gcs, Version

from bootstrap.host.run import checkpoint_files
from bootstrap.host.upload import restore_checkpoints, upload
from bootstrap.host.upload.live_upload import CheckpointUpload
from tests.stacks.aws import world as aws
from tests.stacks.gcp import world as gcp

LIFECYCLE = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
RESULTS = "results/model.keras"
Rule = Callable[[Version, int], bool]


def aws_rule(rule: dict[str, Any]) -> Rule:
    """Whether a rule of S3 removes a version that has been an old one for so many days."""
    days = rule["noncurrentVersionExpiration"]["noncurrentDays"]
    tag = rule["filter"].get("tag")
    assert tag or rule["filter"] == {"prefix": ""}
    return lambda version, age: (
        not version.current
        and age >= days
        and (not tag or version.marks.get(tag["key"]) == tag["value"])
    )


def gcp_rule(rule: dict[str, Any]) -> Rule:
    """The same for a rule of Cloud Storage, of a version that was uploaded and replaced on one
    day."""
    condition = dict(rule["condition"])
    state = condition.pop("withState", "ANY")
    ((name, days),) = condition.items()
    if name == "daysSinceNoncurrentTime":
        return lambda version, age: not version.current and age >= days
    assert name == "daysSinceCustomTime"
    return lambda version, age: (
        "customTime" in version.marks
        and age >= days
        and not (state == "ARCHIVED" and version.current)
    )


def rules_of(store: S3 | Gcs) -> list[Rule]:
    """The rules of a stack's bucket."""
    if isinstance(store, S3):
        inputs = aws.made().one(LIFECYCLE).inputs["rules"]
        return [aws_rule(rule) for rule in inputs]
    inputs = gcp.made().one(gcp.BUCKET).inputs["lifecycleRules"]
    return [gcp_rule(rule) for rule in inputs if rule["action"]["type"] == "Delete"]


def pass_days(store: S3 | Gcs, bucket: str, days: int) -> None:
    """Apply the rules so many days after the last change."""
    rules = rules_of(store)
    for version in store.versions(bucket):
        if any(rule(version, days) for rule in rules):
            store.remove_version(bucket, version)


def old_versions(store: S3 | Gcs, bucket: str) -> list[str]:
    return sorted(version.name for version in store.versions(bucket) if not version.current)


def train(run: Path, sender: CheckpointUpload, steps: int) -> None:
    """Write and upload checkpoints; the last two and the best one, which is the third, stay."""
    for step in range(1, steps + 1):
        folder = run / "checkpoints" / f"step-{step:08d}"
        folder.mkdir(parents=True)
        (folder / "state.npz").write_text(f"arrays {step}")
        (folder / "manifest.json").write_text("{}")
        old = run / "checkpoints" / f"step-{step - 2:08d}"
        if old.is_dir() and step - 2 != 3:
            for path in old.iterdir():
                path.unlink()
            old.rmdir()
        assert sender.step()


@pytest.mark.parametrize("fixture", ["s3_store", "gcs_store"])
def test_old_checkpoints_are_gone_after_a_day_and_the_newest_and_the_best_are_whole(
    fixture: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store: S3 | Gcs = request.getfixturevalue(fixture)
    bucket = f"results-{uuid.uuid4().hex[:8]}"
    if isinstance(store, S3):
        store.make_bucket(bucket)
        store.keep_versions(bucket)
    else:
        store.make_bucket(bucket, versioning={"enabled": True})
    for name, value in store.environ.items():
        monkeypatch.setenv(name, value)
    destination = upload.destination(store.uri(bucket, "runs/r1"))
    (tmp_path / "model").write_text("weights")
    for _ in range(2):
        destination.put(str(tmp_path / "model"), RESULTS)
    run = tmp_path / "r1"
    train(run, CheckpointUpload(str(run), destination), 9)

    before = old_versions(store, bucket)
    assert len([name for name in before if "/checkpoints/" in name]) > 10
    pass_days(store, bucket, 1)
    assert old_versions(store, bucket) == [f"runs/r1/{RESULTS}"], "the backup of results stays"
    pass_days(store, bucket, 7)
    assert old_versions(store, bucket) == []

    outcome = restore_checkpoints.restore(destination, str(tmp_path / "back"))
    assert (outcome.files, outcome.damaged) == (6, ())
    back = {path.name: (path / "state.npz").read_text() for path in (tmp_path / "back").iterdir()}
    assert back == {f"step-{step:08d}": f"arrays {step}" for step in (3, 8, 9)}
    assert checkpoint_files.newest([f"{name}/state.npz" for name in back]) == "step-00000009"
    destination.get(RESULTS, str(tmp_path / "again"))
    assert (tmp_path / "again").read_text() == "weights"
