"""apt's requests by way of this computer: real apt's methods and real http, over a pair of sockets
where the connection to a host would be."""

from __future__ import annotations

import http.client
import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from bootstrap.apt_proxy import AptProxy, apt_proxy
from bootstrap.session import Session

LARGE = bytes(range(256)) * 4096
DATED = "Sat, 21 Nov 2026 10:00:00 GMT"


class Server:
    """A mirror that counts what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.half = threading.Event()
        self.go_on = threading.Event()
        self.elsewhere = ""
        outer = self

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                outer.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.place = "127.0.0.1:{}".format(*self.http.server_address[1:2])
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

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
            if "unsaid" not in to.path:
                to.send_header("Content-Length", str(len(LARGE)))
            to.send_header("Last-Modified", DATED)
            to.end_headers()
            to.wfile.write(LARGE[:1000])
            if "slow" in to.path:
                self.half.set()
                self.go_on.wait(20)
            if "torn" not in to.path:
                to.wfile.write(LARGE[1000:])


@pytest.fixture
def mirror() -> Iterator[Server]:
    server = Server()
    yield server
    server.go_on.set()
    server.http.shutdown()


class Listening:
    """In place of a session: a port of this computer, whose connections are served as a host's."""

    def __init__(self) -> None:
        self.port = 0

    @contextmanager
    def listening(self, serve: Callable[[Any], None]) -> Iterator[int]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = server.getsockname()[1]
            threading.Thread(target=self._accept, args=(server, serve), daemon=True).start()
            yield self.port

    def _accept(self, server: socket.socket, serve: Callable[[Any], None]) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


@pytest.fixture
def proxy() -> Iterator[AptProxy]:
    with apt_proxy() as made:
        yield made


@contextmanager
def host(proxy: AptProxy, *mirrors: str) -> Iterator[str]:
    """What a host's apt is told; the address of the proxy there."""
    with proxy.on(cast("Session", Listening()), mirrors) as address:
        yield address.removeprefix("http://")


@contextmanager
def asking(place: str) -> Iterator[http.client.HTTPConnection]:
    with closing(http.client.HTTPConnection(place, timeout=20)) as connection:
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
    with host(proxy, mirror.place) as one, host(proxy, mirror.place) as two:
        for at in (one, two):
            assert get(at, f"{url}/pool/a.deb")[:2] == (200, LARGE)
            assert get(at, f"{url}/dists/x/by-hash/SHA256/1")[:2] == (200, LARGE)
            assert get(at, f"{url}/dists/x/InRelease")[:2] == (200, LARGE)
    asked = ["/pool/a.deb", "/dists/x/by-hash/SHA256/1", "/dists/x/InRelease"]
    assert mirror.asked == [*asked, "/dists/x/InRelease"]


def test_several_files_go_by_one_connection_with_what_apt_wants_to_know(
    proxy: AptProxy, mirror: Server
) -> None:
    with host(proxy, mirror.place) as at, asking(at) as connection:
        for path in ("a.deb", "unsaid.deb", "missing.deb", "InRelease"):
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
    with host(proxy, mirror.place) as at, asking(at) as first, asking(at) as second:
        answers = []
        for connection in (first, second):
            connection.request("GET", f"http://{mirror.place}/slow.deb")
            answers.append(connection.getresponse())
            assert answers[-1].read(1000) == LARGE[:1000]
        mirror.go_on.set()
        assert [answer.read() for answer in answers] == [LARGE[1000:]] * 2
    assert mirror.asked == ["/slow.deb"]


def test_a_file_that_is_cut_off_is_no_whole_one_and_is_fetched_anew(
    proxy: AptProxy, mirror: Server
) -> None:
    with host(proxy, mirror.place) as at:
        for _ in range(2):
            with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
                get(at, f"http://{mirror.place}/torn.deb")
    assert mirror.asked == ["/torn.deb"] * 2


@pytest.mark.parametrize("other", ["127.0.0.1:22", "localhost:{port}", "10.0.0.1:80"])
def test_what_is_no_mirror_of_the_host_is_refused_unasked(
    proxy: AptProxy, mirror: Server, other: str
) -> None:
    other = other.format(port=mirror.http.server_address[1])
    with host(proxy, mirror.place) as at:
        status, _, headers = get(at, f"http://{other}/a.deb")
        assert (status, headers["Content-Length"]) == (403, "0")
        with asking(at) as connection, pytest.raises(OSError, match="403 .* is no mirror of"):
            tunnel(connection, other)
            connection.request("GET", "/a.deb")
    assert mirror.asked == []


@pytest.mark.parametrize(
    "address",
    ["file://{own}/etc/passwd", "http://{other}#@{own}/a.deb", "http://{other}?@{own}/a.deb",
     "http://{other}\\@{own}/a.deb", "http://{own}@{other}/a.deb", "http://{own}", "/a.deb"],
)  # fmt: skip
def test_an_address_that_can_be_read_in_two_ways_is_refused(
    proxy: AptProxy, mirror: Server, address: str
) -> None:
    other = Server()
    with host(proxy, mirror.place) as at:
        assert get(at, address.format(own=mirror.place, other=other.place))[0] == 403
    assert mirror.asked == other.asked == []
    other.http.shutdown()


def test_nobody_is_led_elsewhere_by_a_mirror(proxy: AptProxy, mirror: Server) -> None:
    other = Server()
    mirror.elsewhere = f"http://{other.place}/b.deb"
    with host(proxy, mirror.place) as at:
        status, _, headers = get(at, f"http://{mirror.place}/moved.deb")
        assert (status, headers["Location"]) == (302, mirror.elsewhere)
    assert other.asked == []
    other.http.shutdown()


def test_a_mirror_that_this_computer_does_not_reach_is_told(proxy: AptProxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = "127.0.0.1:{}".format(*unused.getsockname()[1:2])
    with host(proxy, nobody) as at, asking(at) as connection:
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
    """Two requests, so that both ends are held open; then the host hangs up, and so does this."""
    with host(proxy, mirror.place) as at, asking(at) as connection:
        tunnel(connection, mirror.place)
        connection.request("GET", "/a.deb")
        assert connection.getresponse().read() == LARGE
    assert mirror.asked == ["/a.deb"]
    before = threading.active_count()
    end = time.monotonic() + 10
    while any("_copy" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < end, before
        time.sleep(0.02)


def test_its_files_go_with_it(mirror: Server, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with apt_proxy() as made, host(made, mirror.place) as at:
        assert get(at, f"http://{mirror.place}/a.deb")[0] == 200
        assert any(tmp_path.iterdir())
    assert not any(tmp_path.iterdir())
