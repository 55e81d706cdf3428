"""Faults in the clouds, in the life of machines, and in how commands are read."""

from __future__ import annotations

from . import Mutant

CLOUDS, LIFE = "tests/bootstrap/clouds", "tests/bootstrap/lifecycle"
LEAKS = "tests/bootstrap/leaks"

MUTANTS = [
    Mutant(
        what="one machine that Google refuses to stop keeps all others running",
        file="bootstrap/clouds/gcp/instances.py",
        old="                failures.append(error)",
        new="                raise error",
        caught_by=(f"{CLOUDS}/test_contract.py",),
    ),
    Mutant(
        what="machines of Google with local SSDs cannot be stopped: 40 dollars an hour",
        file="bootstrap/clouds/gcp/instances.py",
        old='discard = "?discardLocalSsd=true" if instance.has_local_ssd else ""',
        new='discard = ""',
        caught_by=(f"{CLOUDS}/test_contract.py",),
    ),
    Mutant(
        what="with the credentials of another account, running machines count as gone",
        file="bootstrap/clouds/aws/instances.py",
        old="        if current == known:",
        new="        if current:",
        caught_by=(f"{CLOUDS}/test_aws.py",),
    ),
    Mutant(
        what="a schedule that also names a terminated machine counts as armed: EC2 stops none",
        file="bootstrap/clouds/aws/scheduler.py",
        old="if gone := [instance for instance in ids if instance not in instances]:",
        new="if gone := [one for one in ids if one not in instances and one == own]:",
        caught_by=(f"{CLOUDS}/test_aws.py",),
    ),
    Mutant(
        what="a machine of Google without an action at its deadline counts as armed",
        file="bootstrap/clouds/gcp/instances.py",
        old="    if not instance.seconds or not instance.stops:",
        new="    if not instance.seconds:",
        caught_by=(f"{CLOUDS}/test_gcp.py",),
    ),
    Mutant(
        what="a cloud that reports a stop for a moment counts as stopped",
        file="bootstrap/clouds/base.py",
        old="return reached >= needed or fell_back",
        new="return reached == 1 or fell_back",
        caught_by=(f"{CLOUDS}/test_wait_for_state.py",),
    ),
    Mutant(
        what="stopping the local host h1 also ends h10 to h19",
        file="bootstrap/clouds/local/processes.py",
        old='marked = mark in (entry / "environ").read_bytes().split(b"\\0")',
        new='marked = mark in (entry / "environ").read_bytes()',
        caught_by=(f"{CLOUDS}/test_processes.py",),
    ),
    Mutant(
        what="`pulumi destroy` removes the deadlines of machines that only stopped",
        file="bootstrap/lifecycle/destroy.py",
        old='wanted = STOPPED if inventory.kind.this_machine else ("gone",)',
        new="wanted = STOPPED",
        caught_by=(f"{LIFE}/test_destroy.py",),
    ),
    Mutant(
        what="a stack without an id ends machines of others that have none either",
        file="bootstrap/lifecycle/stack_machines.py",
        old="own = [m for m in machines if state.cluster_id and m.cluster_id == state.cluster_id]",
        new="own = [m for m in machines if m.cluster_id == state.cluster_id]",
        caught_by=(f"{LIFE}/test_stack_machines.py",),
    ),
    Mutant(
        what="a new machine is trusted by the key of the one before it",
        file="bootstrap/lifecycle/cloud_host_keys.py",
        old="return instance_states[host.name].serial not in serials",
        new="return not serials",
        caught_by=(f"{LIFE}/test_cloud_host_keys.py",),
    ),
    Mutant(
        what="a start that failed for one machine stops those that somebody uses",
        file="bootstrap/lifecycle/power.py",
        old="if len(status.not_running) == len(status.instance_states):",
        new="if status.not_running:",
        caught_by=(f"{LIFE}/test_power.py",),
    ),
    Mutant(
        what="after a refusal of the cloud, `fab up` moves a cluster that runs to another zone",
        file="bootstrap/lifecycle/up.py",
        old="return before.inventory is None and not before.unlisted and not result.interrupted",
        new="return not before.unlisted and not result.interrupted",
        caught_by=(f"{LIFE}/test_up.py",),
    ),
    Mutant(
        what="the record of a cluster loses its stack when its local hosts are started again",
        file="bootstrap/inventory/local_state.py",
        old="    if inventory.stack:  # otherwise",
        new="    (folder / 'stack').unlink(missing_ok=True)\n    if inventory.stack:  # otherwise",
        caught_by=("tests/bootstrap/inventory/test_local_state.py",),
    ),
    Mutant(
        what="fab train -H a --hosts b trains on b, and a is forgotten",
        file="bootstrap/cli/executor.py",
        old='if call.kwargs.get("hosts") not in (None, hosts):',
        new='if call.kwargs.get("hosts") == "":',
        caught_by=("tests/bootstrap/cli/test_executor.py",),
    ),
    Mutant(
        what="--dry tears hosts down",
        file="bootstrap/cli/executor.py",
        old='    if not getattr(task, "dry", False):',
        new="    if False:",
        caught_by=("tests/bootstrap/cli/test_core_options.py",),
    ),
    Mutant(
        what="the next command after a failure has no stack: it is about other hosts",
        file="bootstrap/cli/executor.py",
        old="for one in TARGETS if options.get(one) and one in takes})",
        new="for one in () if options.get(one) and one in takes})",
        caught_by=("tests/bootstrap/cli/test_next_commands.py",),
    ),
    Mutant(
        what="`with railhead.Cluster(...)` leaves everything on the hosts after an error",
        file="bootstrap/interface/cluster.py",
        old="    def __exit__(self, *error: object) -> None:\n        self.teardown()",
        new="    def __exit__(self, *error: object) -> None:\n        error[0] or self.teardown()",
        caught_by=("tests/bootstrap/interface/test_python_api.py",),
    ),
    Mutant(
        what="`fab leaks --end` removes what has no owner or another one",
        file="bootstrap/leaks/report.py",
        old="return leak.status == LEAKED and leak.owner == self.owner",
        new="return leak.status == LEAKED",
        caught_by=(f"{LEAKS}/test_leaks_gcp.py",),
    ),
    Mutant(
        what="`fab leaks --end` removes the deadline of a machine that still runs",
        file="bootstrap/leaks/end.py",
        old="elif _cluster(leak) in with_machines:",
        new="elif _cluster(leak) in ():",
        caught_by=(f"{LEAKS}/test_end.py",),
    ),
    Mutant(
        what="a stack that cannot be read counts as one that does not exist",
        file="bootstrap/leaks/report.py",
        old="return UNKNOWN if self.living.unread else LEAKED",
        new="return LEAKED",
        caught_by=(f"{LEAKS}/test_leaks_aws.py", "-k", "cannot_be_read"),
    ),
    Mutant(
        what="a region that failed counts as one without leaks",
        file="railhead/documents/leaks.py",
        old="return self.state in (FAILED, UNREACHABLE)",
        new="return self.state == UNREACHABLE",
        caught_by=(f"{LEAKS}/test_survey.py",),
    ),
    Mutant(
        what="a list of Google's without the zones that it does not reach counts as whole",
        file="bootstrap/clouds/gcp/areas.py",
        old='if scope.warning.code == "UNREACHABLE":',
        new='if scope.warning.code == "PARTIAL_SUCCESS":',
        caught_by=(f"{LEAKS}/test_leaks_gcp.py",),
    ),
    Mutant(
        what="`fab stop --all` stops the machines of other owners",
        file="bootstrap/workflows/machines/stop_all.py",
        old="        elif others:",
        new="        elif others and not machines.inventory:",
        caught_by=("tests/bootstrap/workflows/test_stop_all.py",),
    ),
]
