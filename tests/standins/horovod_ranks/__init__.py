"""What two ranks do with Horovod and Keras 3; tests/keras_patches starts them.

* `program`: the process of a rank
* `trainings`: models that two ranks and one process train
* `checks`: the rest of Horovod's interface
"""
