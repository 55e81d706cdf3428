"""A `pulumi` on PATH that does what a test writes, and records how it was called.

pulumi = PulumiCommand(folder)              # the folder goes to the front of PATH
pulumi.answers(stack_export=exported(...), up=[REFUSED, "echo done"])
pulumi.calls                                # ["stack export --stack dev", "up --yes ..."]
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Resource = Mapping[str, Any]
OPTION = " --non-interactive"


class PulumiCommand:
    """The command in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "pulumi"
        self._calls = folder / "calls"
        folder.mkdir(parents=True, exist_ok=True)

    def answers(self, **scripts: str | Sequence[str]) -> None:
        """Write the command: shell scripts by the first arguments, joined with _. Of several, each
        call runs the next one; the last one is for all further calls."""
        cases = ""
        for name in sorted(scripts, key=len, reverse=True):  # `stack_export` before `stack`
            answer = scripts[name]
            each = [answer] if isinstance(answer, str) else answer
            for number, script in enumerate(each, 1):
                (self.folder / f"{name}.{number}").write_text(f"{script}\n")
            (self.folder / f"{name}.count").unlink(missing_ok=True)
            cases += f'"{name.replace("_", " ")}"*) name={name} last={len(each)};;\n'
        self.path.write_text(
            f'#!/bin/sh\nf={shlex.quote(str(self.folder))}\necho "$*" >> $f/calls\n'
            f'case "$*" in\n{cases}*) echo "unknown: $*" >&2; exit 99;;\nesac\nn=1\n'
            "if [ $last -gt 1 ]; then\n"
            "  [ ! -e $f/$name.count ] || read n < $f/$name.count\n"
            "  [ $n -ge $last ] || echo $((n + 1)) > $f/$name.count\nfi\n"
            ". $f/$name.$n\n"
        )
        self.path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """The arguments of each call, without the option that all calls have."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        assert all(line.endswith(OPTION) for line in lines), lines
        return [line.removesuffix(OPTION) for line in lines]

    def called(self, *commands: str) -> list[str]:
        """The calls that begin with one of these."""
        return [call for call in self.calls if call.startswith(commands)]


def exported(*resources: Resource) -> str:
    """The script that prints what `pulumi stack export` prints for these resources."""
    return f"echo {shlex.quote(json.dumps({'deployment': {'resources': resources}}))}"


def resource(kind: str, name: str = "x", **values: Any) -> dict[str, Any]:
    """A resource of Pulumi's state."""
    state = {"type": kind, "urn": f"urn:pulumi:dev::railhead::{kind}::{name}", **values}
    return state if "id" not in values else {"custom": True, **state}


def on_aws(
    *machines: str,
    cluster: str = "g4dn",
    cluster_id: str = "",
    region: str = "us-east-1",
    document: Mapping[str, Any] | None = None,
) -> list[Resource]:
    """The state of a stack on AWS with these instances; with `document`, its output `cluster`."""
    outputs = {"cluster": document} if document else {}
    resources = [
        resource("pulumi:pulumi:Stack", "railhead-dev", outputs=outputs),
        resource("pulumi:providers:aws", cluster, id="p", inputs={"region": region}),
        resource("railhead:aws:Cluster", cluster),
        *(
            resource("aws:ec2/instance:Instance", f"{cluster}-{number}", id=machine, outputs={})
            for number, machine in enumerate(machines, 1)
        ),
    ]
    stash = resource(
        "pulumi:index:Stash", "cluster-id", id="s", outputs={"output": cluster_id or None}
    )
    return [*resources, stash]
