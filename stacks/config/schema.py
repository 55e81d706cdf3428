"""The table of config keys: name, clouds, default, meaning, and how its text is read. Pure.

`{stack}` and `{user}` in a default stand for the stack's name and the login name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..clouds import CLOUDS
from ..rules import validators
from ..rules.validators import choice, switch
from .data_buckets import data_prefixes

ALL = tuple(CLOUDS)
REMOTE = tuple(name for name, cloud in CLOUDS.items() if not cloud.free)
AWS, GCP = ("aws",), ("gcp",)  # of keys that one cloud alone has


@dataclass(frozen=True)
class Key:
    """One key of `pulumi config`, for the clouds that have it."""

    name: str
    clouds: tuple[str, ...]
    read: Callable[[str, str], object]
    doc: str
    default: str | None = None
    required: bool = False

    @property
    def defaults(self) -> Mapping[str, str]:
        """The defaults of the clouds that have one."""
        texts = {name: CLOUDS[name].key_defaults.get(self.name) for name in self.clouds}
        return {name: text for name, text in texts.items() if text}

    def default_for(self, cloud: str) -> str | None:
        """The value where nothing is set; None for no value."""
        return self.defaults.get(cloud, self.default)

    def command(self, cloud: str) -> str:
        """A command that gives it a valid value; in doubt, the default."""
        if example := CLOUDS[cloud].examples.get(self.name) or EXAMPLES.get(self.name):
            return f"pulumi config set {self.name} {example}"
        if self.default_for(cloud) is None:
            return f"pulumi config rm {self.name}"
        return f"pulumi config rm {self.name}   # the default: {self.default_for(cloud)}"


# What a message shows for a key where its default does not help.
EXAMPLES = {
    "cloud": "aws",
    "name": "gpu",
    "owner": "ann",
    "project": "my-project-123",
    "ssh_cidrs": "203.0.113.7/32",
    "contact_email": "ann@example.com",
    "price_per_hour": "1.20",
    "budget": "300",
}

KEYS = (
    Key("cloud", ALL, choice(*CLOUDS), "where the machines are: "
        f"{', '.join(ALL[:-1])} or {ALL[-1]}", required=True),
    Key("name", ALL, validators.name, "the cluster's name, in names and tags", default="{stack}"),
    Key("count", ALL, validators.count, "number of hosts, 1 to 16", default="2"),
    Key("owner", ALL, validators.owner, "who pays, in tags", default="{user}"),
    Key("deadline_hours", ALL, validators.deadline, "hours after which a machine "
        "powers itself off and the cloud stops it, 0.25 to 168, from each creation and `fab start`",
        default="8"),
    Key("idle_minutes", REMOTE, validators.idle, "minutes without use after which new machines "
        "power themselves off; 0: never. Unset: 30, but 0 for spot on AWS without a bucket"),
    Key("region", REMOTE, validators.region, "the cloud's region"),
    Key("regions", REMOTE, validators.regions, "further regions, separated by commas: `fab up` "
        "tries them in turn where no zone has capacity, each with its quotas, prices and bucket"),
    Key("zones", REMOTE, validators.zones, "zones in order of preference, separated by commas; all "
        "hosts go into one. Unset: all zones with the machine type, by name"),
    Key("machine_type", REMOTE, validators.machine_type, "the machine type"),
    Key("gpu_type", GCP, validators.gpu_type, "the GPU type of an n1 machine. Unset: "
        "nvidia-tesla-t4. Other machine types have their own GPUs, or none"),
    Key("gpu_count", GCP, validators.gpu_count, "GPUs per n1 machine: 1, 2 or 4; for V100 also 8. "
        "Unset: 1"),
    Key("project", GCP, validators.project, "the Google Cloud project", required=True),
    Key("spot", REMOTE, switch, "spot machines: cheaper, but the cloud can take them away at any "
        "time; on AWS a spot machine that stops is terminated", default="false"),
    Key("placement", AWS, switch, "put new machines into a cluster placement group; existing "
        "machines are not moved. Unset: true for on-demand machines"),
    Key("disk_gb", REMOTE, validators.disk_gb, "the size of each host's disk", default="100"),
    Key("disk_mbps", AWS, validators.disk_mbps, "the disk's throughput, MiB/s", default="250"),
    Key("image", REMOTE, validators.image, "the system image: one of our names, or the cloud's own "
        "id. Unset: the cloud's deep learning image; for V100 and without GPUs, Ubuntu's"),
    Key("ssh_cidrs", REMOTE, validators.cidrs, "the networks that may connect by SSH, separated by "
        "commas: your own address with /32", required=True),
    Key("allow_wide_cidr", REMOTE, switch, "allow SSH from networks wider than /16 (IPv4) or /48 "
        "(IPv6)", default="false"),
    Key("ssh_user", REMOTE, validators.user, "the user name on the hosts"),
    Key("public_key_file", REMOTE, validators.public_key_file, "your public SSH key; the private "
        "key is not read", default="~/.ssh/id_ed25519.pub"),
    Key("host_keys", AWS, choice("console", "injected"), "host keys of new machines. "
        "console: read from the console output after the first boot. injected: created by `pulumi "
        "up`, replaced at the first login", default="console"),
    Key("network", REMOTE, validators.network, "an existing VPC (aws: its id, gcp: its name). "
        "Unset: the stack creates one"),
    Key("bucket", REMOTE, switch, "create a bucket for results", default="true"),
    Key("bucket_name", REMOTE, validators.bucket_name, "the bucket's globally unique name. Unset: "
        "derived from the cluster's name"),
    Key("data_buckets", REMOTE, data_prefixes, "data that the hosts may read: up to 10 addresses, "
        "separated by commas, s3://BUCKET/FOLDER or gs://BUCKET/FOLDER; without a folder the whole "
        "bucket"),
    Key("quotas", REMOTE, choice("check", "request"), "check: `pulumi up` fails where a quota is "
        "too small. request: where it is too small, `pulumi up` requests more and makes no "
        "machines", default="check"),
    Key("contact_email", GCP, validators.email, "where Google answers a quota request"),
    Key("price_per_hour", REMOTE, validators.price, "US dollars per hour for the whole cluster, "
        "in place of the cloud's prices (rights: `pricing:GetProducts`, "
        "`ec2:DescribeSpotPriceHistory`) or the built-in ones"),
    Key("budget", REMOTE, validators.price, "US dollars for the machines of the stack, over all "
        "its starts: deadlines end before they are spent. Refused where a price is not known"),
    Key("oslogin", GCP, switch, "use OS Login instead of SSH keys in the metadata",
        default="false"),
)  # fmt: skip
