"""Every environment variable that Railhead reads or sets: the lists of the pages come from here."""

from __future__ import annotations

from dataclasses import dataclass

YOU = "you"
RUN = "a run, for its program"
INSIDE = "Railhead, for its processes"
TESTS = "you, for the tests"


@dataclass(frozen=True)
class Variable:
    """A variable, who sets it, and its meaning; `<NAME>` in its name stands for other letters."""

    name: str
    set_by: str
    meaning: str


VARIABLES = (
    Variable("RAILHEAD_PROXY", YOU, "as `--proxy`, also with a password"),
    Variable(
        "RAILHEAD_MIRROR_NETWORKS",
        YOU,
        "your networks in which [hosts without internet access](private-hosts.md) may reach"
        " mirrors",
    ),
    Variable("RAILHEAD_DEBUG", YOU, "`1`: also show the debug log"),
    Variable(
        "RAILHEAD_ADDRESS_SERVICE",
        YOU,
        "the service that reports your public address; empty: no request",
    ),
    Variable(
        "RAILHEAD_DATA_CACHE",
        YOU,
        "on a host: the folder for data that is downloaded from buckets",
    ),
    Variable(
        "DEBIAN_MIRROR", YOU, "the archive from which nvcc comes, to compile Horovod for GPUs"
    ),
    Variable("XDG_CACHE_HOME", YOU, "moves `~/.cache/railhead`"),
    Variable("RAILHEAD_RUN", RUN, "the id of the run"),
    Variable("RAILHEAD_RUN_FILE", RUN, "the path of [run.json](architecture.md#the-run-document)"),
    Variable("RAILHEAD_RANK", RUN, "this rank, from 0"),
    Variable("RAILHEAD_LOCAL_RANK", RUN, "the number of this rank on its host, from 0"),
    Variable("RAILHEAD_SIZE", RUN, "the number of ranks"),
    Variable("RAILHEAD_HOST", RUN, "the name of the host in the command"),
    Variable("RAILHEAD_HOME", RUN, "the home folder of the host"),
    Variable(
        "RAILHEAD_RESULTS",
        RUN,
        "a folder: on the chief, its content is fetched to `results/<run_id>/`",
    ),
    Variable(
        "RAILHEAD_CHECKPOINT_DIR", RUN, "a folder for [checkpoints](#checkpoints-of-a-script)"
    ),
    Variable("RAILHEAD_RESUME", RUN, "`required` with [`--resume`](#resume), otherwise `auto`"),
    Variable(
        "RAILHEAD_DATA_<NAME>",
        RUN,
        "the folder of `--data NAME=...` (built-in training with a bucket: the URI)",
    ),
    Variable("RAILHEAD_DATA_<NAME>_MODE", RUN, "`file` or `stream`: the mode of `--data`"),
    Variable(
        "RAILHEAD_DATA_MODEL",
        RUN,
        "in the script of `fab evaluate`: the folder of the results of the run",
    ),
    Variable(
        "TF_CONFIG", RUN, "with `multiworker` and `parameter-server`: the cluster and this task"
    ),
    Variable("TF_USE_LEGACY_KERAS", RUN, "`1` with Keras 2"),
    Variable("OMPI_COMM_WORLD_RANK", RUN, "set by `mpirun`, with others of its own"),
    Variable("OMPI_COMM_WORLD_LOCAL_RANK", RUN, "set by `mpirun`"),
    Variable(
        "OMPI_MCA_btl_vader_backing_directory",
        RUN,
        "a folder in memory for data between ranks of one host",
    ),
    Variable("PYTHONUNBUFFERED", RUN, "`1`: output appears at once"),
    Variable("TMPDIR", RUN, "unless it is set: a folder that is removed at the end of the run"),
    Variable(
        "KERAS_HOME", RUN, "unless it is set: `~/.railhead/keras`, unless the host has `~/.keras`"
    ),
    Variable(
        "CUDA_VISIBLE_DEVICES",
        RUN,
        "unless it is set, with `parameter-server`: `-1` for chief and servers, one GPU for each"
        " worker",
    ),
    Variable("TF_CPP_MIN_LOG_LEVEL", RUN, "unless it is set: `1`, for the built-in training `2`"),
    Variable(
        "NCCL_SOCKET_IFNAME", RUN, "unless it is set: the network interface towards the other hosts"
    ),
    Variable("RAILHEAD_ENDPOINT", INSIDE, "the endpoint that a process belongs to"),
    Variable("RAILHEAD_LOCAL", INSIDE, "the local host that a process belongs to: its folder"),
    Variable("RAILHEAD_APT_HELPER", TESTS, "another apt-helper"),
    Variable("RAILHEAD_APT_SOURCES", TESTS, "another folder of apt's sources"),
    Variable("RAILHEAD_FULL_HOSTS", TESTS, "`required`: full hosts are not skipped"),
    Variable("RAILHEAD_ENGINE", TESTS, "`required`: the Pulumi engine is not skipped"),
    Variable("RAILHEAD_SERVERS", TESTS, "`required`: the servers of object stores are not skipped"),
    Variable("RAILHEAD_CHECKOV", TESTS, "`required`: Checkov is not skipped"),
    Variable("RAILHEAD_IMPORTS", TESTS, "`all`: each lock is installed and imported"),
    Variable("RAILHEAD_MNIST", TESTS, "a folder with MNIST"),
    Variable("RAILHEAD_FASHION_MNIST", TESTS, "a folder with Fashion-MNIST"),
    Variable("RAILHEAD_PROGRAMS", TESTS, "a folder with public programs"),
    Variable("RAILHEAD_HOROVOD_EXAMPLES", TESTS, "a folder with the examples of Horovod"),
    Variable("RAILHEAD_CLOUD_TEST", TESTS, "`aws` or `gcp`: `make test-cloud` in an account"),
    Variable("RAILHEAD_SSH_CIDR", TESTS, "the network from which `make test-cloud` logs in"),
    Variable("RAILHEAD_PROJECT", TESTS, "the Google Cloud project of `make test-cloud`"),
    Variable("RAILHEAD_EXAMPLES", TESTS, "the number of random examples of a property"),
    Variable(
        "RAILHEAD_DRAW_SEED", TESTS, "repeats the choice of variants of slow tests, by its seed"
    ),
    Variable("RAILHEAD_KILL_SEED", TESTS, "repeats a kill of `fab up`"),
    Variable("RAILHEAD_TEST_SEED", TESTS, "repeats random answers of hosts"),
    Variable("RAILHEAD_SURVIVE_SEED", TESTS, "repeats faults of a run"),
    Variable("RAILHEAD_KERAS_CAMPAIGN", TESTS, "`1`: all cases of Keras and Horovod"),
    Variable("RAILHEAD_KERAS_PATH", TESTS, "a folder with another Keras"),
    Variable("RAILHEAD_TEST_PYTHON", TESTS, "the Python of a runtime, instead of an installed one"),
    Variable("RAILHEAD_FORKS", TESTS, "where the process is that `fab` is forked from"),
)
# Of a run with --sagemaker, for its program: name -> value.
OF_SAGEMAKER = {
    "SM_CHANNELS": "the names of `--data` as a JSON list",
    "SM_CHANNEL_<NAME>": "the folder of `--data NAME=...`",
    "SM_MODEL_DIR": "`model/` in the results of the run",
    "SM_OUTPUT_DIR": "`output/` in the results",
    "SM_OUTPUT_DATA_DIR": "`output/data/` in the results",
    "SM_OUTPUT_INTERMEDIATE_DIR": "`output/intermediate/` in the results",
    "SM_INPUT_DIR": "a folder with a link to each channel in `data/`",
    "SM_INPUT_CONFIG_DIR": "its folder `config/`: `hyperparameters.json`, `inputdataconfig.json`,"
    " `resourceconfig.json`",
    "SM_HOSTS": "the names of the hosts as a JSON list",
    "SM_CURRENT_HOST": "the name of this host",
    "SM_NUM_GPUS": "the number of GPUs of this host",
    "SM_NUM_CPUS": "the number of CPUs of this host",
    "SM_HPS": "the arguments `--name value` of `--args` as a JSON object",
    "SM_HP_<NAME>": "the value of one argument",
    "SM_USER_ARGS": "all arguments as a JSON list",
    "SM_TRAINING_ENV": "all of these values as a JSON object",
}
# Their values are those of the toolkit of SageMaker.
AS_IN_SAGEMAKER = (
    *("SM_CHANNEL_INPUT_DIRS", "SM_HYPERPARAMETERS", "SM_INPUT_DATA_CONFIG", "SM_IS_MASTER"),
    *("SM_JOB_NAME", "SM_LOG_LEVEL", "SM_MASTER_HOSTNAME", "SM_MODULE_DIR", "SM_MODULE_NAME"),
    *("SM_NETWORK_INTERFACE_NAME", "SM_RESOURCE_CONFIG", "SM_USER_ENTRY_POINT"),
    "TRAINING_JOB_NAME",
)
