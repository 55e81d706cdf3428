"""How hosts reach the package index: through a proxy, with a certificate authority of the user's.
Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from railhead.documents.lazy import dataclass

from ..errors import UsageError

MOST_CERTIFICATES = 2_000_000  # bytes; all authorities of a system have 0.3 million
CA = "~/.railhead/ca.pem"  # on a host
_PROXY = re.compile(r"https?://(?:[^\s/@]+@)?(?:[\w.-]+|\[[0-9a-fA-F:]+\])(?::\d{1,5})?/?")
_RULE = "http://HOST:PORT or https://HOST:PORT"


@dataclass(frozen=True)
class Internet:
    """`proxy`: a URL, maybe with a user and a password; `ca`: the text of certificates (PEM).
    Either may be empty."""

    proxy: str = ""
    ca: str = ""

    def variables(self) -> dict[str, str]:
        """The environment variables for uv, pip and curl on a host."""
        names = ("HTTP_PROXY", "HTTPS_PROXY") if self.proxy else ()
        proxies = {name: self.proxy for upper in names for name in (upper, upper.lower())}
        files = ("SSL_CERT_FILE", "PIP_CERT", "CURL_CA_BUNDLE") if self.ca else ()
        return proxies | dict.fromkeys(files, CA)

    @property
    def proxy_address(self) -> str:
        """Host and port of the proxy, for people."""
        return self.proxy.partition("://")[2].rpartition("@")[2].rstrip("/")

    def without_password(self, text: str) -> str:
        """A text without the proxy's password."""
        password = urlsplit(self.proxy).password
        return text.replace(password, "[secret]") if password else text


def read_proxy(option: str | None, variable: str) -> str:
    """The proxy from --proxy, otherwise from the variable RAILHEAD_PROXY; "" without either.

    Raises:
        UsageError: it is not a URL, or has a password on the command line. (No password is shown.)
    """
    name, url = ("--proxy", option) if option is not None else ("RAILHEAD_PROXY", variable)
    if not url and option is None:
        return ""
    if not _PROXY.fullmatch(url) or not 0 < _port(url) < 65536:
        raise UsageError(f"{name} must be an address like {_RULE}")
    if option is not None and urlsplit(url).password is not None:
        raise UsageError(
            "--proxy has a password, which every user of this computer could read there",
            hint="export RAILHEAD_PROXY=http://USER:PASSWORD@HOST:PORT, without --proxy",
        )
    return url


def _port(url: str) -> int:
    try:
        port = urlsplit(url).port
    except ValueError:
        return 0
    return 80 if port is None else port


def check_certificates(name: str, text: str) -> str:
    """The text of certificates, as sent to the hosts.

    Raises:
        UsageError: it has no certificate, a damaged one, or a private key.
    """
    rule = "give a file that has only certificates in PEM format"
    if "PRIVATE KEY-----" in text:
        raise UsageError(f"--ca {name} has a private key, which must not be sent to a host: {rule}")
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise UsageError(f"--ca {name} has no certificate: {rule}")
    import ssl  # imported late: few commands name certificates

    try:
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise UsageError(
            f"--ca {name} has a certificate that cannot be read ({error}): {rule}"
        ) from None
    return text
