"""The machines: n1 with cards, that Google itself stops at the deadline."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from stacks.gcp.identity import SCOPE
from stacks.gcp.image import Image
from stacks.gcp.labels import labels, tag
from stacks.gcp.place import Place
from stacks.settings import ClusterConfig

# What a change must not touch on machines that exist, because it would replace them and their
# disks: a disk's labels (a colleague's `up` has another owner), and the deadline, which can be
# moved on a stopped machine through Compute's API.
FIXED = ["bootDisk.initializeParams.labels", "scheduling.maxRunDuration"]


@dataclass(frozen=True)
class Around:
    """What a host stands in: its place, image, subnet, and its account's address, if any."""

    place: Place
    image: Image
    subnet: pulumi.Input[str]
    account: pulumi.Input[str] | None


def host(
    config: ClusterConfig, number: int, around: Around, opts: pulumi.ResourceOptions
) -> compute.Instance:
    """One machine. What it runs is up to bootstrap; it boots with the cluster's key and no other.

    `desired_status` stays unset: an `up` neither starts nor stops a machine.
    """
    name = f"{config.name}-{number}"
    return compute.Instance(
        name,
        name=name,
        project=around.place.project,
        zone=around.place.zone,
        machine_type=config.machine_type,
        guest_accelerators=[_cards(config)],
        # checkov:skip=CKV_GCP_38: Google encrypts all disks; a key of ours would lie in the state
        boot_disk=_disk(config, around.image),
        network_interfaces=[_interface(around.subnet)],
        scheduling=_scheduling(config),
        service_account=_account(around.account),
        shielded_instance_config=_shielded(around.image),
        metadata=_metadata(config, around.image),
        labels=labels(config),
        tags=[tag(config)],
        # A machine must stand still while its type or account is changed.
        allow_stopping_for_update=True,
        opts=pulumi.ResourceOptions.merge(
            opts,
            # Its name is taken as long as the old one stands.
            pulumi.ResourceOptions(ignore_changes=FIXED, delete_before_replace=True),
        ),
    )


def _cards(config: ClusterConfig) -> compute.InstanceGuestAcceleratorArgs:
    assert config.gpu_type and config.gpu_count
    return compute.InstanceGuestAcceleratorArgs(type=config.gpu_type, count=config.gpu_count)


def _disk(config: ClusterConfig, image: Image) -> compute.InstanceBootDiskArgs:
    """The system's disk. Google encrypts it with its own keys, whatever a config says."""
    return compute.InstanceBootDiskArgs(
        auto_delete=True,
        initialize_params=compute.InstanceBootDiskInitializeParamsArgs(
            image=image.path, size=config.disk_gb, type="pd-balanced", labels=labels(config)
        ),
    )


def _interface(subnet: pulumi.Input[str]) -> compute.InstanceNetworkInterfaceArgs:
    """A public address for the operator's ssh, and the card that n1 with GPUs is fast with."""
    return compute.InstanceNetworkInterfaceArgs(
        subnetwork=subnet,
        nic_type="GVNIC",
        # checkov:skip=CKV_GCP_40: the operator comes from outside; the firewall lets nobody else in
        access_configs=[compute.InstanceNetworkInterfaceAccessConfigArgs()],
    )


def _scheduling(config: ClusterConfig) -> compute.InstanceSchedulingArgs:
    """Machines with cards cannot be moved in a maintenance, only stopped.

    None starts again by itself, not even on demand: it would bill, with a new deadline and
    without a run.
    """
    return compute.InstanceSchedulingArgs(
        on_host_maintenance="TERMINATE",
        automatic_restart=False,
        preemptible=config.spot,
        provisioning_model="SPOT" if config.spot else "STANDARD",
        instance_termination_action="STOP",
        max_run_duration=compute.InstanceSchedulingMaxRunDurationArgs(
            seconds=round(config.deadline_hours * 3600)
        ),
    )


def _account(email: pulumi.Input[str] | None) -> compute.InstanceServiceAccountArgs | None:
    """Without a bucket a machine is nobody: no account at all, least of all the default one."""
    if email is None:
        return None
    return compute.InstanceServiceAccountArgs(email=email, scopes=[SCOPE])


def _shielded(image: Image) -> compute.InstanceShieldedInstanceConfigArgs:
    return compute.InstanceShieldedInstanceConfigArgs(
        enable_secure_boot=image.secure_boot, enable_vtpm=True, enable_integrity_monitoring=True
    )


def _metadata(config: ClusterConfig, image: Image) -> dict[str, str]:
    """The cluster's key alone, and guest attributes: there a host tells its own ssh key."""
    keys = {"ssh-keys": f"{config.ssh_user}:{config.public_key}"}
    return {
        **image.metadata,
        "enable-guest-attributes": "TRUE",
        # checkov:skip=CKV_GCP_34: `oslogin` asks for it; else the cluster's key must count
        "enable-oslogin": "TRUE" if config.oslogin else "FALSE",
        "block-project-ssh-keys": "TRUE",
        "serial-port-enable": "FALSE",
        **({} if config.oslogin else keys),
    }
