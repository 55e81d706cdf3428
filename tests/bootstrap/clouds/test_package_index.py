"""The settings of pip that uv gets, as the real pip lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.clouds.local import cluster
from bootstrap.clouds.local.package_index import VARIABLES, settings_of_pip
from bootstrap.provision import uv

FILE = """[global]
index-url = https://a.example/simple
proxy = http://proxy.example:1
user = true
trusted-host =
    one.example
    two.example
[install]
index-url = https://b.example/simple
target = /target
"""
OF_FILE = {
    "UV_DEFAULT_INDEX": "https://b.example/simple",
    "ALL_PROXY": "http://proxy.example:1",
    "UV_INSECURE_HOST": "one.example two.example",
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's pip.conf, in a home of its own, without variables."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for setting, variables in VARIABLES.items():
        for name in ("PIP_" + setting.upper().replace("-", "_"), *variables):
            monkeypatch.delenv(name, raising=False)
    path = tmp_path / ".config/pip/pip.conf"
    path.parent.mkdir(parents=True)
    path.write_text(FILE)
    return path


def test_the_sections_of_a_file_count_as_for_pip(file: Path) -> None:
    assert {**settings_of_pip(), **OF_FILE} == settings_of_pip()
    assert {**uv.variables(), **OF_FILE} == uv.variables()


def test_a_variable_of_pip_counts_before_its_files(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://c.example/simple")
    monkeypatch.setenv("PIP_CERT", "/ca.pem")
    settings = settings_of_pip()
    assert settings["UV_DEFAULT_INDEX"] == "https://c.example/simple"
    assert settings["SSL_CERT_FILE"] == "/ca.pem"


@pytest.mark.parametrize("name", [name for names in VARIABLES.values() for name in names])
def test_a_variable_of_uv_or_of_the_network_replaces_a_setting_of_pip(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PIP_CERT", "/ca.pem")
    before = settings_of_pip()
    monkeypatch.setenv(name, "own")
    assert [other for other in before if other not in settings_of_pip()] == [
        names[0] for names in VARIABLES.values() if name in names
    ]


def test_local_hosts_use_the_index_of_pip_without_its_proxy(file: Path) -> None:
    cluster.start("pair", 2)
    try:
        for host in cluster.existing("pair"):
            text = (host.folder / "sshd_config").read_text()
            assert 'UV_DEFAULT_INDEX="https://b.example/simple"' in text
            assert "proxy.example" not in text
    finally:
        cluster.stop("pair")
