"""The environment variables that the program of a run receives: name -> value, for the pages.

`bootstrap/remote/rank` sets them; tests/test_docs.py compares both.
"""

from __future__ import annotations

OF_RANKS = {
    "RAILHEAD_RUN": "the id of the run",
    "RAILHEAD_RUN_FILE": "the path of [run.json](architecture.md#the-run-document)",
    "RAILHEAD_RANK": "this rank, from 0",
    "RAILHEAD_LOCAL_RANK": "the same on its host",
    "RAILHEAD_SIZE": "the number of ranks",
    "RAILHEAD_HOST": "the name of the host in the command",
    "RAILHEAD_HOME": "its home folder",
    "RAILHEAD_RESULTS": "a folder: on the chief, its content is fetched to `results/<run_id>/`",
    "RAILHEAD_CHECKPOINT_DIR": "a folder for [checkpoints](#checkpoints-of-a-script)",
    "RAILHEAD_RESUME": "`required` with [`--resume`](#resume), otherwise `auto`",
    "RAILHEAD_DATA_<NAME>": "the folder of `--data NAME=...`; the built-in training reads buckets"
    " itself, and gets the URI",
    "RAILHEAD_DATA_MODEL": "in the script of `fab evaluate`: the folder of the results of the run",
    "TF_CONFIG": "with `multiworker` and `parameter-server`: the cluster and this task",
    "TF_USE_LEGACY_KERAS": "`1` with Keras 2",
    "OMPI_COMM_WORLD_RANK": "set by `mpirun`, as `OMPI_COMM_WORLD_LOCAL_RANK` and others",
    "OMPI_MCA_btl_vader_backing_directory": "a folder in memory for data between ranks of one host",
    "PYTHONUNBUFFERED": "`1`: output appears at once",
}
# They apply unless --env or the host sets them.
DEFAULTS = {
    "TMPDIR": "a folder that is removed at the end of the run",
    "KERAS_HOME": "`~/.railhead/keras`, unless the host has `~/.keras`",
    "CUDA_VISIBLE_DEVICES": "with `parameter-server`: `-1` for chief and servers, one GPU for each"
    " worker",
    "TF_CPP_MIN_LOG_LEVEL": "`1`, for the built-in training `2`",
    "NCCL_SOCKET_IFNAME": "the network interface towards the other hosts",
}
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
