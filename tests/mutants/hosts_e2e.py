"""Faults that whole hosts show: system changes, broken networks, reboots, power. Three of them are
caught by tests without a host, which take seconds instead of minutes."""

from __future__ import annotations

from . import Mutant

SYSTEM_SCRIPT = "bootstrap/host/scripts/system_changes.sh"
ROTATION = "bootstrap/lifecycle/key_rotation.py"
DEADLINE = "stacks/timer/deadline.sh"
WAITS = "tests/e2e/provision/test_system_waits.py"
INTERRUPTED = "tests/e2e/provision/test_system_interrupted.py"
TIMER = "tests/e2e/runs/test_machine_timer.py"
RUN_FAULTS = "tests/e2e/runs/test_run_faults.py"

MUTANTS = [
    Mutant(
        what="apt's timers stay off after a failed system change",
        file=SYSTEM_SCRIPT,
        old="  timers_on\n  kill",
        new="  kill",
        caught_by=(f"{WAITS}::test_what_does_not_pass_is_tried_once",),
    ),
    Mutant(
        what="a package that was torn while it was unpacked stays torn",
        file=SYSTEM_SCRIPT,
        old='[ -z "$torn" ] || patiently',
        new='[ -n "$torn" ] || patiently',
        caught_by=(f"{INTERRUPTED}::test_half_finished_packages_are_mended",),
    ),
    Mutant(
        what="a second bootstrap starts while the first one still changes the host",
        file=SYSTEM_SCRIPT,
        old="  flock -n 9 && return\n",
        new="  return\n",
        caught_by=(
            f"{INTERRUPTED}::test_the_controller_dies_at_each_step_and_the_next_one_continues",
        ),
    ),
    Mutant(
        what="a package that cannot be installed is tried five times",
        file=SYSTEM_SCRIPT,
        old='grep -Eq -e "$TRANSIENT" "$output" && ! grep -Eq -e "$FINAL" "$output"',
        new="true",
        caught_by=(f"{WAITS}::test_what_does_not_pass_is_tried_once",),
    ),
    Mutant(
        what="a host counts as rebooted before it has gone down",
        file="bootstrap/provision/reboot.py",
        old="if session.sh(BOOT, silence=30).strip() != before:",
        new="if session.sh(BOOT, silence=30).strip():",
        caught_by=(f"{INTERRUPTED}::test_a_host_reboots_and_comes_back",),
    ),
    Mutant(
        what="an interruption after sshd got its new key locks everybody out",
        file=ROTATION,
        old='f"{new_keys[name]} {pins[0][3]} {NEXT}"]',
        new="]",
        caught_by=(
            "tests/e2e/ssh/test_rotation.py::test_killed_at_any_step_the_next_attempt_continues",
        ),
    ),
    Mutant(
        what="two computers replace each other's new host key",
        file=ROTATION,
        old="""[ "$(public {KEY}.next)" = "$NEW" ] ||""",
        new="true ||",
        caught_by=("tests/e2e/ssh/test_rotation.py::test_two_computers_at_once_lock_nobody_out",),
    ),
    Mutant(
        what="each boot moves the deadline of a machine",
        file=DEADLINE,
        old='[ -s "$FOLDER/deadline" ] || set_deadline "$1"',
        new='set_deadline "$1"',
        caught_by=(f"{TIMER}::test_googles_startup_script_runs_at_each_boot_and_moves_nothing",),
    ),
    Mutant(
        what="a machine that starts after its deadline powers off before `fab start` can move it",
        file=DEADLINE,
        old="        stops=$((boot + LATE))\n",
        new="        stops=$boot\n",
        caught_by=(f"{TIMER}::test_a_late_start_gives_a_quarter_of_an_hour",),
    ),
    Mutant(
        what="only the chief powers itself off after a run, the other machines cost on",
        file="bootstrap/host/supervisor/stop_machines.py",
        old="outcome = pool.map(lambda other: stop_remote_host(*other[1:]), others)",
        new='outcome = ["ok" for _ in others]',
        caught_by=(
            "tests/e2e/runs/test_power_off.py::test_after_a_success_all_machines_power_off",
        ),
    ),
    Mutant(
        what="a machine's user asks for a password to power it off",
        file="railhead/documents/clouds.py",
        old='POWER_OFF = ("sudo", "-n", "systemctl", "poweroff")',
        new='POWER_OFF = ("systemctl", "poweroff")',
        caught_by=(
            "tests/e2e/runs/test_power_off.py::test_after_a_success_all_machines_power_off",
        ),
    ),
    Mutant(
        what="a host that the network lost trains on for a quarter of an hour",
        file="bootstrap/host/rank/rank_link.py",
        old="return self.seconds >= LIMIT",
        new="return False",
        caught_by=(
            "tests/bootstrap/host/rank/test_rank_link.py"
            "::test_only_a_link_without_any_answer_is_cut",
        ),
    ),
    Mutant(
        what="a run whose connection broke once is given up",
        file="bootstrap/runs/follow.py",
        old="        connection.reopen(is_open)\n",
        new="        raise ConnectionLost(why)\n",
        caught_by=(
            "tests/bootstrap/runs/test_agent_follow.py"
            "::test_after_broken_connections_each_line_is_shown_once",
        ),
    ),
    Mutant(
        what="teardown leaves the cluster's key in authorized_keys",
        file="bootstrap/lifecycle/teardown.py",
        old="    authorize(session, cluster, [])\n",
        new="",
        caught_by=(f"{RUN_FAULTS}::test_a_killed_supervisor_ends_the_ranks_and_is_reported",),
    ),
    Mutant(
        what="the trials on a slice take the chief of all hosts its rights on them",
        file="bootstrap/provision/apply.py",
        old="keep = in_progress or self.cluster.inventory.is_part",
        new="keep = in_progress",
        caught_by=(
            "tests/e2e/runs/test_sweep.py::test_trials_at_once_one_is_killed_and_the_others_end",
        ),
    ),
    Mutant(
        what="hosts that cannot reach each other start a run that hangs",
        file="bootstrap/runs/start.py",
        old="    if any(closed.values()):",
        new="    if all(closed.values()):",
        caught_by=(
            "tests/e2e/ssh/test_adhoc_hosts.py"
            "::test_closed_connections_between_hosts_are_named_before_the_run",
        ),
    ),
    Mutant(
        what="a full runtime is begun on a disk that cannot hold it",
        file="bootstrap/plan/decide.py",
        old="if free is not None and free < need:",
        new="if free is not None and free * 1000 < need:",
        caught_by=(
            "tests/bootstrap/plan/test_decide.py::test_a_disk_that_is_just_large_enough_is_enough",
        ),
    ),
]
