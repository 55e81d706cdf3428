"""`fab price`: which machines with a given number of GPUs are the cheapest, and where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.lazy import dataclass
from railhead.documents.machine_types import AWS, GOOGLE, T4, V100
from railhead.documents.options.hosts import PriceOptions
from railhead.documents.outputs import OfferOutput, PriceOutput
from railhead.money.amount import Amount
from railhead.money.bill import Price
from railhead.money.table import ON_DEMAND, SPOT, Rates, shipped

from ...clouds import prices
from ...console.output import note_output, print_lines
from ...console.text import table_lines
from ...errors import Command, UsageError
from ...report.facts import RunFacts
from ...report.listing import known_runs
from ...report.scaling import epoch_seconds

MOST_HOSTS = 16  # of a stack
MOST_ROWS = 40  # of the table for people: the cheapest stay on the screen
VCPUS_OF_N1 = 8  # for each GPU that is attached
ATTACHED = {"nvidia-tesla-t4": (T4, (1, 2, 4)), "nvidia-tesla-v100": (V100, (1, 2, 4, 8))}
LEFT_OUT = (
    "left out: machines that TensorFlow's builds do not run on, as those of AMD, Trainium and "
    "Inferentia, and whole machines whose GPUs do not add up to the number"
)

# By the kind and number of GPUs: a run, and the seconds of its epoch.
Trained = dict[tuple[str, int], tuple[RunFacts, float]]


@dataclass(frozen=True)
class Machine:
    """A type with GPUs: `gpu` is our name of the GPU, `cloud_gpu` the name in the cloud's
    prices."""

    cloud: str
    name: str
    vcpus: int
    gpu: str
    gpus: int
    cloud_gpu: str

    @property
    def shown(self) -> str:
        """Its name, with the GPUs that are attached."""
        return f"{self.name} + {self.gpus} {self.cloud_gpu}" if self.is_n1 else self.name

    @property
    def is_n1(self) -> bool:
        """Whether its GPUs are attached to it."""
        return self.cloud_gpu in ATTACHED


@dataclass(frozen=True)
class Offer:
    """`count` machines in a region; `rate` is the price of each."""

    machine: Machine
    count: int
    region: str
    rate: Price

    @property
    def per_hour(self) -> Amount:
        """The price of all."""
        return self.rate.amount * self.count

    @property
    def order(self) -> tuple[Decimal, str, str]:
        """The cheapest first."""
        return self.per_hour.high, self.region, self.machine.name


def price(options: PriceOptions) -> None:
    """Print the offers, the cheapest first.

    Raises:
        UsageError: there is no such GPU or region, or no type has this number.
    """
    machines = list(matching(options))
    check_regions(options)
    rates = {cloud: _rates(cloud, machines, options) for cloud in {m.cloud for m in machines}}
    offers = sorted(offers_of(machines, rates, options), key=lambda one: one.order)
    if not offers:
        raise UsageError(
            "no price is known of these machines; the tables have few regions and spot prices",
            hint=Command("price", gpus=options.gpus, region="us-east-1"),
        )
    trained = epochs()
    note_output(
        PriceOutput(
            gpus=options.gpus,
            hours=options.hours,
            spot=options.spot,
            offers=tuple(document(offer, options, trained) for offer in offers),
        )
    )
    print_lines(*lines(offers, options, trained))


def matching(options: PriceOptions) -> Iterator[Machine]:
    """The types whose GPUs are of the wanted kinds, and add up to the wanted number.

    Raises:
        UsageError: no type matches.
    """
    every = list(machines_of_clouds())
    known = sorted({machine.gpu.removeprefix("nvidia-") for machine in every})
    wanted = {name.lower().removeprefix("nvidia-") for name in options.gpu}
    if wrong := wanted - {*known}:
        raise UsageError(
            f"--gpu {', '.join(sorted(wrong))}: there are {', '.join(known)}",
            hint=Command("price", gpus=options.gpus, gpu=(known[0],)),
        )
    kinds = [m for m in every if not wanted or m.gpu.removeprefix("nvidia-") in wanted]
    found = [
        m for m in kinds if options.gpus % m.gpus == 0 and options.gpus // m.gpus <= MOST_HOSTS
    ]
    if not found:
        raise UsageError(
            f"--gpus {options.gpus}: at most {MOST_HOSTS} machines of one type are a cluster",
            hint=Command("price", gpus=8),
        )
    yield from found


def check_regions(options: PriceOptions) -> None:
    """UsageError for a name that no cloud gives to a region."""
    known = [region for cloud in COMMON_FACTS for region in _regions(cloud, options)]
    if wrong := [region for region in options.region if region not in known]:
        raise UsageError(
            f"--region {', '.join(wrong)}: regions are called as us-east-1 or us-central1",
            hint=Command("price", gpus=options.gpus, region="us-east-1"),
        )


def _regions(cloud: str, options: PriceOptions) -> list[str]:
    """The named regions of one cloud."""
    return [r for r in options.region if re.fullmatch(COMMON_FACTS[cloud].region_form, r)]


def machines_of_clouds() -> Iterator[Machine]:
    """Every type with GPUs that a stack can create, without retired ones."""
    for name, vcpus, gpu, gpus, substitute in AWS:
        if gpu and not substitute:
            yield Machine("aws", name, vcpus, gpu, gpus, gpu)
    for name, (vcpus, gpu, gpus) in GOOGLE.items():
        yield Machine("gcp", name, vcpus, gpu, gpus, gpu)
    for cloud_gpu, (gpu, counts) in ATTACHED.items():
        for gpus in counts:
            vcpus = VCPUS_OF_N1 * gpus
            yield Machine("gcp", f"n1-standard-{vcpus}", vcpus, gpu, gpus, cloud_gpu)


def _rates(cloud: str, machines: Iterable[Machine], options: PriceOptions) -> dict[str, Rates]:
    """The prices by region: the cloud's own of the regions that are named, otherwise the table."""
    market, table = SPOT if options.spot else ON_DEMAND, shipped(cloud)
    if not options.region:
        regions = {row.region for row in table.rows if row.market == market} - {"all"}
        return dict.fromkeys(regions, table)
    names, found = [m.name for m in machines if m.cloud == cloud], {}
    for region in _regions(cloud, options):
        answer = prices.find(cloud, region, names)
        if answer.why:
            print_lines(f"{region}: prices are those of the table: {answer.why}")
        found[region] = answer.rates
    return found


