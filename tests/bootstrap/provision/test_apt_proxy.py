"""apt's requests by way of this computer: real http over sockets in place of a host's connection,
and apt itself. The mirrors are on this machine, so its own addresses count as outside here."""

from __future__ import annotations

import hashlib
import http.client
import http.server
import ipaddress
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from e2e.local_hosts import wait_until

from bootstrap.errors import UsageError
from bootstrap.inventory import caches
from bootstrap.inventory.hosts import Host
from bootstrap.provision import apt_upstream
from bootstrap.provision.apt_proxy import AptProxy, apt_proxy
from bootstrap.ssh.login.paramiko_connection import ParamikoConnection

LARGE = bytes(range(256)) * 4096
BEGUN = 1 << 16  # as much of it as a slow mirror sends at first
DATED = "Sat, 21 Nov 2026 10:00:00 GMT"


HUNG_UP = (http.client.IncompleteRead, ConnectionResetError)
DEAD = 1 << 22  # no process has that number
HELPER = "/usr/lib/apt/apt-helper"


class Server:
    """A mirror that counts the requests to it."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.go_on = threading.Event()
        self.elsewhere = ""
        outer = self

        class Answers(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.requests.append(self.path)
                self.close_connection = True
                outer.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.place = "127.0.0.1:{}".format(*self.http.server_address[1:2])
        self.origin = f"http://{self.place}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, to: http.server.BaseHTTPRequestHandler) -> None:
        if "missing" in to.path:
            to.send_error(404)
        elif "moved" in to.path:
            to.send_response(302)
            to.send_header("Location", self.elsewhere)
            to.end_headers()
        elif to.headers.get("If-Modified-Since"):
            to.send_response(304)
            to.end_headers()
        else:
            to.send_response(200)
            if "unsized" in to.path:
                to.send_header("Transfer-Encoding", "chunked")
            else:
                name = "content-length" if "lower" in to.path else "Content-Length"
                to.send_header(name, "abc" if "wrong" in to.path else str(len(LARGE)))
            to.send_header("Last-Modified", DATED)
            to.end_headers()
            self.send(to, LARGE[:BEGUN])
            if "slow" in to.path:
                self.go_on.wait(60)
            if "torn" not in to.path:
                self.send(to, LARGE[BEGUN:])
                to.wfile.write(b"0\r\n\r\n" if "unsized" in to.path else b"")

    @staticmethod
    def send(to: http.server.BaseHTTPRequestHandler, data: bytes) -> None:
        to.wfile.write(b"%x\r\n%b\r\n" % (len(data), data) if "unsized" in to.path else data)


@pytest.fixture
def mirror() -> Iterator[Server]:
    server = Server()
    yield server
    server.go_on.set()
    server.http.shutdown()


class Channel(socket.socket):
    """As paramiko's: closing it wakes the thread that reads it."""

    def close(self) -> None:
        with suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)
        super().close()


class Transport:
    """In place of paramiko's: the ports of the host are ports of this computer."""

    def __init__(self) -> None:
        self.servers: dict[int, tuple[socket.socket, threading.Thread]] = {}

    def set_keepalive(self, seconds: int) -> None:
        """There is no network."""

    def request_port_forward(self, address: str, port: int, handle: Callable[..., None]) -> int:
        server = socket.create_server((address, port))
        thread = threading.Thread(target=self._accept, args=(server, handle), daemon=True)
        port_of_host: int = server.getsockname()[1]
        self.servers[port_of_host] = server, thread
        thread.start()
        return port_of_host

    def _accept(self, server: socket.socket, handle: Callable[..., None]) -> None:
        with suppress(OSError):
            while True:
                connection, address = server.accept()
                handle(Channel(fileno=connection.detach()), address, None)

    def cancel_port_forward(self, address: str, port: int) -> None:
        """A thread left in accept() would take a connection of the next socket with this number:
        the kernel may start an interrupted accept() again, by the number.
        """
        server, thread = self.servers.pop(port)
        server.shutdown(socket.SHUT_RDWR)  # ends accept()
        thread.join(60)
        assert not thread.is_alive()
        server.close()


@pytest.fixture
def proxy() -> Iterator[AptProxy]:
    with apt_proxy() as made:
        yield made


@pytest.fixture(autouse=True)
def outside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """This machine's own addresses are outside, but in the test that is about them."""
    if "inward" not in request.node.name:
        monkeypatch.setattr(apt_upstream, "_is_private", lambda address: False)


