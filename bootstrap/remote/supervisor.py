"""Holds a run on its chief: starts mpirun, splits what the ranks say, and writes how it ended.

It outlives the connection that started it. state.json has a heartbeat each second; result.json
is written once, at the end. SIGTERM cancels the run. Standard library only, Python 3.10.
"""

import ctypes
import fcntl
import fnmatch
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

RUN = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, RUN)

import sweep  # noqa: E402
import tagged  # noqa: E402

RECORD = b"@railhead "
LOG_LIMIT = 50_000_000  # bytes; a rank's log then starts anew, and the part before is kept once
TAIL = 20
SIGNAL = re.compile(r"process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+)")
EXIT = re.compile(r"Process name: \[\[\d+,\d+\],(\d+)\] Exit code: (\d+)")
IMPROPER = re.compile(r"process rank (\d+) with PID \d+ on node (\S+) exiting improperly")
LOST = re.compile(r"Remote daemon: \[\[\d+,\d+\],\d+\] on node (\S+)")


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def save(name, document):
    part = os.path.join(RUN, name + ".part")
    with open(part, "w") as f:
        json.dump(document, f, indent=1)
    os.replace(part, os.path.join(RUN, name))


def load(name):
    with open(os.path.join(RUN, name)) as f:
        return json.load(f)


class Log:
    """One rank's log, bounded: the last LOG_LIMIT to twice LOG_LIMIT bytes are kept."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, "ab", buffering=0)
        self.written = 0
        self.tail = []

    def add(self, line):
        if self.written > LOG_LIMIT:
            self.file.close()
            os.replace(self.path, self.path + ".1")
            self.file = open(self.path, "ab", buffering=0)
            self.written = 0
        self.written += self.file.write(line if line.endswith(b"\n") else line + b"\n")
        self.tail = [*self.tail[1 - TAIL :], line.decode(errors="replace").rstrip()]


class Supervisor:
    def __init__(self):
        self.run = load("run.json")
        self.mpirun = load("mpirun.json")
        self.hosts = [h["name"] for h in self.run["hosts"]]
        self.state = {"state": "starting", "pid": os.getpid(), "started": now()}
        self.cancelled = False
        self.metrics = open(os.path.join(RUN, "results", "metrics.jsonl"), "a")
        self.secrets = self.secret_values()
        self.tagged = tagged.Tagged()
        self.logs = {}
        for name in ("mpirun", *("rank-%d" % rank for rank in range(self.run["size"]))):
            self.log(name)
        self.evaluation = None

    def secret_values(self):
        if not self.run["secrets"]:
            return []
        values = [line for v in load("secrets.json").values() for line in v.splitlines()]
        return sorted((v.encode() for v in values if v), key=len, reverse=True)

    def beat(self, **changes):
        self.state.update(changes, heartbeat=time.time())
        save("state.json", self.state)

    def cancel(self, *_):
        self.cancelled = True
        if self.process:
            self.process.terminate()

    def go(self):
        """Run mpirun to its end; returns result.json."""
        self.process = None
        signal.signal(signal.SIGTERM, self.cancel)
        before = snapshot()
        self.process = subprocess.Popen(
            self.mpirun,
            cwd=RUN,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
        self.beat(state="running", mpirun=self.process.pid)
        reader = threading.Thread(target=self.read)
        reader.start()
        code = self.wait()
        reader.join(timeout=5)  # a stray grandchild may hold the pipe open; the sweep ends it
        swept = self.sweep_all()
        reader.join(timeout=5)
        save("results/outputs.json", {"files": outputs(before, self.run["outputs"])})
        return self.result(code, swept)

    def wait(self):
        asked = None
        while self.process.poll() is None:
            self.beat()
            if self.cancelled:
                asked = asked or time.monotonic()
                if time.monotonic() - asked > 5:
                    self.process.kill()
            time.sleep(1 if not self.cancelled else 0.1)
        return self.process.returncode

    def read(self):
        stream = self.process.stdout.fileno()
        while chunk := os.read(stream, 1 << 20):
            self.pass_on(self.tagged.feed(chunk))
        self.pass_on(self.tagged.close())

    def pass_on(self, lines):
        for rank, line in lines:
            if rank == tagged.MPIRUN:
                self.log("mpirun").add(self.redact(line))
            else:
                self.said(rank, line)

    def said(self, rank, text):
        text = self.redact(text)
        if text.startswith(RECORD) and self.record(rank, text[len(RECORD) :]):
            return
        self.log("rank-%d" % rank).add(text)

    def record(self, rank, text):
        try:
            record = dict(json.loads(text))
        except ValueError:
            return False
        if record.get("kind") == "evaluation":
            self.evaluation = {k: v for k, v in record.items() if k != "kind"}
        record.update(rank=rank, host=self.hosts[self.host_of(rank)], time=time.time())
        self.metrics.write(json.dumps(record) + "\n")
        self.metrics.flush()
        return True

    def redact(self, line):
        for value in self.secrets:
            line = line.replace(value, b"[secret]")
        return line

    def log(self, name):
        if name not in self.logs:
            self.logs[name] = Log(os.path.join(RUN, "logs", name + ".log"))
        return self.logs[name]

    def host_of(self, rank):
        for index, host in enumerate(self.run["hosts"]):
            rank -= host["slots"]
            if rank < 0:
                return index
        return 0

    def sweep_all(self):
        """End what the ranks left behind, on every host; says for each host what came of it.

        This host comes last: between fork and exec, an ssh to another one still has our mark.
        """
        said = {}

        def one(index, name):
            said[name] = self.sweep_there(index)

        there = list(enumerate(self.hosts))[1:]
        threads = [threading.Thread(target=one, args=x) for x in there]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        said[self.hosts[0]] = sweep_here()
        return said

    def sweep_there(self, index):
        here = "$HOME/.railhead/runs/%s" % self.run["run_id"]
        python = "$HOME/.railhead/envs/%s/bin/python" % self.run["runtime"]["digest"]
        script = "exec %s -I -S %s/sweep.py %s" % (python, here, self.run["run_id"])
        ssh = ["ssh", "-F", os.path.join(RUN, "ssh_config"), "railhead-%d" % (index + 1), script]
        try:
            out = subprocess.run(
                ssh, env=unmarked(), stdin=subprocess.DEVNULL, capture_output=True, timeout=20
            )
            return json.loads(out.stdout)
        except (ValueError, subprocess.TimeoutExpired) as error:
            return {"unknown": str(error)}

    def result(self, code, swept):
        state = "cancelled" if self.cancelled else "failed" if code else "succeeded"
        return {
            "schema": 1,
            "run_id": self.run["run_id"],
            "state": state,
            "exit_code": code if code >= 0 else 128 - code,
            "culprit": self.culprit() if state == "failed" else None,
            "started": self.state["started"],
            "ended": now(),
            "seconds": round(time.time() - STARTED, 1),
            "size": self.run["size"],
            "evaluation": self.evaluation,
            "swept": swept,
        }

    def culprit(self):
        """Who failed first, as mpirun tells it; its last lines are the rank's own."""
        with open(self.log("mpirun").path, errors="replace") as f:
            text = " ".join(f.read(200_000).split())
        for pattern, what in ((SIGNAL, "signal"), (EXIT, "exit"), (IMPROPER, "exit")):
            match = pattern.search(text)
            if match:
                rank = int(match[1])
                number = int(match[match.lastindex]) if pattern is not IMPROPER else 0
                lines = self.log("rank-%d" % rank).tail
                return {
                    "rank": rank,
                    "host": self.hosts[self.host_of(rank)],
                    what: number,
                    "lines": lines,
                }
        lost = LOST.search(text)
        host = self.hosts[int(lost[1].rpartition("-")[2]) - 1] if lost else None
        return {"rank": None, "host": host, "lines": self.log("mpirun").tail}


