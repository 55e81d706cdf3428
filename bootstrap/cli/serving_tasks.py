"""The tasks of `fab` for endpoints: deploy, predict, undeploy; notebook and tunnel."""

from __future__ import annotations

import json
from typing import Annotated

from railhead.documents.options.hosts import JsonOption, TargetOptions
from railhead.documents.options.option import only
from railhead.documents.options.serving import (
    DeployOptions,
    EndpointName,
    NotebookOptions,
    PredictOptions,
    TunnelOptions,
)

from ..console.output import json_output, print_lines
from .groups import Hosts
from .task import HOSTS, SERVE, task

OTHERS = "for an endpoint that another computer deployed"
OfEndpoint = Annotated[
    TargetOptions,
    only(hosts=f"[which hosts](#hosts), {OTHERS}", stack=f"[which stack](#hosts), {OTHERS}"),
]


@task(SERVE, "run", quiet=True)
def deploy(
    target: Annotated[
        TargetOptions,
        only("hosts", "stack", run="the id of a run; default: the last"),
    ],
    endpoint: DeployOptions,
    out: JsonOption,
) -> None:
    """Serve the model of a run (default: the last one) over HTTP until the time-to-live is over."""
    from ..workflows import serving
    from .targets import Target

    with json_output(out.json):
        serving.deploy(endpoint, target.run, Target(target).status)


@task(SERVE)
def predict(
    endpoint: EndpointName,
    samples: PredictOptions,
    out: Annotated[JsonOption, only(json="print only the outputs of the model on stdout, as JSON")],
    target: OfEndpoint,
) -> None:
    """Send a file, or held-out samples with known answers, to an endpoint."""
    from ..workflows import serving
    from .targets import hosts_of_endpoint

    with json_output(out.json) as file:
        inventory = hosts_of_endpoint(endpoint.name, target)
        predictions = serving.predict(endpoint.name, samples.file, samples.samples, inventory)
        print_lines(*predictions.lines())
        if file:
            print(json.dumps(predictions.outputs), file=file)


@task(SERVE)
def undeploy(endpoint: EndpointName, target: OfEndpoint) -> None:
    """Terminate an endpoint, and verify that nothing of it is left."""
    from ..workflows import serving
    from .targets import hosts_of_endpoint

    serving.undeploy(endpoint.name, hosts_of_endpoint(endpoint.name, target))


@task(HOSTS)
def tunnel(ends: TunnelOptions, target: Hosts) -> None:
    """Forward a port of this computer to a port of a host, over SSH, until Ctrl-C."""
    from ..workflows import notebook
    from . import shell
    from .targets import Target

    inventory = Target(target).running()
    if ends.host is not None:
        inventory = inventory.only([shell.known(inventory, ends.host)])
    notebook.open_tunnel(inventory, ends.port, ends.local_port)


@task(HOSTS, "run")
def notebook(
    target: Annotated[
        TargetOptions,
        only("hosts", "stack", run="the id of a run; default: the last, if there is one"),
    ],
    options: NotebookOptions,
) -> None:
    """Open JupyterLab in the runtime of a run on its chief, through a tunnel, until Ctrl-C."""
    from ..inventory import local_state
    from ..workflows.notebook import open_notebook
    from .targets import Target

    if target.run is not None:
        local_state.recorded_run(target.run)  # else the selected stack would be used
    seconds = options.hours * 3600
    status = Target(target).status()
    open_notebook(status, target.run, options.port, options.local_port, seconds)
