#!/bin/sh
# The deadline of a machine, kept by the machine itself. `pulumi up` gives this file to each cloud
# machine, with the command that installs it (stacks/timer/deadline.py). A systemd timer runs `check`
# twice a minute; when the time has come, the machine powers itself off.
#
#   railhead-deadline install SECONDS IDLE
#                                       write the units; the first time also the deadline, and the
#                                       minutes without use after which it powers itself off (idle.py)
#   railhead-deadline set SECONDS       root: move the deadline to so many seconds from now
#   railhead-deadline show              one line: stops, now (seconds since 1970), late, timer
#   railhead-deadline check             root, run by the timer: power off when the time has come
#
# The deadline is a time on the disk, so a reboot does not move it. A machine that boots after its
# deadline stays on for LATE seconds: then `fab start` writes the new one. Where the file is lost or
# holds no sensible time, the deadline counts from the boot.
set -eu
umask 022
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

TOOL=/usr/local/sbin/railhead-deadline
IDLE=/usr/local/sbin/railhead-idle
FOLDER=/var/lib/railhead
UNITS=/etc/systemd/system
LATE=900
MOST=691200 # a file with a later time is wrong: 168 hours are the most, and a day for slow boots

is_number() {
    # No leading zero: sh would read an octal number, and stop at 08.
    case $1 in '' | *[!0-9]* | 0?* | ???????????*) return 1 ;; esac
}

write() { # write PATH: the input, beside it and renamed, so that it is there whole or not at all
    cat >"$1.part"
    mv "$1.part" "$1"
}

read_times() { # sets now, boot, stops, late
    now=$(date +%s)
    up=$(cut -d. -f1 /proc/uptime)
    began=$(systemctl show --property=UserspaceTimestampMonotonic --value)
    is_number "${began%??????}" || began=0000000
    boot=$((now - up + ${began%??????}))
    stops=$(cat "$FOLDER/deadline" 2>/dev/null) || stops=
    is_number "$stops" && [ "$stops" -le $((now + MOST)) ] || stops=$((boot + $(length)))
    late=no
    if [ "$stops" -le "$boot" ]; then
        stops=$((boot + LATE))
        late=yes
    fi
}

length() { # the seconds that the stack was made with
    found=$(cat "$FOLDER/deadline-length" 2>/dev/null) || found=
    is_number "$found" && [ "$found" -le "$MOST" ] && echo "$found" || echo 28800
}

set_deadline() {
    is_number "${1-}" && [ "$1" -ge 60 ] && [ "$1" -le "$MOST" ] || {
        echo "railhead-deadline: '${1-}' is not a number of seconds from 60 to $MOST" >&2
        exit 2
    }
    mkdir -p "$FOLDER"
    echo $(($(date +%s) + $1)) | write "$FOLDER/deadline"
}

is_idle() { # sets minutes; where anything fails, the machine stays on
    minutes=$(cat "$FOLDER/idle-minutes" 2>/dev/null) || return 1
    [ "$minutes" != 0 ] || return 1
    [ "$(timeout 40 python3 -I "$IDLE" "$minutes" 2>/dev/null)" = stop ]
}

install_units() {
    mkdir -p "$FOLDER"
    echo "$1" | write "$FOLDER/deadline-length"
    [ -s "$FOLDER/deadline" ] || set_deadline "$1"
    [ -s "$FOLDER/idle-minutes" ] || echo "$2" | write "$FOLDER/idle-minutes"
    write "$UNITS/railhead-deadline.service" <<END
[Unit]
Description=Power this machine off when its deadline has come
[Service]
Type=oneshot
ExecStart=/bin/sh $TOOL check
TimeoutStartSec=60
LogLevelMax=notice
END
    write "$UNITS/railhead-deadline.timer" <<END
[Unit]
Description=Check the deadline of this machine
[Timer]
OnActiveSec=1
OnUnitInactiveSec=30
AccuracySec=1
[Install]
WantedBy=timers.target
END
    systemctl daemon-reload
    systemctl --quiet enable railhead-deadline.timer
    # Without waiting: at the first boot this runs before systemd starts any timer.
    systemctl --no-block start railhead-deadline.timer
}

case ${1-} in
install) install_units "$2" "${3:-0}" ;;
set)
    set_deadline "${2-}"
    systemctl --quiet enable --now railhead-deadline.timer
    ;;
show)
    read_times
    timer=$(systemctl is-active railhead-deadline.timer) || :
    echo "stops=$stops now=$now late=$late timer=$timer"
    ;;
check)
    read_times
    if [ "$now" -ge "$stops" ]; then
        echo "<5>the deadline of this machine has come: power off"
        systemctl poweroff
    elif is_idle; then
        echo "<5>nobody has used this machine for $minutes minutes: power off"
        systemctl poweroff
    fi
    ;;
*)
    echo "usage: railhead-deadline install SECONDS | set SECONDS | show | check" >&2
    exit 2
    ;;
esac
