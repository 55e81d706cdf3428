#!/bin/bash
# The first process of a full host: mounts its world, makes ROOT the root, becomes its init.
# It runs in new mount, pid, uts and ipc namespaces, inside the host's network namespace.
# usage: boot.sh ROOT NAME [SOURCE TARGET]...     (each pair is a folder bound into the host)
set -eu
root=$1 name=$2
shift 2
hostname "$name"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755,size=16m tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777,size=512m tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
mount -t tmpfs -o mode=755,size=64m tmpfs "$root/run"
mkdir -p "$root/run/sshd" "$root/run/lock"
while [ $# -gt 0 ]; do
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  shift 2
done
cd "$root"
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
cd /
# Bash as init collects every orphan that ends; `wait` alone would return at once without a child.
# shellcheck disable=SC2016  # the new root's bash is to expand it
exec -c -a host-init /bin/bash -c '
  export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  /usr/sbin/sshd
  while :; do (exec -a host-init sleep infinity) & wait; done'