def sweep_here():
    return sweep.sweep(load("run.json")["run_id"])


def unmarked():
    """Our environment without the mark, for the ssh that sweep: they are not of the run."""
    return {k: v for k, v in os.environ.items() if k != "RAILHEAD_RUN"}


def die_with_parent():
    """mpirun gets SIGTERM should the supervisor die: no run goes on without its keeper."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def snapshot():
    """Size and time of every file in work/, to tell later what the run wrote."""
    found = {}
    work = os.path.join(RUN, "work")
    for folder, _, names in os.walk(work):
        for name in names:
            path = os.path.join(folder, name)
            if "__pycache__" not in path and not os.path.islink(path):
                status = os.stat(path)
                found[os.path.relpath(path, work)] = (status.st_size, status.st_mtime_ns)
    return found


def outputs(before, patterns):
    after = snapshot()
    new = [p for p in after if after[p] != before.get(p)]
    chosen = [p for p in new if any(p_matches(p, pattern) for pattern in patterns)]
    return [[p, after[p][0]] for p in sorted(chosen)]


def p_matches(path, pattern):
    """`**` and `*` reach across folders, as people expect of `--outputs '*.h5'`."""
    return pattern == "**" or fnmatch.fnmatch(path, pattern)


def main():
    supervisor = Supervisor()
    supervisor.beat()
    with open(os.path.expanduser("~/.railhead/supervisor.lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            supervisor.beat(state="failed", reason="another run is going on on this chief")
            return 1
        result = supervisor.go()
        save("results/result.json", result)
        supervisor.beat(state=result["state"], ended=result["ended"])
    return 0


if __name__ == "__main__":
    STARTED = time.time()
    sys.exit(main())
