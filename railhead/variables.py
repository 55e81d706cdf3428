"""Every environment variable that Railhead reads or sets: name -> meaning, for the pages.

`<NAME>` in a name stands for other letters.
"""

from __future__ import annotations

# You set them.
OF_YOU = {
    "RAILHEAD_PROXY": "as `--proxy`, also with a password",
    "RAILHEAD_SSH": "`1`: as `--ssh`",
    "RAILHEAD_MIRROR_NETWORKS": "your networks in which [hosts without internet access]"
    "(private-hosts.md) may reach mirrors",
    "RAILHEAD_DEBUG": "`1`: also show the debug log",
    "RAILHEAD_ADDRESS_SERVICE": "the service that reports your public address; empty: no request",
    "RAILHEAD_BILLING_TABLE": "for [`fab costs --bill`](tasks-results.md#costs): the table of"
    " Google's billing export",
    "RAILHEAD_DATA_CACHE": "on a host: the folder for data that is downloaded from buckets",
    "DEBIAN_MIRROR": "the archive from which nvcc comes, to compile Horovod for GPUs",
    "XDG_CACHE_HOME": "moves `~/.cache/railhead`",
}
# A run sets them, for its program.
OF_RUNS = {
    "RAILHEAD_RUN": "the id of the run",
    "RAILHEAD_RUN_FILE": "the path of [run.json](architecture.md#the-run-document)",
    "RAILHEAD_RANK": "this rank, from 0",
    "RAILHEAD_LOCAL_RANK": "the number of this rank on its host, from 0",
    "RAILHEAD_SIZE": "the number of ranks",
    "RAILHEAD_HOST": "the name of this host, as in the command",
    "RAILHEAD_HOME": "the home folder of the host",
    "RAILHEAD_RESULTS": "a folder: on the chief, its content is fetched to `results/<run_id>/`",
    "RAILHEAD_CHECKPOINT_DIR": "a folder for [checkpoints](#checkpoints-of-a-script)",
    "RAILHEAD_RESUME": "`required` with [`--resume`](#resume), otherwise `auto`",
    "RAILHEAD_DATA_<NAME>": "the folder of `--data NAME=...` (built-in training with a bucket:"
    " the URI)",
    "RAILHEAD_DATA_<NAME>_MODE": "`file` or `stream`: the mode of `--data`",
    "RAILHEAD_DATA_MODEL": "in the script of `fab evaluate`: the folder of the results of the run",
    "TF_CONFIG": "with `multiworker` and `parameter-server`: the cluster and this task",
    "TF_USE_LEGACY_KERAS": "`1` with Keras 2",
    "OMPI_COMM_WORLD_RANK": "set by `mpirun`, with others of its own",
    "OMPI_COMM_WORLD_LOCAL_RANK": "set by `mpirun`",
    "OMPI_MCA_btl_vader_backing_directory": "a folder in memory for data between ranks of one host",
    "PYTHONUNBUFFERED": "`1`: output appears at once",
    "TMPDIR": "unless it is set: a folder that is removed at the end of the run",
    "KERAS_HOME": "unless it is set or the host has `~/.keras`: `~/.railhead/keras`",
    "CUDA_VISIBLE_DEVICES": "unless it is set, with `parameter-server`: `-1` for chief and"
    " servers, one GPU for each worker",
    "TF_CPP_MIN_LOG_LEVEL": "unless it is set: `1`, for the built-in training `2`",
    "no_grpc_proxy": "with `TF_CONFIG` or JAX: its value or that of `no_proxy`, and the hosts",
    "NCCL_SOCKET_IFNAME": "unless it is set: the network interface towards the other hosts",
}
# Railhead sets them, for its processes.
INSIDE = {
    "RAILHEAD_ENDPOINT": "the endpoint that a process belongs to",
    "RAILHEAD_KEY_AGENT": "the socket of the ssh-agent that has the cluster's key during a run",
    "RAILHEAD_STANDBY": "the run that a process takes over if its chief is lost",
    "RAILHEAD_LOCAL": "the folder of the local host that a process belongs to",
}
# You set them, for the tests.
OF_TESTS = {
    "RAILHEAD_APT_HELPER": "another apt-helper",
    "RAILHEAD_APT_SOURCES": "another folder of apt's sources",
    "RAILHEAD_FULL_HOSTS": "`required`: full hosts are not skipped",
    "RAILHEAD_ENGINE": "`required`: the Pulumi engine is not skipped",
    "RAILHEAD_SERVERS": "`required`: the servers of object stores are not skipped",
    "RAILHEAD_CHECKOV": "`required`: Checkov is not skipped",
    "RAILHEAD_IMPORTS": "`all`: each lock is installed and imported",
    "RAILHEAD_MNIST": "a folder with MNIST",
    "RAILHEAD_FASHION_MNIST": "a folder with Fashion-MNIST",
    "RAILHEAD_PROGRAMS": "a folder with public programs",
    "RAILHEAD_CLOUD_TEST": "`aws` or `gcp`: `make test-cloud` in an account",
    "RAILHEAD_SSH_CIDR": "the network from which `make test-cloud` logs in",
    "RAILHEAD_PROJECT": "the Google Cloud project of `make test-cloud`",
    "RAILHEAD_CLOUD_MACHINE": "another machine type for `make test-cloud`, such as p3.2xlarge",
    "RAILHEAD_CLOUD_BUDGET": "US dollars at which `make test-cloud` ends; default: 5",
    "RAILHEAD_EXAMPLES": "the number of random examples of a property",
    "RAILHEAD_DRAW_SEED": "repeats the choice of variants of slow tests, by its seed",
    "RAILHEAD_KILL_SEED": "repeats a kill of `fab up`",
    "RAILHEAD_TEST_SEED": "repeats random answers of hosts",
    "RAILHEAD_SURVIVE_SEED": "repeats faults of a run",
    "RAILHEAD_KERAS_CAMPAIGN": "`1`: all cases of Keras and Horovod",
    "RAILHEAD_KERAS_PATH": "a folder with another Keras",
    "RAILHEAD_TEST_PYTHON": "the Python of a runtime, instead of an installed one",
    "RAILHEAD_FORKS": "the socket of the process that `fab` is forked from",
}
# Of a run with --sagemaker, for its program: name -> value.
OF_SAGEMAKER = {
    "SM_CHANNELS": "the names of `--data` as a JSON list",
    "SM_CHANNEL_<NAME>": "the folder of `--data NAME=...`",
    "SM_MODEL_DIR": "`model/` in the results of the run",
    "SM_OUTPUT_DIR": "`output/` in the results",
    "SM_OUTPUT_DATA_DIR": "`output/data/` in the results",
    "SM_OUTPUT_INTERMEDIATE_DIR": "`output/intermediate/` in the results",
    "SM_INPUT_DIR": "a folder with a link to each channel in `data/`",
    "SM_INPUT_CONFIG_DIR": "`config/` in `SM_INPUT_DIR`: `hyperparameters.json`,"
    " `inputdataconfig.json`, `resourceconfig.json`",
    "SM_HOSTS": "the names of the hosts as a JSON list",
    "SM_CURRENT_HOST": "the name of this host",
    "SM_NUM_GPUS": "the number of GPUs of this host",
    "SM_NUM_CPUS": "the number of CPUs of this host",
    "SM_HPS": "the hyperparameters as a JSON object",
    "SM_HP_<NAME>": "the value of one hyperparameter; with `--sagemaker 3`, `-` in its name is `_`",
    "SM_USER_ARGS": "all arguments as a JSON list",
    "SM_TRAINING_ENV": "all of these values as a JSON object",
}
# With --sagemaker 3 also these.
OF_MODEL_TRAINER = {
    "SM_CURRENT_HOST_RANK": "the place of this host among `SM_HOSTS`, from 0",
    "SM_ENTRY_SCRIPT": "the script, in `SM_SOURCE_DIR`",
    "SM_HOST_COUNT": "the number of hosts",
    "SM_INPUT_DATA_DIR": "`data/` of `SM_INPUT_DIR`",
    "SM_MASTER_ADDR": "the name of the first host",
    "SM_MASTER_PORT": "7777",
    "SM_NUM_NEURONS": "0",
    "SM_OUTPUT_FAILURE": "`output/failure` in the results",
    "SM_SOURCE_DIR": "the folder that was uploaded",
}
# Their values are those of the toolkit of SageMaker.
AS_IN_SAGEMAKER = (
    *("SM_CHANNEL_INPUT_DIRS", "SM_HYPERPARAMETERS", "SM_INPUT_DATA_CONFIG", "SM_IS_MASTER"),
    *("SM_JOB_NAME", "SM_LOG_LEVEL", "SM_MASTER_HOSTNAME", "SM_MODULE_DIR", "SM_MODULE_NAME"),
    *("SM_NETWORK_INTERFACE_NAME", "SM_RESOURCE_CONFIG", "SM_USER_ENTRY_POINT"),
    "TRAINING_JOB_NAME",
)
