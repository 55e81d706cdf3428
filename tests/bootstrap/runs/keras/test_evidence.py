"""Which Keras a program is written for, by its source: scripts, modules, and what is not Python."""

from __future__ import annotations

import pytest
from places import CASES

from bootstrap.runs.keras.choice import KerasChoice, choose
from bootstrap.runs.keras.evidence import BYTES, FILES, evidence_of

NEITHER = KerasChoice(3, "", auto=True)
TF = "import tensorflow as tf\n"
LATER = "import keras\n"
# The source of train.py; the Keras, and the line that decides. 0: nothing does, so Keras 3.
SCRIPTS: dict[str, tuple[str, int, int]] = {
    "the package of Keras 2": ("import tf_keras\n", 2, 1),
    "a module of it": ("import os\nimport tf_keras.layers as L\n", 2, 2),
    "a name of it": ("from tf_keras.layers import Dense\n", 2, 1),
    "the package of Keras 2 for what it is there": (
        "try:\n    import tf_keras as keras\nexcept ImportError:\n    import keras\n", 2, 2
    ),
    "the package of Keras 2 in main": ("if __name__ == '__main__':\n    import tf_keras\n", 2, 2),
    "an optimizer of Keras 2": (TF + "tf.keras.optimizers.legacy.SGD(0.1)\n", 2, 2),
    "its module": ("from tensorflow.keras.optimizers import legacy\n", 2, 1),
    "a name of its module": ("from tensorflow.keras.optimizers.legacy import SGD\n", 2, 1),
    "the short name": (TF + "tf.optimizers.legacy.Adam(1e-3)\n", 2, 2),
    "through a variable": (TF + "k = tf.keras\no = k.optimizers\no.legacy.SGD(0.1)\n", 2, 4),
    "experimental layers": (
        "from tensorflow.keras.layers.experimental import preprocessing\n", 2, 1
    ),
    "an estimator": (TF + "tf.keras.estimator.model_to_estimator(m)\n", 2, 2),
    "a layer that is gone": (LATER + "keras.layers.LocallyConnected1D(1, 2)\n", 2, 2),
    "a placeholder": ("from tensorflow.keras import backend as K\nK.placeholder()\n", 2, 2),
    "the backend of keras": ("from keras import backend as K\nK.mean(x)\n", 2, 2),
    "the same of tf.keras": ("from tensorflow.keras import backend as K\nK.mean(x)\n", 3, 0),
    "the backend's settings": ("from keras import backend as K\nK.clear_session()\n", 3, 0),
    "texts of keras": ("from keras.preprocessing.text import Tokenizer\n", 2, 1),
    "the same texts of tf.keras": (
        "from tensorflow.keras.preprocessing.text import Tokenizer\n", 3, 0
    ),
    "images of keras": ("from keras.preprocessing.image import ImageDataGenerator\n", 2, 1),
    "the variable for Keras 2": ("import os\nos.environ['TF_USE_LEGACY_KERAS'] = '1'\n", 2, 2),
    "the variable as a default": (
        "import os\nos.environ.setdefault('TF_USE_LEGACY_KERAS', '1')\n", 2, 2
    ),
    "the variable against Keras 2": ("import os\nos.environ['TF_USE_LEGACY_KERAS'] = '0'\n", 3, 2),
    "servers get their data": (TF + "tf.keras.utils.experimental.DatasetCreator(f)\n", 3, 0),
    "a model of a hub": ("import tensorflow_hub as hub\n", 2, 1),
    "layers with probabilities": ("from tensorflow_probability import layers\n", 2, 1),
    "a hub beside Keras 3": ("import tensorflow_hub\nimport keras\nkeras.ops.ones(1)\n", 3, 3),
    "transformers of TensorFlow": ("from transformers import TFAutoModel\n", 2, 1),
    "transformers of PyTorch": ("from transformers import AutoModel\n", 3, 0),
    "a generator": ("model.fit_generator(g)\n", 2, 1),
    "workers": ("model.fit(x, y, workers=4)\n", 2, 1),
    "a rate by its old name": ("keras.optimizers.Adam(lr=0.1)\n", 2, 1),
    "a rate of something else": ("train(lr=0.1)\n", 3, 0),
    "a period": ("ModelCheckpoint('model.h5', period=5)\n", 2, 1),
    "a shape of batches": ("Dense(2, batch_input_shape=(2, 3))\n", 2, 1),
    "workers of something else": ("DataLoader(x, workers=4)\n", 3, 0),
    "a format of Keras 2": ("model.save(folder, save_format='tf')\n", 2, 1),
    "a format of both": ("model.save(folder, save_format='h5')\n", 3, 0),
    "a model as a folder": ("model.save('export')\n", 2, 1),
    "a model as a folder in another": ("my_model.save(os.path.join(out, 'export'))\n", 2, 1),
    "the model of an object": ("self.model.save('export')\n", 2, 1),
    "a model somewhere": ("import sys\nmodel.save(sys.argv[1])\n", 2, 2),
    "a model in a file somewhere": ("name = 'best.keras'\nmodel.save(out / name)\n", 3, 0),
    "a picture somewhere": ("picture.save(path)\n", 3, 0),
    "an array as a file": ("numpy.save('x', a)\n", 3, 0),
    "weights of TensorFlow": ("model.save_weights('ckpt')\n", 2, 1),
    "weights in h5": ("model.save_weights(folder + '/w.h5')\n", 2, 1),
    "weights of both": ("model.save_weights(f'{folder}/w.weights.h5')\n", 3, 0),
    "weights somewhere": ("model.save_weights(path)\n", 3, 0),
    "checkpoints in hdf5": ("ModelCheckpoint('w.{epoch:02d}.hdf5')\n", 2, 1),
    "checkpoints of weights": ("ModelCheckpoint('w.h5', save_weights_only=True)\n", 2, 1),
    "checkpoints in h5": ("ModelCheckpoint(filepath='checkpoint-{epoch}.h5')\n", 3, 0),
    "a SavedModel": ("tf.keras.models.load_model('export/1')\n", 2, 1),
    "a model in h5": ("model.save('m.h5')\nload_model('m.h5')\n", 3, 0),
    "a model in .keras": ("model.save('m.keras')\n", 3, 0),
    "operations": (LATER + "keras.ops.mean(x)\n", 3, 2),
    "operations by name": ("from keras import ops\n", 3, 1),
    "operations of tf.keras": (TF + "tf.keras.ops.mean(x)\n", 3, 2),
    "random numbers": ("import keras.random\n", 3, 1),
    "a variable of Keras 3": (LATER + "class A:\n    v = keras.Variable(1.0)\n", 3, 3),
    "a stateless call": ("y, s = model.stateless_call(v, s, x)\n", 3, 1),
    "another backend": ("import os\nos.environ['KERAS_BACKEND'] = 'jax'\n", 3, 2),
    "models of keras_hub": ("import keras_hub\n", 3, 1),
    "an import counts more than a format": ("model.save('export')\nfrom keras import ops\n", 3, 2),
    "a condition counts less": (
        "import tf_keras\nif new:\n    from keras import ops\n", 2, 1
    ),
    "both count as neither": ("import tf_keras\nfrom keras import ops\n", 3, 0),
    "both, and a format of one": (
        "import tf_keras\nfrom keras import ops\nmodel.save('export')\n", 2, 3
    ),
    "only tf.keras": (TF + "tf.keras.Sequential([tf.keras.layers.Dense(1)])\n", 3, 0),
    "an argument of Horovod": (
        "import horovod.tensorflow as hvd\ndef main():\n"
        "    hvd.DistributedOptimizer(optimizer, use_locking=True)\n",
        2,
        3,
    ),
    "Horovod for Keras": ("import horovod.tensorflow.keras as hvd\nhvd.init()\n", 3, 0),
    "a name in a text": ("x = 'import tf_keras'  # tf_keras\n", 3, 0),
    "a name of something else": ("import mine\nmine.keras.ops.mean()\n", 3, 0),
    "nothing": ("", 3, 0),
    "Python 2": ("import tf_keras\nprint 'x'\n", 3, 0),
    "no text": ("\0\1\2", 3, 0),
    "another encoding": ("# coding: latin-1\nimport tf_keras  # \xe4\n", 2, 2),
    "an unknown encoding": ("# coding: nothing\nimport tf_keras\n", 3, 0),
    "deep brackets": ("(" * 5000, 3, 0),
    "a deep expression": ("-" * 20000 + "1\nimport tf_keras\n", 3, 0),
    "a long path": ("import a\nx = a" + ".b" * 3000 + "\n", 3, 0),
    "a long file": ("import tf_keras\n" + " " * BYTES, 3, 0),
}  # fmt: skip


