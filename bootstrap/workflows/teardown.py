"""`fab teardown`: remove Railhead's files from hosts, stop or destroy machines, verify both."""

from __future__ import annotations

from railhead.documents.options.hosts import TeardownOptions

from ..errors import Command, UsageError
from ..inventory import stack_records
from ..inventory.hosts import Inventory
from ..lifecycle import destroy
from ..lifecycle.receipt import check
from ..lifecycle.stack_machines import StackMachines
from ..lifecycle.teardown import teardown_hosts
from ..serving import records


def teardown(inventory: Inventory, options: TeardownOptions) -> None:
    """Clean hosts that belong to no stack; then check the receipt."""
    if options.with_bucket:
        raise _no_bucket()
    receipt = teardown_hosts(
        inventory,
        purge=options.purge,
        discard=options.discard_results,
        destroy=options.destroy,
    )
    check(receipt, Command("teardown"))
    _forget_endpoints(inventory.name)


def teardown_stack(machines: StackMachines, options: TeardownOptions) -> None:
    """Stop a stack's machines, or destroy the stack; then check the receipt."""
    if options.with_bucket and not (options.destroy and machines.state.bucket):
        raise _no_bucket()
    receipt = destroy.teardown_stack(
        machines,
        discard=options.discard_results,
        destroyed=options.destroy,
        yes=options.yes,
        with_bucket=options.with_bucket,
    )
    check(receipt, Command("teardown", destroy=options.destroy, stack=machines.stack))
    if options.destroy:
        stack_records.forget(machines.state.cluster_id)
    if machines.inventory:
        _forget_endpoints(machines.inventory.name)


def _forget_endpoints(cluster: str) -> None:
    """Forget the endpoints: the receipt has verified that all have ended."""
    for endpoint in records.of_cluster(cluster):
        records.forget(endpoint)


def _no_bucket() -> UsageError:
    return UsageError("--with-bucket needs --destroy and a stack that has a bucket")
