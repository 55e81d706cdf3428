"""Commands with input that cannot be used, on hosts that are ready: exit 2, and nothing starts."""

from __future__ import annotations

import pytest
from e2e.local_hosts import Operator

BAD = {
    "preset misspelt": (("--preset", "digit"), "Did you mean"),
    "setting misspelt": (("--set", "epoch=3"), "epochs"),
    "setting of a wrong type": (("--set", "epochs=many"), "epochs"),
    "strategy misspelt": (("--launcher", "tensorflow", "--strategy", "mirored"), "mirrored"),
    "strategy of the other launcher": (
        ("--strategy", "mirrored", "--launcher", "horovod"),
        "strategy mirrored is for launcher tensorflow",
    ),
    "one-host strategy on two hosts": (
        ("--launcher", "tensorflow", "--strategy", "mirrored"),
        "runs on one host",
    ),
    "launcher misspelt": (("--launcher", "horvod"), "Did you mean horovod?"),
    "no such script": (("--script", "nowhere.py"), "nowhere.py"),
    "host twice": (("--hosts", "a,a"), "the same host twice"),
    "no hosts": (("--hosts", ","), "no hosts"),
    "a shell in a host's name": (("--hosts", ";reboot"), "is not a host"),
    "a substitution": (("--hosts", "$(reboot)"), "is not a host"),
    "an option as a host": (("--hosts", "-oProxyCommand=x"), "is not a host"),
    "a path as a run": (("--hosts", "../.."), "is not a host"),
    "secret not set": (("--secret", "NOT_SET_ANYWHERE"), "not set"),
    "unknown option": (("--nonsense",), "fab --help train"),
    "arguments after --": (("--", "--epochs", "3"), "--args"),
}

DATA = {
    "no such file": (("--data", "train=nowhere"), "no file or folder nowhere here"),
    "an empty folder": (("--data", "train=empty"), "--data train: empty has no files"),
    "data without a place": (("--set", "data=images"), "data=images needs a folder of data"),
    "data that is included": (("--data", "train=some"), "data=digits, which accepts no files"),
    "no such folder on a host": (
        ("--data", "train=host:/nowhere", "--set", "data=images"),
        "there is no /nowhere",
    ),
}
END = {
    "keep no number": (("--keep", "long"), "--keep: 'long' is not a number"),
    "keep and no stop": (("--keep", "5", "--no-stop"), "contradict each other"),
}
METRICS = {
    "a broken expression": (
        ("--script", "code/train.py", "--metric", "loss=("),
        "is not a regular expression",
    ),
    "a metric without a script": (("--metric", "loss=(.)"), "--metric needs --script"),
}
CASES = BAD | DATA | END | METRICS


@pytest.mark.parametrize("text, output", CASES.values(), ids=CASES)
def test_bad_input_is_reported_and_starts_nothing(
    operator: Operator, text: tuple[str, ...], output: str
) -> None:
    (operator.folder / "empty").mkdir()
    operator.write("some/a.jpg", "x")
    operator.write("code/train.py", "")
    runs = operator.recorded()
    operator.fab("train", *text).ended(2, output)
    assert operator.recorded() == runs
    assert not (operator.folder / "results").exists()


@pytest.mark.parametrize(
    ("host", "why"),
    [("no-such-host.invalid", "does not resolve"), ("127.1.2.3:1", "refused")],
)
def test_a_host_that_is_not_reached_has_its_own_code(
    operator: Operator, host: str, why: str
) -> None:
    operator.fab("train", "--hosts", host).ended(4, why)
    assert not (operator.folder / "results").exists()


@pytest.mark.parametrize("task", ["status", "logs", "fetch", "cancel", "attach"])
def test_a_run_that_is_unknown_is_reported(operator: Operator, task: str) -> None:
    operator.fab(task, "--run", "20200101-000000-ffff").ended(2, "20200101-000000-ffff")
    operator.fab(task, "--run", "../../etc").ended(2, "is not a run's id")