@pytest.mark.parametrize("source, keras, line", SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_decides_by_what_it_uses(source: str, keras: int, line: int) -> None:
    choice = choose(
        None, evidence_of("train.py", {"train.py": source.encode("latin-1")}.get), NEITHER
    )
    assert (choice.version, choice.auto) == (keras, True)
    assert choice.why.startswith(f"train.py:{line} ") if line else choice is NEITHER


# The files of a project; the place that decides, "" where none does.
PROJECTS = {
    "a module": ({"train.py": "import net\n", "net.py": "import tf_keras"}, "net.py:1"),
    "a name of a module": (
        {"train.py": "from net import f", "net.py": "import tf_keras"},
        "net.py:1",
    ),
    "a module of a package": (
        {"train.py": "from a import net", "a/__init__.py": "", "a/net.py": "import tf_keras"},
        "a/net.py:1",
    ),
    "the package above it": (
        {"train.py": "import a.net", "a/__init__.py": "import tf_keras", "a/net.py": ""},
        "a/__init__.py:1",
    ),
    "a relative import": (
        {"train.py": "import a.net", "a/net.py": "from . import b", "a/b.py": "import tf_keras"},
        "a/b.py:1",
    ),
    "a relative import from above": (
        {
            "train.py": "import a.c.net",
            "a/c/net.py": "from ..b import f",
            "a/b.py": "import tf_keras",
        },
        "a/b.py:1",
    ),
    "beside a script in a folder": (
        {"src/train.py": "import net", "src/net.py": "import tf_keras"},
        "src/net.py:1",
    ),
    "in the folder where it starts": (
        {"src/train.py": "import net", "net.py": "import tf_keras"},
        "net.py:1",
    ),
    "modules that import each other": (
        {"train.py": "import a", "a.py": "import b", "b.py": "import a, tf_keras"},
        "b.py:1",
    ),
    "a module that is not reached": ({"train.py": "", "net.py": "import tf_keras"}, ""),
    "a module that is not Python": ({"train.py": "import net", "net.py": "\0"}, ""),
    "the script before its modules": (
        {"train.py": "import net\nfrom keras import ops", "net.py": "model.save('x')"},
        "train.py:2",
    ),
    "a model somewhere, whose file the script names": (
        {"train.py": "import net\nname = 'best.keras'", "net.py": "model.save(path)"},
        "",
    ),
    "a module below a condition counts less": (
        {"train.py": "if old:\n    import net\nfrom keras import ops", "net.py": "import tf_keras"},
        "train.py:3",
    ),
}


@pytest.mark.parametrize("files, place", PROJECTS.values(), ids=PROJECTS)
def test_the_modules_that_a_script_reaches_count(files: dict[str, str], place: str) -> None:
    script = next(iter(files))
    evidence = evidence_of(script, {path: text.encode() for path, text in files.items()}.get)
    choice = choose(None, evidence, NEITHER)
    assert choice.why.partition(" ")[0] == place


@pytest.mark.parametrize(("keras", "lines"), [(2, ["models/load.py:2"]), (3, [])])
def test_the_file_of_a_model_says_which_keras_wrote_it(keras: int, lines: list[str]) -> None:
    """Beside the script and where it starts; the beginnings of files that Keras 2.18.0 and 3.15.1
    wrote with h5py 3.16."""
    head = (CASES / f"keras/of_keras_{keras}.h5").read_bytes()
    names = "load_model('old.h5')\nload_model('none.h5')\n"
    for place in ("models/old.h5", "old.h5"):
        files = {"models/load.py": f"\n{names}".encode(), place: head}
        assert [one.place for one in evidence_of("models/load.py", files.get)] == lines


def test_a_project_of_many_modules_is_not_read_to_its_end() -> None:
    """Each module imports the next one; the last has what would decide."""
    read: list[str] = []

    def content(path: str) -> bytes | None:
        read.append(path)
        number = path.removesuffix(".py").removeprefix("m")
        return f"import m{int(number) + 1}\n".encode() if number.isdigit() else None

    assert evidence_of("m0.py", content) == []
    assert len({path for path in read if path.endswith(".py")}) <= 2 * FILES
