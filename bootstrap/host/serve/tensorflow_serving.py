"""Serves a model with the host's tensorflow_model_server, through the endpoint's socket only.

That server always listens on all addresses of its network, so it runs in a network namespace that
has only a loopback interface. The endpoint's socket is in the host's network; this program forwards
its requests to the server.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from ..base import children
from . import http_relay
from .server import end_with_parent

PROGRAM = "tensorflow_model_server"
REST = ("127.0.0.1", 8501)  # in the namespace
NOT_SERVED = 3  # exit code: the supervisor does not try again if the model never served
ENQUEUED = 256  # batches in the queue

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
LIBC = ctypes.CDLL(None, use_errno=True)


def enter_own_network() -> None:
    """Move this process into a network namespace whose only interface is loopback. Root may do this
    on most hosts; other users need a new user namespace, if the host allows one. OSError: the host
    does not allow it."""
    user, group = os.geteuid(), os.getegid()
    if LIBC.unshare(CLONE_NEWNET):
        if LIBC.unshare(CLONE_NEWNET | CLONE_NEWUSER):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))


def batching(max_batch: int, max_delay_ms: float) -> str:
    """The batching parameters of TensorFlow Serving, as protobuf text."""
    values = {
        "max_batch_size": max_batch,
        "batch_timeout_micros": round(max_delay_ms * 1000),
        "max_enqueued_batches": ENQUEUED,
        "num_batch_threads": os.cpu_count() or 1,
    }
    return "".join(f"{name} {{ value: {value} }}\n" for name, value in values.items())


def command(options: argparse.Namespace, parameters: str) -> list[str]:
    """The command of the server; `parameters` is the file with the batching parameters. Batching
    joins rows of several clients, even if a model mixes rows."""
    options_of_batches = ["--enable_batching=true", f"--batching_parameters_file={parameters}"]
    return [
        PROGRAM,
        f"--model_name={options.name}",
        f"--model_base_path={options.model}",
        f"--rest_api_port={REST[1]}",
        "--max_num_load_retries=0",  # a model that does not load would not load a minute later
        *(options_of_batches if options.max_batch > 1 else ()),
    ]


def start(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the server; it is killed when this process ends, however that happens."""
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, preexec_fn=children.end_with_parent)


def wait_until_it_listens(server: subprocess.Popen[bytes]) -> bool:
    """Wait until the server has loaded the model and listens; False if it ended first."""
    while server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(REST, timeout=5):
            return True
        time.sleep(0.1)
    return False


def end_with_server(server: subprocess.Popen[bytes]) -> None:
    """End this process when the server ends: the supervisor restarts both."""
    server.wait()
    os._exit(NOT_SERVED)


def serve(options: argparse.Namespace) -> int:
    """Serve until SIGTERM; the exit code is NOT_SERVED if the server ends by itself."""
    listener = socket.socket(fileno=options.fd)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        enter_own_network()
    except OSError as error:
        print(f"this host gives {PROGRAM} no network namespace: {error}", flush=True)
        return NOT_SERVED
    parameters = f"{options.model}/../batching.txt"
    with open(parameters, "w") as file:
        file.write(batching(options.max_batch, options.max_delay_ms))
    server = start(command(options, parameters))
    end_with_parent()  # the kernel then kills the server
    http_relay.allow_files()
    relay = http_relay.Relay(listener, REST)
    try:
        if not wait_until_it_listens(server):
            return NOT_SERVED
        threading.Thread(target=end_with_server, args=(server,), daemon=True).start()
        relay.run()
    finally:
        relay.finish()
        server.kill()
    raise AssertionError("a relay runs until a signal")


def main(*args: str) -> int:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--model", required=True, help="a folder with numbered versions")
    parser.add_argument("--name", required=True)
    parser.add_argument("--port", type=int, help="of --fd")
    parser.add_argument("--max-batch", type=int, required=True)
    parser.add_argument("--max-delay-ms", type=float, required=True)
    parser.add_argument("--fd", type=int, required=True, help="a socket that listens already")
    return serve(parser.parse_args(args))
