"""Models by name. A new one is one module and one line in MODELS.

Its module has build(inputs, outputs, config), which returns a Keras model: from batches of `inputs`
to float32 [batch, outputs], logits for classes. Importing this needs the standard library only.
"""

from __future__ import annotations

MODELS = {
    "cnn": f"{__name__}.cnn",
    "linear": f"{__name__}.linear",
    "mlp": f"{__name__}.mlp",
    "mnist-cnn": f"{__name__}.mnist_cnn",
    "cifar-cnn": f"{__name__}.cifar_cnn",
    "resnet50": f"{__name__}.resnet50",
    "transfer": f"{__name__}.transfer",
    "text": f"{__name__}.text",
}
