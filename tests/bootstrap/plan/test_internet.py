"""How hosts reach the package index: --proxy, --ca, and what neither of them gives away."""

from __future__ import annotations

import base64
import http.server
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from standins.authority import make, serve, trusted_alone

from bootstrap.console import redact
from bootstrap.errors import UsageError
from bootstrap.facts.egress import Egress, EgressCheck
from bootstrap.facts.host import HostFacts
from bootstrap.host.buckets import certificates
from bootstrap.inventory.hosts import Host
from bootstrap.plan.downloads import cut_off
from bootstrap.plan.internet import CA, Internet
from bootstrap.provision import uv
from bootstrap.provision.host_step import HostStep
from bootstrap.provision.survey import behind_proxy
from bootstrap.provision.uv import SYSTEM_TRUST, local_uv
from bootstrap.workflows.plan import ready_options
from railhead.documents.options.hosts import ReadyOptions
from railhead.documents.options.runs import ProgramOptions

USER = "me:s3cret"


def internet(proxy: str | None = None, ca: str | None = None) -> Internet:
    return ready_options(ReadyOptions(proxy=proxy, ca=ca), ProgramOptions()).internet


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A folder with ca.pem, and a server's key.pem and chain.pem."""
    make(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "url", ["http://p.example:3128", "https://p.example/", "http://[::1]:1", "http://p:65535"]
)
def test_a_proxy_is_given_to_all_who_download(url: str) -> None:
    variables = internet(url).variables()
    assert variables == dict.fromkeys(
        ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"), url
    )


def test_a_text_loses_the_password_of_the_proxy_alone() -> None:
    text = "http://me:s3cret@p refused me"
    assert (
        Internet("http://me:s3cret@p").without_password(text) == "http://me:[secret]@p refused me"
    )
    for proxy in ("", "http://p", "http://me@p"):
        assert Internet(proxy).without_password(text) == text


BAD = ["", "p.example:3128", "socks5://p.example", "http://p.example:0", "http://p.example:65536"]
BAD += ["http://p example", "http://p.example/path", "http://me:s3cret@p.example\nX: y"]


@pytest.mark.parametrize("url", BAD, ids=range(len(BAD)))
def test_a_proxy_that_is_not_an_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--proxy must be an address like http://HOST") as refused:
        internet(url)
    assert "s3cret" not in str(refused.value)


def test_a_password_is_refused_on_the_command_line_and_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"http://{USER}@p.example:3128"
    with pytest.raises(UsageError, match="every user of this computer could read") as refused:
        internet(url)
    assert "s3cret" not in str(refused.value) and "RAILHEAD_PROXY" in refused.value.hint
    monkeypatch.setenv("RAILHEAD_PROXY", url)
    named = internet()
    assert named.variables()["HTTPS_PROXY"] == url and named.proxy_address == "p.example:3128"
    assert named.without_password(f"cannot connect to {url}") == (
        "cannot connect to http://me:[secret]@p.example:3128"
    )
    assert "s3cret" not in redact.redacted(f"HTTPS_PROXY={url}")
    assert internet("http://other.example").proxy == "http://other.example"
    monkeypatch.setenv("RAILHEAD_PROXY", "nonsense s3cret")
    with pytest.raises(UsageError, match="RAILHEAD_PROXY must be") as refused:
        internet()
    assert "s3cret" not in str(refused.value)


def test_certificates_are_sent_as_a_file(authority: Path) -> None:
    named = internet(ca=str(authority / "ca.pem"))
    assert named.ca == (authority / "ca.pem").read_text()
    assert named.variables() == dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT", "CURL_CA_BUNDLE"), CA)


def test_a_file_that_is_not_a_certificate_is_refused(authority: Path) -> None:
    (authority / "empty").write_text("")
    (authority / "torn").write_text((authority / "ca.pem").read_text()[:200] + "\n-----END")
    both = (authority / "ca.pem").read_text() + (authority / "key.pem").read_text()
    (authority / "both").write_text(both)
    rules = {"none": "No such file", "empty": "empty has no certificate", "torn": "cannot be read"}
    for name, rule in {**rules, "both": "both has a private key", ".": "Is a directory"}.items():
        with pytest.raises(UsageError, match=rule):
            internet(ca=str(authority / name))
    (authority / "long").write_bytes(b"0" * 2_000_001)
    with pytest.raises(UsageError, match="at most 2.0 MB"):
        internet(ca=str(authority / "long"))
    with pytest.raises(UsageError, match="a regular file"):
        internet(ca="/dev/zero")


