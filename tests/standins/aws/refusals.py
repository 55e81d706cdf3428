"""What EC2 refuses and moto does, in EC2's words: changes of spot machines, of running ones, and
from one family of machine types to another. What an account refuses: launches without its tags."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instances import InstanceBackend

LAUNCHED = ("instance", "volume")  # what a tag policy demands tags of


def add(demanded: Callable[[], Collection[str]]) -> None:
    """Add them to moto. `demanded`: the keys that the account demands in a launch."""
    _before_run(InstanceBackend.run_instances, demanded)
    _before_modify(InstanceBackend.modify_instance_attribute)
    _before_stop(InstanceBackend.stop_instances)


def _before_run(run: Any, demanded: Callable[[], Collection[str]]) -> None:
    """Tags that are added after the launch do not count."""

    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        tags = kwargs.get("tags") or {}
        if any(set(demanded()) - set(tags.get(kind, {})) for kind in LAUNCHED):
            raise EC2ClientError(
                "UnauthorizedOperation",
                "You are not authorized to perform this operation. User: "
                "arn:aws:iam::123456789012:user/moto is not authorized to perform: "
                "ec2:RunInstances with an explicit deny in a service control policy",
            )
        return run(self, *args, **kwargs)

    setattr(InstanceBackend, "run_instances", checked)  # noqa: B010


def _before_modify(modify: Any) -> None:
    def checked(self: Any, instance_id: str, key: str, value: Any) -> Any:
        instance = self.get_instance(instance_id)
        if _is_spot(instance) and key in ("instance_type", "instance_initiated_shutdown_behavior"):
            reason = "is not supported for spot instances"
            raise EC2ClientError("UnsupportedOperation", f"Modifying the attribute {key} {reason}")
        if key == "instance_type":
            _check_type(instance, str(value))
        return modify(self, instance_id, key, value)

    setattr(InstanceBackend, "modify_instance_attribute", checked)  # noqa: B010


def _check_type(instance: Any, new_type: str) -> None:
    if instance._state.name != "stopped":
        message = f"The instance '{instance.id}' is not in the 'stopped' state."
        raise EC2ClientError("IncorrectInstanceState", message)
    # Which families are compatible is not listed anywhere (pulumi-aws#4291): here none is.
    if new_type.partition(".")[0] != instance.instance_type.partition(".")[0]:
        change = f"from {instance.instance_type} to {new_type} is not allowed."
        raise EC2ClientError(
            "InvalidInstanceAttributeValue", f"Modifying the instance type {change}"
        )


def _before_stop(stop: Any) -> None:
    def checked(self: Any, instance_ids: Sequence[str]) -> Any:
        for instance in self.get_multi_instances_by_id(instance_ids):
            if _is_spot(instance):
                raise EC2ClientError(
                    "UnsupportedOperation",
                    f"You can't stop the Spot Instance '{instance.id}' because it is associated "
                    "with a one-time Spot Instance request. You can only stop Spot Instances "
                    "associated with persistent Spot Instance requests.",
                )
        return stop(self, instance_ids)

    setattr(InstanceBackend, "stop_instances", checked)  # noqa: B010


def _is_spot(instance: Any) -> bool:
    return bool(instance.lifecycle == "spot")
