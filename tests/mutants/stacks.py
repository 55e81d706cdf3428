"""Faults in the stacks: what they make in a cloud, refuse, request, and report of it."""

from __future__ import annotations

from . import Mutant

AWS, GCP = "tests/stacks/aws/", "tests/stacks/gcp/"

MUTANTS = [
    Mutant(
        what="spot machines on Google Cloud run on after their deadline",
        file="stacks/gcp/hosts.py",
        old="""        max_run_duration=compute.InstanceSchedulingMaxRunDurationArgs(
            seconds=deadline.seconds(config.deadline_hours)
        ),
""",
        new="""        max_run_duration=None
        if config.spot
        else compute.InstanceSchedulingMaxRunDurationArgs(
            seconds=deadline.seconds(config.deadline_hours)
        ),
""",
        caught_by=(f"{GCP}test_hosts.py", f"{GCP}test_cluster.py"),
    ),
    Mutant(
        what="a second `up` postpones the deadline of machines that run",
        file="stacks/aws/schedule.py",
        old='ignore_changes=["description", "scheduleExpression"]',
        new='ignore_changes=["description"]',
        caught_by=(f"{AWS}test_access.py",),
    ),
    Mutant(
        what="a replaced machine keeps the schedule of the one before, which stops nothing",
        file="stacks/aws/schedule.py",
        old='name=pulumi.Output.concat(stopper.prefix, "-", machine.id)',
        new='name=pulumi.Output.concat(stopper.prefix, f"-{number}")',
        caught_by=(f"{AWS}test_access.py",),
    ),
    Mutant(
        what="a stack of an earlier version loses all its machines at the next `up`",
        file="stacks/component/logical_names.py",
        old="pulumi.ResourceOptions(aliases=aliases)",
        new="pulumi.ResourceOptions()",
        caught_by=("tests/engine/test_former_names.py", "-k", "earlier"),
    ),
    Mutant(
        what="the deadline of spot machines is a stop, which AWS refuses",
        file="stacks/aws/schedule.py",
        old='    verb = "terminate" if config.spot else "stop"\n',
        new='    verb = "stop"\n',
        caught_by=(f"{AWS}test_access.py",),
    ),
    Mutant(
        what="an image that AWS renews replaces machines and their disks",
        file="stacks/aws/hosts.py",
        old='fixed = ["userData"] if image.is_pinned(config) else ["ami", "userData"]',
        new='fixed = ["userData"]',
        caught_by=(f"{AWS}test_cluster.py", "-k", "image"),
    ),
    Mutant(
        what="a power-off of a machine on demand deletes its disk",
        file="stacks/aws/hosts.py",
        old='instance_initiated_shutdown_behavior="terminate" if config.spot else "stop"',
        new='instance_initiated_shutdown_behavior="terminate"',
        caught_by=(f"{AWS}test_cluster.py", "-k", "on_demand or spot"),
    ),
    Mutant(
        what="a host can change the wheels that later machines install",
        file="stacks/aws/identity.py",
        old='"Resource": [f"{bucket}/runs/*"]',
        new='"Resource": [f"{bucket}/*"]',
        caught_by=(f"{AWS}test_access.py",),
    ),
    Mutant(
        what="the quota is compared without what others use",
        file="stacks/quotas.py",
        old="self.limit < need.amount + (self.used or 0)",
        new="self.limit < need.amount",
        caught_by=(f"{AWS}test_quota.py", f"{GCP}test_quota.py"),
    ),
    Mutant(
        what="exactly enough quota is refused",
        file="stacks/quotas.py",
        old="self.limit < need.amount + (self.used or 0)",
        new="self.limit <= need.amount + (self.used or 0)",
        caught_by=(f"{AWS}test_quota.py", f"{GCP}test_quota.py"),
    ),
    Mutant(
        what="a request for more quota removes the machines of a stack on Google Cloud",
        file="stacks/gcp/quota.py",
        old="        _refuse_machines(existing.machine_names(google, own_id), config)",
        new="        pass",
        caught_by=("tests/stacks/gcp/test_quota.py", "-k", "removes_no_machine"),
    ),
    Mutant(
        what="machines of Google Cloud that can only migrate are to be stopped for maintenance",
        file="stacks/machine_types/gcp.py",
        old='    return name.startswith("e2-") and not spot',
        new="    return False",
        caught_by=("tests/stacks/gcp/test_hosts.py",),
    ),
    Mutant(
        what="a request makes an earlier one smaller",
        file="stacks/gcp/quota.py",
        old="there.preferred >= need.amount",
        new="there.preferred == need.amount",
        caught_by=("tests/stacks/gcp/test_quota.py",),
    ),
    Mutant(
        what="a request could decrease a quota whose value is unknown",
        file="stacks/aws/quota.py",
        old="""    if unknown:
        raise ConfigError(""",
        new="""    if unknown and not states:
        raise ConfigError(""",
        caught_by=(f"{AWS}test_quota.py",),
    ),
    Mutant(
        what="a cluster's id changes with every `up`: `fab` no longer finds its machines",
        file="stacks/cluster_id.py",
        old='ignore_changes=["input"], ',
        new="",
        caught_by=(f"{AWS}test_cluster.py", "-k", "clusters_id"),
    ),
    Mutant(
        what="in an existing network of Google Cloud everybody reaches the machines",
        file="stacks/gcp/firewall.py",
        old="ALLOW, DENY = 900, 910",
        new="ALLOW, DENY = 900, 1010",
        caught_by=(f"{GCP}test_reach.py",),
    ),
    Mutant(
        what="machines on Google Cloud boot before the firewall denies the world",
        file="stacks/gcp/cluster.py",
        old="connected = pulumi.ResourceOptions(depends_on=net.ready)",
        new="connected = pulumi.ResourceOptions()",
        caught_by=(f"{GCP}test_reach.py",),
    ),
    Mutant(
        what="the cluster document has the private address as the public one",
        file="stacks/gcp/cluster.py",
        old='address=interface["access_configs"][0]["nat_ip"]',
        new='address=interface["network_ip"]',
        caught_by=(f"{GCP}test_cluster.py", "-k", "golden"),
    ),
    Mutant(
        what="where capacity is refused, nothing says what runs and what ends it",
        file="stacks/broken_up.py",
        old="hooks=binding",
        new="hooks=None",
        caught_by=(
            "tests/engine/test_broken_up.py::test_an_up_without_capacity_is_named_and_ended",
        ),
    ),
    Mutant(
        what="bootstrap does not find the price of a broken `up` in Pulumi's state",
        file="stacks/broken_up.py",
        old='PRICE = "price-per-machine"',
        new='PRICE = "price"',
        caught_by=(f"{AWS}test_cluster.py", "-k", "clusters_id"),
    ),
    Mutant(
        what="without configured zones the machines are made in a Local Zone",
        file="stacks/aws/zone.py",
        old='ordinary = [zone for zone in offering if re.fullmatch(f"{config.region}[a-z]", zone)]',
        new="ordinary = list(offering)",
        caught_by=(f"{AWS}test_network.py",),
    ),
    Mutant(
        what="without configured zones `fab up` gives up after the first without capacity",
        file="stacks/broken_up.py",
        old="list(config.zones or (zone, *others.zones))",
        new="list(config.zones)",
        caught_by=(f"{AWS}test_network.py",),
    ),
    Mutant(
        what="Google refuses to create machines with local SSDs",
        file="stacks/gcp/hosts.py",
        old="        on_instance_stop_action=_stop_action(config),\n",
        new="",
        caught_by=(f"{GCP}test_hosts.py", "-k", "local_ssds"),
    ),
    Mutant(
        what="a machine stops as idle after a time in which nobody looked at it",
        file="stacks/timer/idle.py",
        old="facts.up - before.looked <= GAP",
        new="facts.up - before.looked",
        caught_by=("tests/stacks/test_idle.py",),
    ),
    Mutant(
        what="a machine stops as idle while its GPUs do not say what they do",
        file="stacks/timer/idle.py",
        old="facts.gpu is None or facts.gpu >= LOAD",
        new="(facts.gpu or 0) >= LOAD",
        caught_by=("tests/stacks/test_idle.py",),
    ),
    Mutant(
        what="results on a spot machine without a bucket are lost after half an hour",
        file="stacks/rules/aws.py",
        old='idle = 0 if values["spot"] and not values["bucket"] else IDLE_MINUTES',
        new="idle = IDLE_MINUTES",
        caught_by=("tests/stacks/test_settings.py",),
    ),
]