@pytest.fixture
def shared_apt() -> Path:
    """Where its files are."""
    return caches.cache("apt")


@contextmanager
def host(proxy: AptProxy, *mirrors: str, name: str = "h1") -> Iterator[str]:
    """The address of the proxy there."""
    transport = Transport()
    client: Any = SimpleNamespace(get_transport=lambda: transport)
    connection = ParamikoConnection(Host(name, name), [client], lambda: None)
    session: Any = SimpleNamespace(host=Host(name, name), connection=connection)
    with proxy.on(session, mirrors) as address:
        yield address.removeprefix("http://")


@contextmanager
def asking(place: str) -> Iterator[http.client.HTTPConnection]:
    with closing(http.client.HTTPConnection(place, timeout=60)) as connection:
        yield connection


def get(place: str, url: str, **headers: str) -> tuple[int, bytes, http.client.HTTPMessage]:
    with asking(place) as connection:
        connection.request("GET", url, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers


def tunnel(connection: http.client.HTTPConnection, place: str) -> None:
    name, _, port = place.partition(":")
    connection.set_tunnel(name, int(port))


def test_without_a_mirror_nothing_listens(proxy: AptProxy) -> None:
    with host(proxy) as address:
        assert address == ""


def test_packages_are_fetched_once_for_all_hosts_and_lists_anew(
    proxy: AptProxy, mirror: Server
) -> None:
    url = f"http://{mirror.place}"
    with host(proxy, url) as first, host(proxy, url, name="h2") as second:
        for via in (first, second):
            assert get(via, f"{url}/pool/a.deb")[:2] == (200, LARGE)
            assert get(via, f"{url}/dists/x/by-hash/SHA256/1")[:2] == (200, LARGE)
            assert get(via, f"{url}/dists/x/InRelease")[:2] == (200, LARGE)
    requests = ["/pool/a.deb", "/dists/x/by-hash/SHA256/1", "/dists/x/InRelease"]
    assert mirror.requests == [*requests, "/dists/x/InRelease"]


def test_several_files_go_by_one_connection_with_what_apt_wants_to_know(
    proxy: AptProxy, mirror: Server
) -> None:
    with host(proxy, mirror.origin) as via, asking(via) as connection:
        for path in (
            "a.deb",
            "unsized.deb",
            "wrong-unsized.deb",
            "lower.deb",
            "missing.deb",
            "InRelease",
        ):
            old = {"If-Modified-Since": DATED} if path == "InRelease" else {}
            connection.request("GET", f"http://{mirror.place}/{path}", headers=old)
            answer = connection.getresponse()
            body = answer.read()
            expected = {"missing.deb": (404, b""), "InRelease": (304, b"")}
            assert (answer.status, body) == expected.get(path, (200, LARGE))
            assert answer.status != 200 or answer.headers["Last-Modified"] == DATED


def test_a_file_that_still_comes_is_sent_on_as_far_as_it_is(
    proxy: AptProxy, mirror: Server
) -> None:
    """apt gives a server up that says nothing for 30 s; a driver has some hundred MB."""
    with (
        host(proxy, mirror.origin) as h1, host(proxy, mirror.origin, name="h2") as h2,
        asking(h1) as first, asking(h2) as second,
    ):  # fmt: skip
        answers = []
        for connection in (first, second):
            connection.request("GET", f"http://{mirror.place}/slow.deb")
            answers.append(connection.getresponse())
            assert answers[-1].read(BEGUN) == LARGE[:BEGUN]
        mirror.go_on.set()
        assert [answer.read() for answer in answers] == [LARGE[BEGUN:]] * 2
    assert mirror.requests == ["/slow.deb"]


@pytest.mark.parametrize("path", ["/torn.deb", "/torn-lower.deb", "/torn-unsized.deb"])
def test_a_file_that_is_cut_off_is_fetched_anew(proxy: AptProxy, mirror: Server, path: str) -> None:
    """Where its size was not sent, apt sees that by the size in its lists."""
    for name in ("h1", "h2"):
        with host(proxy, mirror.origin, name=name) as via, suppress(*HUNG_UP):
            assert get(via, mirror.origin + path)[1] == LARGE[:BEGUN] and "unsized" in path
    assert mirror.requests == [path] * 2


def test_a_host_that_asks_again_got_something_wrong(proxy: AptProxy, mirror: Server) -> None:
    with host(proxy, mirror.origin) as first, host(proxy, mirror.origin, name="h2") as second:
        for via in (first, second, second):
            assert get(via, f"{mirror.origin}/a.deb")[0] == 200
    assert len(mirror.requests) == 2


def test_lists_do_not_pile_up_here(proxy: AptProxy, mirror: Server, shared_apt: Path) -> None:
    with host(proxy, mirror.origin) as via:
        for _ in range(3):
            assert get(via, f"{mirror.origin}/InRelease")[0] == 200
        assert get(via, f"{mirror.origin}/a.deb")[0] == 200
        wait_until(lambda: len([*shared_apt.glob("*/*")]) == 1, 5, "one package is left")


def test_a_full_disk_here_is_reported_as_that(
    proxy: AptProxy, mirror: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    with host(proxy, mirror.origin) as via, asking(via) as connection:
        connection.request("GET", f"{mirror.origin}/a.deb")
        answer = connection.getresponse()
        assert answer.status == 502 and "its disk is full at " in answer.reason


def test_a_disk_that_fills_ends_the_file(
    proxy: AptProxy, mirror: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.open

    def full(self: Path, mode: str = "r") -> Any:
        return real(Path("/dev/full") if mode == "wb" else self, mode)

    monkeypatch.setattr(Path, "open", full)
    with host(proxy, mirror.origin) as via, pytest.raises(HUNG_UP):
        get(via, f"{mirror.origin}/a.deb")


@pytest.mark.parametrize("other", ["127.0.0.1:22", "localhost:{port}", "10.0.0.1:80"])
def test_what_is_not_a_mirror_of_the_host_is_refused_without_a_request(
    proxy: AptProxy, mirror: Server, other: str
) -> None:
    other = other.format(port=mirror.http.server_address[1])
    with host(proxy, mirror.origin) as via:
        status, _, headers = get(via, f"http://{other}/a.deb")
        assert (status, headers["Content-Length"]) == (403, "0")
        with asking(via) as connection, pytest.raises(OSError, match="403 .* is not a mirror of"):
            tunnel(connection, other)
            connection.request("GET", "/a.deb")
    assert mirror.requests == []


@pytest.mark.parametrize(
    "address",
    ["file://{own}/etc/passwd", "http://{other}#@{own}/a.deb", "http://{other}?@{own}/a.deb",
     "http://{other}\\@{own}/a.deb", "http://{own}@{other}/a.deb", "http://{own}", "/a.deb"],
)  # fmt: skip
def test_an_address_that_can_be_read_in_two_ways_is_refused(
    proxy: AptProxy, mirror: Server, address: str
) -> None:
    other = Server()
    with host(proxy, mirror.origin) as via:
        assert get(via, address.format(own=mirror.place, other=other.place))[0] == 403
    assert mirror.requests == other.requests == []
    other.http.shutdown()


def test_a_mirror_leads_no_host_elsewhere(proxy: AptProxy, mirror: Server) -> None:
    other = Server()
    mirror.elsewhere = f"http://{other.place}/b.deb"
    with host(proxy, mirror.origin) as via:
        status, _, headers = get(via, f"http://{mirror.place}/moved.deb")
        assert (status, headers["Location"]) == (302, mirror.elsewhere)
    assert other.requests == []
    other.http.shutdown()


def test_a_mirror_that_this_computer_does_not_reach_is_reported(proxy: AptProxy) -> None:
    with socket.socket() as unused:  # bound all the time: no other test gets its port
        unused.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{unused.getsockname()[1]}"
        with host(proxy, f"http://{nobody}", f"https://{nobody}") as via, asking(via) as connection:
            connection.request("GET", f"http://{nobody}/a.deb")
            answer = connection.getresponse()
            assert answer.status == 502 and "gets no answer either: " in answer.reason
            answer.read()
            with pytest.raises(OSError, match="502 .*gets no answer either"):
                connection.close()
                tunnel(connection, nobody)
                connection.request("GET", "/a.deb")


def test_a_mirror_with_encryption_is_spoken_to_by_the_host_itself(
    proxy: AptProxy, mirror: Server
) -> None:
    """The host hangs up, and so does this."""
    with host(proxy, f"https://{mirror.place}") as via, asking(via) as connection:
        tunnel(connection, mirror.place)
        connection.request("GET", "/a.deb")
        assert connection.getresponse().read() == LARGE
    assert mirror.requests == ["/a.deb"]
    before = threading.active_count()
    end = time.monotonic() + 10
    while any("_copy" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < end, before
        time.sleep(0.02)


def test_its_files_go_with_it_and_what_a_killed_one_left(mirror: Server, shared_apt: Path) -> None:
    (shared_apt / f"{DEAD}-left").mkdir(parents=True)
    with apt_proxy() as made, host(made, mirror.origin) as via:
        assert get(via, f"http://{mirror.place}/a.deb")[0] == 200
        assert [folder.name.partition("-")[0] for folder in shared_apt.iterdir()] == [
            str(os.getpid())
        ]
    assert not any(shared_apt.iterdir())


INWARD = ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "[::ffff:127.0.0.1]", "0.0.0.0"]


@pytest.mark.parametrize("name", INWARD)
def test_inward_addresses_are_refused_also_as_mirrors(
    proxy: AptProxy, mirror: Server, name: str
) -> None:
    place = f"{name}:{mirror.http.server_address[1]}"
    with host(proxy, f"http://{place}", f"https://{place}") as via:
        assert get(via, f"http://{place}/a.deb")[0] == 403
        with asking(via) as connection, pytest.raises(OSError, match="403 .* resolves to "):
            connection.set_tunnel(name, mirror.http.server_address[1])
            connection.request("GET", "/a.deb")
    assert mirror.requests == []


PUBLIC = ["8.8.8.8", "2600::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]
OTHERS = [
    *("10.0.0.1", "192.168.1.1", "100.64.0.1", "192.0.2.9", "224.0.0.1", "240.0.0.1", "fd00::1"),
    *("fe80::1%lo", "fec0::1", "ff0e::1", "2001:db8::1", "::127.0.0.1", "::ffff:10.0.0.1"),
    *("64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:1::"),
    *("168.63.129.16", "::ffff:168.63.129.16", "100.100.100.200", "fd00:ec2::254"),
]


# Also where all networks are named: this computer, its link, and what clouds serve machines with.
NEVER = {
    *("224.0.0.1", "240.0.0.1", "fe80::1%lo", "fec0::1", "ff0e::1", "::127.0.0.1"),
    *("64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:1::"),
    *("168.63.129.16", "::ffff:168.63.129.16", "100.100.100.200", "fd00:ec2::254"),
}


@pytest.mark.parametrize("address", [*PUBLIC, *OTHERS])
def test_only_public_addresses_are_outward_and_no_inward_one_of_a_cloud(address: str) -> None:
    assert apt_upstream._is_private(address) is (address not in PUBLIC)


def test_an_inward_mirror_is_reached_where_its_network_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everything = "0.0.0.0/0, ::/0"
    for named, outward in (
        ("10.0.0.0/8", {"10.0.0.1", "::ffff:10.0.0.1"}),
        ("192.0.2.9,fd00::/64", {"192.0.2.9", "fd00::1"}),
        (everything, {*OTHERS} - NEVER),
    ):
        monkeypatch.setenv(apt_upstream.MIRRORS, named)
        reached = {address for address in OTHERS if not apt_upstream._is_private(address)}
        assert reached == outward, named


def test_a_network_of_mirrors_that_is_not_one_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(apt_upstream.MIRRORS, "10.0.0.1/8")
    with pytest.raises(UsageError, match="10.0.0.1/8 has host bits set"):
        apt_upstream.mirror_networks()


def test_this_computers_addresses_are_inward_also_public_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Addresses of the loopback device stand for public ones of this computer."""
    monkeypatch.setattr(ipaddress.IPv4Address, "is_global", True)
    addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
    for address in ("127.0.0.1", *(address for address in addresses if ":" not in address)):
        assert apt_upstream._is_private(address)
    assert not apt_upstream._is_private("203.0.113.9")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_name_whose_address_changes_after_the_check_leads_nowhere(
    proxy: AptProxy, mirror: Server, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Its first address, which may be reached, has no server."""
    port = mirror.http.server_address[1]
    answers = ["127.0.0.9"]

    def resolve(host: str, *args: Any, **options: Any) -> Any:
        if host == "changes.example":
            host = answers.pop() if answers else "127.0.0.1"
        return real(host, *args, **options)

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(apt_upstream, "_is_private", lambda address: address == "127.0.0.1")
    place = f"changes.example:{port}"
    with host(proxy, f"{scheme}://{place}") as via, asking(via) as connection:
        if scheme == "https":
            tunnel(connection, place)
            with pytest.raises(OSError, match="Tunnel connection failed: 50"):
                connection.request("GET", "/a.deb")
        else:
            connection.request("GET", f"http://{place}/a.deb")
            assert connection.getresponse().status in (403, 502)
    assert mirror.requests == [] and answers == []


def test_http_through_the_proxy_of_this_computer(
    proxy: AptProxy, mirror: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have an inward address; a mirror whose name is one may not."""
    monkeypatch.setattr(apt_upstream, "_is_private", lambda address: address == "127.0.0.1")
    monkeypatch.setenv("http_proxy", mirror.origin)
    monkeypatch.setenv("no_proxy", "")
    with host(proxy, "http://known-there.invalid", "http://127.0.0.1") as via:
        assert get(via, "http://known-there.invalid/a.deb")[:2] == (200, LARGE)
        assert get(via, "http://127.0.0.1/a.deb")[0] == 403
    assert mirror.requests == ["http://known-there.invalid/a.deb"]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_mirror_is_only_contacted_by_its_own_scheme(
    proxy: AptProxy, mirror: Server, scheme: str
) -> None:
    """Behind a list's http address there is no way for whatever else."""
    with host(proxy, f"{scheme}://{mirror.place}") as via:
        assert get(via, f"{mirror.origin}/a.deb")[0] == (200 if scheme == "http" else 403)
        with asking(via) as connection:
            tunnel(connection, mirror.place)
            refusal = pytest.raises(OSError, match="403 .*not a mirror")
            with refusal if scheme == "http" else nullcontext():
                connection.request("GET", "/a.deb")


def test_https_through_the_proxy_of_this_computer(
    proxy: AptProxy, mirror: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror stands for a company's proxy, which gets a name that it alone knows."""
    monkeypatch.setenv("https_proxy", mirror.origin)
    with host(proxy, "https://known-there.invalid") as via, asking(via) as connection:
        tunnel(connection, "known-there.invalid:443")
        with pytest.raises(OSError, match="502 .*501"):  # it takes no CONNECT
            connection.request("GET", "/a.deb")
    monkeypatch.delenv("https_proxy")
    with host(proxy, "https://known-there.invalid") as via, asking(via) as connection:
        tunnel(connection, "known-there.invalid:443")
        with pytest.raises(OSError, match="502 .*not known"):
            connection.request("GET", "/a.deb")


@pytest.mark.skipif(not Path(HELPER).exists(), reason="no apt here")
@pytest.mark.parametrize("family", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_apt_itself_fetches_by_it(
    proxy: AptProxy, tmp_path: Path, scheme: str, family: str
) -> None:
    with (
        serving_files(tmp_path, scheme, family) as (address, settings),
        host(proxy, address) as via,
    ):
        args = [HELPER, "-o", f"Acquire::{scheme}::Proxy=http://{via}", *settings]
        args += ["-o", "APT::Sandbox::User=root", "download-file", f"{address}/a.deb"]
        args += [str(tmp_path / "came"), f"SHA256:{hashlib.sha256(LARGE).hexdigest()}"]
        process = subprocess.run(args, capture_output=True, text=True, timeout=60)
        assert process.returncode == 0, process.stdout + process.stderr
        assert (tmp_path / "came").read_bytes() == LARGE


@contextmanager
def serving_files(folder: Path, scheme: str, family: str) -> Iterator[tuple[str, list[str]]]:
    """A mirror of one file, its address, and what tells apt whom to trust."""
    kind = type("V6", (http.server.ThreadingHTTPServer,), {"address_family": socket.AF_INET6})
    make = kind if ":" in family else http.server.ThreadingHTTPServer
    (folder / "www").mkdir()
    (folder / "www/a.deb").write_bytes(LARGE)
    handler = partial(Quiet, directory=str(folder / "www"))
    with make((family, 0), handler) as server:
        settings: list[str] = []
        if scheme == "https":
            settings = ["-o", f"Acquire::https::CaInfo={encrypt(server, folder, family)}"]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        place = f"[{family}]" if ":" in family else family
        yield f"{scheme}://{place}:{server.server_address[1]}", settings
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def encrypt(server: Any, folder: Path, address: str) -> Path:
    """Give a server its own certificate; that certificate."""
    key, certificate = folder / "key.pem", folder / "own.pem"
    args = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    args += ["-subj", "/CN=mirror", "-addext", f"subjectAltName=IP:{address}"]
    subprocess.run([*args, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return certificate
