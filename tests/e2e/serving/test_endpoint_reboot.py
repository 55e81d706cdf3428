"""An endpoint on a host that restarts: nothing of it comes back, and it is ended and made anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from e2e.systemd_hosts import SystemdHosts
from hosts.network import Network
from hosts.systemd import SystemdHost

from bootstrap.cli import status
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle.power import ClusterStatus
from bootstrap.serving.deploy import document_of, lay_out, start_supervisor
from bootstrap.serving.place import chief_place
from bootstrap.serving.state import wait_for
from bootstrap.workflows.serving import undeploy
from railhead.documents.agent.files import TextFile
from railhead.documents.serving.endpoint import Deployed

pytestmark = [pytest.mark.root, pytest.mark.slow]

PORT = 8501
FOLDER = "/home/rail/.railhead/endpoints/m"


@pytest.fixture
def machine(network: Network, cloud_image: Path, home: Path) -> Iterator[SystemdHost]:
    host = SystemdHost(network, "e1", base=cloud_image)
    host.start()
    (home / ".ssh").mkdir(mode=0o700, exist_ok=True)
    (home / ".ssh/known_hosts").write_text(host.known_hosts_line())
    yield host
    host.remove()


def serve(inventory: Inventory) -> None:
    """An endpoint whose server is Python's own, and whose health is a file."""
    server = ["python3", "-m", "http.server", "--bind", "127.0.0.1", "--directory", FOLDER]
    with chief_place(inventory) as place:
        endpoint = Deployed("m", inventory.name, place.host, PORT, None)
        document = document_of(place, endpoint, [*server, str(PORT)], 3600)
        lay_out(place, endpoint, replace(document, opens_port=True, health="/health.json"))
        place.session.write(TextFile(f"{FOLDER}/health.json", '{"version": 1}'))
        start_supervisor(place, endpoint)
        state = wait_for(place.session, endpoint.folder, lambda now: now.state == "ready", 60)
    assert state and state.state == "ready"


def listens(host: SystemdHost) -> bool:
    return f"127.0.0.1:{PORT}" in host.exec("ss", "-ltnH").stdout


def test_after_a_restart_nothing_listens_and_it_is_made_anew(
    machine: SystemdHost, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = SystemdHosts([machine], "rail").inventory
    local_state.save_cluster(inventory)
    serve(inventory)
    assert listens(machine)

    before = machine.boot_id()
    machine.exec("systemctl", "reboot")
    machine.wait_for_reboot(before)
    assert not listens(machine)
    status.show(ClusterStatus(inventory, {}, "hosts"), None)
    assert "ended: by undeploy, or the host shut down" in capsys.readouterr().out
    undeploy("m")
    assert "had already ended; no process left" in capsys.readouterr().out
    assert not (machine.disk.root / FOLDER.lstrip("/")).exists()

    serve(inventory)
    undeploy("m")
    assert "ended after" in capsys.readouterr().out and not listens(machine)
