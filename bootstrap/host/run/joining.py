"""How the ranks of a script join each other."""

HOROVOD = "Call hvd.init() and use hvd.DistributedOptimizer"
# By --launcher: what the script has to do.
JOIN = {
    "horovod": f"{HOROVOD}, or run it under the launcher that it is written for",
    "tensorflow": "Make the model in the scope of tf.distribute.MultiWorkerMirroredStrategy()",
    "jax": "Call keras.distribution.initialize() or jax.distributed.initialize()",
    "torch": "Call torch.distributed.init_process_group()",
}
