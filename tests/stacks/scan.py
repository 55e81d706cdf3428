"""Checkov over plans: in an environment of its own, and without a network."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from places import ROOT
from standins.environments import python_of

from bootstrap.inventory import caches

LOCK = ROOT / "locks" / "checkov.txt"
MARK = "checkov:skip"
SKIP = re.compile(r"\s*# checkov:skip=(CKV2?_[A-Z]+_[0-9]+): (\S.+)")
# Every way out leads nowhere, so that a check which needs one shows.
NOWHERE = "http://127.0.0.1:9"
ALONE = {
    "CKV_SKIP_PACKAGE_UPDATE_CHECK": "true",
    "http_proxy": NOWHERE,
    "https_proxy": NOWHERE,
    "HTTPS_PROXY": NOWHERE,
}


@dataclass(frozen=True)
class Finding:
    """The finding of one check about one resource of a plan."""

    plan: str
    check: str
    address: str
    name: str
    passed: bool

    @property
    def kind(self) -> str:
        """The resource's type."""
        return self.address.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.plan}: {self.check} {self.address}: {self.name}"


@dataclass(frozen=True)
class Skip:
    """A check whose word is not followed, as the code says it."""

    check: str
    reason: str
    file: str


def skips(folder: Path) -> list[Skip]:
    """The skips below a folder; ValueError for one without an id or a reason."""
    marked = []
    for path in sorted(folder.rglob("*.py")):
        for line in path.read_text().splitlines():
            if MARK in line:
                marked.append(_skip(line, path.relative_to(folder).as_posix()))
    return marked


def _skip(line: str, file: str) -> Skip:
    if not (output := SKIP.fullmatch(line)):
        raise ValueError(f"{file}: write # {MARK}=ID: REASON, and not {line.strip()}")
    return Skip(output[1], output[2], file)


def python() -> Path:
    """The Python of checkov's environment."""
    return python_of("checkov")


def findings_of(plans: Mapping[str, Any], folder: Path) -> list[Finding]:
    """What checkov says of these plans. It always says the same of the same plans, in 15 seconds of
    CPU: its findings are kept in the cache, by all that they depend on."""
    parts = (json.dumps(plans, sort_keys=True), LOCK.read_text(), Path(__file__).read_text())
    digest = hashlib.sha256("\0".join((*parts, sys.version)).encode()).hexdigest()[:16]
    kept = caches.cache("checkov") / f"findings-{digest}.json"
    if not kept.exists():
        findings = [asdict(finding) for finding in scan(plans, folder)]
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(findings))
        partial.rename(kept)
    return [Finding(**finding) for finding in json.loads(kept.read_text())]


def scan(plans: Mapping[str, Any], folder: Path) -> list[Finding]:
    """All that checkov says of these plans, which it reads from `folder`, in one run."""
    for name, plan in plans.items():
        (folder / f"{name}.json").write_text(json.dumps(plan, indent=1))
    argv = [str(python()), "-m", "checkov.main", "--framework", "terraform_plan"]
    argv += ["--directory", str(folder), "--output", "json", "--compact"]
    argv += ["--skip-download", "--soft-fail"]
    # Nothing of who runs this: a key of theirs would fetch more checks.
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", **ALONE}
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode or done.stderr.strip():
        raise RuntimeError(f"checkov ended with {done.returncode}: {done.stderr[-2000:]}")
    results = json.loads(done.stdout)["results"]
    if results["parsing_errors"]:
        raise RuntimeError(f"checkov cannot read {results['parsing_errors']}")
    both = [*results["passed_checks"], *results["failed_checks"]]
    return [_finding(result) for result in both]


def _finding(result: Mapping[str, Any]) -> Finding:
    return Finding(
        plan=Path(result["file_path"]).stem,
        check=result["check_id"],
        address=result["resource"],
        name=result["check_name"],
        passed=result["check_result"]["result"] == "PASSED",
    )
