"""Kinds of hang: each is a small program of three ranks, of which one hangs after some steps.

`RANK` is the one that hangs. The line that must be named has the comment `# here`.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import ctypes, fcntl, os, queue, re, signal, socket, subprocess, sys, threading, time
rank, RANK = int(os.environ["RAILHEAD_RANK"]), int(os.environ["HANGS"])
hangs = rank == RANK
"""
# The collective of the ranks: Horovod's, or that of light.py.
HEAVY = """
import tensorflow as tf
import horovod.tensorflow as hvd
init = hvd.init
def reduce():
    hvd.allreduce(tf.constant([1.0]))
"""
LIGHT = """
sys.path.insert(0, os.environ["LIBRARY"])
import horovod
reduce, init = horovod.allreduce, horovod.init
"""
LOOP = """
init()
def hang():
%s
for step in range(30):
    reduce()
    if rank == 0:
        print("step", step, "loss: 0.5", flush=True)
%s
"""
ALL_GO_ON = """
if hangs:
    hang()
reduce()
"""
KERAS = """
import numpy as np
import tensorflow as tf
import keras
%s
x, y = np.random.rand(2048, 4).astype("f4"), np.random.rand(2048, 1).astype("f4")
class Stuck(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if hangs and epoch == 2:
            time.sleep(10**6)  # here
def make():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(%s, "mse")
    return model
%s
"""
OF_MULTIWORKER = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    variable = tf.Variable(1.0)
@tf.function
def step():
    def one():
        return tf.distribute.get_replica_context().all_reduce("sum", variable + 1.0)
    return strategy.run(one)
for number in range(30):
    step()
    print("step", number, "loss: 0.5", flush=True)
"""
ONE_SLEEPS = """
if hangs:
    time.sleep(10**6)  # here
step()
"""
ONE_IS_STOPPED = """
print("ready to stop", flush=True)
while True:
    step()
    print("step loss: 0.5", flush=True)
    time.sleep(0.05)
"""
SERVERS = """
import json
import numpy as np
import tensorflow as tf
role = json.loads(os.environ["TF_CONFIG"])["task"]["type"]
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if role != "chief":
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=role, task_index=resolver.task_id, protocol="grpc"
    )
    server.join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    variable = tf.Variable(0.0)
@tf.function
def add():
    variable.assign_add(1.0)
def step():
    coordinator.schedule(add)
    coordinator.join()
for number in range(30):
    step()
    print("step", number, "loss: 0.5", flush=True)
print("ready to stop", flush=True)
while True:
    step()
    time.sleep(0.01)
"""


@dataclass(frozen=True)
class Kind:
    """A program; `line`: whether the line of the rank can be known; `stops`: a rank is stopped by
    SIGSTOP when the program prints `ready to stop`; `role`: of the rank that hangs; `light`: the
    same program without TensorFlow, where that is possible."""

    script: str
    line: bool = True
    stops: bool = False
    strategy: str = ""
    role: str = "worker"
    light: str = ""


def call(code: str) -> Kind:
    """A rank hangs in this code, outside every collective; the others wait in an allreduce."""
    body = "\n".join(f"    {line}" for line in code.strip("\n").splitlines())
    return in_loop(LOOP % (body, ALL_GO_ON))


def ends(code: str) -> Kind:
    """After the same steps the ranks do this."""
    return in_loop(LOOP % ("    pass", code))


def in_loop(text: str) -> Kind:
    """A program with Horovod, and without it where the text does not need it."""
    light = "" if "tf." in text or "hvd." in text else HEAD + LIGHT + text
    return Kind(HEAD + HEAVY + text, light=light)


STOPPED = """
print("ready to stop", flush=True)
while True:
    reduce()
    if rank == 0:
        print("step loss: 0.5", flush=True)
    time.sleep(0.05)
"""
SILENT = """
init()
for step in range(60):
    reduce()
    time.sleep(0.05)
if hangs:
    time.sleep(10**6)  # here
