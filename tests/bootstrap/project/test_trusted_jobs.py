"""Job files that are new to this computer, and name what the user may not want to send or run."""

from __future__ import annotations

from pathlib import Path

import pytest
from standins.forks import forked_fab

import railhead
from bootstrap.errors import UsageError
from bootstrap.project import job_file, trusted_jobs
from railhead.documents.options.jobs import JobOptions, keys
from railhead.documents.options.runs import ProgramOptions

OWN = """[own]
script = "train.py"
data.train = "images"
data.more = "s3://bucket/images"
data.host = "host:/data,shard"
requirements = "sub/../requirements.txt"
workdir = "."
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a job file, with a home beside it."""
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(place)
    return place


def agreeing(monkeypatch: pytest.MonkeyPatch, answer: bool) -> list[str]:
    """The questions, which get this answer."""
    questions: list[str] = []

    def confirm(question: str, *, hint: object) -> bool:
        questions.append(question)
        return answer

    monkeypatch.setattr(trusted_jobs, "confirm", confirm)
    return questions


def use(name: str = "j") -> None:
    chosen = job_file.chosen(JobOptions(job=name))
    assert chosen
    job_file.ask(chosen)


FOREIGN = {
    "a secret": 'secret = ["TOKEN"]',
    "an env-file": 'env-file = "own.env"',
    "code here": 'training = "mine/training"',
    "data of the home": 'data.keys = "../home/.ssh"',
    "data of the home, by ~": 'data.keys = "~/.ssh"',
    "an absolute path": 'data.keys = "/etc"',
    "a path after a comma": 'data.keys = "x,/../../home"',
    "a link": 'data.keys = "link"',
    "a script": 'script = "../other/train.py"',
    "a requirements file": 'requirements = "/home/ann/notes"',
    "certificates": 'ca = "../key.pem"',
    "a folder": 'script = "a.py"\nworkdir = ".."',
}


@pytest.mark.parametrize("line", FOREIGN.values(), ids=FOREIGN)
def test_what_is_not_of_the_folder_needs_consent_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    (folder / "link").symlink_to(folder.parent / "home")
    file = folder / "railhead.toml"
    file.write_text(f"[j]\n{line}\n\n{OWN}")
    refused = agreeing(monkeypatch, False)
    use("own")
    assert not refused
    for _ in range(2):
        with pytest.raises(UsageError, match="is not trusted: nothing was done"):
            use()
    key = line.splitlines()[-1].partition(" ")[0]
    assert len(refused) == 2 and f"j: {key} = " in refused[0]
    agreed = agreeing(monkeypatch, True)
    use()
    use()
    assert len(agreed) == 1
    file.write_text(file.read_text() + "# changed\n")
    use()
    assert len(agreed) == 2


def test_a_copy_in_another_folder_needs_consent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "railhead.toml").write_text('[j]\ntraining = "mine/training"\n')
    agreeing(monkeypatch, True)
    use()
    other = folder.parent / "cloned"
    other.mkdir()
    (other / "railhead.toml").write_bytes((folder / "railhead.toml").read_bytes())
    monkeypatch.chdir(other)
    questions = agreeing(monkeypatch, True)
    use()
    assert questions


def test_the_keys_that_name_a_file_are_known_as_such() -> None:
    paths = {key for key, option in keys().items() if option.rule.path}
    assert paths == {"training", "script", "workdir", "env-file", "requirements", "ca"}


def test_a_job_that_was_typed_here_needs_no_consent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = agreeing(monkeypatch, False)
    program = ProgramOptions(script="train.py", secrets=("TOKEN",))
    job_file.save(JobOptions(job="j", save="railhead.toml"), program)
    use()
    assert not questions
    (folder / "railhead.toml").write_text('[theirs]\nsecret = ["AWS_SECRET_ACCESS_KEY"]\n')
    job_file.save(JobOptions(job="j", save="railhead.toml"), program)
    with pytest.raises(UsageError):
        use("theirs")


def test_a_command_without_a_terminal_names_the_one_that_trusts(folder: Path) -> None:
    (folder / "train.py").write_text("import keras\n")
    (folder / "railhead.toml").write_text('[j]\nscript = "train.py"\nsecret = ["HOME"]\n')
    trust = "fab trust --job railhead.toml --yes"
    done = forked_fab(folder, "train", "j", "--hosts", "127.0.0.1:9", "--json")
    assert done.returncode == 2 and trust in done.stderr + done.stdout
    assert forked_fab(folder, "trust", "--job", "railhead.toml").returncode == 2
    trusted = forked_fab(folder, *trust.split()[1:])
    assert (trusted.returncode, trusted.stderr) == (0, "")
    after = forked_fab(folder, "train", "j", "--hosts", "127.0.0.1:9")
    assert after.returncode == 4, "the host does not answer"


def test_python_refuses_a_new_job_too(folder: Path) -> None:
    (folder / "railhead.toml").write_text('[j]\nscript = "train.py"\nsecret = ["HOME"]\n')
    with pytest.raises(railhead.UsageError, match="new to this computer"):
        railhead.job("j")
