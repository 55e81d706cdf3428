"""A stack of a project outside the clone, whose Python has Railhead from its wheel."""

from __future__ import annotations

import os
from pathlib import Path

from engine.stack import BIN
from places import ROOT
from standins.installed import Installed, build


def test_a_project_of_init_creates_and_removes_hosts(
    engine: Path, tmp_path: Path, shared_caches: Path, home: Path
) -> None:
    """In a folder with packages of our names."""
    wheel = build(ROOT, tmp_path / "wheel", "--wheel", caches=shared_caches)
    installed = Installed.with_packages_of_the_tests(tmp_path / "env", wheel, shared_caches)
    project = tmp_path / "project"
    for name in ("bootstrap", "stacks", "training"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("raise SystemExit('the one of the project')\n")
    path = [installed.folder / "bin", BIN, engine, "/usr/sbin", "/usr/bin", "/bin"]
    variables = {
        "PATH": os.pathsep.join(map(str, path)),
        "PULUMI_BACKEND_URL": f"file://{tmp_path / 'state'}",
        "PULUMI_HOME": str(tmp_path / "pulumi"),
        "PULUMI_CONFIG_PASSPHRASE": "of a test",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_RUNTIME_VIRTUALENV": "",
    }
    (tmp_path / "state").mkdir()
    (installed.folder / "bin/pulumi").symlink_to(engine / "pulumi")

    def typed(program: str, *args: str) -> str:
        done = installed.run(program, *args, folder=project, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    typed("railhead", "init")
    typed("pulumi", "--non-interactive", "stack", "init", "dev")
    text = "config:\n  railhead:cloud: local\n  railhead:count: '1'\n"
    with (project / "Pulumi.dev.yaml").open("a") as file:
        file.write(text)
    printed = typed("railhead", "up", "--yes")
    assert "railhead train" in printed and "fab " not in printed
    assert "[h1] reachable" in typed("railhead", "status")
    assert "h1  ok  gone" in typed("railhead", "teardown", "--destroy", "--yes")
    assert not (home / ".railhead/clusters/dev/hosts/h1").exists()
