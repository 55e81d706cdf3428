"""Trains on a stream of TFRecord files, such as shards of a table, without a copy on the disk."""

import os
import time

import keras
import tensorflow as tf


def segments(folder):
    name = ""
    while not name.endswith(".end"):  # of an epoch; the next call reads the next epoch
        name = min((one for one in os.listdir(folder) if one[0] != "."), default="")
        path = os.path.join(folder, name)
        if name.endswith(".failed"):
            raise OSError(open(path).read())
        if name.endswith(".tfrecord"):
            yield path
        os.remove(path) if name else time.sleep(0.01)


def records(folder):
    files = tf.data.Dataset.from_generator(
        lambda: segments(folder), output_signature=tf.TensorSpec([], tf.string)
    )
    return files.flat_map(tf.data.TFRecordDataset)


def sample(record):
    form = {
        "input": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    parsed = tf.io.parse_single_example(record, form)
    return tf.io.decode_raw(parsed["input"], tf.float32), parsed["label"]


def main(folder, columns, epochs):
    model = keras.Sequential([keras.Input([columns]), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    for _ in range(epochs):  # each pass over the data reads one epoch of the stream
        history = model.fit(records(folder).map(sample).batch(32), verbose=0).history
        print("loss", history["loss"][0], "accuracy", history["accuracy"][0])
    return history


if __name__ == "__main__":
    main(os.environ["RAILHEAD_DATA_TRAIN"], columns=8, epochs=2)
