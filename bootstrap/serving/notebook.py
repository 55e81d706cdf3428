"""JupyterLab on a host, in the runtime of a run; kept and terminated like an endpoint."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import replace

from railhead.documents.agent.files import TextFile
from railhead.documents.lazy import dataclass
from railhead.documents.serving.endpoint import Deployed

from ..console.output import Reporter, printable
from ..errors import Command, RailheadError
from ..host.base import programs
from ..plan.runtimes import LOCKS
from ..provision import uv, wheels
from ..ssh.session import Session
from ..untrusted.unpack import Hostile
from .deploy import document_of, lay_out, start_supervisor
from .place import EndpointPlace
from .records import NOTEBOOK, endpoint_folder
from .state import is_alive, read_document, read_state, wait_for

NAME = NOTEBOOK
PORT = 8888
LOCK = LOCKS / "notebook.txt"
STARTING = 120.0
LAB = (programs.SERVER, "jupyterlab.labapp", "main", "")
KERNEL = (programs.CLIENT, "ipykernel.kernelapp", "launch_new_instance", "")


@dataclass(frozen=True)
class Notebook:
    """A notebook to be started: its port on the host, its time-to-live, the folder it shows."""

    port: int
    seconds: float
    folder: str


def running(session: Session) -> str | None:
    """The token of the notebook on a host; None if none runs there."""
    folder = endpoint_folder(NAME)
    if not is_alive(session, folder, read_state(session, folder)):
        return None
    token = read_document(session, folder).env.get("JUPYTER_TOKEN", "")
    if not token.isalnum():
        raise Hostile("an endpoint.json without a token")
    return token


def start(
    place: EndpointPlace, endpoint: Deployed, notebook: Notebook, python: str, report: Reporter
) -> str:
    """Start JupyterLab with this Python of a runtime; returns its token when it answers.

    Raises:
        RailheadError: it does not answer; the message has the last lines of its log.
    """
    session = place.session
    installed = _install(session, python, report)
    packages, python, folder = map(place.absolute, (installed, python, endpoint.folder))
    token = secrets.token_hex(24)
    program = [python, "-I", f"{folder}/{programs.NAME}"]
    argv = [*program, *LAB, packages, *_options(notebook, packages, place)]
    env = {
        "JUPYTER_TOKEN": token,
        "JUPYTER_CONFIG_DIR": f"{folder}/jupyter/config",
        "JUPYTER_DATA_DIR": f"{folder}/jupyter",
        "JUPYTER_RUNTIME_DIR": f"{folder}/jupyter/runtime",
        "IPYTHONDIR": f"{folder}/ipython",
    }
    document = document_of(place, endpoint, argv, notebook.seconds)
    env |= document.env
    lay_out(place, endpoint, replace(document, env=env, opens_port=True, health="/api"))
    kernel = {
        "argv": [*program, *KERNEL, packages, "-f", "{connection_file}"],
        "display_name": "Runtime of Railhead",
        "language": "python",
        "metadata": {"debugger": True, "supported_encryption": ["curve"]},
    }
    path = f"{folder}/jupyter/kernels/python3/kernel.json"
    session.write(TextFile(path, json.dumps(kernel)))
    start_supervisor(place, endpoint)
    _wait(session, endpoint)
    return token


def _options(notebook: Notebook, packages: str, place: EndpointPlace) -> list[str]:
    return [
        "--no-browser", "--ip=127.0.0.1", f"--port={notebook.port}", "--allow-root",
        "--ServerApp.port_retries=0", f"--ServerApp.root_dir={place.absolute(notebook.folder)}",
        f"--LabApp.app_dir={packages}/share/jupyter/lab",
        "--KernelManager.transport_encryption=required",
    ]  # fmt: skip


def _install(session: Session, python: str, report: Reporter) -> str:
    """Install JupyterLab into a folder of the host named by a digest; returns the folder.

    The wheels are fetched here by hash and sent, so that the host needs no outbound access.
    """
    version = wheels.python_version(session, python)
    lock = LOCK.read_text()
    digest = hashlib.sha256(f"{version} {lock}".encode()).hexdigest()[:16]
    dest, partial = (f"~/.railhead/serving/notebook-{digest}{end}" for end in ("", ".part"))
    if session.run(["test", "-d", dest]).rc == 0:
        return dest
    report("JupyterLab is sent to the host, about 49 MB, once")
    folder = wheels.fetch([lock], version, lambda count: None)
    session.write(TextFile(f"{dest}.lock.txt", lock))
    # A host whose runtime an earlier version installed may have another release of uv.
    session.send_folder(uv.uv_for_hosts(), uv.FOLDER)
    with wheels.deliver(session, folder, lambda count, total: None):
        session.remove(partial)
        argv = [uv.PROGRAM, "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        argv += [*wheels.FOR_UV, "--python", python, "--target", partial, "-r", f"{dest}.lock.txt"]
        result = session.run(argv, env=uv.ENVIRONMENT)
    if not result.rc:
        result = session.run(["mv", partial, dest])
    if result.rc:
        raise RailheadError(f"JupyterLab could not be installed: {'; '.join(result.tail[-4:])}")
    return dest


def _wait(session: Session, endpoint: Deployed) -> None:
    state = wait_for(session, endpoint.folder, lambda state: state.state == "ready", STARTING)
    if state is None or state.state != "ready":
        why = state.reason if state else f"no answer within {STARTING:.0f} s"
        raise RailheadError(
            f"the notebook does not start: {printable(why)}", hint=Command("undeploy", NAME)
        )
