"""Scripts that runs execute: ranks that join each other without TensorFlow."""

from __future__ import annotations

# Joins the ranks as Horovod would, without the seconds of TensorFlow's import.
JOIN = """
import ctypes, os, sys, time, json, pathlib
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
import atexit
atexit.register(mpi.MPI_Finalize)
rank = int(os.environ["RAILHEAD_RANK"])
"""
# Runs for minutes, with a child in its session and one outside it.
SLOW = (
    JOIN
    + """
import subprocess
subprocess.Popen(["sleep", "3600"])
subprocess.Popen(["sleep", "3601"], start_new_session=True)
for tick in range(6000):
    print("tick", tick)
    time.sleep(0.1)
"""
)
