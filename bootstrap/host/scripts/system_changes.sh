# The system changes on one host, as root. POSIX sh only, because a host may have no Python yet.
# bootstrap/provision/system_script.py writes the variables before this text: they say what to do.
# Every part can be run again.
#
# Output: "@step NAME", "@try" before each command, "| LINE" for each line of its output, "@alive"
# every few seconds, at the end "@done" or "@failed WHAT". If the connection breaks, the script
# continues, so that no package is left half installed. Therefore commands write to a file, and
# what goes over the connection is a copy of it.
set -uf # f: patterns are for dpkg, not for the shell
umask 022
export LC_ALL=C DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
now=/run/railhead       # a reboot empties it, and starts stopped timers
kept=/var/lib/railhead  # what fab teardown reverts
output=$now/output

fail() { # WHAT
  echo "@failed $1"
  exit 1
}

alone() { # an earlier bootstrap whose connection broke may still be running here
  exec 9>"$now/lock"
  flock -n 9 && return
  echo "| an earlier bootstrap still runs here: waiting for it"
  flock -w "$WAIT_SECONDS" 9 || fail busy
}

timers_off() {
  [ -d /run/systemd/system ] || return 0
  for timer in apt-daily.timer apt-daily-upgrade.timer; do
    systemctl is-active --quiet $timer || continue
    echo $timer >>"$now/timers"
    systemctl stop $timer
  done
}

timers_on() {
  [ -e "$now/timers" ] || return 0
  sort -u "$now/timers" | while read -r timer; do systemctl start "$timer"; done
  rm -f "$now/timers"
}

# shellcheck disable=SC2317,SC2329 # called by a trap
finish() {
  code=$?
  trap - EXIT
  trap '' TERM INT HUP
  timers_on
  kill "$breathing" 2>/dev/null
  exit $code
}

breathe() { # PID: print @alive while this process exists
  while kill -0 "$1" 2>/dev/null && echo @alive; do
    sleep 5 >/dev/null 2>&1
  done
}

attempt() { # COMMAND...: once
  echo @try
  : >"$output"
  (
    trap - PIPE
    "$@"
  ) >"$output" 2>&1 9>&- &
  command=$!
  tail -n +1 -s 0.2 -f --pid=$command "$output" 2>/dev/null 9>&- | sed -u 's/^/| /' 9>&-
  wait $command
}

pause() { # SECONDS: 0.5 to 1.5 times, so that hosts do not retry at the same moment
  sleep $(($1 / 2 + $(od -An -N2 -tu2 /dev/urandom) % ($1 + 1)))
}

patiently() { # COMMAND...: retry while the error is temporary
  tries=0 longer=$PAUSE end=$(($(date +%s) + WAIT_SECONDS))
  until attempt "$@"; do
    if grep -Eq -e "$LOCKED" "$output" && [ "$(date +%s)" -lt $end ]; then
      echo "| another program is installing packages: waiting for it"
      pause 4
    elif [ $tries -lt "$RETRIES" ] && passes; then
      tries=$((tries + 1))
      echo "| this is usually temporary: trying again in about $longer s"
      pause "$longer"
      longer=$((longer * 2))
    else
      return 1
    fi
  done
}

passes() {
  grep -Eq -e "$TRANSIENT" "$output" && ! grep -Eq -e "$FINAL" "$output"
}

# shellcheck disable=SC2086 # $way has several options
apt() {
  apt-get $way -q -y -o DPkg::Lock::Timeout="$WAIT_SECONDS" -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@"
}

# Package lists are read once, and again after each failure: if the mirror has changed, old lists
# cannot work. A list that apt refuses, as of a vendor whose key has expired, may not be needed.
bring() {
  [ -e "$now/fresh" ] || apt update || echo "continuing with the package lists that apt accepts"
  rm -f "$now/fresh"
  apt install --no-install-recommends "$@" && : >"$now/fresh"
}

first_boot() {
  echo "@step cloud-init"
  attempt timeout "$WAIT_SECONDS" cloud-init status --wait
  case $? in
    0) return ;;
    2) echo "| cloud-init is done; part of it did not work (degraded): continuing" ;;
    124) fail cloud-init-late ;;
    *) attempt cloud-init status --long
       tail -n 5 /var/log/cloud-init-output.log 2>/dev/null | sed 's/^/| /'
       fail cloud-init ;;
  esac
}

