"""The validation of option values and of $DEBIAN_MIRROR."""

from __future__ import annotations

import pytest

from bootstrap.cli import executor
from bootstrap.cli.options import options_of
from bootstrap.errors import UsageError


def mirror() -> str:
    return options_of(False, None, None, None, mixed=False).archive


@pytest.mark.parametrize("url", ["", "http://a.example/debian", "https://a.example:8443/d"])
def test_the_debian_mirror_is_read_from_the_environment(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBIAN_MIRROR", url)
    assert mirror() == url
    monkeypatch.delenv("DEBIAN_MIRROR")
    assert mirror() == ""


@pytest.mark.parametrize(
    "url", ["a.example/debian", "file:/srv/debian", "http://me:secret@a.example/", "http://a b"]
)
def test_a_mirror_that_is_no_url_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBIAN_MIRROR", url)
    with pytest.raises(UsageError, match="an address like") as refused:
        mirror()
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "understood"),
    [
        (["deploy", "r1", "--here"], ["deploy", "--run", "r1", "--here"]),
        (["deploy", "--here"], ["deploy", "--here"]),
        (["deploy"], ["deploy"]),
        (["evaluate", "r1"], ["evaluate", "r1"]),
        ([], []),
    ],
)
def test_deploy_takes_its_run_as_the_first_argument(
    words: list[str], understood: list[str]
) -> None:
    assert executor.name_first_argument(words) == understood
