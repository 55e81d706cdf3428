"""Models by name. A new one is one module and one line in MODELS.

Its module has build(inputs, outputs, config), which returns a Keras model: from batches of `inputs`
to float32 [batch, outputs], logits for classes. Importing this needs the standard library only.
"""

from __future__ import annotations

MODELS = {
    "cnn": "training.models.cnn",
    "linear": "training.models.linear",
    "mlp": "training.models.mlp",
    "mnist-cnn": "training.models.mnist_cnn",
    "cifar-cnn": "training.models.cifar_cnn",
    "resnet50": "training.models.resnet50",
    "transfer": "training.models.transfer",
    "text": "training.models.text",
}