mend() {
  echo "@step mend"
  patiently configure && [ -z "$(dpkg --audit)" ] && return
  # A package that was interrupted while it was unpacked is installed again.
  torn=$(dpkg-query -W -f '${db:Status-Eflag} ${Package}\n' | sed -n 's/^reinstreq //p')
  # shellcheck disable=SC2086 # a list of packages
  [ -z "$torn" ] || patiently bring --reinstall $torn
  patiently apt --fix-broken install || fail mend
  patiently configure || fail mend
}

configure() {
  dpkg --force-confdef --force-confold --configure -a
}

system() {
  echo "@step system"
  # shellcheck disable=SC2086
  patiently bring $PACKAGES || fail apt
}

driver() {
  echo "@step driver"
  [ -z "$KEYRING" ] || repository
  if [ -n "$INSTALLER" ]; then patiently sh -c "$INSTALLER" || fail installer; fi
  for packages in "$PIN" "$DRIVER"; do # the branch is pinned before the driver is installed
    # shellcheck disable=SC2086
    [ -z "$packages" ] || patiently bring $packages || fail apt
  done
  persist
}

repository() {
  patiently bring ca-certificates || fail apt
  contrib
  [ "$(dpkg-query -W -f '${db:Status-Status}' cuda-keyring 2>/dev/null)" = installed ] && return
  file=$now/cuda-keyring.deb
  # shellcheck disable=SC2086
  patiently /usr/lib/apt/apt-helper $way download-file "$KEYRING" "$file" \
    "SHA256:$KEYRING_SHA256" || fail keyring
  patiently apt install --no-install-recommends "$file" || fail apt
  rm -f "$now/fresh"
}

# NVIDIA's packages for Debian need packages of Debian's component contrib. It is added to the
# existing entries: apt refuses a second entry for the same source with another key.
# shellcheck disable=SC2016 # apt expands the variables
contrib() {
  grep -qx ID=debian /etc/os-release || return 0
  apt-get indextargets --format '$(COMPONENT)' | grep -qx contrib && return
  apt-get indextargets 'Origin: Debian' 'Component: main' --format '$(SOURCESENTRY)' |
    sed 's/:[0-9]*$//' | sort -u | while read -r file; do
    rm -f "$now/fresh"
    sed -i -e '/^Components:/s/\<main\>/& contrib/' -e '/^deb /s/ main\>/& contrib/' "$file"
  done
}

persist() {
  [ -n "$REBOOT" ] || attempt modprobe nvidia || fail module
  if [ -d /run/systemd/system ] && systemctl cat nvidia-persistenced >/dev/null 2>&1; then
    attempt systemctl enable nvidia-persistenced
    [ -n "$REBOOT" ] || attempt systemctl start nvidia-persistenced
  elif [ -z "$REBOOT" ]; then
    attempt nvidia-smi -pm 1
  fi
}

hold() { # PATTERNS: the installed packages that are not held yet
  echo "@step driver"
  mkdir -p "$kept"
  # shellcheck disable=SC2086
  for package in $(dpkg-query -W -f '${db:Status-Status}.${db:Status-Want} ${Package}\n' $HOLD \
    2>/dev/null | sed -n 's/^installed.install //p'); do
    echo "$package" >>"$kept/held"
    patiently apt-mark hold "$package"
  done
  printf '%s\n' "$BLACKLIST" >/etc/apt/apt.conf.d/52railhead
}

trap '' PIPE
way= # options of apt for a host without outbound access
if [ -n "$PROXY" ]; then
  way="-o Acquire::http::Proxy=$PROXY -o Acquire::https::Proxy=$PROXY"
  unset no_proxy NO_PROXY
fi
mkdir -p $now
breathe $$ &
breathing=$!
trap finish EXIT
trap 'exit 143' TERM INT HUP
alone
rm -f "$now/fresh"
timers_off
[ -z "$FIRST_BOOT" ] || first_boot
[ -z "$MEND" ] || mend
[ -z "$PACKAGES" ] || system
[ -z "$DRIVER$INSTALLER" ] || driver
[ -z "$HOLD" ] || hold
echo @done
