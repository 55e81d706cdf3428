"""The hosts. Google itself stops their machines at the deadline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_gcp import compute

from railhead.documents.clouds import COMMON_FACTS

from ..component.logical_names import named
from ..component.parts import Part, plus
from ..config.settings import ClusterConfig
from ..machine_types.gcp import has_local_ssds, only_migrates
from ..timer import deadline
from .identity import SCOPE
from .image import Image
from .labels import ID, labels, tag
from .zone import Location

# Without this, changes of the first four would replace existing machines and their disks: the name
# (of the cluster), the labels of the disk (a colleague's `up` has another owner), the size of the
# disk (Compute's API can make it larger), the deadline (the API can change it while the machine is
# stopped). A machine keeps the script of its timer, too, with the hours in it.
FIXED = [
    "name",
    "bootDisk.initializeParams.labels",
    "bootDisk.initializeParams.size",
    "scheduling.maxRunDuration",
    'metadata["startup-script"]',
]


@dataclass(frozen=True)
class HostInputs:
    """What all hosts of a cluster share. `account` is the service account's address, if any."""

    location: Location
    image: Image
    subnet: pulumi.Input[str]
    account: pulumi.Input[str] | None
    cluster_id: pulumi.Input[str]
    not_twice: pulumi.ResourceHook