def offers_of(
    machines: Iterable[Machine], rates: dict[str, dict[str, Rates]], options: PriceOptions
) -> Iterator[Offer]:
    """The machines in each region where their price is known."""
    for machine in machines:
        for region, each in rates[machine.cloud].items():
            gpus = (machine.cloud_gpu, machine.gpus)
            rate = each.machine(machine.name, region, gpus, machine.vcpus, spot=options.spot)
            if isinstance(rate, Price):
                yield Offer(machine, options.gpus // machine.gpus, region, rate)


def epochs() -> Trained:
    """The newest run with epochs for each kind and number of GPUs, and the seconds of an epoch."""
    found: Trained = {}
    for row in known_runs("time"):
        hosts = row.run.document.hosts if row.run.document else ()
        gpus = [gpu for host in hosts for gpu in host.gpus]
        seconds = epoch_seconds(row.run) if len({*gpus}) == 1 else None
        if seconds:
            found.setdefault((kind_of(gpus[0]), len(gpus)), (row.run, seconds))
    return found


def kind_of(name: str) -> str:
    """Our name of a GPU, from the driver's: `Tesla T4`, `NVIDIA A100-SXM4-40GB`."""
    words = name.upper().replace("-", " ").split()
    kinds = {machine.gpu for machine in machines_of_clouds()}
    size = "-80gb" if "80GB" in words and "A100" in words else ""
    named = [f"nvidia-{word.lower()}{size}" for word in words]
    return next((kind for kind in named if kind in kinds), "")


def document(one: Offer, options: PriceOptions, trained: Trained) -> OfferOutput:
    """An offer, for programs."""
    hour, run = one.per_hour, trained.get((one.machine.gpu, options.gpus))
    epoch = epoch_price(one, options, trained)
    return OfferOutput(
        cloud=one.machine.cloud,
        machine=one.machine.shown,
        machines=one.count,
        gpu=one.machine.gpu,
        region=one.region,
        usd_per_hour=_float(hour.low),
        high_per_hour=_float(hour.high),
        usd_per_gpu_hour=_float(hour.high / options.gpus),
        usd=_float(hour.high * Decimal(str(options.hours))),
        epoch=_float(epoch.high) if epoch else None,
        run_id=run[0].run_id if run else None,
        source=one.rate.source,
        day=one.rate.day,
    )


def _float(usd: Decimal) -> float:
    return float(round(usd, 5))


def epoch_price(one: Offer, options: PriceOptions, trained: Trained) -> Amount | None:
    """The price of an epoch of the newest run on this number of these GPUs; None without one."""
    run = trained.get((one.machine.gpu, options.gpus))
    return one.per_hour * (Decimal(str(run[1])) / 3600) if run else None


def lines(
    offers: Sequence[Offer],
    options: PriceOptions,
    trained: Trained,
) -> list[str]:
    """The table, for people."""
    head = ["machines", "region", "USD per hour", "per GPU hour", f"{options.hours:g} h"]
    head += ["epoch"] if trained else []
    rows = [head]
    cheapest, dearer = offers[:MOST_ROWS], len(offers) - MOST_ROWS
    for offer in cheapest:
        hour, gpus, hours = offer.per_hour, Decimal(options.gpus), Decimal(str(options.hours))
        each = hour * (1 / gpus)
        row = [
            f"{offer.count} x {offer.machine.shown}",
            offer.region,
            *(amount.text(digits=3).replace(" USD", "") for amount in (hour, each)),
            (hour * hours).text().replace(" USD", ""),
        ]
        if trained:
            run = trained.get((offer.machine.gpu, options.gpus))
            epoch = epoch_price(offer, options, trained)
            row.append(f"{epoch.text(digits=4)} ({run[0].run_id})" if run and epoch else "")
        rows.append(row)
    days = sorted({f"{offer.rate.source} {offer.rate.day}" for offer in cheapest})
    market = SPOT if options.spot else ON_DEMAND
    return [
        *table_lines(rows),
        *([f"{dearer} more cost more: --gpu, --region or --json shows them"] if dearer > 0 else []),
        f"{market}, USD, machines without disks and addresses; {', '.join(days)}",
        LEFT_OUT,
    ]
