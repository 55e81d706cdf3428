"""The wheel: built without git, installed in an empty environment, and used in another folder."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from places import ROOT
from standins.forks import forked_fab
from standins.installed import SOURCES, Installed, build
from standins.pythons import python_here

from bootstrap.cli import generate
from railhead.installation import DISTRIBUTION
from railhead.version import VERSION

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
OLDEST_AND_NEWEST = ("3.10", "3.13")  # of requires-python
DIST_INFO = f"{DISTRIBUTION.replace('-', '_')}-{VERSION}.dist-info"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, shared_caches: Path) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "--wheel", caches=shared_caches)


@pytest.fixture(scope="module")
def installed(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory, shared_caches: Path
) -> Installed:
    folder = tmp_path_factory.mktemp("installed") / "env"
    return Installed.whole(folder, wheel, shared_caches, sys.executable)


def test_a_copy_without_git_builds_the_same_wheel(
    wheel: Path, tmp_path: Path, shared_caches: Path
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy / name)
    again = build(copy, tmp_path / "again", caches=shared_caches)
    assert again.read_bytes() == wheel.read_bytes()


def test_the_wheel_takes_one_name_and_has_what_hosts_need(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"railhead", DIST_INFO}
    texts = [
        path.relative_to(ROOT).as_posix()
        for room in ("bootstrap", "stacks", "training")
        for path in (ROOT / room).rglob("*")
        if path.suffix not in ("", ".py", ".pyc") and "gpu_tools" not in path.parts
    ]
    assert {"bootstrap/host/scripts/horovod.sh", "stacks/timer/deadline.sh"} <= {*texts}
    locks = [path.name for path in (ROOT / "locks").glob("runtime-*.txt")]
    texts += [f"locks/{name}" for name in (*locks, "uv.txt", "bucket.txt", "horovod.txt")]
    wanted = [f"railhead/{name}" for name in texts]
    assert {*wanted} <= {*names}
    assert not [name for name in names if "gpu_tools" in name or "__pycache__" in name]


@pytest.mark.parametrize("python", [one for one in OLDEST_AND_NEWEST if one != HERE])
def test_it_runs_on_the_oldest_and_on_the_newest_python(
    wheel: Path, tmp_path: Path, shared_caches: Path, python: str
) -> None:
    path = python_here(python)
    if path is None:
        pytest.skip(f"there is no Python {python} here")
    install = Installed.as_tool if python == OLDEST_AND_NEWEST[-1] else Installed.whole
    one = install(tmp_path / "env", wheel, shared_caches, path)
    assert "unknown preset" in one.run("railhead", "train", "--preset", "x", folder=tmp_path).stderr
    done = one.run("python", "-c", "import railhead; railhead.Cluster", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_has_the_tasks_and_texts_of_fab(installed: Installed, tmp_path: Path) -> None:
    for args in (("--list",), ("--help",), ("--help", "train"), ("train", "--preset", "x")):
        ours, fabs = installed.run("railhead", *args, folder=tmp_path), forked_fab(tmp_path, *args)
        assert ours.returncode == fabs.returncode
        pages = str(installed.folder / f"lib/python{HERE}/site-packages/railhead/docs")
        printed = (ours.stdout + ours.stderr).replace(pages, "docs")
        fab_says = re.sub(r"\bfab\b", "railhead", fabs.stdout + fabs.stderr)
        assert printed.split() == fab_says.split(), "but for the ends of lines"


def test_the_hint_about_the_extra_installs_nothing_under_our_old_name(
    installed: Installed, tmp_path: Path
) -> None:
    """pip takes the distribution that is there, and asks no index for it."""
    code = "from railhead.installation import ADD_STACKS; print(ADD_STACKS)"
    command = installed.run("python", "-c", code, folder=tmp_path).stdout
    python, *words = shlex.split(command)
    assert python == str(installed.folder / "bin/python")
    done = installed.run("python", *words, "--dry-run", "--no-index", folder=tmp_path)
    assert f"Requirement already satisfied: {DISTRIBUTION}[stacks]" in done.stdout
    assert "No matching distribution found for boto3" in done.stderr


def test_doctor_says_which_wheel_is_installed(
    installed: Installed, wheel: Path, tmp_path: Path
) -> None:
    code = "from railhead.bootstrap.doctor.package import check; print(check().evidence)"
    printed = installed.run("python", "-c", code, folder=tmp_path).stdout.strip()
    assert printed == f"{VERSION}, distribution {DISTRIBUTION}, from {wheel}"


def test_fabrics_own_fab_runs_our_tasks_too(installed: Installed, tmp_path: Path) -> None:
    installed.run("railhead", "init", folder=tmp_path)
    done = installed.run("fab", "status", folder=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("railhead status: no hosts")
    assert "Fabric 3" in installed.run("fab", "--version", folder=tmp_path).stdout


def test_init_writes_a_project_and_replaces_nothing(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "fabfile.py").write_text("mine = 1\n")
    done = installed.run("railhead", "init", folder=tmp_path, PATH="/usr/bin:/bin")
    assert done.returncode == 0 and done.stdout.count("https://www.pulumi.com") == 1
    assert (tmp_path / "fabfile.py").read_text() == "mine = 1\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("Pulumi.yaml", "fabfile.py", "railhead.toml", "railhead_stack.py")
    ]
    project = yaml.safe_load((tmp_path / "Pulumi.yaml").read_text())
    assert project["runtime"]["options"]["virtualenv"] == str(installed.folder)
    assert project["config"] == yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]


def test_the_pulumi_project_of_init_is_current() -> None:
    assert (ROOT / "railhead/project/Pulumi.yaml").read_text() == generate.pulumi_project()


def test_tasks_of_the_project_are_beside_ours(installed: Installed, tmp_path: Path) -> None:
    installed.run("railhead", "init", folder=tmp_path)
    with (tmp_path / "fabfile.py").open("a") as file:
        file.write("from invoke import task\n@task\ndef mine(c):\n    print('mine')\n")
        file.write("ns.add_task(mine)\n")
    assert installed.run("railhead", "mine", folder=tmp_path).stdout == "mine\n"
    assert (
        "unknown preset"
        in installed.run("railhead", "train", "--preset", "x", folder=tmp_path).stderr
    )


def test_packages_of_the_project_with_our_names_are_left_alone(
    installed: Installed, tmp_path: Path
) -> None:
    """Also where they come first, and a fabfile is for Fabric."""
    for name in ("bootstrap", "stacks", "training", "locks"):
        (tmp_path / name).mkdir()
        text = f"open({str(tmp_path / 'imported')!r}, 'a').write('{name}')\n"
        (tmp_path / name / "__init__.py").write_text(text)
    (tmp_path / "fabfile.py").write_text("import training\n")
    path = {"PYTHONPATH": str(tmp_path)}
    for args in (("--list",), ("train", "--set", "epochs=0"), ("plan", "--hosts", "127.0.0.1:1")):
        done = installed.run("railhead", *args, folder=tmp_path, **path)
        assert "Traceback" not in done.stderr
    assert "127.0.0.1" in done.stderr and not (tmp_path / "imported").exists()
    code = "import bootstrap, stacks, training, railhead; railhead.Cluster('a')"
    done = installed.run("python", "-c", code, folder=tmp_path, **path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "imported").read_text() == "bootstrapstackstraining"
