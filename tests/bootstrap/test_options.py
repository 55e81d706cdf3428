"""What the shell's variables mean for hosts that are made ready."""

from __future__ import annotations

import pytest

from bootstrap.cli.options import options_of
from bootstrap.errors import UsageError


def archive() -> str:
    return options_of(False, None, None, None, mixed=False).archive


@pytest.mark.parametrize("named", ["", "http://a.example/debian", "https://a.example:8443/d"])
def test_an_archive_of_debian_is_taken_from_the_shell(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBIAN_MIRROR", named)
    assert archive() == named
    monkeypatch.delenv("DEBIAN_MIRROR")
    assert archive() == ""


@pytest.mark.parametrize(
    "named", ["a.example/debian", "file:/srv/debian", "http://me:secret@a.example/", "http://a b"]
)
def test_what_is_no_address_is_refused(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBIAN_MIRROR", named)
    with pytest.raises(UsageError, match="an address like") as refused:
        archive()
    assert "secret" not in str(refused.value)