class Host(Part):
    """One machine."""

    def __init__(
        self, config: ClusterConfig, number: int, inputs: HostInputs, opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("gcp:Host", f"host-{number}", opts)
        self.machine = _machine(config, number, inputs, self.inner)
        self.register_outputs({"id": self.machine.id, "name": self.machine.name})


def _machine(
    config: ClusterConfig, number: int, inputs: HostInputs, opts: pulumi.ResourceOptions
) -> compute.Instance:
    """The machine. It accepts the operator's key and no other; bootstrap installs everything else.
    `desired_status` stays unset: an `up` neither starts nor stops a machine."""
    instance = compute.Instance(
        named(opts, f"host-{number}"),
        name=f"{config.name}-{number}",
        project=inputs.location.project,
        zone=inputs.location.zone,
        machine_type=config.machine_type,
        guest_accelerators=_gpus(config),
        # checkov:skip=CKV_GCP_38: Google encrypts all disks; our own key would be in the state
        boot_disk=_disk(config, inputs),
        network_interfaces=[_interface(inputs.subnet)],
        scheduling=_scheduling(config),
        service_account=_account(inputs.account),
        shielded_instance_config=_shielded(inputs.image),
        metadata=_metadata(config, inputs.image),
        labels=labels(config),
        tags=[tag(config)],
        # A machine must be stopped while its type or account is changed.
        allow_stopping_for_update=True,
        opts=plus(
            opts,
            ignore_changes=_fixed(config),
            hooks=pulumi.ResourceHookBinding(before_create=[inputs.not_twice]),
            # Compute refuses this change of an existing machine.
            replace_on_changes=["scheduling.onHostMaintenance"],
            # Its name is in use until the old one is removed.
            delete_before_replace=True,
        ),
    )
    pulumi.Output.all(instance.boot_disk, instance.zone).apply(
        lambda known: _log_other_size(config, number, *known)
    )
    return instance


def _log_other_size(config: ClusterConfig, number: int, disk: Any, zone: str) -> None:
    """Log that a machine's disk does not have the config's size, and how to change it."""
    size = int(disk["initialize_params"].get("size") or config.disk_gb)
    if size == config.disk_gb:
        return
    name = f"{config.name}-{number}"
    text = f"{name} keeps its disk of {size} GB: another disk_gb would replace it and the machine"
    if size < config.disk_gb:
        where = f"--zone {zone} --project {config.project}"
        text += f". To make it larger: gcloud compute disks resize {name} --size {config.disk_gb}GB"
        text += f" {where}, then restart the machine"
    pulumi.log.info(text)


def _fixed(config: ClusterConfig) -> list[str]:
    """The properties that no `up` changes. Compute attaches the local SSDs of a machine type; the
    provider would see them as a change that replaces the machine. Without configured zones a
    machine keeps its zone: a change in Compute's lists must not move it."""
    fixed = list(FIXED)
    if has_local_ssds(config.machine_type):
        fixed.append("scratchDisks")
    if not config.zones:
        fixed.append("zone")
    return fixed


def _gpus(config: ClusterConfig) -> list[compute.InstanceGuestAcceleratorArgs] | None:
    """GPUs that are attached, to n1; other types have their own, or none."""
    if not config.gpu_type or not config.gpu_count:
        return None
    return [compute.InstanceGuestAcceleratorArgs(type=config.gpu_type, count=config.gpu_count)]


def _disk(config: ClusterConfig, inputs: HostInputs) -> compute.InstanceBootDiskArgs:
    """The system disk. Google always encrypts it with its own keys."""
    return compute.InstanceBootDiskArgs(
        auto_delete=True,
        initialize_params=compute.InstanceBootDiskInitializeParamsArgs(
            image=inputs.image.path,
            size=config.disk_gb,
            type=COMMON_FACTS["gcp"].disk_type,
            labels={**labels(config), ID: inputs.cluster_id},
        ),
    )


def _interface(subnet: pulumi.Input[str]) -> compute.InstanceNetworkInterfaceArgs:
    """A public address for SSH, and Google's fast virtual network card."""
    return compute.InstanceNetworkInterfaceArgs(
        subnetwork=subnet,
        nic_type="GVNIC",
        # checkov:skip=CKV_GCP_40: the operator comes from outside; the firewall lets nobody else in
        access_configs=[compute.InstanceNetworkInterfaceAccessConfigArgs()],
    )


def _scheduling(config: ClusterConfig) -> compute.InstanceSchedulingArgs:
    """Machines with GPUs cannot be migrated for maintenance, only stopped; some types only migrate.
    None restarts by itself: it would cost, with a new deadline and without a run."""
    migrates = only_migrates(config.machine_type, spot=config.spot)
    return compute.InstanceSchedulingArgs(
        on_host_maintenance="MIGRATE" if migrates else "TERMINATE",
        automatic_restart=False,
        preemptible=config.spot,
        provisioning_model="SPOT" if config.spot else "STANDARD",
        instance_termination_action="STOP",
        max_run_duration=compute.InstanceSchedulingMaxRunDurationArgs(
            seconds=deadline.seconds(config.deadline_hours)
        ),
        on_instance_stop_action=_stop_action(config),
    )


def _stop_action(
    config: ClusterConfig,
) -> compute.InstanceSchedulingOnInstanceStopActionArgs | None:
    """Compute stops a machine with local SSDs only if it may discard them; without local SSDs it
    refuses this."""
    if not has_local_ssds(config.machine_type):
        return None
    return compute.InstanceSchedulingOnInstanceStopActionArgs(discard_local_ssd=True)


def _account(email: pulumi.Input[str] | None) -> compute.InstanceServiceAccountArgs | None:
    """A machine with nothing to read or write has no service account, not even the default one."""
    if email is None:
        return None
    return compute.InstanceServiceAccountArgs(email=email, scopes=[SCOPE])


def _shielded(image: Image) -> compute.InstanceShieldedInstanceConfigArgs:
    return compute.InstanceShieldedInstanceConfigArgs(
        enable_secure_boot=image.secure_boot, enable_vtpm=True, enable_integrity_monitoring=True
    )


def _metadata(config: ClusterConfig, image: Image) -> dict[str, str]:
    """The operator's key only; guest attributes, in which a host publishes its host key; and the
    script of the timer. Google's guest agent, which all its images have, runs it at each boot."""
    keys = {"ssh-keys": f"{config.ssh_user}:{config.public_key}"}
    return {
        **image.metadata,
        "enable-guest-attributes": "TRUE",
        # checkov:skip=CKV_GCP_34: on with `oslogin`; else the operator's key must be accepted
        "enable-oslogin": "TRUE" if config.oslogin else "FALSE",
        "block-project-ssh-keys": "TRUE",
        "serial-port-enable": "FALSE",
        "startup-script": deadline.install_script(config.deadline_hours, config.idle_minutes),
        **({} if config.oslogin else keys),
    }
