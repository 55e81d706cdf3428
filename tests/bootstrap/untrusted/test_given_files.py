"""Files that a user names are read through one bounded reader, `inventory.files.read_given`.

A table of all modules here that open files themselves, and which files these are."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from standins.forks import forked_fab

from bootstrap.plan.runtimes import REPO

ON_HOSTS = "bootstrap/host"
OPENS = {"read_text", "read_bytes", "open", "ZipFile", "genfromtxt", "loadtxt", "fromfile"}
OTHERS = {"webbrowser", "opener", "direct", "hop", "files"}  # their `open` opens no file
OPEN = {
    "the reader itself": ("bootstrap/inventory/files.py",),
    "what a program sends to hosts or a bucket: regular files of a folder, in pieces": (
        "bootstrap/data/send.py",
        "bootstrap/ssh/bundle.py",
        "bootstrap/ssh/bundle_files.py",
        "bootstrap/runs/keras/choice.py",
    ),
    "the state of Pulumi's folder": ("bootstrap/inventory/damaged_state.py",),
    "a file of the project of the user": (
        "bootstrap/cli/program.py",
        "bootstrap/inventory/stack_config.py",
        "bootstrap/project/init.py",
    ),
    "files of ssh in the user's home, which ssh itself reads": (
        "bootstrap/ssh/host_keys.py",
        "bootstrap/ssh/trust.py",
        "bootstrap/ssh/login/choice.py",
        "bootstrap/ssh/login/keys.py",
        "bootstrap/ssh/login/openssh.py",
        "bootstrap/ssh/login/ssh_config.py",
    ),
    "content that was read already, or with a size of its own": (
        "bootstrap/serving/calls/samples.py",
        "bootstrap/serving/model.py",
    ),
    "fetched results, from `untrusted`": (
        "bootstrap/evaluation/here.py",
        "bootstrap/gpu_tools/trainings.py",
        "bootstrap/lifecycle/stop_policy.py",
        "bootstrap/report/facts.py",
        "bootstrap/report/page.py",
        "bootstrap/runs/results.py",
        "bootstrap/untrusted/records.py",
        "bootstrap/untrusted/unpack.py",
        "bootstrap/workflows/logs.py",
    ),
    "what Railhead has written on this computer": (
        "bootstrap/cli/machine_tasks.py",
        "bootstrap/cli/wheel.py",
        "bootstrap/clouds/aws/instances.py",
        "bootstrap/clouds/local/host.py",
        "bootstrap/clouds/local/processes.py",
        "bootstrap/clouds/prices.py",
        "bootstrap/console/log.py",
        "bootstrap/costs/ledger.py",
        "bootstrap/data/folders.py",
        "bootstrap/doctor/records.py",
        "bootstrap/interface/shown.py",
        "bootstrap/inventory/local_state.py",
        "bootstrap/inventory/pulumi_cli.py",
        "bootstrap/inventory/stack_records.py",
        "bootstrap/lifecycle/cloud_host_keys.py",
        "bootstrap/project/trusted_jobs.py",
        "bootstrap/provision/apt_cache.py",
        "bootstrap/provision/local_wheel.py",
        "bootstrap/provision/wheel_store.py",
        "bootstrap/provision/wheels.py",
        "bootstrap/serving/records.py",
    ),
    "what is installed with Railhead, or of the system": (
        "bootstrap/cli/command_line/completion.py",
        "bootstrap/cli/running.py",
        "bootstrap/cli/generate.py",
        "bootstrap/console/output.py",
        "bootstrap/doctor/package.py",
        "bootstrap/gpu_tools/tested_on.py",
        "bootstrap/health/measure.py",
        "bootstrap/inventory/host_programs.py",
        "bootstrap/plan/grid.py",
        "bootstrap/plan/runtimes.py",
        "bootstrap/provision/apply.py",
        "bootstrap/provision/horovod_wheel.py",
        "bootstrap/provision/local_environment.py",
        "bootstrap/provision/reboot.py",
        "bootstrap/provision/system_script.py",
        "bootstrap/report/html.py",
        "bootstrap/serving/environment.py",
        "bootstrap/serving/notebook.py",
        "railhead/__main__.py",
        "railhead/keras_patches/horovod/backups.py",
        "railhead/money/table.py",
        "stacks/timer/deadline.py",
        "stacks/timer/idle.py",
    ),
    "stacks import nothing of bootstrap: they have a reader of their own": (
        "stacks/rules/rules.py",
        "stacks/config/settings.py",
        "stacks/rules/validators.py",
    ),
}


def opens(tree: ast.AST) -> bool:
    """Whether code opens a file itself."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in OPENS:
            return True
        if isinstance(node.func, ast.Attribute) and node.func.attr in OPENS:
            value = node.func.value
            name = value.id if isinstance(value, ast.Name) else getattr(value, "attr", "")
            if name not in OTHERS:
                return True
        if ast.unparse(node.func) == "np.load":
            return True
    return False


def modules() -> Iterator[str]:
    """The modules of this computer that open files."""
    for room in ("bootstrap", "stacks", "railhead"):
        for path in (REPO / room).rglob("*.py"):
            name = path.relative_to(REPO).as_posix()
            if not name.startswith(ON_HOSTS) and opens(ast.parse(path.read_text())):
                yield name


def test_each_module_that_opens_files_itself_is_in_the_table() -> None:
    listed = [name for names in OPEN.values() for name in names]
    assert len(listed) == len({*listed})
    assert {*modules()} == {*listed}


@pytest.mark.parametrize(
    "text",
    [
        "open(options.file)",
        "Path(options.file).read_text()",
        "with path.open('rb') as file: pass",
        "Image.open(path)",
        "np.load(path)",
    ],
)
def test_an_open_that_goes_around_the_reader_is_found(text: str) -> None:
    assert opens(ast.parse(text)) and not opens(ast.parse("text_given(path, '--x', 9)"))


GIVEN = (
    "train --script t.py --requirements",
    "train --script t.py --ca",
    "train --script",
    "train --training",
    "predict m --file",
    "ssh-key",
    "wheel --out",
)


@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
@pytest.mark.parametrize("command", GIVEN)
def test_a_file_without_an_end_ends_no_command(tmp_path: Path, command: str, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "t.py").touch()
    hosts = [] if command.startswith("wheel") else ["--hosts", "127.0.0.1:9"]
    done = forked_fab(tmp_path, *command.split(), name, *hosts)
    assert done.returncode == 2 and "Traceback" not in done.stderr
