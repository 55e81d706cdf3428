"""The tasks of `fab` for endpoints: deploy, predict, undeploy; notebook and tunnel.

The fabfile adds them to those of `tasks.py`.
"""

from __future__ import annotations

from invoke import Context

from bootstrap.cli.options import target_of, task
from bootstrap.console.output import json_output, print_lines
from bootstrap.errors import UsageError


@task()
def deploy(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    run: str | None = None,
    here: bool = False,
    model: str | None = None,
    trust_model: bool = False,
    name: str | None = None,
    port: str | None = None,
    hours: str | None = None,
    update: bool = False,
    max_batch: str | None = None,
    max_delay: str | None = None,
    server: str | None = None,
) -> None:
    """Serve the model of a run over HTTP, until its time-to-live is over; default: the last run."""
    from bootstrap.serving.request import read_request
    from bootstrap.serving.source import source_of
    from bootstrap.workflows import serving

    request = read_request(name, port, hours, max_batch, max_delay, server, update=update)
    if trust_model and not here:
        raise UsageError("--trust-model goes with --here: a host loads the model without it")
    if here:
        serving.deploy_here(request, source_of(run, model, trusted=trust_model))
    else:
        source = source_of(run, model) if run or model else None
        status = target_of(hosts, stack, run=run).status()
        source = source or source_of(None, None, status.inventory)
        serving.deploy_on_host(status, request, source)


@task(positional=("name",))
def predict(
    c: Context,
    name: str,
    file: str | None = None,
    samples: str | None = None,
    json: bool = False,
    hosts: str | None = None,
    stack: str | None = None,
) -> None:
    """Send a file, or held-out samples with the right answers, through an endpoint."""
    from bootstrap.cli.targets import hosts_of_endpoint
    from bootstrap.inventory.hosts import whole_number
    from bootstrap.serving.predict import dumped
    from bootstrap.workflows import serving

    with json_output(json) as out:
        number = whole_number(samples, "--samples", 1, 10_000)
        found = serving.predict(name, file, number, hosts_of_endpoint(name, hosts, stack))
        print_lines(*found.lines())
        if out:
            print(dumped(found), file=out)


@task(positional=("name",))
def undeploy(c: Context, name: str, hosts: str | None = None, stack: str | None = None) -> None:
    """End an endpoint, and verify that nothing of it is left."""
    from bootstrap.cli.targets import hosts_of_endpoint
    from bootstrap.workflows import serving

    serving.undeploy(name, hosts_of_endpoint(name, hosts, stack))


@task(positional=("port",))
def tunnel(
    c: Context,
    port: str,
    hosts: str | None = None,
    stack: str | None = None,
    host: str | None = None,
    local_port: str | None = None,
) -> None:
    """Forward a port of this machine to a port of a host, over SSH, until Ctrl-C."""
    from bootstrap.cli import shell
    from bootstrap.inventory.hosts import whole_number
    from bootstrap.workflows import notebook

    number = whole_number(port, "PORT", 1, 65535)
    local = whole_number(local_port, "--local-port", 0, 65535)
    assert number is not None
    inventory = target_of(hosts, stack).running()
    if host is not None:
        inventory = inventory.only([shell.known(inventory, host)])
    notebook.open_tunnel(inventory, number, local)


@task()
def notebook(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    run: str | None = None,
    hours: str | None = None,
    port: str | None = None,
    local_port: str | None = None,
) -> None:
    """Open JupyterLab in the runtime of a run on its chief, through a tunnel, until Ctrl-C."""
    from bootstrap.inventory import local_state
    from bootstrap.inventory.hosts import whole_number
    from bootstrap.serving.request import read_hours
    from bootstrap.workflows.notebook import open_notebook

    seconds = read_hours(hours) * 3600
    number = whole_number(port, "--port", 1024, 65535)
    local = whole_number(local_port, "--local-port", 0, 65535)
    if run is not None:
        local_state.recorded_run(run)  # else the selected stack would be used
    open_notebook(target_of(hosts, stack, run=run).status(), run, number, local, seconds)
