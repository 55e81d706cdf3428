"""Faults in prices, bills, budgets and their times."""

from __future__ import annotations

from . import Mutant

COSTS = "tests/bootstrap/costs/"

MUTANTS = [
    Mutant(
        what="a deploy does not count the machines that run beside its chief",
        file="bootstrap/lifecycle/power.py",
        old="if name == chief or name not in status.not_running]",
        new="if name == chief]",
        caught_by=("tests/bootstrap/serving/test_endpoints.py", "-k", "budget"),
    ),
    Mutant(
        what="a budget of several machines lasts as long as that of one",
        file="bootstrap/costs/budget.py",
        old="""    per_hour = host.per_hour(host.read(inventory.price, hosts), hosts)
    hours = hours_for""",
        new="""    per_hour = host.per_hour(host.read(inventory.price, hosts), 1)
    hours = hours_for""",
        caught_by=(f"{COSTS}test_budget.py",),
    ),
    Mutant(
        what="the throughput of a disk is free while its machine is stopped",
        file="railhead/money/host.py",
        old="return self.what in (DISK, THROUGHPUT, IOPS)",
        new="return self.what == DISK",
        caught_by=("tests/money/test_table.py",),
    ),
    Mutant(
        what="a disk is billed for the throughput that its price includes",
        file="railhead/money/host.py",
        old="Decimal(has - free)",
        new="Decimal(has)",
        caught_by=("tests/money/test_table.py",),
    ),
    Mutant(
        what="the throughput of AWS's price list is per GiB/s, and ours per MiB/s",
        file="bootstrap/clouds/aws/prices.py",
        old='("MiBps-month", 1024)',
        new='("MiBps-month", 1)',
        caught_by=("tests/bootstrap/clouds/test_aws_prices.py",),
    ),
    Mutant(
        what="before the first spot price that EC2 keeps, the one of the start is taken",
        file="bootstrap/costs/bill.py",
        old="return at_steps(replace(existence, rate=before), steps, existence.end)",
        new="return at_steps(existence, steps, existence.end)",
        caught_by=(f"{COSTS}test_ledger.py",),
    ),
    Mutant(
        what="the address of a spot machine has the price of the machine",
        file="bootstrap/costs/bill.py",
        old="changes = steps if part.what == host.MACHINE else ()",
        new="changes = steps",
        caught_by=("tests/bootstrap/workflows/test_costs.py",),
    ),
    Mutant(
        what="spot prices of other zones are those of a machine",
        file="bootstrap/clouds/aws/prices.py",
        old="        if offer in offers and start",
        new="        if start",
        caught_by=("tests/bootstrap/clouds/test_aws_prices.py",),
    ),
    Mutant(
        what="of two rows that match, the first is the price",
        file="railhead/money/table.py",
        old="    if len(rows) == 1:\n",
        new="    if rows:\n",
        caught_by=("tests/money/test_table.py",),
    ),
    Mutant(
        what="a machine is billed for less than its first minute",
        file="railhead/money/bill.py",
        old="return Existence(name, rate, start, end, least=FIRST_MINUTE)",
        new="return Existence(name, rate, start, end)",
        caught_by=("tests/money/test_bill.py",),
    ),
    Mutant(
        what="the budget of a run moves no timer of a machine",
        file="bootstrap/lifecycle/deadlines.py",
        old="for n, s in cluster.sessions.items() if _comes_after(timers[n], end)}",
        new="for n, s in {}.items()}",
        caught_by=("tests/bootstrap/lifecycle/test_deadlines.py", "-k", "budget"),
    ),
    Mutant(
        what="Google's credits are not deducted",
        file="bootstrap/clouds/gcp/bill.py",
        old="return Decimal(self.cost) + Decimal(self.credits)",
        new="return Decimal(self.cost)",
        caught_by=("tests/bootstrap/clouds/test_gcp_bill.py",),
    ),
    Mutant(
        what="euros that Google has billed count as dollars",
        file="bootstrap/clouds/gcp/bill.py",
        old="return amount / Decimal(self.rate)",
        new="return amount",
        caught_by=("tests/bootstrap/clouds/test_gcp_bill.py",),
    ),
    Mutant(
        what="rows of Google's bill that did not come cost nothing",
        file="bootstrap/clouds/gcp/bigquery.py",
        old="if len(rows) != expected:",
        new="if len(rows) > expected:",
        caught_by=("tests/bootstrap/clouds/test_gcp_bill.py",),
    ),
    Mutant(
        what="any text may be the table of a query of BigQuery",
        file="bootstrap/clouds/gcp/bill.py",
        old="TABLE.fullmatch(table)",
        new="TABLE.match(table)",
        caught_by=("tests/bootstrap/clouds/test_gcp_bill.py",),
    ),
]
