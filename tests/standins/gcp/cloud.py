"""A Google Cloud in memory: what was made, what it answers, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from standins.waiting import wait_until

from .compute import stop_action_error
from .discovery import Request, Wrong, check
from .requests import request

INSTANCE = "gcp:compute/instance:Instance"
BUCKET = "gcp:storage/bucket:Bucket"
MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"
DAY = 24 * 3600

# The name that the provider gives where a program gives none; all but these have their own.
NAMED = {
    "gcp:compute/network:Network",
    "gcp:compute/subnetwork:Subnetwork",
    "gcp:compute/firewall:Firewall",
    BUCKET,
}
PATHS = {
    "gcp:compute/network:Network": "projects/{project}/global/networks/{name}",
    "gcp:compute/subnetwork:Subnetwork": "projects/{project}/regions/{region}/subnetworks/{name}",
    "gcp:compute/firewall:Firewall": "projects/{project}/global/firewalls/{name}",
    INSTANCE: "projects/{project}/zones/{zone}/instances/{name}",
    "gcp:serviceaccount/account:Account": "projects/{project}/serviceAccounts/{accountId}@"
    "{project}.iam.gserviceaccount.com",
    BUCKET: "{name}",
    MEMBER: "b/{bucket}/{role}/{member}",
}


# The image families that Google has, of all that one could think of (read in 2026).
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "deeplearning-platform-release": (
        "common-cu129-ubuntu-2204-nvidia-580",
        "common-cu129-ubuntu-2404-nvidia-580",
        "pytorch-2-9-cu129-ubuntu-2204-nvidia-580",
        "pytorch-2-9-cu129-ubuntu-2404-nvidia-580",
    ),
    "ubuntu-os-cloud": ("ubuntu-2204-lts", "ubuntu-2404-lts-amd64"),
}


class Refused(Exception):
    """What Google answers to a request that is well formed and cannot be done."""


@dataclass(frozen=True)
class Thing:
    """Something that exists, and the request that made it, or changed it last."""

    kind: str
    request: Request
    outputs: Mapping[str, Any]


@dataclass
class Cloud:
    """All that exists, by id, and what tests choose: quotas, images, objects, refusals."""

    things: dict[str, Thing] = field(default_factory=dict)
    quotas: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    image: str = "v20261101"  # which one a family names today
    gone: set[str] = field(default_factory=set)  # images that were removed
    zones: str = "abcf"
    token: str = ""  # what the provider has for REST; none where a test does not serve it
    settings: dict[str, Any] = field(default_factory=dict)  # of the provider
    objects: dict[str, int] = field(default_factory=dict)  # how many lie in a bucket
    refuse: dict[str, str] = field(default_factory=dict)  # a name and why it cannot be made
    refuse_after: int = 0  # it is refused when so many machines exist
    defaults: dict[str, str] = field(default_factory=dict)  # the provider's own labels
    watch: Callable[[str], None] = lambda moment: None  # sees each create and delete
    slow: float = 0.0  # seconds from the call that makes a machine until it runs

    def check(self, kind: str, inputs: Mapping[str, Any], where: str) -> Request:
        """The request of a resource; Wrong where Google's description forbids it."""
        made = request(kind, self._labelled(kind, inputs), where)
        check(made)
        if kind == INSTANCE:
            _check_instance(made.body, where)
        return made

    def create(self, kind: str, inputs: Mapping[str, Any], where: str) -> str:
        """Make it; its id. Refused: its name is taken, or a test refuses it."""
        made = self.check(kind, inputs, where)
        path = PATHS[kind].format(**inputs)
        if kind == MEMBER and inputs.get("condition"):
            path = f"{path}/{inputs['condition']['title']}"
        if path in self.things and inputs.get("createIgnoreAlreadyExists"):
            return path
        if path in self.things:
            raise Refused(f"409: The resource '{path}' already exists")
        if why := self.refuse.get(path.rpartition("/")[2]):
            wait_until(lambda: len(self.every(INSTANCE)) >= self.refuse_after)
            raise Refused(why)
        self.things[path] = Thing(kind, made, self._computed(kind, path, inputs))
        return path

    def update(self, path: str, inputs: Mapping[str, Any], where: str) -> None:
        """Change what exists. Refused: what Compute does for maintenance of a machine cannot
        change; with cards only one is possible, and with e2 only the other."""
        old = self.things[path]
        if old.kind == INSTANCE and maintenance(old.request.body) != maintenance(
            self.check(old.kind, inputs, where).body
        ):
            raise Refused(f"400: {where}: onHostMaintenance cannot be changed")
        new = self._computed(old.kind, path, inputs)
        self.things[path] = Thing(old.kind, self.check(old.kind, inputs, where), new)

    def delete(self, path: str, inputs: Mapping[str, Any]) -> None:
        """Remove it. Refused: a bucket has objects, as the provider says it."""
        if self.objects.get(path) and not inputs.get("forceDestroy"):
            raise Refused(
                f"Error trying to delete bucket {path} containing objects without "
                "`force_destroy` set to true"
            )
        del self.things[path]

    def every(self, kind: str) -> dict[str, Thing]:
        """What exists of a type, by id."""
        return {path: thing for path, thing in self.things.items() if thing.kind == kind}

    def invoke(self, token: str, args: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question; Wrong for one that is not known here."""
        answers: dict[str, Callable[..., dict[str, Any]]] = {
            "gcp:compute/getZones:getZones": self._zones,
            "gcp:compute/getImage:getImage": self._image,
            "gcp:compute/getNetwork:getNetwork": self._network,
            "gcp:cloudquota/getSQuotaInfo:getSQuotaInfo": self._quota,
            "gcp:organizations/getClientConfig:getClientConfig": self._client,
        }
        if token not in answers:
            raise Wrong(f"the stand-in does not know {token}")
        return answers[token](**args)

    def _labelled(self, kind: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        if kind not in (INSTANCE, BUCKET):
            return dict(inputs)
        return {**inputs, "labels": {**self.defaults, **(inputs.get("labels") or {})}}

    def _computed(self, kind: str, path: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        if kind == INSTANCE:
            number = int(str(inputs["name"]).rpartition("-")[2])
            interface = {**inputs["networkInterfaces"][0], "networkIp": f"10.164.0.{number}"}
            interface["accessConfigs"] = [{"natIp": f"198.51.100.{number}"}]
            disks = [{"interface": d["interface"]} for d in bundled_disks(inputs["machineType"])]
            ssds = {"scratchDisks": disks} if disks else {}
            return {**inputs, **ssds, "networkInterfaces": [interface]}
        if kind == "gcp:serviceaccount/account:Account":
            return {**inputs, "email": path.rpartition("/")[2]}
        return dict(inputs)

    def _zones(self, project: str, region: str) -> dict[str, Any]:
        return {"id": region, "names": [f"{region}-{letter}" for letter in self.zones]}

    def _image(self, project: str, family: str = "", name: str = "") -> dict[str, Any]:
        if family and family not in FAMILIES.get(project, ()) or name in self.gone:
            path = f"projects/{project}/global/images/{name or f'family/{family}'}"
            raise Refused(f"404: The resource '{path}' was not found")
        return {"id": family, "name": name or f"{family}-{self.image}", "diskSizeGb": 50}

    def _client(self) -> dict[str, Any]:
        if not self.token:
            raise Refused("the credentials have no token")
        return {"id": "c", "accessToken": self.token, "project": self.settings.get("project", "")}

    def _network(self, project: str, name: str) -> dict[str, Any]:
        if name != "default":
            raise Refused(f"404: The resource 'projects/{project}/global/networks/{name}' was not")
        link = f"projects/{project}/regions/us-central1/subnetworks/default"
        return {
            "selfLink": f"projects/{project}/global/networks/{name}",
            "subnetworksSelfLinks": [link, link.replace("us-central1", "us-east1")],
        }

    def _quota(self, parent: str, service: str, quotaId: str) -> dict[str, Any]:  # noqa: N803
        pays = self.settings.get("billingProject") and self.settings.get("userProjectOverride")
        if not pays:  # as with a user's credentials
            raise Refused("403: The cloudquotas.googleapis.com API requires a quota project")
        if quotaId not in self.quotas:
            raise Refused("403: Permission 'cloudquotas.quotas.get' denied")
        return {"id": quotaId, "dimensionsInfos": self.quotas[quotaId]}


def maintenance(body: Mapping[str, Any]) -> str:
    """What Compute does with a machine for maintenance of its host."""
    return str(body["scheduling"].get("onHostMaintenance", "MIGRATE"))


def _check_instance(body: Mapping[str, Any], where: str) -> None:
    """Rules of Compute's documentation that its description cannot say."""
    scheduling = body["scheduling"]
    spot = scheduling.get("provisioningModel") == "SPOT"
    series = body["machineType"].rpartition("/")[2].partition("-")[0]
    if (body["guestAccelerators"] or series in ("g2", "a2")) and maintenance(body) != "TERMINATE":
        raise Wrong(f"{where}: machines with cards need onHostMaintenance TERMINATE")
    if series == "e2" and not spot and maintenance(body) != "MIGRATE":
        raise Wrong(f"{where}: e2 does not support onHostMaintenance TERMINATE unless it is spot")
    if spot and (scheduling.get("automaticRestart", True) or not scheduling.get("preemptible")):
        raise Wrong(f"{where}: spot is preemptible and does not restart by itself")
    longest = scheduling.get("maxRunDuration")
    if longest and not 30 <= int(longest["seconds"]) <= 120 * DAY:
        raise Wrong(f"{where}: maxRunDuration is from 30 seconds to 120 days")
    if longest and "instanceTerminationAction" not in scheduling:
        raise Wrong(f"{where}: maxRunDuration needs an instanceTerminationAction")
    local_ssd = bool(bundled_disks(body["machineType"]))
    if wrong := stop_action_error(scheduling, local_ssd=local_ssd):
        raise Wrong(f"{where}: {wrong}")


def bundled_disks(machine_type: str) -> list[dict[str, str]]:
    """The local SSDs that every machine of a type has."""
    series, _, gpus = machine_type.rpartition("/")[2].rpartition("-")
    count = int(gpus.removesuffix("g")) if series == "a2-ultragpu" else 0
    return [{"type": "SCRATCH", "interface": "NVME", "diskSizeGb": "375"}] * count
