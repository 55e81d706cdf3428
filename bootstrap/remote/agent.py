"""Runs on a host, read from the ssh channel and never written to its disk.

One request is one JSON line; `tree` is followed by a payload. Answers are JSON lines: any number
of {"event": ...}, then {"ok": ...} or {"error": ...}. Python 3.10 standard library only.
"""

import contextlib
import errno
import fcntl
import glob
import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time
import zlib

IN = sys.stdin.buffer
OUT = sys.stdout.buffer
WRITING = threading.Lock()
LISTENERS = []


def say(**answer):
    with WRITING:
        OUT.write(json.dumps(answer).encode() + b"\n")
        OUT.flush()


def write(files):
    """Write [path, mode, text] files whose content or mode differs; answer the changed paths."""
    changed = []
    for path, mode, text in files:
        path = os.path.expanduser(path)
        data = text.encode()
        with contextlib.suppress(OSError), open(path, "rb") as had:
            if had.read() == data and os.stat(path).st_mode & 0o7777 == mode:
                continue
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace(path, data, mode)
        changed.append(path)
    return {"changed": changed}


def replace(path, data, mode):
    """All of it or none: a reader, a crash or a full disk never leaves half a file."""
    part = "%s.part%d" % (path, os.getpid())
    try:
        with open(part, "wb", opener=lambda p, flags: os.open(p, flags, 0o600)) as out:
            out.write(data)
            os.fchmod(out.fileno(), mode)
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(part)
        raise


def tree(manifest, blobs, dest, prune=True):
    """Make `dest` hold exactly the manifest's files; ask only for contents not in `blobs`."""
    blobs, dest = os.path.expanduser(blobs), os.path.expanduser(dest)
    os.makedirs(blobs, mode=0o700, exist_ok=True)
    os.makedirs(dest, mode=0o700, exist_ok=True)
    wanted = {entry["sha256"]: entry for entry in manifest}
    need = [d for d, entry in wanted.items() if not whole(os.path.join(blobs, d), entry)]
    say(event={"need": need})
    receive(int(IN.readline()), blobs)
    if prune:
        drop_others(dest, {entry["path"] for entry in manifest})
    changed = [entry["path"] for entry in manifest if place(entry, blobs, dest)]
    return {"sent": len(need), "changed": changed}


def whole(path, entry):
    try:
        return os.path.getsize(path) == entry["size"]
    except OSError:
        return False


def receive(size, blobs):
    """Read a compressed tar of blobs; each is checked against the sha256 that is its name."""
    if not size:
        return
    with tarfile.open(fileobj=io.BytesIO(zlib.decompress(IN.read(size)))) as tar:
        for member in tar:
            data = tar.extractfile(member).read()
            if hashlib.sha256(data).hexdigest() != member.name:
                raise ValueError("a blob came with another content than its sha256 says")
            replace(os.path.join(blobs, member.name), data, 0o400)


def drop_others(dest, paths):
    for folder, _, names in os.walk(dest):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.relpath(path, dest) not in paths:
                os.remove(path)


def place(entry, blobs, dest):
    path = os.path.join(dest, entry["path"])
    mode = 0o755 if entry["executable"] else 0o644
    with contextlib.suppress(OSError), open(path, "rb") as had:
        same = os.fstat(had.fileno()).st_mode & 0o7777 == mode
        if same and hashlib.sha256(had.read()).hexdigest() == entry["sha256"]:
            return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.path.join(blobs, entry["sha256"]), "rb") as blob:
        replace(path, blob.read(), mode)
    return True


