"""The table of config keys: name, clouds, value, meaning, default. Pure.

`{stack}` and `{user}` in a default stand for the stack's name and the login name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from railhead.documents.rule import Rule

from ..clouds import CLOUDS
from ..next_command import Part, rm, set_
from ..rules import validators

ALL = tuple(CLOUDS)
REMOTE = tuple(name for name, cloud in CLOUDS.items() if not cloud.free)
AWS, GCP = ("aws",), ("gcp",)  # of keys that only one cloud has


@dataclass(frozen=True)
class Key:
    """One key of `pulumi config`, for the clouds that have it. `value`: its rule, or a function
    that reads the value of the key from a text."""

    name: str
    clouds: tuple[str, ...]
    value: Rule | Callable[[str, str], object]
    doc: str
    default: str | None = None
    required: bool = False

    def read(self, text: str) -> object:
        """The value of a text; ConfigError if it does not fit."""
        if isinstance(self.value, Rule):
            return validators.fitting(self.name, text, self.value)
        return self.value(self.name, text)

    @property
    def defaults(self) -> Mapping[str, str]:
        """The defaults of the clouds that have one."""
        texts = {name: CLOUDS[name].key_defaults.get(self.name) for name in self.clouds}
        return {name: text for name, text in texts.items() if text}

    def default_for(self, cloud: str) -> str | None:
        """The value if nothing is set; None for no value."""
        return self.defaults.get(cloud, self.default)

    def command(self, cloud: str) -> tuple[Part, ...]:
        """A command that gives it a valid value; in doubt, the default."""
        if example := CLOUDS[cloud].examples.get(self.name) or EXAMPLES.get(self.name):
            return (set_(self.name, example),)
        default = self.default_for(cloud)
        return (rm(self.name), *([] if default is None else [f"  # the default: {default}"]))


# What a message shows for a key whose default does not help.
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

SWITCH = Rule(bool)
GPU_COUNT = Rule(int, choices=(1, 2, 4, 8))
DISK_GB = Rule(int, at_least=50, at_most=16384)
DISK_MBPS = Rule(int, at_least=125, at_most=2000)
QUOTAS = Rule(choices=("check", "request"))
HOST_KEYS = Rule(choices=("console", "injected"))
COUNT = Rule(int, at_least=1, at_most=16)
PRICE = Rule(float, above=0, at_most=100_000)  # US dollars
DEADLINE = Rule(float, at_least=0.25, at_most=168)  # hours: a boot may take a quarter of one
# At least 15: a run that waits for a lost host has no process for ten minutes.
IDLE = Rule(int, check=(lambda n: n == 0 or 15 <= n <= 1440, "0 or a whole number from 15 to 1440"))
MACHINE_TYPE = Rule(pattern=r"[a-z0-9][a-z0-9.-]*", words="a machine type, as in g4dn.xlarge")
GPU_TYPE = Rule(pattern=r"nvidia-[a-z0-9-]+", words="a GPU type, as in nvidia-tesla-t4")
PROJECT = Rule(
    pattern=r"([a-z0-9-]+(\.[a-z0-9-]+)+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]",
    words="a project's id: 6 to 30 lowercase letters, digits and '-', starting with a letter; "
    "projects of a domain have it before the id, as in example.com:my-project",
)
IMAGE = Rule(
    pattern=r"[a-z0-9][A-Za-z0-9._/-]*",
    words="an image: one of our names, an ami-... or projects/.../images/...",
)
USER = Rule(pattern=r"[a-z_][a-z0-9_-]{0,31}", words="a Linux user name")
NETWORK = Rule(
    pattern=r"vpc-[0-9a-f]{8,17}|[a-z]([a-z0-9-]{0,61}[a-z0-9])?", words="a VPC's id or name"
)
EMAIL = Rule(pattern=r"[^@\s]+@[^@\s]+\.[^@\s]+", words="an e-mail address")

KEYS = (
    Key("cloud", ALL, Rule(choices=ALL), "where the machines are: "
        f"{', '.join(ALL[:-1])} or {ALL[-1]}", required=True),
    Key("name", ALL, validators.name, "the cluster's name, in names and tags", default="{stack}"),
    Key("count", ALL, COUNT, "number of hosts", default="2"),
    Key("owner", ALL, validators.owner, "the value of the tag for who pays", default="{user}"),
    Key("deadline_hours", ALL, DEADLINE, "hours after which a machine powers "
        "itself off and the cloud stops it, from creation and each `fab start`",
        default="8"),
    Key("idle_minutes", REMOTE, IDLE, "minutes without use after which new machines "
        "power themselves off; 0: never. Unset: 30, but 0 for spot on AWS without a bucket"),
    Key("region", REMOTE, validators.REGION, "the cloud's region"),
    Key("regions", REMOTE, validators.regions, "further regions, separated by commas: `fab up` "
        "tries them in turn where no zone has capacity, each with its quotas, prices and bucket"),
    Key("zones", REMOTE, validators.zones, "zones in order of preference, separated by commas; all "
        "hosts go into one. Unset: all zones with the machine type, by name"),
    Key("machine_type", REMOTE, MACHINE_TYPE, "the machine type"),
    Key("gpu_type", GCP, GPU_TYPE, "the GPU type of an n1 machine. Unset: "
        "nvidia-tesla-t4. Other machine types have their own GPUs, or none"),
    Key("gpu_count", GCP, GPU_COUNT, "GPUs per n1 machine: 1, 2 or 4; for V100 also 8. "
        "Unset: 1"),
    Key("project", GCP, PROJECT, "the Google Cloud project", required=True),
    Key("spot", REMOTE, SWITCH, "spot machines: cheaper, but the cloud can take them away at any "
        "time; on AWS a spot machine that stops is terminated", default="false"),
    Key("placement", AWS, SWITCH, "put new machines into a cluster placement group; existing "
        "machines are not moved. Unset: true for on-demand machines"),
    Key("disk_gb", REMOTE, DISK_GB, "the size of each host's disk", default="100"),
    Key("disk_mbps", AWS, DISK_MBPS, "the disk's throughput, MiB/s", default="250"),
    Key("image", REMOTE, IMAGE, "the system image: one of Railhead's names, or the cloud's "
        "own id. Unset: the cloud's deep learning image; for V100 and without GPUs, Ubuntu's"),
    Key("ssh_cidrs", REMOTE, validators.cidrs, "the networks that may connect by SSH, separated by "
        "commas: your own address with /32", required=True),
    Key("allow_wide_cidr", REMOTE, SWITCH, "allow SSH from networks wider than /16 (IPv4) or /48 "
        "(IPv6)", default="false"),
    Key("ssh_user", REMOTE, USER, "the user name on the hosts"),
    Key("public_key_file", REMOTE, validators.public_key_file, "your public SSH key; the private "
        "key is not read", default="~/.ssh/id_ed25519.pub"),
    Key("host_keys", AWS, HOST_KEYS, "host keys of new machines. "
        "console: read from the console output after the first boot. injected: created by `pulumi "
        "up`, replaced at the first login", default="console"),
    Key("network", REMOTE, NETWORK, "an existing VPC (aws: its id, gcp: its name). "
        "Unset: the stack creates one"),
    Key("bucket", REMOTE, SWITCH, "create a bucket for results", default="true"),
    Key("bucket_name", REMOTE, validators.bucket_name, "the bucket's globally unique name. Unset: "
        "derived from the cluster's name"),
    Key("data_buckets", REMOTE, validators.data_prefixes, "data that the hosts may read: up to 10 "
        "addresses, separated by commas, s3://BUCKET/FOLDER or gs://BUCKET/FOLDER; without a "
        "folder the whole bucket"),
    Key("quotas", REMOTE, QUOTAS, "check: `pulumi up` fails where a quota is "
        "too small. request: where it is too small, `pulumi up` requests more and creates no "
        "machines", default="check"),
    Key("contact_email", GCP, EMAIL, "where Google answers a quota request"),
    Key("price_per_hour", REMOTE, PRICE, "US dollars per hour for the cluster, instead of the "
        "cloud's prices (rights: `pricing:GetProducts`, `ec2:DescribeSpotPriceHistory`) or "
        "Railhead's"),
    Key("budget", REMOTE, PRICE, "US dollars for the stack's machines over all its starts; "
        "sets deadlines. Refused without a known price"),
    Key("oslogin", GCP, SWITCH, "use OS Login instead of SSH keys in the metadata",
        default="false"),
)  # fmt: skip
