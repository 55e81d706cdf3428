"""The modules of the models and the data sets, by name. Importing this imports none of them."""

from __future__ import annotations

MODELS = {
    "cnn": f"{__package__}.models.cnn",
    "linear": f"{__package__}.models.linear",
    "mlp": f"{__package__}.models.mlp",
    "mnist-cnn": f"{__package__}.models.mnist_cnn",
    "cifar-cnn": f"{__package__}.models.cifar_cnn",
    "resnet50": f"{__package__}.models.resnet50",
    "transfer": f"{__package__}.models.transfer",
    "text": f"{__package__}.models.text",
}

DATASETS = {
    "digits": f"{__package__}.data.formats.digits",
    "synthetic": f"{__package__}.data.formats.synthetic",
    "mnist": f"{__package__}.data.formats.mnist",
    "fashion-mnist": f"{__package__}.data.formats.fashion_mnist",
    "cifar10": f"{__package__}.data.formats.cifar10",
    "imdb": f"{__package__}.data.formats.imdb",
    "images": f"{__package__}.data.formats.images",
    "csv": f"{__package__}.data.formats.csv_files",
    "numpy": f"{__package__}.data.formats.numpy_files",
    "tfrecord": f"{__package__}.data.formats.tfrecord",
    "shards": f"{__package__}.data.shards.shard_files",
}
WITHOUT_FOLDER = ("digits", "synthetic")  # built in, or generated
ONLY_FOLDER = ("images", "csv", "numpy", "tfrecord", "shards")  # Keras has no such data set
