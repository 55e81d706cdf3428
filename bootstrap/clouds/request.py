"""What a stack requests of its cloud, from its config and its state; and rights by their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.lazy import dataclass

from ..errors import typed_options


@dataclass(frozen=True)
class StackRequest:
    """The part of a stack's config that decides which rights and quotas it needs. `kinds` are the
    types of the resources that the stack has already, `stack` is its name."""

    cloud: str
    config: Mapping[str, str] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()
    stack: str | None = None

    @property
    def option(self) -> str:
        """The option that names the stack in a command of Pulumi: ` --stack gpu`."""
        return typed_options({"stack": self.stack})

    @property
    def region(self) -> str:
        """The region."""
        return self.config.get("region") or COMMON_FACTS[self.cloud].default_region

    @property
    def project(self) -> str | None:
        """The project of Google Cloud; None if the config does not set one."""
        return self.config.get("project") or None


When = Callable[[Mapping[str, str]], bool]


def with_bucket(config: Mapping[str, str]) -> bool:
    """Whether the stack has a bucket: the default."""
    return config.get("bucket") != "false"


def with_own_network(config: Mapping[str, str]) -> bool:
    """Whether the stack creates its network: the default."""
    return not config.get("network")


def with_spot(config: Mapping[str, str]) -> bool:
    """Whether its machines are spot machines."""
    return config.get("spot") == "true"


def with_quota_request(config: Mapping[str, str]) -> bool:
    """Whether the stack requests quotas."""
    return config.get("quotas") == "request"


def always(_config: Mapping[str, str]) -> bool:
    """Every stack."""
    return True


@dataclass(frozen=True)
class Part:
    """Rights that one part of a stack needs.

    Attributes:
        rights: names of actions or permissions, separated by spaces.
        resource: on AWS, the ARN that they apply to; {account} and {region} are replaced.
        when: whether a stack with this config needs it.
    """

    rights: str
    resource: str = "*"
    when: When = always

    @property
    def names(self) -> tuple[str, ...]:
        """The rights, sorted."""
        return tuple(sorted(self.rights.split()))

    def is_needed(self, request: StackRequest | None) -> bool:
        """Whether a stack needs it; without a stack, all parts are needed."""
        return request is None or self.when(request.config)
