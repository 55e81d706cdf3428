"""Faults of runs that only real hosts show: two processes on two machines must agree."""

from __future__ import annotations

from . import Mutant

LOCAL = "tests/e2e/runs/test_local_runs.py::"
RUNNING = "tests/e2e/runs/test_running_runs.py::"
FIRST = "tests/e2e/runs/test_results_first.py::"
SCRIPT = (LOCAL + "test_a_script_has_its_folder_arguments_and_secret_and_its_results_come_back",)
CHECKPOINTS = (LOCAL + "test_checkpoints_are_fetched_during_a_run_and_after_its_supervisor_died",)
LOST = (RUNNING + "test_a_killed_controller_and_a_lost_connection_end_nothing",)
LEFT = (RUNNING + "test_a_run_is_left_watched_fetched_and_cancelled",)
FAILURE = (FIRST + "test_a_failure_is_reported_and_keeps_them_and_with_keep_0_they_stop",)
STRATEGIES = "tests/e2e/training/test_strategies_by_name.py::"

MUTANTS = [
    Mutant(
        what="a resumed script has its checkpoints on the chief only",
        file="bootstrap/runs/restore.py",
        old='"cd && tar -C $folder -xf -"',
        new='"tar -C $folder -xf -"',
        caught_by=("tests/e2e/training/test_launchers.py",),
    ),
    Mutant(
        what="after a lost connection all output is printed a second time",
        file="bootstrap/runs/follow.py",
        old='Follow(run.folder, state.offset, "rank-0", state.log_offset)',
        new='Follow(run.folder, state.offset, "rank-0", 0)',
        caught_by=LOST,
    ),
    Mutant(
        what="a lost connection is not opened again",
        file="bootstrap/runs/follow.py",
        old="        connection.reopen(is_open)\n",
        new="        pass\n",
        caught_by=LOST,
    ),
    Mutant(
        what="SIGTERM to fab train ends the run",
        file="bootstrap/workflows/attach.py",
        old="    except Terminated:",
        new="    except ZeroDivisionError:",
        caught_by=LEFT,
    ),
    Mutant(
        what="a run is cancelled, and what its ranks started in other sessions stays",
        file="bootstrap/host/run/end_processes.py",
        old='    return os.fsdecode(runs[0]) if runs else ""',
        new='    return os.fsdecode(runs[0]) if runs and os.getsid(pid) != pid else ""',
        caught_by=(
            "tests/bootstrap/host/run/test_end_processes.py::test_a_process_of_the_run_is_ended",
        ),
    ),
    Mutant(
        what="each rank is bound to one core",
        file="bootstrap/runs/launch.py",
        old='"--bind-to", "none", "--map-by", "slot"',
        new='"--bind-to", "core", "--map-by", "slot"',
        caught_by=SCRIPT,
    ),
    Mutant(
        what="a script imports the product's modules instead of those in its own folder",
        file="bootstrap/host/rank/rank.py",
        old="    sys.path.insert(0, os.path.dirname(script))",
        new="    sys.path.append(os.path.dirname(script))",
        caught_by=SCRIPT,
    ),
    Mutant(
        what="a secret is in the logs",
        file="bootstrap/host/output/rank_output.py",
        old='        return self.pattern.sub(b"[secret]", text) if self.any else text',
        new="        return text",
        caught_by=SCRIPT,
    ),
    Mutant(
        what="--outputs fetches everything",
        file="bootstrap/host/run/manifest.py",
        old='pattern == "**" or fnmatch.fnmatch(name, pattern)',
        new="True",
        caught_by=SCRIPT,
    ),
    Mutant(
        what="secrets stay in a host's memory while the run continues",
        file="bootstrap/host/rank/rank.py",
        old="json_file.take(secrets)",
        new="json_file.load(secrets)",
        caught_by=CHECKPOINTS,
    ),
    Mutant(
        what="nothing is fetched while a run continues, or after its supervisor has died",
        file="bootstrap/host/run/manifest.py",
        old="        return [name for name, _ in new_outputs(folder)]",
        new="        return []",
        caught_by=CHECKPOINTS,
    ),
    Mutant(
        what="the machines of a failed run stop before anybody could look",
        file="bootstrap/host/run/stop_policy.py",
        old="    if keep is not None and situation.now < keep:",
        new="    if False:",
        caught_by=FAILURE,
    ),
    Mutant(
        what="the rank that failed first is blamed with another exit code",
        file="bootstrap/host/supervisor/supervisor.py",
        old="else replace(blamed, exit=status)",
        new="else replace(blamed, exit=1)",
        caught_by=FAILURE,
    ),
    Mutant(
        what="parameter servers that wait for ever keep their run and its machines",
        file="bootstrap/host/supervisor/supervisor.py",
        old="        return ended is not None and time.monotonic() - ended > GRACE",
        new="        return False",
        caught_by=(STRATEGIES + "test_servers_that_wait_for_ever_end_with_their_chief",),
    ),
    Mutant(
        what="data that is the same on all hosts is divided between them",
        file="bootstrap/host/rank/rank_data.py",
        old='source_of(item, place), item.distribution == "shard"',
        new='source_of(item, place), item.uri.startswith("host:")',
        caught_by=(
            "tests/e2e/runs/test_data_runs.py::"
            "test_a_script_reads_each_name_replicated_sharded_or_by_links",
        ),
    ),
]
