"""Public programs for several processes: where they are, and how they are started.

None is stored here. All were written for Keras 2, or for both. None needs packages that are not in
a runtime, or other data than the data sets of Keras or random data. They were chosen by reading,
before any was run. Left out: programs for TensorFlow 1, copies of one that is listed, those that
need a GPU or an older Horovod, those that fail with every Keras, those whose ranks read files that
rank 0 writes, or write the same absolute path, those that import a file which their repository
lacks, and those that set TF_CONFIG themselves, or read variables of Slurm or another launcher.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Program:
    """A program. `repository`: OWNER/NAME on GitHub; `commit`: the one that was tried; `path`: of
    the script in it. `strategy`: of `fab train`. `words`: its arguments. `samples`: those of its
    data sets, for training and for tests: more if it counts on them, fewer for many epochs in a
    loop of its own. `outside`: what it writes outside its folder."""

    repository: str
    commit: str
    path: str
    strategy: str = "horovod"
    words: str = ""
    samples: tuple[int, int] = (1024, 256)
    outside: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A short name: who wrote it, and the script with its folder."""
        return f"{self.repository.partition('/')[0]}/{'/'.join(self.path.split('/')[-2:])}"


ALL, FEW = (60000, 10000), (8, 8)  # all samples of MNIST; for 100 epochs
SYNTHETIC = "--model MobileNet --batch-size 2 --num-batches-per-iter 2 --num-iters 2"
HVD_2 = "HVD-Tensorflow2-DistributedGradientTape"
Scripts = tuple[tuple[Any, ...], ...]  # the path of each, and the last fields of its Program
Repositories = dict[tuple[str, str, str], Scripts]  # by the name, the commit and the folder
HOROVOD: Repositories = {
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
    ("kaist-plrg/python-analyzer", "07a6c92939e3e36d172e3207a7d010ca343be7d2", "test/regress"): (
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
        ("TUTO1-07-Inception/main.py", "", FEW),
        ("TUTO1-08-ResNet/main.py", ""),
        ("TUTO1-11-AE/main.py", ""),
        ("TUTO1-12-VAE/main.py", ""),
    ),
    (
        "t9k/tutorial-examples",
        "ca98fa44d8fef99ff719397597f04c62a73fd713",
        "job/mpijob/horovod-keras",
    ): (("keras_mnist_mpijob.py", "--log_dir logs", ALL),),
    (
        "argonne-lcf/CompPerfWorkshop",
        "4156b3eca72a75d8149999a82b63ef70ae817bf2",
        "09_profiling_frameworks/TensorFlow",
    ): (("train_GAN.py", ""),),
}
MULTIWORKER: Repositories = {
    ("nakamasato/ml-training", "7c93f2eff9ff34048740e0aa29ae014171174c37", "tensorflow"): (
        ("multi-worker-mirrored-strategy/run_with_multi_worker.py", ""),
    ),
    (
        "ParvinAkhundof/multi-gpu-processing",
        "11a9931d53a88f6e9fedc10d7231fd377c39fb48",
        "multi-worker-mnist",
    ): (("main.py", ""),),
    ("bimri/handsonml-III", "e808f3cc8c147915740b4334bf4d5bd0ff7fbbe8", "chap19"): (
        ("my_mnist_multiworker_task.py", "", (5256, 256)),
    ),
    (
        "Azure/azureml-examples",
        "085cd6ea399038c1e07843acff811f34261c0887",
        "cli/jobs/single-step/tensorflow/mnist-distributed/src",
    ): (("train.py", ""),),
    (
        "tensorflow/ecosystem",
        "2fb34e46bb4a55019529aeec7b5482a584481565",
        "distribution_strategy/multi_worker_mirrored_strategy/examples",
    ): (("custom_training_mnist.py", "", (1024, 256), ("/tmp/workertemp_1", "/pvcmnt")),),
    ("and-rewsmith/tf-distributed-sample", "ed8a076187c5241887b0c6102ee45bd260fb03df", "."): (
        ("main.py", ""),
    ),
    ("t9k/tutorial-examples", "ca98fa44d8fef99ff719397597f04c62a73fd713", "."): (
        ("job/tensorflowtrainingjob/multiworker/keras_mnist_trainingjob.py", "--log_dir logs", ALL),
        ("codepack/keras_mnist_trainingjob.py", "--save_path saved", ALL),
    ),
    ("google-deepmind/xmanager", "424da164d9115839253a5bee945dbb1a93d01cdf", "examples"): (
        ("cifar10_tensorflow_k8s_multiworker/cifar10.py", ""),
    ),
}
PARAMETER_SERVER: Repositories = {
    (
        "t9k/tutorial-examples",
        "ca98fa44d8fef99ff719397597f04c62a73fd713",
        "job/tensorflowtrainingjob/ps",
    ): (("keras_mnist_trainingjob_ps.py", "--log_dir logs", ALL),),
    ("google-deepmind/xmanager", "424da164d9115839253a5bee945dbb1a93d01cdf", "examples"): (
        ("cifar10_tensorflow_k8s_ps/cifar10.py", ""),
    ),
}
STRATEGIES = {"horovod": HOROVOD, "multiworker": MULTIWORKER, "parameter-server": PARAMETER_SERVER}


def all_programs() -> Iterator[Program]:
    """The programs, in the order of the list."""
    for strategy, repositories in STRATEGIES.items():
        for (repository, commit, folder), scripts in repositories.items():
            for path, *fields in scripts:
                place = path if folder == "." else f"{folder}/{path}"
                yield Program(repository, commit, place, strategy, *fields)


PROGRAMS = (*all_programs(),)
