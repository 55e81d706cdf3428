"""Faults where two modules meet: each was drawn before its test was there, and no test failed."""

from __future__ import annotations

from . import Mutant

LIFE, TESTS, HOST = "bootstrap/lifecycle", "tests/bootstrap", "tests/bootstrap/host"

MUTANTS = [
    Mutant(
        what="a machine that did not answer counts as one without results",
        file=f"{LIFE}/held.py",
        old=" | {name: error.message for name, error in failed.items()}",
        new="",
        caught_by=(
            f"{TESTS}/lifecycle/test_power.py"
            "::test_a_machine_that_does_not_say_what_it_has_counts_as_not_contacted",
        ),
    ),
    Mutant(
        what="`fab extend --hours +4h` moves the later deadline to an earlier time",
        file=f"{LIFE}/deadlines.py",
        old="present = max((d.at for d",
        new="present = min((d.at for d",
        caught_by=(f"{TESTS}/lifecycle/test_deadlines.py", "-k", "latest_deadline"),
    ),
    Mutant(
        what="`fab start --hours` spends more than the budget of the stack",
        file=f"{LIFE}/power.py",
        old="        hours = budget.within(inventory, length",
        new="        hours = hours or budget.within(inventory, length",
        caught_by=(f"{TESTS}/lifecycle/test_power.py", "-k", "on_a_budget"),
    ),
    Mutant(
        what="a machine that was created during the question is destroyed by the answer",
        file=f"{LIFE}/destroy.py",
        old="return {host.id for host in machines.inventory.hosts}",
        new="return {host.name for host in machines.inventory.hosts}",
        caught_by=(f"{TESTS}/lifecycle/test_destroy.py", "-k", "replaced_during"),
    ),
    Mutant(
        what="the schedules of machines in no state stay when their stack is destroyed",
        file=f"{LIFE}/destroy.py",
        old=" + [m.id for m in machines.strays]",
        new="",
        caught_by=(f"{TESTS}/lifecycle/test_destroy.py", "-k", "in_no_state_go"),
    ),
    Mutant(
        what="`fab cancel` without a name ends the run of another computer",
        file="bootstrap/workflows/attach.py",
        old="    if not local_state.recorded_run(run.run_id).elsewhere:",
        new="    if local_state.is_recorded(run.run_id):",
        caught_by=(f"{TESTS}/inventory/test_local_state.py", "-k", "of_another_computer"),
    ),
    Mutant(
        what="`fab leaks --end` removes what may be another owner's",
        file="bootstrap/leaks/report.py",
        old="for i, of in owners.items() if len(of) == 1}",
        new="for i, of in owners.items()}",
        caught_by=(f"{TESTS}/leaks/test_end.py",),
    ),
    Mutant(
        what="`fab leaks --end` removes the schedule of a machine in another area",
        file="bootstrap/leaks/end.py",
        old="{*self._with_machines(listings), *self.unchanging}",
        new="self._with_machines(listings)",
        caught_by=(f"{TESTS}/leaks/test_end.py",),
    ),
    Mutant(
        what="machines in a zone that Google does not reach count as gone",
        file="bootstrap/clouds/gcp/machines.py",
        old="for page in pages for zone in page.missing",
        new="for page in pages[:1] for zone in page.missing",
        caught_by=(f"{TESTS}/clouds/test_gcp.py", "-k", "count_as_whole"),
    ),
    Mutant(
        what="spot prices count in the order in which EC2 lists them",
        file="railhead/money/bill.py",
        old="sorted((step for step in steps if step.start < end), key=lambda step: step.start)",
        new="[step for step in steps if step.start < end]",
        caught_by=("tests/money/test_bill.py",),
    ),
    Mutant(
        what="a start that has ended costs nothing if an earlier stop is known",
        file="bootstrap/costs/ledger.py",
        old="last.at <= state.stopped <= state.started",
        new="state.stopped <= state.started",
        caught_by=(f"{TESTS}/costs/test_ledger.py",),
    ),
    Mutant(
        what="a host that takes a run over lacks the records of its checkpoint",
        file="bootstrap/host/upload/live_upload.py",
        old="        self.before()\n        self._publish(entries)\n",
        new="        self._publish(entries)\n        self.before()\n",
        caught_by=(f"{HOST}/upload/test_live_upload.py", "-k", "list_that_names_it"),
    ),
    Mutant(
        what="a chief with a slow bucket supervises its run beside a standby",
        file="bootstrap/host/lease/holder.py",
        old="held.renew(self.folder, now)",
        new="held.renew(self.folder, held.now())",
        caught_by=(f"{HOST}/lease/test_terms.py::test_the_lease_counts_from_the_begin_of_a_beat",),
    ),
    Mutant(
        what="the stacks of a stalled run show its secrets",
        file="bootstrap/host/stall/watch.py",
        old='self.output.secrets.redact("\\n\\n".join(parts).encode())[:MOST]',
        new='"\\n\\n".join(parts).encode()[:MOST]',
        caught_by=(f"{HOST}/stall/test_watch.py", "-k", "secret"),
    ),
    Mutant(
        what="machines wait ten minutes for a host beside one that cannot be prepared",
        file="bootstrap/host/attempts/restarts.py",
        old="all(fault.unreachable for fault in faults)",
        new="any(fault.unreachable for fault in faults)",
        caught_by=(f"{HOST}/attempts/test_restarts.py", "-k", "no_host_is_waited"),
    ),
    Mutant(
        what="a script says that it passed, and its thresholds do not count",
        file="railhead/documents/runs/evaluation.py",
        old="Reported({**self.values, **encode(judgement)})",
        new="Reported({**encode(judgement), **self.values})",
        caught_by=("tests/documents/test_evaluation_and_endpoints.py",),
    ),
    Mutant(
        what="hosts read data that did not arrive in the bucket",
        file="bootstrap/data/upload.py",
        old="    uploaded = upload(data, store, prefix)\n    entry = StoredData(len(data.files), "
        'data.total_bytes, data.root.name)\n    store.write(f"{DATA}{data.digest}.json", '
        "json.dumps(encode(entry)).encode())\n",
        new="    entry = StoredData(len(data.files), data.total_bytes, data.root.name)\n    "
        'store.write(f"{DATA}{data.digest}.json", json.dumps(encode(entry)).encode())\n    '
        "uploaded = upload(data, store, prefix)\n",
        caught_by=(f"{TESTS}/data/test_data_push.py", "-k", "did_not_arrive"),
    ),
    Mutant(
        what="teardown of a cluster locks the chief of another one out of its hosts",
        file="bootstrap/ssh/authorized_keys.py",
        old="not line.endswith(mark)",
        new="mark not in line",
        caught_by=(f"{TESTS}/ssh/test_authorized_keys.py", "-k", "cluster_itself"),
    ),
    Mutant(
        what="ranks of a host continue from an older checkpoint than the others",
        file="bootstrap/runs/restore.py",
        old="if not wanted or any(lost.values()):",
        new="if not wanted or all(lost.values()):",
        caught_by=(f"{HOST}/upload/test_checkpoints.py", "-k", "one_host_without"),
    ),
]
