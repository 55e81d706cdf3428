"""Commands with input that cannot be used, on hosts that are ready: exit 2, and nothing starts."""

from __future__ import annotations

import pytest
from e2e.local_hosts import Operator

# One of each kind: tests/bootstrap has the values of each option.
CASES = {
    "a preset": (("--preset", "digit"), "Did you mean"),
    "a setting": (("--set", "epochs=many"), "epochs"),
    "one host": (("--launcher", "tensorflow", "--strategy", "mirrored"), "runs on one host"),
    "hosts": (("--hosts", "$(reboot)"), "is not a host"),
    "a secret": (("--secret", "NOT_SET_ANYWHERE"), "not set"),
    "a bound": (("--keep", "1441"), "from 0 to 1440"),
    "an option": (("--nonsense",), "fab --help train"),
    "no such file": (("--data", "train=nowhere"), "no file or folder nowhere here"),
    "an empty folder": (("--data", "train=empty"), "--data train: empty has no files"),
    "data without a place": (("--set", "data=images"), "data=images needs a folder of data"),
    "data that is included": (("--data", "train=some"), "data=digits, which accepts no files"),
    "no such folder on a host": (
        ("--data", "train=host:/nowhere", "--set", "data=images"),
        "there is no /nowhere",
    ),
    "a metric without a script": (("--metric", "loss=(.)"), "--metric needs --script"),
}


@pytest.mark.parametrize("text, output", CASES.values(), ids=CASES)
def test_bad_input_is_reported_and_starts_nothing(
    operator: Operator, text: tuple[str, ...], output: str
) -> None:
    (operator.folder / "empty").mkdir()
    operator.write("some/a.jpg", "x")
    runs = operator.recorded()
    operator.fab("train", *text).ended(2, output)
    assert operator.recorded() == runs
    assert not (operator.folder / "results").exists()


@pytest.mark.parametrize(
    ("host", "why"), [("no-such-host.invalid", "does not resolve"), ("127.1.2.3:1", "refused")]
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
