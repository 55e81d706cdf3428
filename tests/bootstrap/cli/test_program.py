"""The command `fab` in a folder that is not the clone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT
from standins.forks import forked_fab

from bootstrap.cli import program
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import parse_hosts
from railhead.documents.runs.run_record import RunRecord

MINE = "from fabric import task\n@task\ndef mine(c):\n    print('theirs')\n"


def test_our_tasks_are_there_in_the_folder_of_a_project(tmp_path: Path) -> None:
    process = forked_fab(tmp_path, "train", "--hosts", "a", "--preset", "smok")
    assert process.returncode == 2 and process.stderr.startswith(
        "fab train: unknown preset 'smok'."
    )


def test_a_fabfile_of_the_project_comes_first(tmp_path: Path) -> None:
    (tmp_path / "fabfile.py").write_text(MINE)
    (tmp_path / "sub").mkdir()
    for folder in (tmp_path, tmp_path / "sub"):
        assert forked_fab(folder, "mine").stdout == "theirs\n"
    clone = str(ROOT)
    assert "unknown preset" in forked_fab(tmp_path, "-r", clone, "train", "--preset", "smok").stderr


@pytest.mark.parametrize("has_fabfile", [False, True])
def test_a_fabfile_among_fetched_results_is_not_run(tmp_path: Path, has_fabfile: bool) -> None:
    """A host has written it."""
    inside = tmp_path / "results/20261123-064512-0a1b2c/work/src"
    inside.mkdir(parents=True)
    for folder in (inside, inside.parent, inside.parents[1]):
        (folder / "fabfile.py").write_text("open('ran', 'w')\n")
    if has_fabfile:
        (tmp_path / "fabfile.py").write_text(MINE)
    process = forked_fab(inside, "--list")
    assert ("  mine" in process.stdout, "  train " in process.stdout) == (
        has_fabfile,
        not has_fabfile,
    )
    assert not (inside / "ran").exists()


def test_a_folder_that_was_deleted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 2 and "was deleted" in capsys.readouterr().err


def test_the_next_command_of_an_error_has_the_stack_that_was_typed(tmp_path: Path) -> None:
    process = forked_fab(tmp_path, "extend", "--stack", "gpu-a")
    assert process.returncode == 2
    assert "next: fab extend --stack gpu-a --hours 4   # from now" in process.stderr


@pytest.mark.parametrize("task", ["teardown", "stop"])
def test_a_bare_command_names_the_runs_of_other_folders_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    mine, other = tmp_path / "mine", tmp_path / "other"
    hosts = parse_hosts("127.0.0.1:1")
    local_state.save_cluster(hosts)
    for number, folder in enumerate((mine, other, other, other, other)):
        folder.mkdir(exist_ok=True)
        results = folder / "results" / f"r{number}"
        local_state.save_run(RunRecord(f"r{number}", hosts.name, str(results)))
    named = ", ".join(f"r{n} (its results go to {other}/results/r{n})" for n in (4, 3, 2))
    process, with_hosts = forked_fab(mine, task), forked_fab(mine, task, "--hosts", "127.0.0.1:1")
    assert f"also ends what is left of run {named}, 1 more\n" in process.stdout
    assert "also ends" not in with_hosts.stdout
    if task == "teardown":  # it may ask
        for words in (("--quiet", task), (task, "--quiet")):
            assert forked_fab(mine, *words).stdout.startswith("also ends"), words
    assert process.returncode == with_hosts.returncode, "it went on"
    assert process.stderr.splitlines()[0] == with_hosts.stderr.splitlines()[0]
    for number in range(1, 5):  # fetched: it has ended
        (other / f"results/r{number}").mkdir(parents=True)
        (other / f"results/r{number}/result.json").write_text("{}")
    assert "also ends" not in forked_fab(mine, task).stdout, "r0 is of this folder"


def test_the_debug_log_is_without_the_configuration_of_fabric(tmp_path: Path, home: Path) -> None:
    """It may have passwords; a fabfile of the project has the debug log of Invoke."""
    (home / ".fabric.yaml").write_text("connect_kwargs: {password: hunter2}\n")
    assert "hunter2" not in forked_fab(tmp_path, "--debug", "status").stderr
    (tmp_path / "fabfile.py").write_text(MINE)
    assert "invoke" in forked_fab(tmp_path, "--debug", "mine").stderr


def test_fab_alone_prints_the_tasks(tmp_path: Path) -> None:
    process, listed = forked_fab(tmp_path), forked_fab(tmp_path, "--list")
    assert process.returncode == 0 and "  train " in process.stdout
    assert process.stdout == listed.stdout


def test_f_after_logs_follows(tmp_path: Path) -> None:
    with_f, with_follow = (
        forked_fab(tmp_path, "logs", option, "--run", "r1") for option in ("-f", "--follow")
    )
    assert with_f.returncode == 2 and with_f.stderr.startswith("fab logs: no hosts")
    assert with_f.stderr == with_follow.stderr
    assert "-f, --follow" in forked_fab(tmp_path, "--help", "logs").stdout


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("--list-format x --list", "--list-format: 'x'"),
        ("--print-completion-script tcsh", "--print-completion-script: 'tcsh'"),
        ("-H", "expected one argument"),
        ("train --echo", "fab train has no option --echo\n  next: fab --help train"),
        ("-- ls", "no task is named\n  next: fab exec --hosts a,b --cmd 'nvidia-smi -L'"),
        ("-H 127.0.0.1:9 -- ls", "no task is named\n  next: fab exec"),
        (f"--config {'9' * 400} plan", "fab has no option --config\n  next: fab --help\n"),
    ],
)
def test_a_wrong_core_option_is_an_error_of_the_user(
    tmp_path: Path, args: str, expected: str
) -> None:
    process = forked_fab(tmp_path, *args.split())
    assert process.returncode == 2 and "Traceback" not in process.stderr
    assert expected in process.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("exec", "ls", "--hosts", "a b"), "fab exec: 'a b'"),
        (("exec", "--hosts", "a b", "--", "sh", "-c", "x y"), "fab exec: 'a b'"),
        (("train", "--", "--epochs", "3"), "fab train takes nothing after --"),
        (("fetch", "--run", "help"), "fab fetch: no hosts"),
        (("train", "--hosts", "a", "no.py"), "fab train: there is no script no.py"),
        (("train", "--deploy", "a b"), "fab train: 'a b'"),
        (("train", "--deploy", "a", "--detach"), "fab train: --deploy goes without --detach"),
        (
            ("train", "--deploy", "notebook"),
            "fab train: --deploy notebook: fab notebook has this name",
        ),
        (("logs", "-f", "r1"), "fab logs: no hosts"),
        (("evaluate",), "fab evaluate: no run was started from"),
        (("report",), "fab report: no run was started from"),
        (("data", "push", "x"), "fab data push needs URI"),
        (("data", "list", "x"), "fab data list: URI: x is not s3://"),
        (("ssh",), "fab ssh needs HOST"),
        (("attach", "r1", "r2"), "fab attach does not take r2"),
    ],
)
def test_an_argument_is_understood_wherever_it_is(
    tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    process = forked_fab(tmp_path, *args)
    assert process.returncode == 2 and process.stderr.startswith(message), process.stderr


def test_the_list_is_in_groups_and_an_own_task_is_last(tmp_path: Path) -> None:
    text = "from railhead.tasks import ns\nfrom fabric import task\n"
    text += "@task\ndef mine(c):\n    'Theirs.'\nns.add_task(mine)\n"
    (tmp_path / "fabfile.py").write_text(text)
    lines = forked_fab(tmp_path, "--list").stdout.splitlines()
    titles = [line[:-1] for line in lines if line.endswith(":") and line[0] != " "]
    assert titles == ["Train", "Results", "Serve", "Hosts", "Cloud", "Of this fabfile"]
    assert max(map(len, lines)) <= 80 and lines[-1].split() == ["mine", "Theirs."]


@pytest.mark.parametrize("mode", [[], ["-X", "utf8=0"]])
def test_names_of_files_are_in_utf8_whatever_the_locale_is(tmp_path: Path, mode: list[str]) -> None:
    """In a folder λ, with a task that writes a file é: Python would use the locale's encoding."""
    folder = tmp_path / "λ"
    folder.mkdir()
    (folder / "fabfile.py").write_text(
        "from fabric import task\n@task\ndef mine(c):\n    open('\\u00e9', 'w').write('\\u03bb')\n"
    )
    ascii_ = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    variables = {**ascii_, "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    variables["PYTHONPATH"] = str(ROOT)
    argv = [sys.executable, *mode, "-m", "railhead", "mine"]
    done = subprocess.run(argv, cwd=folder, env=variables, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (folder / "é").read_text(encoding="utf-8") == "λ"


def test_a_command_without_standard_streams_ends_as_with_them(tmp_path: Path) -> None:
    """As after `<&- >&- 2>&-`, in a home in which no host is known."""
    command = f"exec {sys.executable} -m railhead status --hosts 127.0.0.1:9"
    variables = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    codes = [
        subprocess.run(f"{command} {closed}", shell=True, env=variables, timeout=60).returncode
        for closed in ("</dev/null >/dev/null 2>&1", "<&- >&- 2>&-")
    ]
    assert codes == [4, 4]


@pytest.mark.parametrize("words", ["--list", "train --help"])
def test_a_full_disk_under_the_output_is_no_traceback(tmp_path: Path, words: str) -> None:
    with Path("/dev/full").open("w") as full:
        argv = [sys.executable, "-m", "railhead", *words.split()]
        variables = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        done = subprocess.run(argv, env=variables, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "No space left on device" in done.stderr.splitlines()[0]
