"""What `fab leaks` of a test sees: a Pulumi with the stacks of the test, and no cloud."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import pytest
from standins.leak_reports import STATE, HasStacks, Run
from standins.pulumi_command import PulumiCommand

from bootstrap.errors import RailheadError
from bootstrap.leaks import end
from bootstrap.leaks.command import leaks
from railhead.documents.codec import decode
from railhead.documents.leaks import LeakReport
from railhead.documents.options.hosts import LeaksOptions, TeardownOptions


@pytest.fixture(autouse=True)
def no_cloud(home: Path, no_aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(end, "EVERY", 0.01)


@pytest.fixture
def has_stacks(pulumi: PulumiCommand) -> HasStacks:
    """Let the Pulumi backend have these stacks, all with one state, and an empty one."""

    def has(*names: str, export: str = STATE) -> None:
        stacks = [{"name": name, "resourceCount": 9} for name in names]
        listed = json.dumps([*stacks, {"name": "empty", "resourceCount": 0}])
        pulumi.answers(stack_ls=f"echo {shlex.quote(listed)}", stack_export=export)

    return has


@pytest.fixture
def run() -> Run:
    """The report of `fab leaks --json`, and the error with which it ends."""

    def of(owner: str = "ann", **options: bool) -> tuple[LeakReport, RailheadError | None]:
        out, error = io.StringIO(), None
        removal = TeardownOptions(
            yes=options.get("yes", False), with_bucket=options.get("with_bucket", False)
        )
        try:
            leaks(LeaksOptions(options.get("end", False)), removal, owner, out)
        except RailheadError as raised:
            error = raised
        return decode(LeakReport, json.loads(out.getvalue())), error

    return of
