"""Horovod 0.28.1 with Keras 3: rows, and what each of them changes. Horovod's last release is from
June 2023 and was written for Keras 2.

* `rows`: the patches, one for each module of Horovod
* `variables`: Keras's variables in Horovod's functions; groups of gradients
* `optimizer`: `DistributedOptimizer`, `load_model`, and a loss scale around them
* `callbacks`: learning rates, broadcasts and checkpoints during `fit`
* `keras_2`: names of Keras 2 that Horovod and its scripts use
* `layers`: `SyncBatchNormalization`
"""