def run(argv, env=None, cwd=None, text=None, timeout=None, fetches=False):
    """Run a command; its lines are events, and the disk's growth in bytes where it fetches."""
    with one_fetch() if fetches else contextlib.nullcontext():
        growth = Growth(fetches)
        process = subprocess.Popen(
            [os.path.expanduser(word) for word in argv],
            cwd=os.path.expanduser(cwd) if cwd else None,
            env=dict(os.environ, **{k: os.path.expanduser(v) for k, v in (env or {}).items()}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        killer = threading.Timer(timeout or 1e6, process.kill)
        killer.daemon = True
        killer.start()
        threading.Thread(target=feed, args=(process, text), daemon=True).start()
        tail = relay(process.stdout)
        killer.cancel()
        growth.stop()
        return {"rc": process.wait(), "tail": tail}


def feed(process, text):
    with contextlib.suppress(OSError), process.stdin as stdin:
        stdin.write((text or "").encode())


def relay(stream):
    """Pass every line on as an event, and keep the last 40."""
    tail = []
    for raw in stream:
        line = raw.decode(errors="replace").rstrip()
        tail = [*tail[-39:], line]
        say(event={"line": line})
    return tail


@contextlib.contextmanager
def one_fetch():
    """One at a time per cache: local hosts share it and must not download the same thing twice."""
    cache = os.path.expanduser(os.environ.get("UV_CACHE_DIR", "~/.cache/uv"))
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "railhead.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Growth:
    """Says every second how many bytes of the disk are in use more than at the start."""

    def __init__(self, watching):
        self.done = threading.Event()
        self.start = shutil.disk_usage(os.path.expanduser("~")).used
        if watching:
            threading.Thread(target=self.loop, daemon=True).start()

    def loop(self):
        while not self.done.wait(1):
            used = shutil.disk_usage(os.path.expanduser("~")).used
            say(event={"grown": max(0, used - self.start)})

    def stop(self):
        self.done.set()


def get(root, patterns, limit):
    """Send matching files as tar chunks; over `limit` bytes in all, the rest is only listed."""
    root = os.path.expanduser(root)
    chosen, left, total = [], [], 0
    for path in matching(root, patterns):
        size = os.path.getsize(os.path.join(root, path))
        total += size
        (chosen if total <= limit else left).append([path, size])
    with tarfile.open(fileobj=Chunks(), mode="w|gz") as tar:
        for path, _ in chosen:
            tar.add(os.path.join(root, path), path, recursive=False)
    return {"files": chosen, "left": left}


def matching(root, patterns):
    found = {}
    for pattern in patterns:
        for path in glob.iglob(pattern, root_dir=root, recursive=True, include_hidden=True):
            if os.path.isfile(os.path.join(root, path)):
                found[os.path.normpath(path)] = None
    return [path for path in found if not path.startswith("..")]


class Chunks:
    def write(self, data):
        with WRITING:
            OUT.write(json.dumps({"event": {"chunk": len(data)}}).encode() + b"\n")
            OUT.write(data)
            OUT.flush()
        return len(data)


def read(paths):
    """The text of small files; None for one that is not there."""
    found = {}
    for path in paths:
        try:
            with open(os.path.expanduser(path), errors="replace") as f:
                found[path] = f.read()
        except OSError:
            found[path] = None
    return found


def follow(folder, offset=0):
    """Pass on metrics, the state and each rank's last line until the run's state is final."""
    folder = os.path.expanduser(folder)
    shown = None
    while True:
        state = read([folder + "/state.json"])[folder + "/state.json"]
        for line, offset in new_lines(folder + "/results/metrics.jsonl", offset):
            say(event={"metrics": line, "offset": offset})
        now = {"state": state, "last": last_lines(folder + "/logs")}
        if now != shown:
            say(event=now)
            shown = now
        if state and json.loads(state)["state"] not in ("starting", "running"):
            return {"offset": offset, "lost": False}
        if state and not os.path.exists("/proc/%d" % json.loads(state)["pid"]):
            if state == read([folder + "/state.json"])[folder + "/state.json"]:
                return {"offset": offset, "lost": True}
        time.sleep(0.2)


def new_lines(path, offset):
    with contextlib.suppress(OSError), open(path, "rb") as f:
        f.seek(offset)
        for line in f:
            if line.endswith(b"\n"):
                offset += len(line)
                yield line.decode(errors="replace"), offset


def last_lines(folder):
    """The last line of each rank's log: a carriage return starts a progress bar's line anew."""
    last = {}
    for path in glob.glob(folder + "/rank-*.log"):
        with contextlib.suppress(OSError), open(path, "rb") as f:
            f.seek(max(0, os.path.getsize(path) - 2000))
            text = f.read().decode(errors="replace").replace("\r", "\n").strip()
            last[os.path.basename(path)[5:-4]] = text.rpartition("\n")[2]
    return last


def listen(address):
    """Open a port for the peers' test calls; it answers each with its own name until we end."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen(256)
    LISTENERS.append(listener)
    threading.Thread(target=greet, args=(listener,), daemon=True).start()
    return {"port": listener.getsockname()[1]}


def greet(listener):
    while True:
        with contextlib.suppress(OSError):
            caller, _ = listener.accept()
            with caller:
                caller.sendall(b"railhead\n")


def dial(peers, timeout):
    """Call [address, port] peers at once; answer None or what went wrong, for each."""
    wrong = [None] * len(peers)

    def call(i, address, port):
        try:
            with socket.create_connection((address, port), timeout) as peer:
                peer.settimeout(timeout)
                if peer.recv(16) != b"railhead\n":
                    wrong[i] = "somebody else answered"
        except OSError as error:
            wrong[i] = str(error) or type(error).__name__

    calls = [threading.Thread(target=call, args=(i, *peer)) for i, peer in enumerate(peers)]
    for thread in calls:
        thread.start()
    for thread in calls:
        thread.join()
    return {"wrong": wrong}


def ports(count):
    """Ports that are free on every address now, and that the kernel hands to nobody else."""
    held = [socket.socket() for _ in range(count)]
    for s in held:
        s.bind(("", 0))
    found = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return {"ports": found}


def start(argv, cwd, env, log):
    """Start a command that outlives this channel: its own session, no tie to our streams."""
    with open(os.path.expanduser(log), "ab") as out:
        process = subprocess.Popen(
            [os.path.expanduser(word) for word in argv],
            cwd=os.path.expanduser(cwd),
            env=dict(os.environ, **{k: os.path.expanduser(v) for k, v in env.items()}),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    return {"pid": process.pid}


def remove(paths):
    """Remove files and folders of ours; a path that is not there is fine."""
    for path in map(os.path.expanduser, paths):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
    return {"left": [p for p in paths if os.path.lexists(os.path.expanduser(p))]}


OPS = {
    f.__name__: f for f in (write, tree, run, get, read, follow, listen, dial, ports, start, remove)
}


def serve():
    say(event={"agent": 1, "python": sys.version.split()[0]})
    for line in iter(IN.readline, b""):
        request = json.loads(line)
        try:
            answer = OPS[request.pop("op")](**request)
        except OSError as error:
            say(error={"errno": errno.errorcode.get(error.errno, ""), "text": str(error)})
        except Exception as error:
            say(error={"errno": "", "text": "%s: %s" % (type(error).__name__, error)})
        else:
            say(ok=answer)


serve()
