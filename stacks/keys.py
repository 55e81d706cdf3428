"""The table of config keys: name, clouds, default, what it means, and how its text is read. Pure.

`{stack}` and `{user}` in a default stand for the stack's name and the person's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stacks import rules

AWS, GCP = ("aws",), ("gcp",)
CLOUDS = (*AWS, *GCP)
ALL = (*CLOUDS, "local")


@dataclass(frozen=True)
class Key:
    """One key of `pulumi config`, for the clouds that know it."""

    name: str
    clouds: tuple[str, ...]
    read: Callable[[str, str], object]
    doc: str
    default: str | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)  # where the clouds differ
    required: bool = False

    def default_for(self, cloud: str) -> str | None:
        """What counts where nothing is set; None for no value at all."""
        return self.defaults.get(cloud, self.default)

    @property
    def example(self) -> str:
        """A command that sets it."""
        return f"pulumi config set {self.name} {EXAMPLES.get(self.name, '...')}"


EXAMPLES = {"project": "my-project-123", "ssh_cidrs": "203.0.113.7/32"}

KEYS = (
    Key("cloud", ALL, rules.cloud, "where the machines are: aws, gcp or local", required=True),
    Key("name", ALL, rules.name, "the cluster's name, in names and tags", default="{stack}"),
    Key("count", ALL, rules.count, "how many hosts, 1 to 16", default="2"),
    Key("owner", ALL, rules.owner, "who pays, in tags", default="{user}"),
    Key(
        "deadline_hours", ALL, rules.deadline,
        "after how many hours the cloud itself stops the machines. aws: counted from the "
        "`pulumi up` that makes the machines, and anew from each `fab start`. gcp: from each start "
        "of a machine. local: without effect, nothing stops local hosts by itself", default="8",
    ),
    Key(
        "region", CLOUDS, rules.region, "the cloud's region",
        defaults={"aws": "us-east-1", "gcp": "us-central1"},
    ),
    Key(
        "zones", CLOUDS, rules.zones,
        "zones in order of preference, comma-separated; all hosts go into the first that has "
        "the machine type (gcp: into the first that the region has). Without it, the zones with "
        "the type by name (gcp: the table below)",
    ),
    Key(
        "machine_type", CLOUDS, rules.machine_type, "the type of the machines",
        defaults={"aws": "g4dn.xlarge", "gcp": "n1-standard-8"},
    ),
    Key(
        "gpu_type", GCP, rules.gpu_type, "the cards in an n1 machine", default="nvidia-tesla-t4"
    ),
    Key("gpu_count", GCP, rules.gpu_count, "cards per machine: 1, 2 or 4, of V100 also 8",
        default="1"),
    Key("project", GCP, rules.project, "the Google Cloud project", required=True),
    Key("spot", CLOUDS, rules.switch, "spot machines: cheaper, and taken away at any time; on "
        "AWS they end for good when they stop", default="false"),
    Key("placement", AWS, rules.switch, "machines close together, in a cluster placement group; "
        "by default for two or more on demand"),
    Key("disk_gb", CLOUDS, rules.disk_gb, "the size of each host's disk", default="100"),
    Key("disk_mbps", AWS, rules.disk_mbps, "the disk's throughput, MiB/s", default="250"),
    Key(
        "image", CLOUDS, rules.image,
        "the system's image: a name of ours, or the cloud's own id. Without it, the cloud's deep "
        "learning image, and for V100, which that one's driver no longer knows, Ubuntu's",
    ),
    Key(
        "ssh_cidrs", CLOUDS, rules.cidrs,
        "the networks that may connect by ssh, comma-separated: your own address with /32",
        required=True,
    ),
    Key("allow_wide_cidr", CLOUDS, rules.switch, "allow ssh from networks wider than /16 (IPv4) "
        "or /48 (IPv6)", default="false"),
    Key("ssh_user", CLOUDS, rules.user, "the account on the hosts",
        defaults={"aws": "ubuntu", "gcp": "railhead"}),
    Key("public_key_file", CLOUDS, rules.public_key_file, "your public ssh key; the private one "
        "stays where it is", default="~/.ssh/id_ed25519.pub"),
    Key("host_keys", AWS, rules.host_keys, "how the keys of new machines are known. console: read "
        "from their console, some minutes after the first boot. injected: made here, given to the "
        "machine, known at once, and changed at the first contact", default="console"),
    Key("network", CLOUDS, rules.network, "an existing VPC (aws: its id, gcp: its name) instead "
        "of an own one"),
    Key("bucket", CLOUDS, rules.switch, "make a bucket for results", default="true"),
    Key("bucket_name", CLOUDS, rules.bucket_name, "the bucket's name, unique in the world; by "
        "default made from the cluster's name"),
    Key("quotas", CLOUDS, rules.quotas, "check: `pulumi up` fails where a quota is too small. "
        "request: where it is too small, `pulumi up` asks for more and makes no machines",
        default="check"),
    Key("contact_email", GCP, rules.email, "who Google answers about a quota request"),
    Key("price_per_hour", CLOUDS, rules.price, "what the whole cluster costs per hour, where you "
        "know it better than our table"),
    Key("oslogin", GCP, rules.switch, "OS Login instead of keys in metadata", default="false"),
)  # fmt: skip
