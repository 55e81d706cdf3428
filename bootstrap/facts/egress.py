"""Whether a host has outbound access: to its apt mirrors, and to a package index.

POSIX sh that writes nothing, for hosts on which something has to be installed. Each test takes at
most 3 s and tries up to three connections, 0.4 s apart: with 5 % packet loss, a single one, with
its two DNS answers, often fails.
"""

from __future__ import annotations

import re

from railhead.documents.lazy import dataclass

# For apt, the target is its proxy, otherwise the first mirror in its lists. For wheels, it is a
# proxy or an index from the environment, otherwise the same mirror: if the mirror answers, the host
# has outbound access.
SCRIPT = """(
railhead_lists() {
  cd /etc/apt && cat sources.list sources.list.d/debian.sources sources.list.d/ubuntu.sources \\
    mirrors/* sources.list.d/* | sed '/^ *#/d;s/[[:space:]]#.*//' |
    grep -o 'https*://\\(\\[[^]]*\\]\\)*[^][:space:],]*'
}
railhead_try() {
  case $1 in *https://*) p=443;; *http://*) p=80;; *) return 2;; esac
  h=${1#*://}; h=${h%%/*}; h=${h##*@}
  case $h in *]:*) p=${h##*:}; h=${h%:*};; \\[*) ;; *:*) p=${h##*:}; h=${h%:*};; esac
  h=${h#\\[}; h=${h%]}
  RES_OPTIONS='timeout:1 attempts:2' timeout 3 bash -c '
    for s in 0 0.4 0.8; do (sleep $s; : </dev/tcp/"$0"/"$1") & done
    for s in 1 2 3; do wait -n && { kill $(jobs -p); exit 0; }; done; exit 1' "$h" "$p"
}
{
railhead_mirrors=$(railhead_lists | tr '\\n' ' ')
railhead_apt=$(apt-config dump |
  sed -n '/^Acquire::https*::Proxy "http/{s,.*"\\(.*\\)";$,\\1,p;q;}')
railhead_apt=${railhead_apt:-${http_proxy:-${railhead_mirrors%% *}}}
railhead_index=${https_proxy:-${HTTPS_PROXY:-${all_proxy:-${ALL_PROXY:-}}}}
railhead_index=${railhead_index:-${UV_DEFAULT_INDEX:-${UV_INDEX_URL:-$railhead_apt}}}
railhead_try "$railhead_apt" & railhead_p=$!
railhead_q=
[ "$railhead_index" = "$railhead_apt" ] || { railhead_try "$railhead_index" & railhead_q=$!; }
} >/dev/null 2>&1 </dev/null
wait $railhead_p; railhead_rc=$?; echo "apt $railhead_rc $railhead_apt"
[ -z "$railhead_q" ] || { wait $railhead_q; railhead_rc=$?; }
echo "index $railhead_rc $railhead_index"
echo "mirrors $railhead_mirrors"
)"""
EXIT_CODES = {"0": True, "2": None, "127": None}  # 127: bash or timeout is missing


@dataclass(frozen=True)
class EgressCheck:
    """One connection test: host and port, and whether it is `open`; None if there is no address to
    try, or a tool is missing."""

    to: str
    open: bool | None


@dataclass(frozen=True)
class Egress:
    """Outbound access of a host: `apt` for system packages, `index` for wheels. `mirrors` are the
    origins in its apt lists, each once, like http://mirror.example:8080."""

    apt: EgressCheck
    index: EgressCheck
    mirrors: tuple[str, ...] = ()


UNREAD = Egress(EgressCheck("", None), EgressCheck("", None))


def parse(out: str) -> Egress:
    """Parse what SCRIPT printed. ValueError for any other format."""
    checks = {
        name: EgressCheck(_host_and_port(address), EXIT_CODES.get(code, False))
        for name, code, address in re.findall(r"^(apt|index) (\d+) ?(.*)$", out, re.MULTILINE)
    }
    mirrors = re.search(r"^mirrors(.*)$", out, re.MULTILINE)
    if len(checks) != 2 or not mirrors:
        raise ValueError(out)
    origins = (origin(address) for address in mirrors[1].split())
    return Egress(**checks, mirrors=tuple(dict.fromkeys(origins)))


def origin(address: str) -> str:
    """Scheme, host and port of a URL in a normal form: http://mirror.example:8080."""
    scheme = address.partition("://")[0].lower()
    default_port = {"http": ":80", "https": ":443"}.get(scheme, "")
    return f"{scheme}://{_host_and_port(address).lower().removesuffix(default_port)}"


def _host_and_port(address: str) -> str:
    """The host and port of a URL, without its user name and password, even if the password contains
    a slash."""
    return address.partition("://")[2].rpartition("@")[2].partition("/")[0].strip()