def test_behind_a_proxy_a_host_counts_as_one_with_access(debian: HostFacts) -> None:
    no_answer = EgressCheck("mirror.example", False)
    facts = {"h1": replace(debian, egress=Egress(no_answer, no_answer))}
    assert cut_off(facts["h1"]) and cut_off(behind_proxy(facts, Internet())["h1"])
    egress = behind_proxy(facts, Internet(proxy=f"http://{USER}@p.example:3128"))["h1"].egress
    assert egress == Egress(no_answer, EgressCheck("p.example:3128", None))


class Index(http.server.BaseHTTPRequestHandler):
    """A package index with one package; counts the answers."""

    answers = 0

    def do_GET(self) -> None:
        Index.answers += 1
        text = b'<a href="/ours-1.0-py3-none-any.whl">ours-1.0-py3-none-any.whl</a>'
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


class Proxy(http.server.BaseHTTPRequestHandler):
    """Connects whoever has the password; counts the connections."""

    connected = 0

    def do_CONNECT(self) -> None:
        expected = f"Basic {base64.b64encode(USER.encode()).decode()}"
        if self.headers["Proxy-Authorization"] != expected:
            self.send_error(407)
            return
        host, port = self.path.split(":")
        with socket.create_connection((host, int(port))) as other:
            self.send_response(200)
            self.end_headers()
            Proxy.connected += 1
            pairs = {self.connection: other, other: self.connection}
            while ready := select.select([*pairs], [], [], 20)[0]:
                if not (data := ready[0].recv(1 << 16)):
                    break
                pairs[ready[0]].sendall(data)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index(authority: Path) -> Iterator[str]:
    """The address of an index whose certificate the authority has signed."""
    with serve(Index, authority) as address:
        yield f"{address}/simple"


@pytest.fixture
def proxy() -> Iterator[str]:
    """The address of a proxy that wants a password."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()


def look_up(
    folder: Path, url: str, variables: Mapping[str, str], trusted: Path | None = None
) -> int:
    """Let uv look up the package; how often the index has answered. `trusted`: all certificates
    that the system has."""
    before = Index.answers
    (folder / "request.txt").write_text("ours\n")
    argv = [local_uv(), "pip", "compile", "--no-header", "--no-config", "--no-cache", "--no-deps"]
    argv += ["--python", sys.executable, "--default-index", url, "request.txt"]
    home = {"HOME": str(folder), "PATH": os.environ["PATH"], "UV_HTTP_RETRIES": "0"}
    ca = {k: str(folder / "ca.pem") if v == CA else v for k, v in variables.items()}
    if trusted:
        argv = trusted_alone(argv, trusted)
    subprocess.run(argv, cwd=folder, env=home | ca, capture_output=True)
    return Index.answers - before


def test_uv_uses_the_proxy_and_trusts_the_authority(
    authority: Path, index: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILHEAD_PROXY", f"http://{USER}@{proxy}")
    variables = internet(ca=str(authority / "ca.pem")).variables()
    before = Proxy.connected
    assert look_up(authority, index, variables)
    assert Proxy.connected > before
    without_ca = {k: v for k, v in variables.items() if v != CA}
    assert not look_up(authority, index, without_ca)
    assert not look_up(
        authority, index, internet("http://" + proxy, str(authority / "ca.pem")).variables()
    )


def test_uv_trusts_the_authority_that_the_system_trusts(authority: Path, index: str) -> None:
    assert look_up(authority, index, SYSTEM_TRUST, authority / "ca.pem")
    assert not look_up(authority, index, {}, authority / "ca.pem")
    assert not look_up(authority, index, SYSTEM_TRUST)


@pytest.mark.parametrize("trusts", [True, False])
def test_uv_on_a_host_trusts_the_system_where_it_has_certificates(
    debian: HostFacts, trusts: bool
) -> None:
    """Without any, uv would end with an error."""
    facts = {"a": replace(debian, system=replace(debian.system, trusts=trusts))}
    facts["b"] = replace(debian, system=replace(debian.system, trusts=not trusts))
    cluster = Mock(facts=facts, internet=Internet())
    session = Mock(host=Host("a", "192.0.2.2"))
    variables = HostStep(session, cluster, Mock()).variables
    assert ("UV_SYSTEM_CERTS" in variables) == trusts


@pytest.mark.parametrize("given", [None, "0"])
def test_uv_here_trusts_the_system_unless_somebody_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str | None
) -> None:
    store = tmp_path / "store"
    monkeypatch.setattr(certificates, "STORES", ("/nowhere", str(store)))
    monkeypatch.delenv("UV_SYSTEM_CERTS", raising=False)
    if given:
        monkeypatch.setenv("UV_SYSTEM_CERTS", given)
    assert uv.variables().get("UV_SYSTEM_CERTS") == given
    store.touch()
    assert uv.variables()["UV_SYSTEM_CERTS"] == (given or "1")
