"""Faults in runs, their results, their reports and what people see of them."""

from __future__ import annotations

from . import Mutant

TESTS = "tests/bootstrap"

MUTANTS = [
    Mutant(
        what="a host's text becomes HTML on the page: its script runs in the browser",
        file="bootstrap/console/markup.py",
        old="return escape(clean(str(value)).translate(NOT_XML))",
        new="return clean(str(value)).translate(NOT_XML)",
        caught_by=(f"{TESTS}/report/test_report.py::test_what_a_host_writes_is_text",),
    ),
    Mutant(
        what="a page shows a picture of this computer that a host has linked to",
        file="bootstrap/report/page.py",
        old="if path.is_symlink() or not path.is_file()",
        new="if not path.is_file()",
        caught_by=(
            f"{TESTS}/report/test_report.py::test_a_link_in_place_of_a_picture_is_not_shown",
        ),
    ),
    Mutant(
        what="the report that is sent around has the values of --env",
        file="bootstrap/report/command.py",
        old="value = dict.fromkeys(value, HIDDEN)",
        new="pass",
        caught_by=(f"{TESTS}/report/test_report.py::test_the_command_has_no_value_of_a_variable",),
    ),
    Mutant(
        what="runs on different data are compared, and one of them is called the best",
        file="bootstrap/report/comparable.py",
        old="data[run.run_id] != most",
        new="False",
        caught_by=(f"{TESTS}/report/test_comparison.py",),
    ),
    Mutant(
        what="`fab runs` shows the oldest runs of a bucket, as their ids sort by time",
        file="bootstrap/report/listing.py",
        old="[-MOST:]",
        new="[:MOST]",
        caught_by=(
            f"{TESTS}/report/test_report.py::test_of_the_runs_of_a_bucket_the_newest_are_listed",
        ),
    ),
    Mutant(
        what="a fetch that is interrupted counts as complete, and the machines stop",
        file="bootstrap/runs/results.py",
        old="key=lambda path: path == RESULT)",
        new="key=lambda path: path != RESULT)",
        caught_by=(f"{TESTS}/runs/test_results.py",),
    ),
    Mutant(
        what="the chief stops its machines after the fetch of a run that has not ended",
        file="bootstrap/runs/results.py",
        old="    if ended:\n        for line",
        new="    if received:\n        for line",
        caught_by=(
            f"{TESTS}/runs/test_results.py::"
            "test_only_a_run_that_has_ended_counts_as_fetched_on_its_chief",
        ),
    ),
    Mutant(
        what="after a broken connection the lines of rank 0 are shown again",
        file="bootstrap/runs/follow.py",
        old="self.state.log_offset = event.log_offset",
        new="pass",
        caught_by=(
            f"{TESTS}/runs/test_agent_follow.py::"
            "test_after_broken_connections_each_line_is_shown_once",
        ),
    ),
    Mutant(
        what="the ranks of the second host look for secrets in files that have other names",
        file="railhead/documents/runs/run.py",
        old='f"secrets-{rank}.json" for rank in self.ranks_of(host)',
        new='f"secrets-{rank}.json" for rank in range(self.hosts[host].slots)',
        caught_by=(f"{TESTS}/runs/test_private_files.py",),
    ),
    Mutant(
        what="a resumed run looks for its requirements in the folder of the second command",
        file="bootstrap/runs/earlier_run.py",
        old="one.name: str(earlier.folder / value)",
        new="one.name: str(value)",
        caught_by=(f"{TESTS}/runs/test_earlier_run.py",),
    ),
    Mutant(
        what="TensorBoard reads nothing: it drops records whose checksum is wrong",
        file="bootstrap/runs/metrics/events.py",
        old="+ 0xA282EAD8",
        new="+ 0xA282EAD9",
        caught_by=(
            f"{TESTS}/workflows/test_tensorboard.py::test_tensorboard_reads_what_the_records_say",
        ),
    ),
    Mutant(
        what="a sweep ends the trials with the lowest loss",
        file="bootstrap/workflows/series/early_end.py",
        old='sign = 1.0 if metric == "val_accuracy" else -1.0',
        new="sign = 1.0",
        caught_by=(f"{TESTS}/workflows/test_grid.py",),
    ),
    Mutant(
        what="`fab prune` removes runs whose results are only on the hosts",
        file="bootstrap/workflows/prune.py",
        old="old = old_runs(names, keep, {*needed, *busy, *unfetched})",
        new="old = old_runs(names, keep, {*busy, *unfetched})",
        caught_by=(f"{TESTS}/workflows/test_prune.py",),
    ),
    Mutant(
        what="`fab prune` removes the only results of a run that was started with other --hosts",
        file="bootstrap/workflows/prune.py",
        old="old = old_runs(names, keep, {*needed, *busy, *unfetched})",
        new="old = old_runs(names, keep, {*needed, *busy})",
        caught_by=(f"{TESTS}/workflows/test_prune.py",),
    ),
    Mutant(
        what="an evaluation on this computer that misses its threshold ends with exit code 0",
        file="bootstrap/evaluation/here.py",
        old="    require_passed(judgement)\n",
        new="",
        caught_by=(
            f"{TESTS}/evaluation/test_evaluation.py::test_a_script_is_evaluated_here_too",
            f"{TESTS}/evaluation/test_evaluation.py::test_here_the_file_is_judged_too",
        ),
    ),
    Mutant(
        what="one slow link is not found: the hosts wait for it in each step",
        file="bootstrap/health/checks.py",
        old="if rate * SLOW < good:",
        new="if rate * SLOW * SLOW < good:",
        caught_by=(f"{TESTS}/health/test_health.py",),
    ),
    Mutant(
        what="Ctrl-C does not reach the programs that `fab` has started in the same terminal",
        file="bootstrap/console/interrupts.py",
        old="if signal.getsignal(signal.SIGINT) is _ignored else {}",
        new="if signal.getsignal else {}",
        caught_by=(f"{TESTS}/console/test_log.py",),
    ),
    Mutant(
        what="a log loses the last line of each host",
        file="bootstrap/console/live.py",
        old="            self.flush(self.names)\n",
        new="            pass\n",
        caught_by=(f"{TESTS}/console/test_live.py",),
    ),
    Mutant(
        what="the value of --env is in the debug log",
        file="bootstrap/console/redact.py",
        old='is_value = arg == "--env"',
        new="is_value = False",
        caught_by=(f"{TESTS}/console/test_log.py::test_values_of_env_options_are_not_logged",),
    ),
    Mutant(
        what="hosts that are one computer are counted twice in the carbon of a run",
        file="railhead/documents/carbon/energy.py",
        old="measurement.boot == other.boot and measurement.host != other.host",
        new="measurement.boot == other.boot and measurement.host == other.host",
        caught_by=("tests/documents/test_carbon.py",),
    ),
    Mutant(
        what="a larger size that takes longer has a price for each minute that it saves",
        file="bootstrap/report/scaling.py",
        old="self.more < 0 or not self.saved or self.saved < 0",
        new="self.more < 0 or not self.saved",
        caught_by=(f"{TESTS}/workflows/test_scale.py",),
    ),
]
