"""Models by name: a new one is one module and one line in MODELS of training/registry.py.

Its module has build(inputs, outputs, config), which returns a Keras model: from batches of `inputs`
to float32 [batch, outputs], logits for classes. Importing this needs the standard library only.
"""