reduce()
"""
KINDS = {
    "sleep": call("time.sleep(10**6)  # here"),
    "a FIFO without a writer": call('os.mkfifo("pipe")\nopen("pipe").read()  # here'),
    "a lock taken twice": call("lock = threading.Lock()\nlock.acquire()\nlock.acquire()  # here"),
    "C code with the interpreter's lock": call(
        "read = ctypes.PyDLL(None).read\n"
        "end, _ = os.pipe()\n"
        "read(end, ctypes.create_string_buffer(1), 1)  # here"
    ),
    "a regular expression": call('re.match("(a+)+$", "a" * 64 + "b")  # here'),
    "an endless loop": call("while True: pass  # here"),
    "a socket": call(
        "a, b = socket.socketpair()\na.recv(1)  # here",
    ),
    "a server that does not answer": call(
        "import urllib.request\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "port = server.getsockname()[1]\n"
        "urllib.request.urlopen(f'http://127.0.0.1:{port}/')  # here"
    ),
    "a child process": call('subprocess.run(["sleep", "100000"])  # here'),
    "os.waitpid": call(
        'pid = os.spawnvp(os.P_NOWAIT, "sleep", ["sleep", "100000"])\nos.waitpid(pid, 0)  # here'
    ),
    "an empty queue": call("queue.Queue().get()  # here"),
    "a condition": call(
        "condition = threading.Condition()\nwith condition:\n    condition.wait()  # here"
    ),
    "a barrier of threads": call("threading.Barrier(2).wait()  # here"),
    "threads that wait for each other": call(
        "one, two, both = threading.Lock(), threading.Lock(), threading.Barrier(2)\n"
        "def work(first, second):\n"
        "    with first:\n"
        "        both.wait()\n"
        "        with second:  # here\n"
        "            pass\n"
        "pairs = ((one, two), (two, one))\n"
        "threads = [threading.Thread(target=work, args=pair) for pair in pairs]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]"
    ),
    "a file that nobody writes": call(
        'while not os.path.exists("/nowhere/done"): time.sleep(0.2)  # here'
    ),
    "a lock of a file": call(
        'first, second = open("lock", "w"), open("lock", "w")\n'
        "fcntl.flock(first, fcntl.LOCK_EX)\nfcntl.flock(second, fcntl.LOCK_EX)  # here"
    ),
    "poll": call("import select\nselect.poll().poll()  # here"),
    "asyncio": call("import asyncio\nasyncio.run(asyncio.Event().wait())  # here"),
    "a future": call("from concurrent.futures import Future\nFuture().result()  # here"),
    "a signal": call("signal.sigwait([signal.SIGUSR1])  # here"),
    "a worker of multiprocessing": call(
        "import multiprocessing\n"
        'pool = multiprocessing.get_context("fork").Pool(1)\n'
        "pool.apply(time.sleep, (10**6,))  # here"
    ),
    "a locked database": call(
        "import sqlite3\n"
        'a, b = (sqlite3.connect("db", timeout=10**6) for _ in range(2))\n'
        'a.execute("create table t (x)"); a.commit(); a.execute("begin exclusive")\n'
        'b.execute("insert into t values (1)")  # here',
    ),
    "a generator of tf.data": call(
        "source = queue.Queue()\n"
        "def generate():\n"
        "    yield 1\n"
        "    yield source.get()  # here\n"
        "signature = tf.TensorSpec((), tf.int32)\n"
        "dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)\n"
        "[item for item in dataset]"
    ),
    "a function of tf.data": call(
        "def slow(x):\n"
        "    time.sleep(10**6)  # here\n"
        "    return x\n"
        "dataset = tf.data.Dataset.range(9).map(lambda x: tf.py_function(slow, [x], tf.int64))\n"
        "[item for item in dataset]"
    ),
    "an endless pipeline": call(
        "dataset = tf.data.Dataset.range(9).repeat().filter(lambda x: x > 9)\n"
        "next(iter(dataset))  # here"
    ),
    "a skipped allreduce": ends("""
for number in range(5):
    if not hangs:
        reduce()
hvd.broadcast(tf.constant([1.0]), 0) if hangs else None  # here
reduce()
"""),
    "uneven batches": ends("""
for number in range(10 if hangs else 20):
    reduce()
total = hvd.allgather(tf.constant([1.0]))  # here
"""),
    "a loop that prints nothing": Kind(HEAD + HEAVY + SILENT),
    "a callback of Keras": Kind(
        HEAD
        + KERAS
        % (
            "import horovod.keras as hvd\nhvd.init()",
            "hvd.DistributedOptimizer(keras.optimizers.SGD(0.01))",
            "make().fit(x, y, epochs=9, verbose=0, callbacks=[Stuck()])",
        )
    ),
    "SIGSTOP of a rank": Kind(
        HEAD + HEAVY + LOOP % ("    pass", STOPPED), line=False, stops=True
    ),
    "MultiWorkerMirrored with a rank that sleeps": Kind(
        HEAD + OF_MULTIWORKER + ONE_SLEEPS,
        strategy="multiworker",
    ),
    "MultiWorkerMirrored with a rank that is stopped": Kind(
        HEAD + OF_MULTIWORKER + ONE_IS_STOPPED, line=False, stops=True, strategy="multiworker"
    ),
    "a callback with MultiWorkerMirrored": Kind(
        HEAD
        + KERAS
        % (
            "strategy = tf.distribute.MultiWorkerMirroredStrategy()",
            "keras.optimizers.SGD(0.01)",
            "with strategy.scope():\n    model = make()\n"
            "model.fit(x, y, epochs=9, verbose=0, callbacks=[Stuck()])",
        ),
        strategy="multiworker",
    ),
    "a lost parameter server": Kind(
        HEAD + SERVERS, line=False, stops=True, strategy="parameter-server", role="ps"
    ),
}  # fmt: skip
