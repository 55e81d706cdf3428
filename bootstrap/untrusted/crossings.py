"""Data that comes to this computer from others: one row for each kind of file or answer.

docs/security.md shows the table. Every module that reads such data is in a row: a test finds
missing ones.
"""

from __future__ import annotations

from railhead.documents.lazy import dataclass

NOTHING = "nothing"


@dataclass(frozen=True)
class Crossing:
    """`data` comes from `writer` and is opened by `opened_by`, which may run `runs` here.

    `modules`: the modules of bootstrap that read it, such as `runs.results`.
    """

    data: str
    writer: str
    opened_by: str
    runs: str
    modules: tuple[str, ...] = ()


CROSSINGS = (
    Crossing(
        "results, checkpoints, logs, under [changed names](#data-from-hosts)",
        "the program of a run; who writes into the bucket",
        "`fab`, which moves them",
        NOTHING,
        (
            "clouds.bucket",
            "runs.bucket.results",
            "runs.checkpoints",
            "runs.event_files",
            "runs.results",
            "ssh.session",
            "workflows.logs",
        ),
    ),
    Crossing(
        "`result.json`, `state.json`, `run.json`, manifests, `metrics.jsonl`, answers of agents",
        "a host; who writes into the bucket",
        "`fab`, with one decoder",
        NOTHING,
        (
            "cli.status",
            "evaluation.here",
            "health.measure",
            "lifecycle.stop_policy",
            "report.listing",
            "runs.bucket.logs",
            "runs.cancel",
            "runs.elsewhere",
            "runs.follow",
            "runs.replacement",
            "runs.restore",
            "runs.run",
            "runs.takeover",
            "serving.deploy",
            "serving.model",
            "serving.notebook",
            "serving.predict",
            "serving.state",
            "serving.undeploy",
            "workflows.attach",
            "workflows.data",
            "workflows.records",
            "workflows.serving",
        ),
    ),
    Crossing(
        "TensorBoard's files",
        "the program of a run",
        "TensorBoard, in an environment of its own",
        NOTHING,
        ("workflows.tensorboard",),
    ),
    Crossing(
        "models, with `--here`",
        "the program of a run",
        "TensorFlow",
        "[what the model may](#data-from-hosts)",
        ("evaluation.here",),
    ),
    Crossing(
        "Horovod wheels",
        "the host that built it; the bucket",
        "`uv` on hosts",
        "[nothing here](#cached-wheels)",
        ("provision.wheel_store",),
    ),
    Crossing(
        "a Pulumi state",
        "the backend of Pulumi",
        "`pulumi`; `fab`, with one decoder",
        NOTHING,
        ("inventory.pulumi_stack", "inventory.stack_state"),
    ),
    Crossing(
        "`fabfile.py`", "who wrote the folder: you or root", "`fab`", "its code", ("cli.program",)
    ),
    Crossing(
        "`Pulumi.yaml`",
        "who wrote the folder: you or root",
        "`pulumi`",
        "the program that it names",
        ("inventory.pulumi_cli",),
    ),
    Crossing(
        "`railhead.toml`",
        "who wrote the folder: you or root",
        "`fab`, which prints the job, and [asks](tasks-train.md#job-file) for a new one",
        "the code of its `training`",
        ("project.job_file", "project.trusted_jobs"),
    ),
    Crossing(
        "a folder of `--training`",
        "you or root",
        "Python, without secrets",
        "the check of the settings",
        ("runs.request",),
    ),
    Crossing(
        "files of `--requirements`, folders and repositories that they name",
        "anybody",
        "`fab`, `git`; `uv`, for wheels only",
        NOTHING,
        (
            "provision.requirements.lines",
            "provision.requirements.sources",
            "runs.keras.choice",
            "runs.keras.evidence",
        ),
    ),
    Crossing(
        "the git repository of a program",
        "anybody",
        "`git`, without what the repository names",
        NOTHING,
        ("inventory.git",),
    ),
    Crossing(
        "`--env-file`, `--ca`, samples, public keys",
        "anybody",
        "`fab`, up to a size",
        NOTHING,
        ("runs.request", "serving.calls.samples", "ssh.authorized_keys", "workflows.plan"),
    ),
)
