"""Public programs for several processes: where they are, and how they are started.

None is stored here. All were written for Keras 2, or for both. None needs packages that are not in
a runtime, or other data than the data sets of Keras. Left out: programs for TensorFlow 1, those
whose ranks read files that rank 0 writes, those that import a file which their repository lacks,
and those that read variables of Slurm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A program. `repository`: OWNER/NAME on GitHub; `commit`: the one that was tried; `path`: of
    the script in it. `words`: its arguments, which make it short. `launcher`: of `fab train`."""

    repository: str
    commit: str
    path: str
    words: str = ""
    launcher: str = "horovod"

    @property
    def name(self) -> str:
        """A short name: who wrote it, and the script with its folder."""
        return f"{self.repository.partition('/')[0]}/{'/'.join(self.path.split('/')[-2:])}"


SYNTHETIC = "--model MobileNet --batch-size 2 --num-batches-per-iter 2 --num-iters 2"
HVD_2 = "HVD-Tensorflow2-DistributedGradientTape"
REPOSITORIES = {
    ("horovod/horovod", "2626dc87a3a8eb8fb7d2216198ce45bce0f9e65a", "examples"): (
        ("tensorflow2/tensorflow2_keras_mnist.py", ""),
        ("tensorflow2/tensorflow2_mnist.py", ""),
        ("tensorflow2/tensorflow2_keras_synthetic_benchmark.py", SYNTHETIC),
        ("tensorflow2/tensorflow2_synthetic_benchmark.py", f"{SYNTHETIC} --num-warmup-batches 1"),
        ("elastic/tensorflow2/tensorflow2_keras_mnist_elastic.py", ""),
        ("elastic/tensorflow2/tensorflow2_mnist_elastic.py", ""),
        ("elastic/tensorflow2/tensorflow2_synthetic_benchmark_elastic.py", SYNTHETIC),
    ),
    (
        "hwang2006/KISTI-DL-tutorial-using-horovod",
        "89d078323c5f1a8d5e0cdfcfa09971b04138d642",
        "src",
    ): (
        ("keras/keras_mnist.py", ""),
        ("keras/keras_mnist1.py", ""),
        ("tensorflow/tf_mnist.py", ""),
    ),
    (
        "argonne-lcf/sdl_workshop",
        "20ed2dcf15d61fcf912d755b7c13953811d4d55e",
        "learningFrameworks/distributedDeepLearning/Horovod",
    ): (("keras_cnn_concise_hvd.py", ""), ("keras_cnn_verbose_hvd.py", "")),
    ("HichamAgueny/DL-Horovod", "0224940a8a3e4f8c4b34938e7422a0129bf48641", "examples"): (
        ("main_hvd.py", ""),
    ),
    ("eth-cscs/tensorflow-training", "0cf950c9f17346e2257b2b0151e226d12c458b63", "."): (
        ("keras_benchmark/hvd_synthetic_benchmark.py", SYNTHETIC),
    ),
    (
        "kaist-plrg/python-analyzer",
        "07a6c92939e3e36d172e3207a7d010ca343be7d2",
        "test/regress",
    ): (
        (f"{HVD_2}-LSTM-MNIST/recurrent_network.py", ""),
        (f"{HVD_2}-Simple-CNN-MNIST/main.py", ""),
        (f"{HVD_2}-Simple-CNN-MNIST-2/tensorflow2_mnist.py", ""),
        ("HVD-Tensorflow2-DistributedOptimizer-ResNet18/ResNet18.py", ""),
        ("TUTO1-01-TF2.0-Overview-conv-train/conv_train.py", ""),
        ("TUTO1-01-TF2.0-Overview-fc-train/fc_train.py", ""),
        ("TUTO1-03-Play-with-MNIST/main.py", ""),
        ("TUTO1-05-FashionMNIST-mnist-Seqential-gradient/mnist_Seqential_gradient.py", ""),
        ("TUTO1-05-FashionMNIST-mnist-custommodel/mnist_custommodel.py", ""),
        ("TUTO1-05-FashionMNIST-mnist-fit/mnist_fit.py", ""),
        ("TUTO1-05-FashionMNIST-mnist-matmul/mnist_matmul.py", ""),
        ("TUTO1-07-Inception/main.py", ""),
        ("TUTO1-08-ResNet/main.py", ""),
        ("TUTO1-11-AE/main.py", ""),
        ("TUTO1-12-VAE/main.py", ""),
    ),
}
TENSORFLOW = {
    ("nakamasato/ml-training", "7c93f2eff9ff34048740e0aa29ae014171174c37", "tensorflow"): (
        ("multi-worker-mirrored-strategy/run_with_multi_worker.py", ""),
    ),
}


def all_programs() -> Iterator[Program]:
    """The programs, in the order of the list."""
    for launcher, repositories in (("horovod", REPOSITORIES), ("tensorflow", TENSORFLOW)):
        for (repository, commit, folder), scripts in repositories.items():
            for path, words in scripts:
                place = path if folder == "." else f"{folder}/{path}"
                yield Program(repository, commit, place, words, launcher)


PROGRAMS = (*all_programs(),)
